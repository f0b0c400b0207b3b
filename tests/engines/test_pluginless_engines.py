"""Engines without the plugin: whatever they write, an answer is valid; what guards hold costs requests."""

import json

import jsonschema_rs
import pytest
from pluginless_servers import STAND_INS
from remote_engines import GUARDED, assert_valid, events_of, remote_over
from whole_outputs import calls_of

from runtime.engines.engine_kinds import ENGINE_KINDS
from runtime.events import Finished, FinishReason


@pytest.fixture(params=STAND_INS)
def kind(request):
    return request.param


def grammar_in(body):
    """The grammar of a request to either."""
    return body["grammar"] if "grammar" in body else body["structured_outputs"]["grammar"]


def test_every_kind_without_the_plugin_has_a_stand_in():
    assert STAND_INS.keys() == {name for name, kind in ENGINE_KINDS.items() if not kind.has_plugin}


@pytest.mark.parametrize("mode", ["required", "auto", "none"])
async def test_every_answer_is_valid_and_within_its_budget(text, kind, mode):
    async with remote_over(text, STAND_INS[kind](text), kind=kind) as remote:
        lookup = await remote.grammar(mode)
        least = lookup.grammar.closer().minimum() if mode == "required" else 1
        for max_tokens in (least, least + 9, 100):
            request = remote.request(lookup, max_tokens=max_tokens)
            events = await events_of(remote, request)
            assert_valid(events, request)
            assert calls_of(events) or mode != "required"
        assert (await remote.runtime.health()).engines[0].num_failed == 0


async def test_what_guards_forbid_is_replaced_by_a_token_that_is_allowed(text, kind):
    """Each place costs one request for one token of the mask, and one to go on."""
    stand_in = STAND_INS[kind](text, end_bias=-20)
    async with remote_over(text, stand_in, kind=kind) as remote:
        lookup = await remote.grammar(tools=(GUARDED,), parallel=False)
        (card,) = await remote.runtime.models()
        assert not card.applies_guards
        events = await events_of(remote, remote.request(lookup, max_tokens=90))
        ((_, arguments),) = calls_of(events)
        jsonschema_rs.validator_for(dict(GUARDED.parameters)).validate(json.loads(arguments))
        assert events[-1].stats.num_refused_tokens
        assert any(1 in (body.get("n_predict"), body.get("max_tokens")) for body in stand_in.requests)
        [state] = (await remote.runtime.health()).engines
        assert state.num_failed == 0
        assert state.num_refused_tokens == state.num_expected_refusals > 0


async def test_an_engine_asked_for_one_of_many_tools_is_asked_again_behind_the_header(text, kind):
    """A stop token that ends the part is not of the output."""
    stand_in = STAND_INS[kind](text)
    async with remote_over(text, stand_in, kind=kind) as remote:
        request = remote.request(await remote.grammar(parallel=False), temperature=0.0)
        events = await events_of(remote, request)
        (finished,) = assert_valid(events, request)
        assert len(calls_of(events)) == 1
        assert finished.stats.num_refused_tokens == 0
        first, second, *_ = stand_in.requests
        assert "urgent" not in grammar_in(first)
        assert len(second["prompt"]) > len(first["prompt"])


async def test_an_engine_that_reads_no_grammar_gets_no_requests(text, kind):
    async with remote_over(
        text, STAND_INS[kind](text, reads_grammars=False), kind=kind, wait=False
    ) as remote:
        health = await remote.settled(lambda health: "masks" in health.reason)
        assert not health.is_ready


async def test_text_without_tools_passes(text, kind):
    async with remote_over(text, STAND_INS[kind](text), kind=kind) as remote:
        *_, end = await events_of(remote, remote.request(max_tokens=20))
        assert isinstance(end, Finished)
        assert end.reason in {FinishReason.STOP, FinishReason.LENGTH}
