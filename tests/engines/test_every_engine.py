"""What holds for every kind of engine: its answers are valid, and it is asked for no more than it can give."""

import asyncio
from dataclasses import dataclass, replace
from functools import partial

import pytest
from completions_server import SECRET, StandIn
from generate_server import SglangStandIn
from pluginless_servers import LlamaStandIn, StockStandIn
from remote_engines import (
    GUARDED,
    SETTINGS,
    TOOLS,
    answer_of,
    assert_valid,
    events_of,
    forbidden,
    remote_over,
    until,
)
from whole_outputs import calls_of

from compiler.toolset_compiler import compile_toolset
from runtime.engines.canary import canary_tools
from runtime.engines.engine_kinds import ENGINE_KINDS
from runtime.errors import NoEngine
from runtime.events import FinishReason, TextDelta
from runtime.selection import DRAFT, Selection

WITH_PLUGIN = {
    "vllm": StandIn,
    "vllm speculating": partial(StandIn, speculates=True),
    "sglang": SglangStandIn,
    "sglang incremental": partial(SglangStandIn, is_incremental=True),
}
WITHOUT_PLUGIN = {
    "vllm_stock": StockStandIn,
    "vllm_stock speculating": partial(StockStandIn, speculates=True),
    "llama_server": LlamaStandIn,
}
KINDS = WITH_PLUGIN | WITHOUT_PLUGIN


def kinds(chosen):
    return pytest.mark.parametrize("kind", chosen.values(), ids=chosen)


def test_every_kind_of_engine_has_a_stand_in():
    assert {name.split()[0] for name in KINDS} == ENGINE_KINDS.keys()
    without = {name for name, kind in ENGINE_KINDS.items() if not kind.has_plugin}
    assert {name.split()[0] for name in WITHOUT_PLUGIN} == without


@kinds(KINDS)
@pytest.mark.parametrize("mode", ["required", "auto", "none"])
async def test_every_answer_is_valid_and_within_its_budget(text, kind, mode):
    async with remote_over(text, kind(text)) as remote:
        lookup = await remote.grammar(mode)
        least = lookup.grammar.closer().minimum() if mode == "required" else 1
        for max_tokens in (least, least + 1, least + 9, 100):
            request = remote.request(lookup, max_tokens=max_tokens, num_choices=2)
            events = await events_of(remote, request)
            ends = assert_valid(events, request)
            assert mode != "required" or all(calls_of(events, choice) for choice in range(2))
            assert kind in WITHOUT_PLUGIN.values() or not any(end.stats.num_refused_tokens for end in ends)
        [state] = (await remote.runtime.health()).engines
        assert state.num_failed == 0


@kinds(KINDS)
async def test_text_needs_no_grammar(text, kind):
    stand_in = kind(text)
    async with remote_over(text, stand_in) as remote:
        _, end = await answer_of(remote, remote.request(max_tokens=20))
        assert end.reason in {FinishReason.STOP, FinishReason.LENGTH}
        (body,) = stand_in.requests
        assert not stand_in.grammar_in(body)


@kinds(WITH_PLUGIN)
@pytest.mark.parametrize("place", [0, 1, 30])
async def test_a_refused_token_is_cut_and_the_output_resumed_behind_what_was_good(text, kind, place):
    """Without jump-forward, so that every token is the engine's; its strings are long."""
    stand_in = kind(text, end_bias=-50)
    async with remote_over(text, stand_in, settings=replace(SETTINGS, jump_forward=False)) as remote:
        lookup = await remote.grammar(tools=TOOLS[:1])
        stand_in.bodies.clear()
        stand_in.writes, stand_in.num_faults = {place: forbidden(text)}, 1
        calls, end = await answer_of(remote, remote.request(lookup, max_tokens=200))
        assert calls
        assert end.stats.num_refused_tokens == 1
        assert end.reason is FinishReason.TOOL_CALLS or end.closed_by == "budget"
        first, second = stand_in.requests[:2]
        assert len(second["prompt"]) == len(first["prompt"]) + place
        assert second["max_tokens"] == first["max_tokens"] - place
        [state] = (await remote.runtime.health()).engines
        assert (state.num_refused_tokens, state.num_expected_refusals) == (1, 0)


@kinds(WITHOUT_PLUGIN)
async def test_what_guards_forbid_is_replaced_by_a_token_that_is_allowed(text, kind):
    """Each place costs one request for one token of the mask, and one to go on."""
    stand_in = kind(text, end_bias=-20)
    async with remote_over(text, stand_in) as remote:
        lookup = await remote.grammar(tools=(GUARDED,), parallel=False)
        (card,) = await remote.runtime.models()
        assert not card.applies_guards
        calls, end = await answer_of(remote, remote.request(lookup, max_tokens=90))
        assert len(calls) == 1
        assert end.stats.num_refused_tokens
        assert any(stand_in.num_asked(body) == 1 for body in stand_in.requests)
        [state] = (await remote.runtime.health()).engines
        assert state.num_failed == 0
        assert state.num_refused_tokens == state.num_expected_refusals > 0


