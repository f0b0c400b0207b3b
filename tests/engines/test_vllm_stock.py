"""vLLM without the plugin: whatever it writes, an answer is valid; what guards hold costs requests."""

import json
from contextlib import asynccontextmanager

import jsonschema_rs
import pytest
from pluginless_servers import StockStandIn
from remote_engines import GUARDED, assert_valid, events_of, remote_over
from whole_outputs import calls_of

from compiler.grammar.plain_ebnf import to_plain_ebnf
from compiler.response_format import ResponseFormat
from runtime.engines import sent_grammars
from runtime.engines.grammar_position import GrammarPosition
from runtime.engines.vllm_client import VllmClient
from runtime.events import TextDelta


@asynccontextmanager
async def stock_over(text, stand_in, **options):
    def client(address):
        return VllmClient(address, ending_ids=text.vocabulary.stop_ids)

    async with remote_over(text, stand_in, client=client, write_grammar=to_plain_ebnf, **options) as remote:
        yield remote


@pytest.mark.parametrize("mode", ["required", "auto", "none"])
async def test_every_answer_is_valid_and_within_its_budget(text, mode):
    async with stock_over(text, StockStandIn(text)) as remote:
        lookup = await remote.grammar(mode)
        least = lookup.grammar.closer().minimum() if mode == "required" else 1
        for max_tokens in (least, least + 9, 100):
            request = remote.request(lookup, max_tokens=max_tokens)
            events = await events_of(remote, request)
            assert_valid(events, request)
            assert calls_of(events) or mode != "required"
        assert (await remote.runtime.health()).engines[0].num_failed == 0


async def test_what_guards_forbid_is_replaced_by_a_token_that_is_allowed(text):
    stand_in = StockStandIn(text, end_bias=-20)
    async with stock_over(text, stand_in) as remote:
        lookup = await remote.grammar(tools=(GUARDED,), parallel=False)
        (card,) = await remote.runtime.models()
        assert not card.applies_guards
        events = await events_of(remote, remote.request(lookup, max_tokens=90))
        ((_, arguments),) = calls_of(events)
        jsonschema_rs.validator_for(dict(GUARDED.parameters)).validate(json.loads(arguments))
        assert events[-1].stats.num_refused_tokens
        assert any(body.get("allowed_token_ids") for body in stand_in.requests)
        assert (await remote.runtime.health()).engines[0].num_failed == 0


async def test_an_engine_asked_for_one_of_many_tools_is_asked_again_behind_the_header(text):
    """The stop token that ends the part is not of the output."""
    stand_in = StockStandIn(text)
    async with stock_over(text, stand_in) as remote:
        lookup = await remote.grammar(parallel=False)
        request = remote.request(lookup, temperature=0.0)
        events = await events_of(remote, request)
        (finished,) = assert_valid(events, request)
        assert len(calls_of(events)) == 1
        assert finished.stats.num_refused_tokens == 0
        first, second, *_ = stand_in.requests
        assert "urgent" not in first["structured_outputs"]["grammar"]
        assert len(second["prompt"]) > len(first["prompt"])


class LikesDigits(StockStandIn):
    """It likes 3 most, and then 2."""

    def noise(self, body):
        logits = super().noise(body) * 0
        for number, digit in enumerate((b"2", b"3"), 1):
            logits[self.text.vocabulary.tokens.index(digit)] = 10 * number
        return logits


async def test_text_for_which_there_is_no_room_at_one_place_may_stand_at_the_next(text):
    """The engine was asked not to write it any more: where a call begins with `>`, that was in no later text."""
    stand_in = LikesDigits(text)
    numbers = ResponseFormat("schema", {"enum": [1, 12, 123, 1357924680135792467]})
    async with stock_over(text, stand_in) as remote:
        lookup = await remote.grammars.find_format(numbers, prepared=text.prepared, syntax=None)
        events = await events_of(remote, remote.request(lookup, max_tokens=5))
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "123"
        first, second, third = stand_in.requests
        assert second["logit_bias"] == {str(text.vocabulary.tokens.index(b"3")): -100.0}
        assert second["max_tokens"] == 1
        assert "logit_bias" not in first | third


async def test_a_grammar_that_is_too_long_is_made_once_for_an_output(text, monkeypatch):
    """What an engine writes without one is refused some times, and each time it is asked again."""
    made = []
    make = GrammarPosition.rest_grammar
    monkeypatch.setattr(GrammarPosition, "rest_grammar", lambda where: made.append(where) or make(where))
    async with stock_over(text, StockStandIn(text)) as remote:
        lookup = await remote.grammar(parallel=False)
        monkeypatch.setattr(sent_grammars, "MAX_GRAMMAR_CHARS", 50)
        request = remote.request(lookup)
        (finished,) = assert_valid(await events_of(remote, request), request)
        assert finished.stats.num_refused_tokens > 1
        assert len(made) == 1


async def test_an_engine_that_reads_no_grammar_gets_no_requests(text):
    async with stock_over(text, StockStandIn(text, reads_grammars=False), wait=False) as remote:
        health = await remote.settled(lambda health: "masks" in health.reason)
        assert not health.is_ready
