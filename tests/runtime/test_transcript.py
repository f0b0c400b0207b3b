"""Tokens in, events out."""

import json
from functools import cache

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from monolith import tagged
from vocabularies import BYTES, STOP, ids_of, with_tokens
from whole_outputs import admits_beginning, calls_of, spell_calls, text_of

from compiler import compile_toolset
from compiler.syntaxes import SYNTAXES, find_syntax
from runtime.events import CallStarted, TextDelta, ThoughtDelta
from runtime.text.detokenizer import TokenBytes
from runtime.transcript import Transcript
from runtime.written_token import SampledToken, WrittenToken, write
from toolspecs import Tool

VOCABULARY = with_tokens(markers=("<tool_call>", "</tool_call>"))
SPELLING = TokenBytes(VOCABULARY)


@cache
def grammar_of(name, parameters='{"a": {"type": "string"}}', *, vocabulary=VOCABULARY):
    """Text, or calls of a tool `f`."""
    tool = Tool("f", "", {"type": "object", "properties": json.loads(parameters)})
    return compile_toolset([tool], tokenizer=vocabulary, syntax=name, tool_choice="auto")


def transcribe(text, *, name=None, stop=(), min_tokens=0, logprobs=False, grammar=None, types_of=None):
    """A transcript of a text under the grammar of a syntax, or under none, and its events."""
    grammar = grammar or (grammar_of(name) if name else None)
    matcher = grammar.matcher() if grammar else None
    syntax = grammar.syntax if grammar else None
    vocabulary = grammar.vocabulary if grammar else VOCABULARY
    transcript = Transcript(
        0, TokenBytes(vocabulary), syntax=syntax, stop=stop, min_tokens=min_tokens, types_of=types_of
    )
    events = []
    for token_id in ids_of(text, vocabulary):
        written = write(SampledToken(token_id, -1.0 if logprobs else None), matcher, None)
        assert written is not None
        events += transcript.feed(written)
        if transcript.is_stopped:
            break
    return transcript, [*events, *transcript.finish(matcher.pending_parts() if matcher else ())]


CALL = '<tool_call>\n{"name": "f", "arguments": {"a": "END"}}\n</tool_call>'


def test_text_and_calls_are_told_apart():
    transcript, events = transcribe(f"Look: {CALL}\n{CALL}", name="hermes")
    assert text_of(events) == "Look: "
    assert calls_of(events) == [("f", '{"a": "END"}')] * 2
    assert transcript.num_calls == 2


@pytest.mark.parametrize(
    ("text", "min_tokens", "expected"),
    [
        ("ab END cd END", 0, "ab "),
        ("ab END cd END", 5, "ab "),  # the sixth token completes it
        ("ab END cd END", 6, "ab END cd "),
        ("ab END cd", 8, "ab END cd"),
        ("ENDEND", 3, "END"),
    ],
)
def test_a_stop_string_among_the_first_tokens_is_text(text, min_tokens, expected):
    """So an answer has its `min_tokens` tokens; vLLM counts alike."""
    transcript, events = transcribe(text, stop=("END",), min_tokens=min_tokens)
    assert text_of(events) == expected
    assert transcript.is_stopped == (expected != text)


def test_tokens_of_thoughts_are_counted():
    frames = "<|channel|>analysis<|message|>Hmm.<|end|><|start|>assistant<|channel|>final<|message|>Hi"
    transcript, events = transcribe(frames, name="harmony")
    assert text_of(events) == "Hi"
    # "Hmm." is four bytes; the end's are told from thought once the last has come.
    assert transcript.num_thought_tokens == len("Hmm.") + len("<|end|>")


def test_without_a_syntax_everything_is_text():
    assert text_of(transcribe(CALL)[1]) == CALL


def test_a_stop_string_cuts_text_but_no_call():
    transcript, events = transcribe(f"say {CALL}", name="hermes", stop=["END"])
    assert not transcript.is_stopped
    assert calls_of(events) == [("f", '{"a": "END"}')]
    transcript, events = transcribe(f"the END {CALL}", name="hermes", stop=["END"])
    assert transcript.is_stopped
    assert (text_of(events), calls_of(events)) == ("the ", [])


def test_text_held_back_for_a_stop_string_comes_before_a_call():
    _, events = transcribe(f"EN{CALL}", name="hermes", stop=["END"])
    assert events[:2] == [TextDelta(0, "EN"), CallStarted(0, 0, "f")]


def test_text_held_back_comes_at_the_end():
    assert text_of(transcribe("EN", stop=["END"])[1]) == "EN"
    assert text_of(transcribe("<tool", name="hermes")[1]) == "<tool"


@given(st.text("abEND", max_size=12))
def test_every_token_of_text_has_its_logprob_once(text):
    _, events = transcribe(text, stop=["ENDE"], logprobs=True)
    tokens = [logprob.token for event in events for logprob in event.logprobs]
    assert "".join(tokens).startswith(text_of(events))
    if "ENDE" not in text:
        assert "".join(tokens) == text


