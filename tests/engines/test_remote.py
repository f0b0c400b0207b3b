"""The remote runtime: whatever an engine writes, an answer is valid, and its engine is asked for no more."""

import asyncio
import threading
from dataclasses import replace
from unittest.mock import patch

import pytest
from completions_server import SECRET, StandIn
from remote_engines import (
    SETTINGS,
    TOOLS,
    answer_of,
    assert_valid,
    events_of,
    forbidden,
    remote_over,
    until,
)

from compiler.guard.guarded_tokens import GuardedTokens
from runtime.engines import delivery, verified_output
from runtime.engines.remote import RemoteRuntime
from runtime.engines.replicas import Replicas
from runtime.engines.request_mark import read_request_mark
from runtime.engines.verified_output import VerifiedOutput
from runtime.errors import BudgetTooSmall, DeadlineExceeded, NoEngine, PromptTooLong, RequestRefused
from runtime.events import FinishReason
from runtime.text.detokenizer import TokenBytes
from runtime.text.prompts import PromptRenderer


def test_what_guards_look_at_is_found_before_there_are_requests(text):
    """Else the event loop would find it, for a tenth of a second, with the first guarded output."""
    with patch.object(GuardedTokens, "prepare") as prepare:
        RemoteRuntime(text, [], SETTINGS, secret=SECRET)
    prepare.assert_called_once_with()


async def test_a_prompt_that_leaves_no_room_for_the_shortest_output_is_too_long(text):
    stand_in = StandIn(text, context_length=200)
    async with remote_over(text, stand_in) as remote:
        lookup = await remote.grammar("required")
        least = lookup.grammar.closer().minimum()

        def asked(num_prompt_tokens, max_tokens):
            prompt = (7,) * num_prompt_tokens
            return remote.request(lookup, prompt=prompt, messages=(), max_tokens=max_tokens)

        assert await events_of(remote, asked(200 - least, 150))
        with pytest.raises(PromptTooLong, match=f"without {least} for the shortest valid output"):
            await events_of(remote, asked(201 - least, 150))
        with pytest.raises(BudgetTooSmall, match=f"max_tokens is {least - 1}, .* at least {least}"):
            await events_of(remote, asked(201 - least, least - 1))


@pytest.mark.parametrize("fault", [10**8, -1, "stop", "length"])
async def test_an_engine_that_always_leaves_the_grammar_is_completed_by_the_closer(text, fault):
    stand_in = StandIn(text)
    async with remote_over(text, stand_in) as remote:
        lookup = await remote.grammar()
        stand_in.writes = dict.fromkeys(range(300), fault)
        calls, end = await answer_of(remote, remote.request(lookup))
        assert calls
        assert (end.reason, end.closed_by) == (FinishReason.LENGTH, "verifier")


async def test_a_call_that_grows_too_long_is_closed_and_its_engine_aborted(text):
    stand_in = StandIn(text, end_bias=-50)
    async with remote_over(text, stand_in) as remote:
        stand_in.honours_max_tokens = False
        lookup = await remote.grammar(tools=TOOLS[:1])
        max_tokens = lookup.grammar.closer().minimum() + 3
        calls, end = await answer_of(remote, remote.request(lookup, max_tokens=max_tokens))
        assert calls
        assert (end.reason, end.closed_by) == (FinishReason.LENGTH, "budget")
        await until(lambda: not stand_in.num_running)


@pytest.mark.parametrize("place", [0, 3])
async def test_a_call_that_has_no_room_is_left_out_and_the_text_goes_on(text, place):
    """As in the embedded engine: the answer does not end there, and is not empty if the call comes first."""
    stand_in = StandIn(text, end_bias=-50)
    async with remote_over(text, stand_in) as remote:
        lookup = await remote.grammar("auto")
        [begin] = text.tokenizer("<tool_call>")["input_ids"]
        stand_in.bodies.clear()
        stand_in.writes, stand_in.num_faults = {place: begin}, 1
        calls, end = await answer_of(remote, remote.request(lookup, max_tokens=8))
        assert not calls
        assert (end.reason, end.closed_by) == (FinishReason.LENGTH, None)
        assert (end.stats.num_output_tokens, end.stats.num_refused_tokens) == (8, 0)
        first, second = stand_in.requests
        marks = [read_request_mark(stand_in.grammar_in(body), SECRET) for body in (first, second)]
        assert [mark.left_out_ids for mark in marks] == [(), (begin,)]
        assert "logit_bias" not in first | second
        assert len(second["prompt"]) == len(first["prompt"]) + place


async def test_an_engine_that_insists_on_a_call_that_has_no_room_ends_the_text(text):
    stand_in = StandIn(text, end_bias=-50)
    async with remote_over(text, stand_in) as remote:
        lookup = await remote.grammar("auto")
        [begin] = text.tokenizer("<tool_call>")["input_ids"]
        stand_in.bodies.clear()
        stand_in.writes = {2: begin}
        _, end = await answer_of(remote, remote.request(lookup, max_tokens=8))
        assert (end.reason, end.closed_by) == (FinishReason.LENGTH, None)
        assert end.stats.num_output_tokens == len(stand_in.requests) == 2


