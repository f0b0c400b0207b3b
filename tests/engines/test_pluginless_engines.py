"""Engines without the plugin: what is vLLM's own, and what is llama-server's own."""

import json
from dataclasses import replace

import pytest
from pluginless_servers import LlamaStandIn, StockStandIn
from remote_engines import (
    REQUEST,
    SETTINGS,
    TOOLS,
    answer_of,
    events_of,
    llama_answering,
    remote_over,
    tokens_of,
)
from whole_outputs import text_of

from compiler.response_format import ResponseFormat
from runtime.engines import sent_grammars
from runtime.engines.grammar_position import GrammarPosition
from runtime.engines.llama_client import llama_body
from runtime.engines.vllm_client import completion_body
from runtime.errors import RequestRefused
from runtime.request import Sampling
from runtime.selection import DRAFT, Selection


class LikesDigits(StockStandIn):
    """It likes 3 most, and then 2."""

    def noise(self, body):
        logits = super().noise(body) * 0
        for number, digit in enumerate((b"2", b"3"), 1):
            logits[self.text.vocabulary.tokens.index(digit)] = 10 * number
        return logits


async def test_text_for_which_there_is_no_room_at_one_place_may_stand_at_the_next(text):
    """The engine is asked not to write a token at the place where it was refused, and only there."""
    stand_in = LikesDigits(text)
    numbers = ResponseFormat("schema", {"enum": [1, 12, 123, 1357924680135792467]})
    async with remote_over(text, stand_in) as remote:
        lookup = await remote.grammars.find_format(numbers, prepared=text.prepared, syntax=None)
        events = await events_of(remote, remote.request(lookup, max_tokens=5))
        assert text_of(events) == "123"
        first, second, third = stand_in.requests
        assert (second["bad_words"], second["max_tokens"]) == (["3"], 1)
        assert "bad_words" not in first | third


def test_vllm_is_told_unwanted_tokens_by_their_texts_where_it_reads_them_as_these_tokens(text):
    vocabulary = text.vocabulary
    ids = {token: vocabulary.tokens.index(token) for token in (b"3", b" a", b"\n", b"\xf0")}
    call = vocabulary.markers["<tool_call>"]
    body = completion_body(replace(REQUEST, unwanted_ids=(*ids.values(), call)), vocabulary)
    assert body["bad_words"] == ["3", " a", "<tool_call>"]
    assert "bad_words" not in completion_body(replace(REQUEST, unwanted_ids=(ids[b"\n"],)), vocabulary)


def test_llama_server_is_told_unwanted_tokens_by_a_bias_that_no_client_can_undo():
    sampling = Sampling(logit_bias={3: 50.0, 4: 2.0})
    body = llama_body(replace(REQUEST, sampling=sampling, unwanted_ids=(3,)))
    assert body["logit_bias"] == [[3, -100.0], [4, 2.0]]


async def test_a_grammar_that_is_too_long_is_made_once_for_an_output(text, monkeypatch):
    """What an engine writes without one is refused some times, and each time it is asked again."""
    made = []
    make = GrammarPosition.rest_grammar
    monkeypatch.setattr(GrammarPosition, "rest_grammar", lambda where: made.append(where) or make(where))
    async with remote_over(text, StockStandIn(text)) as remote:
        lookup = await remote.grammar(parallel=False)
        monkeypatch.setattr(sent_grammars, "MAX_GRAMMAR_CHARS", 50)
        _, end = await answer_of(remote, remote.request(lookup))
        assert end.stats.num_refused_tokens > 1
        assert len(made) == 1