def test_a_split_character_has_two_logprobs():
    transcript = Transcript(1, SPELLING, syntax=None, stop=())
    first, second = "é".encode()
    assert transcript.feed(WrittenToken(SampledToken(first, -0.5))) == []
    (event,) = transcript.feed(WrittenToken(SampledToken(second, -0.25, ((97, -0.75),))))
    assert (event.choice, event.text) == (1, "é")
    assert [(p.token_bytes, p.logprob) for p in event.logprobs] == [
        (bytes([first]), -0.5),
        (bytes([second]), -0.25),
    ]
    assert event.logprobs[1].top[0].token == "a"


def test_a_token_without_bytes_has_a_logprob_too():
    padding = VOCABULARY.tokens.index(b"")
    transcript = Transcript(0, SPELLING, syntax=None, stop=())
    tokens = (97, padding, 98)
    events = [event for token in tokens for event in transcript.feed(WrittenToken(SampledToken(token, -0.5)))]
    assert [len(p.logprobs) for p in [*events, *transcript.finish()]] == [1, 2]


def test_a_stop_token_has_no_logprob():
    transcript = Transcript(0, SPELLING, syntax=None, stop=())
    assert transcript.feed(WrittenToken(SampledToken(STOP, -0.5))) == []
    assert transcript.finish() == []


def test_thoughts_are_no_text():
    text = "<|channel|>analysis<|message|>END?<|end|><|start|>assistant<|channel|>final<|message|>Yes"
    _, events = transcribe(text, name="harmony", stop=["END"], logprobs=True)
    assert "".join(e.text for e in events if isinstance(e, ThoughtDelta)) == "END?"
    assert text_of(events) == "Yes"
    assert "".join(p.token for e in events if isinstance(e, TextDelta) for p in e.logprobs) == "Yes"


def test_tagged_parameters_are_read_by_their_types():
    grammar = grammar_of("qwen3_coder", '{"k": {"type": "string"}}')
    text = grammar.syntax.header("f") + "<parameter=k>\n12\n</parameter>\n" + grammar.syntax.end
    for types, arguments in [(("string",), '{"k": "12"}'), (("number", "string"), '{"k": 12}')]:
        _, events = transcribe(text, grammar=grammar, types_of=lambda _, t=types: {"k": t})
        assert calls_of(events) == [("f", arguments)]


@pytest.mark.parametrize("name", SYNTAXES)
@pytest.mark.parametrize("arguments", ["{}", '{"a": "é }"}'])
def test_arguments_are_json_in_every_syntax(name, arguments):
    row, values = find_syntax(name), json.loads(arguments)
    call = ("f", arguments if row.tags is None else tagged(values, row))
    num_calls = 1 if row.separator is None else 2
    _, events = transcribe(spell_calls(row, *[call] * num_calls), name=name)
    assert [(name, json.loads(text)) for name, text in calls_of(events)] == [("f", values)] * num_calls
    assert text_of(events) == ""


def logprobs_of(events):
    """Each text delta with the tokens whose log probabilities it has."""
    return [(e.text, [p.token for p in e.logprobs]) for e in events if isinstance(e, TextDelta)]


@pytest.mark.parametrize("name", SYNTAXES)
def test_after_a_call_nothing_is_text(name):
    """What closes the calls, such as the bracket around them, settles no text: no empty delta follows."""
    row = find_syntax(name)
    call = ("f", tagged({}, row) if row.tags else "{}")
    _, events = transcribe(spell_calls(row, call), name=name, logprobs=True)
    assert calls_of(events) == [("f", "{}")]
    assert logprobs_of(events) == []


def test_the_token_that_ends_a_thought_is_not_of_the_text_after_it():
    vocabulary = with_tokens(markers=("<think>", "</think>"))
    grammar = grammar_of("hermes+think", vocabulary=vocabulary)
    _, events = transcribe("<think>So</think>\n\n<to hi <", grammar=grammar, logprobs=True)
    assert "".join(text for text, _ in logprobs_of(events)) == "<to hi <"
    assert "".join(token for _, tokens in logprobs_of(events) for token in tokens) == "<to hi <"


@pytest.mark.parametrize("vocabulary", [VOCABULARY, BYTES], ids=["markers", "bytes alone"])
@example(["say EN", CALL])
@example(["<<"])
@example(["<", CALL])
@given(st.lists(st.sampled_from(["<", "tool", "<tool_call>", "END", "EN", " a", "é", CALL]), max_size=6))
def test_the_logprobs_of_text_spell_it_where_calls_are_possible(vocabulary, pieces):
    """No stop string is found here, but its beginning is held back. Markers and headers of calls are no text."""
    text = "".join(pieces)
    grammar = grammar_of("hermes", vocabulary=vocabulary)
    assume(admits_beginning(grammar, text))
    _, events = transcribe(text, grammar=grammar, stop=["ENX"], logprobs=True)
    spelled = b"".join(p.token_bytes for e in events if isinstance(e, TextDelta) for p in e.logprobs)
    assert spelled.decode() == text_of(events)