def once(choose):
    """Chooses a replica once; then none takes requests."""
    left = [choose]

    def chosen(*arguments):
        if not left:
            raise NoEngine("remote", ("down",), 1.0)
        return left.pop()(*arguments)

    return chosen


async def test_a_text_ends_before_a_call_that_has_no_room_if_no_engine_is_there_to_go_on(text, monkeypatch):
    """The text before the call is whole, so this is no error."""
    stand_in = StandIn(text, end_bias=-50)
    async with remote_over(text, stand_in) as remote:
        lookup = await remote.grammar("auto")
        [begin] = text.tokenizer("<tool_call>")["input_ids"]
        stand_in.writes = {2: begin}
        monkeypatch.setattr(Replicas, "choose", once(Replicas.choose))
        _, end = await answer_of(remote, remote.request(lookup, max_tokens=8))
        assert (end.reason, end.closed_by, end.stats.num_output_tokens) == (FinishReason.LENGTH, None, 2)


async def test_a_deadline_ends_the_request_at_the_engine_too(text):
    stand_in = StandIn(text, end_bias=-50)
    async with remote_over(text, stand_in) as remote:
        stand_in.writes = {5: "stall"}
        with pytest.raises(DeadlineExceeded):
            await events_of(remote, remote.request(max_tokens=2000, timeout_s=0.2))
        await until(lambda: not stand_in.num_running)


async def test_the_time_of_its_prompt_counts_for_a_request(text, monkeypatch):
    render = PromptRenderer.render

    async def late(self, request, prepare):
        ends_at = asyncio.get_running_loop().time() + request.timeout_s
        prompt = await render(self, request, prepare)
        while asyncio.get_running_loop().time() < ends_at:
            await asyncio.sleep(0.01)
        return prompt

    stand_in = StandIn(text)
    async with remote_over(text, stand_in) as remote:
        stand_in.bodies.clear()
        monkeypatch.setattr(PromptRenderer, "render", late)
        with pytest.raises(DeadlineExceeded):
            await events_of(remote, remote.request(timeout_s=0.5))
        assert stand_in.bodies == []


async def test_a_request_that_waits_for_a_thread_ends_at_its_deadline(text, monkeypatch):
    free, num_begun = threading.Event(), 0
    write_forced = VerifiedOutput.write_forced

    def slowly(self, jump_forward):
        nonlocal num_begun
        num_begun += 1
        free.wait()
        return write_forced(self, jump_forward)

    async with remote_over(text, settings=replace(SETTINGS, jump_forward=False)) as remote:
        monkeypatch.setattr(VerifiedOutput, "write_forced", slowly)
        blocking = [asyncio.create_task(events_of(remote, remote.request())) for _ in range(2)]
        try:
            await until(lambda: num_begun)
            with pytest.raises(DeadlineExceeded):
                await events_of(remote, remote.request(timeout_s=0.1))
            assert num_begun == 1
        finally:
            free.set()
        await asyncio.gather(*blocking)


async def test_text_without_a_grammar_passes(text):
    stand_in = StandIn(text)
    async with remote_over(text, stand_in) as remote:
        stand_in.bodies.clear()
        request = remote.request(max_tokens=12, stop_token_ids=(7,), min_tokens=3)
        events = await events_of(remote, request)
        assert events[-1].reason in {FinishReason.STOP, FinishReason.LENGTH}
        (body,) = stand_in.bodies
        assert "structured_outputs" not in body
        assert body["stop_token_ids"] == [7]
        assert body["min_tokens"] == 3


async def test_what_its_masks_removed_an_engine_elsewhere_cannot_tell(text):
    async with remote_over(text, StandIn(text)) as remote:
        with pytest.raises(RequestRefused, match="ask for `logprobs`") as refusal:
            await events_of(remote, remote.request(is_inspected=True))
        assert refusal.value.parameter == "callgate.inspect"


async def test_no_choice_asks_an_engine_before_its_grammar_is_published_once(text):
    stand_in, published, may_end = StandIn(text), [], asyncio.Event()
    async with remote_over(text, stand_in) as remote:

        async def publish(keys, client_id):
            published.append((keys, client_id))
            await may_end.wait()
            return True

        remote.grammars.publish = publish
        request = remote.request(await remote.grammar(), num_choices=3, client_id="a client")
        running = asyncio.create_task(events_of(remote, request))
        await until(lambda: published)
        assert not stand_in.requests
        may_end.set()
        assert_valid(await running, request)
        assert published == [(list(request.recipe.keys), "a client")]