@pytest.mark.parametrize("num_logprobs", [0, 1])
async def test_rescued_tokens_are_counted_where_log_probabilities_were_asked_for(text, num_logprobs):
    """llama.cpp tells the log probabilities from before its grammar: the first choice may be outside."""
    marker = next(iter(text.vocabulary.marker_ids))
    stand_in = LlamaStandIn(text, wants=marker)
    async with remote_over(text, stand_in) as remote:
        lookup = await remote.grammar(tools=TOOLS[1:2], parallel=False)
        _, asked = await answer_of(remote, remote.request(lookup, num_logprobs=num_logprobs))
        num_written = asked.stats.num_output_tokens - asked.stats.num_forced_tokens
        assert asked.stats.num_rescued_tokens == num_written > 0
        assert asked.stats.mass_removed is None
        _, unasked = await answer_of(remote, remote.request(lookup))
        assert unasked.stats.num_rescued_tokens is None
        stand_in.wants = None
        _, free = await answer_of(remote, remote.request(lookup, num_logprobs=num_logprobs))
        assert free.stats.num_rescued_tokens == 0
        stand_in.wants = marker
        _, drafted = await answer_of(remote, remote.request(lookup, num_logprobs=1, selection=DRAFT))
        num_written = drafted.stats.num_output_tokens - drafted.stats.num_forced_tokens
        assert drafted.stats.num_rescued_tokens in {None, num_written}, "a draft that is kept has no mask"


@pytest.mark.parametrize("num_logprobs", [0, 1])
async def test_text_has_as_many_alternatives_as_were_asked_for(text, num_logprobs):
    async with remote_over(text, LlamaStandIn(text)) as remote:
        events = await events_of(remote, remote.request(max_tokens=9, num_logprobs=num_logprobs))
        told = [one for event in events for one in getattr(event, "logprobs", ())]
        assert told
        assert all(len(one.top) == num_logprobs for one in told)


async def test_a_character_of_several_tokens_is_spelled_anew(text):
    """The server sends all of its text, and only its last token; and one token more that ended the answer."""
    tokens, stop = text.vocabulary.tokens, text.vocabulary.stop_ids[0]
    last = tokens.index("\U0001f409".encode()[-1:])
    client = llama_answering(
        text,
        {"content": "a\U0001f409", "tokens": [last], "stop": False},
        {"content": "", "tokens": [stop], "stop": False},
        {"content": "", "tokens": [], "stop": True, "stop_type": "eos"},
    )
    async with client.completion(REQUEST) as chunks:
        received = [chunk async for chunk in chunks]
    ids = [token.token_id for chunk in received for token in chunk.tokens]
    assert b"".join(tokens[i] for i in ids).decode() == "a\U0001f409"
    assert received[-1].finish_reason == "stop"


async def test_min_tokens_are_refused(text):
    with pytest.raises(RequestRefused, match="llama-server"):
        async with llama_answering(text).completion(replace(REQUEST, min_tokens=3)):
            pass


async def test_a_draft_that_stops_inside_a_call_is_broken(text):
    """A llama-server does not tell the token that ended its answer."""

    class Stopping(LlamaStandIn):
        def sample(self, body, matcher):
            ends = matcher is None and len(set(body["prompt"])) > 1
            return self.text.vocabulary.stop_ids[0] if ends else super().sample(body, matcher)

    stand_in = Stopping(text)
    async with remote_over(text, stand_in) as remote:
        lookup = await remote.grammar()
        stand_in.bodies.clear()
        calls, end = await answer_of(remote, remote.request(lookup, selection=Selection("accept", 2)))
        assert calls
        assert (end.stats.selection.is_exact, len(end.stats.selection.broken)) == (False, 1)
        assert ["grammar" in body for body in stand_in.requests][:2] == [False, True]


async def test_a_draft_that_the_server_does_not_bring_on_is_broken(text):
    """One token is asked for, and the server tells none, as the character needs more."""
    texts = ["\u0e01 1", "\u0e01 2"]
    settings = replace(SETTINGS, jump_forward=False)
    async with remote_over(text, LlamaStandIn(text, end_bias=-20), settings=settings) as remote:
        lookup = await remote.grammars.find_format(
            ResponseFormat("schema", {"enum": texts}), prepared=text.prepared
        )
        events = await events_of(remote, remote.request(lookup, selection=DRAFT))
        assert json.loads(text_of(events)) in texts
        assert len(events[-1].stats.selection.broken) == 1


async def test_what_comes_behind_the_end_of_a_llama_servers_answer_is_not_read(text):
    """It may be the end of the connection, which is no failure of the engine."""
    ended = {"content": "", "tokens": [], "stop": True, "stop_type": "eos"}
    client = llama_answering(text, {"content": "a", "tokens": [5]}, ended, {"error": {"message": "closed"}})
    assert await tokens_of(client) == [5]
