"""The client of one engine: busy is not dead, and no answer is read without end."""

import json
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
from completions_server import StandIn, serving
from remote_engines import REQUEST, answering, tokens_of

from runtime.engines import client as engine_client
from runtime.engines.client import EngineAddress
from runtime.engines.event_stream import EventLimits
from runtime.engines.vllm_client import VllmClient
from runtime.errors import EngineBroke, EngineRefused
from runtime.request import Sampling

NUM_STREAMS = 272
"""As many as a gateway admits by default."""


async def test_probes_are_answered_beside_as_many_streams_as_may_run(text):
    stand_in = StandIn(text, writes={0: "stall"})
    with serving(stand_in) as url:
        client = VllmClient(EngineAddress(url))
        async with AsyncExitStack() as streams:
            for _ in range(NUM_STREAMS):
                await streams.enter_async_context(client.completion(replace(REQUEST, prompt_ids=[1, 2])))
            assert await client.is_healthy()
            assert await client.num_running() == NUM_STREAMS
        await client.close()


async def test_a_long_answer_to_a_probe_is_refused(monkeypatch):
    monkeypatch.setattr(engine_client, "MAX_PROBE_BYTES", 1000)
    client = answering(b'{"data": [', *[b" " * 100] * 20)
    with pytest.raises(EngineBroke, match=r"/v1/models has more than 1000 bytes"):
        await client.models()


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_events_are_joined_from_whatever_pieces_come(size):
    stream = b'data: {"choices": [{"token_ids": [5]}]}\n\n: a comment\ndata: {"choices": [{"token_ids": [6, 7]}]}\n\n'
    stream += b"data: [DONE]\n\n"
    pieces = (stream[i : i + size] for i in range(0, len(stream), size))
    assert await tokens_of(answering(*pieces)) == [5, 6, 7]


async def test_an_event_longer_than_its_request_explains_is_refused():
    with pytest.raises(EngineBroke, match=f"an event of more than {EventLimits.of(REQUEST).num_bytes} bytes"):
        await tokens_of(answering(b"data: {", *[b" " * 100_000] * 20))


@pytest.mark.parametrize("sampling", [Sampling(min_p=0.1), Sampling(logit_bias={5: 1.0})])
async def test_a_refusal_that_names_no_field_of_the_client_is_not_the_clients_fault(sampling):
    """An engine that speculates may take something else that it was sent amiss."""
    message = "trace_decode_token_ids is not supported with speculative decoding."
    refusal = {"error": {"message": message, "code": 400}}
    client = answering(b"data: " + json.dumps(refusal).encode() + b"\n\n")
    with pytest.raises(EngineRefused, match="trace_decode_token_ids"):
        await tokens_of(client, replace(REQUEST, sampling=sampling))