async def test_an_engine_is_not_asked_for_a_grammar_that_it_cannot_read(text):
    """And none looks broken by it, however often it is tried."""
    stand_in = StandIn(text)
    async with remote_over(text, stand_in) as remote:

        async def publish(recipe, client_id):
            return False

        remote.grammars.publish = publish
        lookup = await remote.grammar()
        for _ in range(5):
            with pytest.raises(RequestRefused, match="cannot read the compiled grammar"):
                await events_of(remote, remote.request(lookup))
        assert not stand_in.requests
        assert (await remote.runtime.health()).is_ready


@pytest.mark.parametrize(("told", "expected"), [(None, 0), (0, 0), (5, 5), (10**6, "all")])
@pytest.mark.parametrize("mode", ["required", "text"])
async def test_what_an_engine_had_in_its_cache_is_reported(text, told, expected, mode):
    stand_in = StandIn(text, num_cached=told)
    async with remote_over(text, stand_in) as remote:
        lookup = await remote.grammar(parallel=False) if mode == "required" else None
        _, end = await answer_of(remote, remote.request(lookup, temperature=0.0))
        stats = end.stats
        assert stats.num_cached_tokens == (stats.num_prompt_tokens if expected == "all" else expected)


async def test_an_answer_is_whole_whatever_its_engine_does_where_only_its_end_is_missing(text, monkeypatch):
    """An engine that tells what it had in its cache may write its stop token first."""
    monkeypatch.setattr(delivery, "END_TIMEOUT_S", 0.05)
    stand_in = StandIn(text, num_cached=5)
    async with remote_over(text, stand_in) as remote:
        lookup = await remote.grammar(parallel=False)
        request = remote.request(lookup, temperature=0.0)
        _, finished = await answer_of(remote, request)
        assert finished.stats.num_cached_tokens == 5
        for fault in ("stall", "die", "garbage", "error", "empty", forbidden(text)):
            stand_in.writes, stand_in.num_faults = {finished.stats.num_output_tokens: fault}, 1
            _, again = await answer_of(remote, request)
            assert (again.reason, again.stats.num_cached_tokens) == (finished.reason, 0)
            assert stand_in.num_faults == 0
        assert (await remote.runtime.health()).is_ready


async def test_whether_a_prompt_ends_in_a_thought_is_found_out_once_and_in_a_thread(text, monkeypatch):
    asked = []

    def is_thinking(*_):
        asked.append(threading.current_thread())
        return False

    monkeypatch.setattr(TokenBytes, "is_thinking", is_thinking)
    async with remote_over(text) as remote:
        request = remote.request(await remote.grammar(), num_choices=3)
        assert_valid(await events_of(remote, request), request)
    (thread,) = asked
    assert thread is not threading.main_thread()


async def test_outputs_that_are_slow_to_verify_are_verified_in_threads(text, monkeypatch):
    take, threads = VerifiedOutput.take, []

    def noted(self, tokens, **options):
        threads.append(threading.current_thread())
        return take(self, tokens, **options)

    monkeypatch.setattr(VerifiedOutput, "take", noted)
    monkeypatch.setattr(verified_output, "SLOW_S", -1.0)
    async with remote_over(text) as remote:
        calls, _ = await answer_of(remote, remote.request(await remote.grammar()))
        assert calls
    assert len(threads) > 2
    assert [thread is threading.main_thread() for thread in threads] == [True] + [False] * (len(threads) - 1)


async def test_what_is_forced_goes_with_the_prompt(text):
    stand_in = StandIn(text)
    async with remote_over(text, stand_in) as remote:
        stand_in.bodies.clear()
        lookup = await remote.grammar("required", allowed=("set_color",), parallel=False)
        request = remote.request(lookup)
        _, end = await answer_of(remote, request)
        (body,) = stand_in.bodies
        prompt_ids = await remote.runtime.prompt_ids(request)
        assert body["prompt"][: len(prompt_ids)] == prompt_ids
        spelled = text.tokenizer.decode(body["prompt"][len(prompt_ids) :])
        assert spelled.startswith('<tool_call>\n{"name": "set_color", "arguments": {"color":')
        assert end.stats.num_forced_tokens >= len(body["prompt"]) - len(prompt_ids)


async def test_each_choice_has_its_seed_and_each_client_its_cache(text):
    stand_in = StandIn(text)
    async with remote_over(text, stand_in) as remote:
        stand_in.bodies.clear()
        await events_of(remote, remote.request(max_tokens=3, num_choices=2, seed=5, client_id="one"))
        await events_of(remote, remote.request(max_tokens=3, seed=5, client_id="other"))
        await events_of(remote, remote.request(max_tokens=3, client_id="other"))
        seeds = [body.get("seed") for body in stand_in.bodies]
        assert len(set(seeds[:2])) == 2
        assert seeds[2] in seeds[:2]
        assert seeds[3] is None
        salts = [body["cache_salt"] for body in stand_in.bodies]
        assert salts[0] == salts[1] != salts[2] == salts[3]
        assert "one" not in salts[0]
