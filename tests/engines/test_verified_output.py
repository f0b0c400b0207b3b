"""A verified output tells a token that its grammar refuses from one that its budget has no room for."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from remote_engines import TOOLS
from vocabularies import with_tokens

from compiler import ResponseFormat, compile_format, compile_schema, compile_toolset
from compiler.linker.linker import link
from compiler.prepared_vocabulary import Backend, prepare
from compiler.units.unit import Unit
from runtime.draft import Draft
from runtime.engines import verified_output
from runtime.engines.delivery import ChoiceDelivery, deliver_verified
from runtime.engines.verified_output import OutputState, Verification, VerifiedOutput
from runtime.event_queue import EventQueue
from runtime.events import FinishReason
from runtime.request import GenerationRequest
from runtime.text.detokenizer import TokenBytes
from runtime.written_token import SampledToken
from toolspecs.tool import ChoiceMode, ToolChoice

SCHEMA = {"enum": ["ab", "abcdefghij"]}
CALL = b'<tool_call>\n{"name": "set_color", "arguments": {"color": "red"}}\n</tool_call>'
DISTINCT = {"type": "array", "uniqueItems": True, "items": {"enum": ["a", "b"]}}


def an_output(max_tokens, begun, num_logprobs=None, stop=()):
    """An output over single bytes, of which a text has come already."""
    prepared = prepare(None)
    output = VerifiedOutput(
        GenerationRequest(
            "r", "m", (), constraint=compile_schema(SCHEMA), num_logprobs=num_logprobs, stop=stop
        ),
        0,
        [],
        max_tokens,
        Verification(prepared, TokenBytes(prepared.vocabulary)),
        is_thinking=False,
    )
    output.take(map(SampledToken, begun))
    return output


@pytest.mark.parametrize("max_tokens", [4, 5, 100])
def test_a_token_outside_the_grammar_is_refused_however_little_budget_is_left(max_tokens):
    output = an_output(max_tokens, b'"ab')
    output.take([SampledToken(ord("x"))])
    assert (output.state, bytes(output.ids)) == (OutputState.REFUSED, b'"ab')
    output.resume()
    output.take([SampledToken(ord('"'))])
    assert (output.is_finished, bytes(output.ids)) == (True, b'"ab"')


def test_a_token_that_the_budget_has_no_room_for_closes_the_output():
    output = an_output(6, b'"ab')
    output.take([SampledToken(ord("c"))])
    assert output.state is OutputState.OVER_BUDGET
    output.close()
    assert bytes(output.ids) == b'"ab"'


def test_a_stop_string_in_what_the_closer_writes_ends_the_output_once():
    """The queue of the request counted each end as that of a choice, and the client waited for ever."""
    output = an_output(100, b'"', stop=("a",))
    output.take([SampledToken(ord("x"))])
    (end,) = output.close()
    assert (end.reason, end.stop_string, bytes(output.ids)) == (FinishReason.STOP, "a", b'"a')


def test_a_token_that_only_the_mask_lacks_is_refused_once_and_written_by_others():
    """Xgrammar leaves some tokens out of masks; an engine that masks by itself may write them."""
    prepared = prepare(with_tokens("b:", "bab:"))
    request = GenerationRequest(
        "r", "m", (), constraint=compile_schema({"const": "bab:"}, tokenizer=prepared)
    )
    verification = Verification(prepared, TokenBytes(prepared.vocabulary), checks_masks=True)
    output = VerifiedOutput(request, 0, [], 9, verification, is_thinking=False)
    left_out = prepared.vocabulary.tokens.index(b"bab:")
    output.take(map(SampledToken, [ord('"'), left_out]))
    assert (output.state, output.refused_ids) == (OutputState.REFUSED, [left_out])
    output.resume()
    output.take(map(SampledToken, b'bab:"'))
    assert (output.is_finished, bytes(output.ids)) == (True, b'"bab:"')


def test_the_closer_admits_no_token_outside_the_grammar():
    closer = compile_schema(SCHEMA).closer()
    assert [closer.admits(token, 100) for token in b'"x'] == [True, False]
    for token in b'"ab':
        closer.accepted(token)
    assert [closer.admits(token, 1) for token in b'"cx'] == [True, False, False]
    assert bytes(closer.completion_ids(1)) == b'"'


def test_what_comes_together_is_one_event():
    output = an_output(100, b"")
    (delta,) = output.take(map(SampledToken, b'"ab'))
    assert delta.text == '"ab'


@pytest.mark.parametrize(("num_logprobs", "num_kept"), [(None, []), (0, [0] * 3), (1, [1] * 3), (5, [2] * 3)])
def test_only_log_probabilities_that_the_request_asked_for_are_kept(num_logprobs, num_kept):
    """Else an engine that sends them unasked would fill the memory with what no client has asked for."""
    output = an_output(100, b"", num_logprobs)
    tops = ((ord("b"), -0.5), (ord("a"), -0.1))
    (delta,) = output.take(SampledToken(byte, -0.1, tops) for byte in b'"ab')
    assert [len(logprob.top) for logprob in delta.logprobs] == num_kept
    if num_logprobs == 1:
        assert {top.token for logprob in delta.logprobs for top in logprob.top} == {"a"}


def test_alternatives_come_in_order():
    """VLLM sends the written token first, wherever it stands among the most probable ones."""
    output = an_output(100, b"", 3)
    (delta,) = output.take(
        [SampledToken(ord('"'), -1.5, ((ord('"'), -1.5), (ord("x"), -0.4), (ord("y"), -2.0)))]
    )
    (logprob,) = delta.logprobs
    assert [top.token for top in logprob.top] == ["x", '"', "y"]


def test_an_output_is_slow_until_it_has_been_quick_for_a_while(monkeypatch):
    """Each relapse doubles how long; else a grammar could be slow every now and then, and never in a thread."""
    output = an_output(100, b"")
    for num_quick in (16, 32):
        monkeypatch.setattr(verified_output, "SLOW_S", -1.0)
        output.take([])
        monkeypatch.setattr(verified_output, "SLOW_S", 1.0)
        for _ in range(num_quick):
            assert output.is_slow
            output.take([])
        assert not output.is_slow


def test_an_output_is_verified_in_a_thread_where_a_guard_may_have_to_search():
    """The first token after which a completion is hard to find would stop the event loop, in each output."""
    for schema, may_search in [(SCHEMA, False), (DISTINCT, True)]:
        request = GenerationRequest("r", "m", (), constraint=compile_schema(schema))
        prepared = prepare(None)
        verification = Verification(prepared, TokenBytes(prepared.vocabulary))
        assert VerifiedOutput(request, 0, [], 9, verification, is_thinking=False).is_slow == may_search


@pytest.mark.parametrize(
    ("mode", "has_answer", "is_draft"),
    [("required", False, False), ("auto", False, False), ("auto", True, False), ("required", False, True)],
)
async def test_a_tool_is_compiled_in_a_thread(monkeypatch, mode, has_answer, is_draft):
    """A unit from the store is compiled when a call of its tool begins, which would stop the event loop."""
    compiled_in = []
    compile_grammar = Backend.compile_grammar

    def noted(self, grammar):
        compiled_in.append(threading.current_thread())
        return compile_grammar(self, grammar)

    output = an_output_of_stored_tools(mode, has_answer=has_answer)
    if is_draft:
        output.follow(Draft())
    monkeypatch.setattr(Backend, "compile_grammar", noted)
    with ThreadPoolExecutor(1) as threads:
        for byte in CALL:
            await deliver_verified(
                output, [SampledToken(byte)], ChoiceDelivery(EventQueue(1)), threads.submit
            )
    assert bytes(output.ids) == CALL
    assert len(compiled_in) == 1
    assert threading.main_thread() not in compiled_in


def test_the_time_to_compile_a_tool_is_not_that_of_following_its_grammar(monkeypatch):
    """Two tools that were compiled for two seconds each ended the first answer that called both."""
    compile_grammar = Backend.compile_grammar

    def slowly(self, grammar):
        ends_at = time.thread_time() + 0.4
        while time.thread_time() < ends_at:
            pass
        return compile_grammar(self, grammar)

    output = an_output_of_stored_tools("required", has_answer=False)
    monkeypatch.setattr(Backend, "compile_grammar", slowly)
    monkeypatch.setattr(verified_output, "MAX_SLOW_S", 0.3)
    output.take([SampledToken(byte) for byte in CALL])
    assert bytes(output.ids) == CALL


def an_output_of_stored_tools(mode, *, has_answer):
    """An output over single bytes that may call tools whose units have just been read from a store."""
    prepared = prepare(None)
    written = compile_toolset(TOOLS, syntax="hermes")
    units = {name: Unit.from_bytes(unit.to_bytes(), prepared) for name, unit in written.units.items()}
    answer = compile_format(ResponseFormat("pattern", "<(?:tool|b)(?: a)*")) if has_answer else None
    grammar = link(units, written.syntax, prepared, ToolChoice(ChoiceMode(mode)), answer=answer)
    request = GenerationRequest("r", "m", (), constraint=grammar)
    verification = Verification(prepared, TokenBytes(prepared.vocabulary))
    return VerifiedOutput(request, 0, [], 200, verification, is_thinking=False)
