"""A llama-server: what it tells of tokens and characters, what it does not take, and drafts."""

import json
from dataclasses import replace

import httpx
import pytest
from pluginless_servers import LlamaStandIn
from remote_engines import SCHEMAS, SETTINGS, TOOLS, events_of, remote_over
from whole_outputs import calls_of

from compiler.response_format import ResponseFormat
from runtime.engines.client import EngineAddress
from runtime.engines.completion_request import CompletionRequest
from runtime.engines.llama_client import LlamaClient
from runtime.errors import RequestRefused
from runtime.events import TextDelta
from runtime.request import Sampling
from runtime.selection import DRAFT, Selection


def llama_over(text, stand_in, **options):
    return remote_over(text, stand_in, kind="llama_server", **options)


async def answered(remote, request):
    """The calls of an answer, and its end."""
    events = await events_of(remote, request)
    return calls_of(events), events[-1]


@pytest.mark.parametrize("num_logprobs", [0, 1])
async def test_rescued_tokens_are_counted_where_log_probabilities_were_asked_for(text, num_logprobs):
    """llama.cpp tells the log probabilities from before its grammar: the first choice may be outside."""
    forbidden = next(iter(text.vocabulary.marker_ids))
    stand_in = LlamaStandIn(text, wants=forbidden)
    async with llama_over(text, stand_in) as remote:
        lookup = await remote.grammar(tools=TOOLS[1:2], parallel=False)
        _, asked = await answered(remote, remote.request(lookup, num_logprobs=num_logprobs))
        num_written = asked.stats.num_output_tokens - asked.stats.num_forced_tokens
        assert asked.stats.num_rescued_tokens == num_written > 0
        assert asked.stats.mass_removed is None
        _, unasked = await answered(remote, remote.request(lookup))
        assert unasked.stats.num_rescued_tokens is None
        stand_in.wants = None
        _, free = await answered(remote, remote.request(lookup, num_logprobs=num_logprobs))
        assert free.stats.num_rescued_tokens == 0
        stand_in.wants = forbidden
        _, drafted = await answered(remote, remote.request(lookup, num_logprobs=1, selection=DRAFT))
        num_written = drafted.stats.num_output_tokens - drafted.stats.num_forced_tokens
        assert drafted.stats.num_rescued_tokens in {None, num_written}, "a draft that is kept has no mask"


@pytest.mark.parametrize("num_logprobs", [0, 1])
async def test_text_has_as_many_alternatives_as_were_asked_for(text, num_logprobs):
    async with llama_over(text, LlamaStandIn(text)) as remote:
        events = await events_of(remote, remote.request(max_tokens=9, num_logprobs=num_logprobs))
        told = [one for event in events for one in getattr(event, "logprobs", ())]
        assert told
        assert all(len(one.top) == num_logprobs for one in told)


async def test_a_character_of_several_tokens_is_spelled_anew(text):
    """The server sends all of its text, and only its last token; and one token more that ended the answer."""
    tokens, stop = text.vocabulary.tokens, text.vocabulary.stop_ids[0]
    last = tokens.index("\U0001f409".encode()[-1:])
    sent = [
        {"content": "a\U0001f409", "tokens": [last], "stop": False},
        {"content": "", "tokens": [stop], "stop": False},
        {"content": "", "tokens": [], "stop": True, "stop_type": "eos"},
    ]

    async def pieces():
        for one in sent:
            yield b"data: " + json.dumps(one).encode() + b"\n\n"

    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=pieces()))
    client = LlamaClient(EngineAddress("http://engine"), text.prepared, transport=transport)
    request = CompletionRequest(model_id="", prompt_ids=[1], max_tokens=9, sampling=Sampling())
    async with client.completion(request) as chunks:
        received = [chunk async for chunk in chunks]
    ids = [token.token_id for chunk in received for token in chunk.tokens]
    assert b"".join(tokens[i] for i in ids).decode() == "a\U0001f409"
    assert received[-1].finish_reason == "stop"
    await client.close()


async def test_min_tokens_are_refused(text):
    client = LlamaClient(EngineAddress("http://engine"), text.prepared)
    request = CompletionRequest(model_id="", prompt_ids=[1], max_tokens=9, sampling=Sampling(), min_tokens=3)
    with pytest.raises(RequestRefused, match="llama-server"):
        async with client.completion(request):
            pass
    await client.close()


async def test_a_draft_has_no_grammar_and_what_is_broken_is_masked(text):
    stand_in = LlamaStandIn(text)
    async with llama_over(text, stand_in) as remote:
        lookup = await remote.grammar()
        stand_in.bodies.clear()
        calls, end = await answered(remote, remote.request(lookup, selection=DRAFT, max_tokens=100))
        for name, arguments in calls:
            SCHEMAS[name].validate(json.loads(arguments))
        assert calls
        assert end.stats.num_output_tokens <= 100
        assert end.stats.selection.num_draws == 2
        has_grammar = ["grammar" in body for body in stand_in.requests]
        assert has_grammar[:2] == [False, True]


async def test_a_draft_that_stops_inside_a_call_is_broken(text):
    """A llama-server does not tell the token that ended its answer."""

    class Stopping(LlamaStandIn):
        def sample(self, body, matcher):
            ends = matcher is None and len(set(body["prompt"])) > 1
            return self.text.vocabulary.stop_ids[0] if ends else super().sample(body, matcher)

    stand_in = Stopping(text)
    async with llama_over(text, stand_in) as remote:
        lookup = await remote.grammar()
        stand_in.bodies.clear()
        calls, end = await answered(remote, remote.request(lookup, selection=Selection("accept", 2)))
        assert calls
        assert (end.stats.selection.is_exact, len(end.stats.selection.broken)) == (False, 1)
        assert ["grammar" in body for body in stand_in.requests][:2] == [False, True]


async def test_a_draft_that_the_server_does_not_bring_on_is_broken(text):
    """One token is asked for, and the server tells none, as the character needs more; that was an error."""
    texts = ["\u0e01 1", "\u0e01 2"]
    settings = replace(SETTINGS, jump_forward=False)
    async with llama_over(text, LlamaStandIn(text, end_bias=-20), settings=settings) as remote:
        lookup = await remote.grammars.find_format(
            ResponseFormat("schema", {"enum": texts}), prepared=text.prepared
        )
        events = await events_of(remote, remote.request(lookup, selection=DRAFT))
        written = "".join(event.text for event in events if isinstance(event, TextDelta))
        assert json.loads(written) in texts
        assert len(events[-1].stats.selection.broken) == 1