@kinds(WITHOUT_PLUGIN)
async def test_an_engine_asked_for_one_of_many_tools_is_asked_again_behind_the_header(text, kind):
    stand_in = kind(text)
    async with remote_over(text, stand_in) as remote:
        lookup = await remote.grammar(parallel=False)
        calls, end = await answer_of(remote, remote.request(lookup, temperature=0.0))
        assert len(calls) == 1
        assert end.stats.num_refused_tokens == 0
        first, second, *_ = stand_in.requests
        assert "urgent" not in stand_in.grammar_in(first)
        assert len(second["prompt"]) > len(first["prompt"])


@kinds(KINDS)
@pytest.mark.parametrize("selection", [Selection("accept", 3), DRAFT], ids=["accept", "draft"])
async def test_what_leaves_the_grammar_in_its_drafts_is_masked(text, kind, selection):
    stand_in = kind(text)
    async with remote_over(text, stand_in) as remote:
        lookup = await remote.grammar()
        stand_in.bodies.clear()
        calls, end = await answer_of(remote, remote.request(lookup, selection=selection))
        assert calls
        told = end.stats.selection
        assert not told.is_exact
        assert len(told.broken) == told.num_draws - 1 == (2 if selection.strategy == "accept" else 1)
        # Later requests of an output go on behind its beginning, inside a character also without a grammar.
        most = max(map(stand_in.num_asked, stand_in.requests))
        begun = [body for body in stand_in.requests if stand_in.num_asked(body) == most]
        assert [bool(stand_in.grammar_in(body)) for body in begun] == [False] * len(told.broken) + [True]


@kinds(KINDS)
async def test_a_client_that_leaves_frees_the_engine(text, kind):
    stand_in = kind(text, end_bias=-50, token_s=0.002)
    async with remote_over(text, stand_in) as remote:
        stand_in.num_aborted = 0
        events = remote.runtime.generate(remote.request(await remote.grammar("auto"), max_tokens=2000))
        async for event in events:
            if isinstance(event, TextDelta):
                break
        await events.aclose()
        await until(lambda: not stand_in.num_running)
        assert stand_in.num_aborted == 1


@dataclass
class WithoutGuards(StandIn):
    """It masks by the grammars of canaries whose strings may have any length.

    Its model writes strings of `num_characters`; None: of any length.
    """

    has_guards: bool = True
    num_characters: int | None = None

    def linked(self, mark):
        tool, _ = canary_tools(SECRET, has_guards=True)
        if self.has_guards or mark.recipe.tools[0][0] != tool.name:
            return super().linked(mark)
        length = self.num_characters
        text = {"type": "string"} | ({"minLength": length, "maxLength": length} if length else {})
        properties = {
            name: text if "minLength" in schema else schema
            for name, schema in tool.parameters["properties"].items()
        }
        loose = replace(tool, parameters={**tool.parameters, "properties": properties})
        return compile_toolset([loose], tokenizer=self.text.prepared, syntax=self.text.syntax, parallel=False)


@dataclass
class MasksOthers(StandIn):
    """It masks requests without a grammar by the last grammar that came."""

    masks_others: bool = False
    last: object = None

    def matcher_of(self, mark):
        self.last = mark
        return super().matcher_of(mark)

    async def complete(self, body, receive, send):
        while self.masks_others and self.last is None and not self.grammar_in(body):
            await asyncio.sleep(0.01)
        await super().complete(body, receive, send)

    def sampled(self, body, matcher, num_before):
        if matcher is None and self.masks_others and self.last is not None:
            matcher = super().matcher_of(self.last)
        return super().sampled(body, matcher, num_before)


BROKEN = [
    (StandIn, {"has_plugin": False}, "runs without Callgate's plugin"),
    (StandIn, {"secret": b"another secret..."}, "different secrets"),
    (StandIn, {"masks_tokens": False}, "its masks are not in force"),
    (StandIn, {"honours_max_tokens": False}, "more tokens than the 5"),
    (StandIn, {"echoes_prompt": False}, "does not repeat"),
    (StandIn, {"is_healthy": False}, "not healthy"),
    (StandIn, {"status": 500}, "told to fail (HTTP 500)"),
    (StandIn, {"writes": {2: 5}}, "as token 3 of an output"),
    (WithoutGuards, {"has_guards": False, "end_bias": 4.0}, "its masks are not in force"),
    (WithoutGuards, {"has_guards": False, "end_bias": -50.0}, "its masks are not in force"),
    (WithoutGuards, {"has_guards": False, "num_characters": 24}, "its masks are not in force"),
    (MasksOthers, {"masks_others": True}, "under a mask in a request that has none"),
    (StandIn, {"aborts": False}, "whose client has left"),
    (StandIn, {"context_length": "long"}, "gives an answer that cannot be read"),
    (SglangStandIn, {"has_plugin": False}, "--grammar-backend xgrammar"),
    (SglangStandIn, {"masks_tokens": False}, "its masks are not in force"),
    (SglangStandIn, {"aborts": False}, "whose client has left"),
    (StockStandIn, {"masks_tokens": False}, "masks"),
    (LlamaStandIn, {"masks_tokens": False}, "masks"),
]


@pytest.mark.parametrize(
    ("kind", "fault", "said"),
    BROKEN,
    ids=[f"{kind.__name__} {next(iter(fault))}" for kind, fault, _ in BROKEN],
)
async def test_an_engine_that_fails_the_canary_gets_no_request(text, monkeypatch, kind, fault, said):
    monkeypatch.setattr("runtime.engines.canary.NUM_LOOKS", 3)
    stand_in = kind(text, **fault)
    async with remote_over(text, stand_in, wait=False) as remote:
        request = remote.request(await remote.grammar())  # now, as a busy machine takes long for it
        health = await remote.settled(lambda health: said in health.reason)
        assert not health.is_ready
        stand_in.bodies.clear()
        with pytest.raises(NoEngine, match="takes requests") as refused:
            await events_of(remote, request)
        assert said in str(refused.value)
        for name in fault:
            setattr(stand_in, name, getattr(kind(text), name))
        await remote.ready()
        await answer_of(remote, remote.request(await remote.grammar()))


@kinds(WITH_PLUGIN)
async def test_an_engine_that_goes_on_without_its_clients_stays_unused(text, monkeypatch, kind):
    """Also while it is busy with nothing but a request of the canary that it did not abort."""
    monkeypatch.setattr("runtime.engines.canary.NUM_LOOKS", 3)
    stand_in = kind(text, aborts=False)
    async with remote_over(text, stand_in, wait=False) as remote:
        await remote.settled(lambda health: "whose client has left" in health.reason)
        num_of_canaries = len(stand_in.bodies)
        while len(stand_in.bodies) < num_of_canaries + 9:  # three more canaries
            assert not (await remote.runtime.health()).is_ready
            await asyncio.sleep(0.01)
        stand_in.aborts = True
        await remote.ready()


@kinds(WITH_PLUGIN)
async def test_an_engine_that_is_used_again_is_not_suspected_for_one_request_that_runs(
    text, monkeypatch, kind
):
    """Another gateway's request that runs alone looks like one that the engine did not abort a while ago."""
    monkeypatch.setattr("runtime.engines.canary.NUM_LOOKS", 3)
    stand_in = kind(text, aborts=False)
    often = replace(SETTINGS, watch=replace(SETTINGS.watch, canary_s=0))
    async with remote_over(text, stand_in, settings=often, wait=False) as remote:
        await remote.settled(lambda health: "whose client has left" in health.reason)
        stand_in.num_running += 1  # of another gateway
        await remote.ready()
        stand_in.aborts = True
        await until(lambda: stand_in.num_running == 1)
        num_of_canaries = len(stand_in.bodies)
        while len(stand_in.bodies) < num_of_canaries + 9:  # three more canaries
            assert (await remote.runtime.health()).is_ready
            await asyncio.sleep(0.01)


@kinds(KINDS)
@pytest.mark.parametrize("syntax", ["harmony", "kimi+think", "json+think"])
async def test_a_model_that_thinks_before_its_call_passes_the_canary(text, kind, syntax):
    """The canary biases one letter: of that, a thought would have no end."""
    thinking = replace(text, syntax=syntax)
    async with remote_over(thinking, kind(thinking), wait=False) as remote:
        health = await remote.settled(lambda health: "not been checked" not in health.reason)
        assert health.is_ready, health.reason
        calls, _ = await answer_of(remote, remote.request(await remote.grammar()))
        assert calls


ESCAPES = rb"\ud83d\ude00"
"""One character as JSON may write it."""


class WritesEscapes(StandIn):
    """Its model writes each character of a string as two escapes, byte by byte."""

    def sampled(self, body, matcher, num_before):
        body = body | {"written": b""}
        for ids, finish_reason in super().sampled(body, matcher, num_before):
            body["written"] += b"".join(self.text.vocabulary.tokens[token_id] for token_id in ids)
            yield ids, finish_reason

    def noise(self, body):
        num_written = max(n for n in range(len(ESCAPES)) if body["written"].endswith(ESCAPES[:n]))
        logits = super().noise(body)
        logits[self.text.vocabulary.tokens.index(ESCAPES[num_written : num_written + 1])] += 100
        return logits


async def test_a_canary_may_be_as_long_as_its_strings_can_be_written(text):
    """A model that writes escapes was cut off before the end of its call, so that its engine was never used."""
    async with remote_over(text, WritesEscapes(text), wait=False) as remote:
        health = await remote.settled(lambda health: "not been checked" not in health.reason)
        assert health.is_ready, health.reason


@pytest.mark.parametrize("context_length", [250, 500, 4096])
async def test_an_engine_with_a_short_context_passes_the_canary(text, context_length):
    """The canary asks for no more tokens than the context has: engines would refuse that."""
    async with remote_over(text, StandIn(text, context_length=context_length), wait=False) as remote:
        health = await remote.settled(lambda health: "not been checked" not in health.reason)
        assert health.is_ready, health.reason
