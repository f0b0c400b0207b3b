"""What external engines send is bounded, and what cannot be is not believed."""

import asyncio
import gzip
import json
import threading
import tracemalloc
from dataclasses import replace
from types import SimpleNamespace

import httpx
import pytest
from completions_server import StandIn
from remote_engines import REQUEST, SETTINGS, WATCH, answering, events_of, load_text, remote_over, tokens_of

from runtime.engines import engine_answer
from runtime.engines.client import (
    MAX_TOKENS,
    ClientLimits,
    EngineAddress,
    ServedModel,
    engine_message,
)
from runtime.engines.delivery import ChoiceDelivery
from runtime.engines.event_stream import EventLimits, event_data
from runtime.engines.replica import _served
from runtime.engines.request_mark import PLUGIN_MISSING
from runtime.engines.sent_grammars import PluginWatch
from runtime.engines.vllm_client import VllmClient
from runtime.errors import (
    MAX_REASON,
    EngineBroke,
    EngineFault,
    PluginMissing,
)
from runtime.text.detokenizer import TokenBytes
from runtime.transcript import Transcript
from runtime.written_token import SampledToken, WrittenToken
from toolspecs.errors import TooManyValues


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return load_text(tmp_path_factory.mktemp("models"))


async def test_what_an_engine_compresses_is_not_decompressed():
    bomb = gzip.compress(b"data: " + b" " * (64 << 20) + b"\n")
    tracemalloc.start()
    assert await tokens_of(answering(bomb, **{"Content-Encoding": "gzip"})) == []
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 << 20


async def test_metrics_of_a_hostile_engine_are_read_in_linear_time():
    """Each line would else be searched for its end in all the lines that follow."""
    lines = b"vllm:num_requests_running{\n" * 100_000
    assert await answering(lines).num_running() is None


@pytest.mark.parametrize(
    ("content", "number"),
    [
        (b"vllm:num_requests_running 3.0\n", 3),
        (b'# TYPE\nvllm:num_requests_running{engine="0"} 2\nvllm:num_requests_running{engine="1"} 1e+01', 12),
        (b"other 1\nvllm:num_requests_running .\n", None),
        (b"vllm:num_requests_running 9e999\n", None),
        (b"vllm:num_requests_running{" + b"x" * 2_000 + b"} 1\n", None),
        (b"\xff", None),
    ],
)
async def test_metrics_are_read_as_bytes(content, number, monkeypatch):
    """To decode 16 MB and try each line would take a quarter of a second, 50 times a canary."""
    monkeypatch.setattr(httpx.Response, "text", None)
    assert await answering(content).num_running() == number


async def test_the_name_of_a_model_is_short():
    """Each request to an engine would repeat it, of up to 4 MB."""
    names = ["m" * 1_000, "m" * 1_001]
    short, long = (b'{"data":[{"id":"%s"}]}' % name.encode() for name in names)
    assert [model.model_id for model in await answering(short).models()] == names[:1]
    with pytest.raises(EngineBroke, match="length <= 1000"):
        await answering(long).models()


async def test_an_event_has_a_bounded_number_of_tokens():
    ids = b"5," * MAX_TOKENS
    with pytest.raises(EngineBroke, match="gives an answer that cannot be read"):
        await tokens_of(answering(b'data: {"choices": [{"token_ids": [' + ids + b"5]}]}\n\n"))


async def test_an_event_that_is_nested_without_end_is_the_engines_fault():
    with pytest.raises(EngineBroke):
        await tokens_of(answering(b'data: {"error": ' + b"[" * 100_000 + b"\n\n"))


@pytest.mark.parametrize("status", [400, 500])
async def test_an_error_that_is_nested_without_end_is_the_engines_fault(status):
    """It is no error of ours that ends the watch of the engine, or the request."""

    async def nested():
        yield b"[" * 100_000

    transport = httpx.MockTransport(lambda _: httpx.Response(status, content=nested()))
    client = VllmClient(EngineAddress("http://engine"), transport=transport)
    with pytest.raises(EngineFault, match=rf"\[… \(HTTP {status}\)"):
        await client.models()


def test_what_an_engine_says_is_kept_and_logged_only_in_part():
    """Its message or the names of its models may have 15 MB, at each check."""
    assert len(EngineBroke("engine", "broke off: " + "x" * 10**6).reason) == MAX_REASON
    assert len(str(EngineBroke("engine", "broke off: " + "x" * 10**6))) < MAX_REASON + 30
    with pytest.raises(EngineBroke, match=r"it serves 'm0', .* and 999976 more$"):
        _served("engine", [ServedModel(f"m{number}", None) for number in range(1_000_000)], "mine")


@pytest.mark.parametrize("nest", [lambda item: [item] * 100_000, lambda item: {"error": [[item] * 100_000]}])
def test_only_the_beginning_of_an_engines_error_is_written(nest):
    written = []

    class Item:
        def __repr__(self):
            written.append(self)
            return "item"

    assert "item" in engine_message(nest(Item()))
    assert len(written) < 100


@pytest.mark.parametrize(
    ("status", "content", "said"),
    [
        (500, b"[" + b"5e-324," * 400_000, r"cannot answer now: \[5e-324,5e-324,"),
        (200, b'{"data":[' + b'{"id":""},' * 120_000, "it holds more than"),
    ],
    ids=["error", "values"],
)
async def test_answers_about_an_engine_are_measured_too(status, content, said):
    """Else 16 MB of small numbers would stop the event loop for 22 s, at each check of the engine."""

    async def sent():
        yield content

    transport = httpx.MockTransport(lambda _: httpx.Response(status, content=sent()))
    client = VllmClient(EngineAddress("http://engine"), transport=transport)
    with pytest.raises(EngineBroke, match=said):
        await client.models()


async def test_a_context_that_cannot_be_is_unknown():
    """The smallest of all replicas holds: with -5, all prompts of the model would be refused."""
    client = answering(b'{"data":[{"id":"a","max_model_len":-5},{"id":"b","max_model_len":9}]}')
    assert await client.models() == [ServedModel("a", None), ServedModel("b", 9)]


async def test_a_token_has_a_bounded_number_of_alternatives():
    """Reading 100,000 that nobody asked for would take a tenth of a second of the event loop, at each token."""
    top = ",".join(f'"token_id:{number}":-1' for number in range(65)).encode()
    logprobs = b'"logprobs": {"token_logprobs": [-1], "top_logprobs": [{' + top + b"}]}"
    with pytest.raises(EngineBroke, match="length <= 64"):
        await tokens_of(answering(b'data: {"choices": [{"token_ids": [5], ' + logprobs + b"}]}\n\n"))


async def test_a_long_event_is_decoded_in_a_thread(monkeypatch):
    read_in = []
    chunk = VllmClient._chunk

    def noted(self, data):
        read_in.append((len(data) > 64_000, threading.current_thread() is threading.main_thread()))
        return chunk(self, data)

    monkeypatch.setattr(VllmClient, "_chunk", noted)
    short, long = (
        {"choices": [{"token_ids": [number], "text": " " * size}]} for number, size in ((5, 1), (6, 70_000))
    )
    sent = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in (short, long, short))
    assert await tokens_of(answering(sent)) == [5, 6, 5]
    assert (True, False) in read_in


@pytest.mark.parametrize("last", [b'{"error": "' + b"x" * 70_000 + b'"}', b"[" + b"[]," * 40_000 + b"[]]"])
async def test_tokens_before_an_event_that_fails_are_not_lost(last):
    sent = b'data: {"choices": [{"token_ids": [5]}]}\n\ndata: ' + last + b"\n\n"
    async with answering(sent).completion(REQUEST) as chunks:
        assert [token.token_id for token in (await anext(chunks)).tokens] == [5]
        with pytest.raises(EngineBroke):
            await anext(chunks)


async def test_empty_lines_leave_turns_to_others(monkeypatch):
    """A line without data costs something, too: else a flood of them would hold the event loop."""
    turns = []

    async def note(seconds):
        turns.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", note)
    async for _ in event_data(Sent(b"\n" * 6_400), EventLimits.of(REQUEST)):
        pass
    assert len(turns) == 100


async def test_small_pieces_leave_turns_to_others(monkeypatch):
    """Lines are counted over all pieces, as no piece may have enough of them."""
    turns = []

    async def note(seconds):
        turns.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", note)
    event = b'data: {"token": 12}\n'
    events = [data async for data in event_data(Sent(*[event] * 6_400), EventLimits.of(REQUEST))]
    assert len(events) == 6_400
    assert len(turns) >= 100


async def test_an_answer_in_tiny_chunks_is_refused():
    """Each chunk takes as long to parse as an event: an engine that drips would have the gateway to itself."""
    with pytest.raises(EngineBroke, match="chunks of less than 16 bytes"):
        await tokens_of(answering(*[b":"] * 2_000))
    with pytest.raises(EngineBroke, match="chunks of less than 16 bytes"):
        await answering(*[b" "] * 2_000).models()


async def test_cookies_of_engines_are_not_sent_back():
    """Else they would go with the requests of all clients, and odd ones break each of them."""
    sent = []

    async def nothing():
        yield b""

    def answer(request):
        sent.append(request.headers.get("cookie"))
        return httpx.Response(200, headers=[(b"set-cookie", "a=é".encode())], content=nothing())

    client = VllmClient(EngineAddress("http://engine"), transport=httpx.MockTransport(answer))
    for _ in range(2):
        assert await client.is_healthy()
        await tokens_of(client)
    assert sent == [None] * 4


async def test_a_probe_whose_answer_drips_ends():
    """Although each byte comes in time."""

    async def dripping():
        for _ in range(1_000):
            yield b" "
            await asyncio.sleep(0.05)

    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=dripping()))
    limits = ClientLimits(connect_s=0.1, probe_s=0.2)
    client = VllmClient(EngineAddress("http://engine"), limits, transport=transport)
    async with asyncio.timeout(20):
        with pytest.raises(EngineBroke, match="does not answer in time"):
            await client.is_healthy()


async def test_an_engine_that_sends_endless_events_without_tokens_has_stalled(text):
    """Events alone are no progress: else a request would hold its engine and its client's place for ever."""

    class Babbling(StandIn):
        async def paced(self, tokens, leaving, send):
            if not is_babbling:
                async for pair in super().paced(tokens, leaving, send):
                    yield pair
            while is_babbling and not leaving.done():
                yield [], None
                await asyncio.sleep(0.01)

    is_babbling = False
    settings = replace(SETTINGS, watch=replace(WATCH, stall_s=0.3))
    async with remote_over(text, Babbling(text), settings=settings) as remote:
        is_babbling = True
        async with asyncio.timeout(20):
            with pytest.raises(EngineBroke, match="stopped answering"):
                await events_of(remote, remote.request(await remote.grammar()))


async def test_a_flood_of_events_without_tokens_ends_its_request_and_leaves_turns_to_others(
    text, monkeypatch
):
    """Else they would be read without a turn for others, until the engine has stalled."""
    monkeypatch.setattr(engine_answer, "_MAX_EMPTY", 50)

    class Flooding(StandIn):
        async def paced(self, tokens, leaving, send):
            if not is_flooding:
                async for pair in super().paced(tokens, leaving, send):
                    yield pair
            for _ in range(2_000 if is_flooding else 0):
                if leaving.done():
                    return
                yield [], None
                await asyncio.sleep(0)

    is_flooding = False
    async with remote_over(text, Flooding(text), settings=SETTINGS) as remote:
        is_flooding = True
        async with asyncio.timeout(20):
            with pytest.raises(EngineBroke, match="events in a row without tokens"):
                await events_of(remote, remote.request(await remote.grammar()))


class Sent:
    """An engine's answer, as the network brings it."""

    def __init__(self, *reads):
        self.reads = reads

    async def aiter_raw(self):
        for read in self.reads:
            yield read


@pytest.mark.parametrize(
    "content",
    [
        b'{"error":[' + b"[]," * 20_000 + b"[]]}",
        b'{"choices":[{"logprobs":{"token_logprobs":[' + b"5e-324," * 30_000 + b"0]}}]}",
        b"[" * 5_000,
    ],
    ids=["many values", "slow numbers", "deep"],
)
async def test_an_event_that_takes_long_to_decode_is_refused(content):
    """One of 16 MB of small numbers would stop the event loop for 22 s."""
    with pytest.raises(TooManyValues):
        async for _ in event_data(Sent(b"data: " + content + b"\n"), EventLimits.of(REQUEST)):
            pass


async def test_the_first_event_of_a_long_prompt_is_read():
    prompt_ids = range(1_100_000)
    ids = ",".join(map(str, prompt_ids)).encode()
    sent = Sent(b'data: {"prompt_token_ids":[' + ids + b"]}\n", b"data: {}\n" * 200)
    limits = EventLimits.of(replace(REQUEST, prompt_ids=prompt_ids))
    events = [line async for lines in event_data(sent, limits) for line in lines]
    assert len(events) == 201
    assert ids in events[0]


async def test_an_engine_that_takes_no_requests_does_not_bound_prompts(text):
    """Else one that names a context of one token would have all prompts of its model refused."""
    async with remote_over(text, StandIn(text), settings=SETTINGS) as remote:
        [replica] = remote.runtime._replicas
        replica.model = ServedModel("m", 1)
        assert remote.runtime._context_length == 1
        replica.mark_dead("its canary fails")
        assert remote.runtime._context_length == remote.runtime._loaded.context_length


def test_cached_tokens_that_cannot_be_are_not_counted():
    """With -5,000,000, the usage of an answer would be wrong, and counters would fall."""
    output, delivery = SimpleNamespace(prompt_ids=[1, 2, 3], num_requests=1), ChoiceDelivery(None)
    noted = []
    for told in (-5_000_000, 2, 9):
        delivery.note_cached(told, output)
        noted.append(delivery.num_cached)
    assert noted == [0, 2, 3]


def test_alternatives_that_are_no_tokens_of_ours_are_left_out(text):
    """Logits may be wider than a vocabulary; such an alternative does not end the answer with an error."""
    transcript = Transcript(0, TokenBytes(text.vocabulary), syntax=None, stop=())
    token_id = text.vocabulary.tokens.index(b"a")
    width = text.vocabulary.width
    sampled = SampledToken(token_id, -0.5, ((width + 7, -0.1), (token_id, -0.5), (-1, -2.0)))
    [delta] = transcript.feed(WrittenToken(sampled))
    assert [top.token for top in delta.logprobs[0].top] == ["a"]


def test_tokens_without_bytes_are_not_held_back(text):
    """They add nothing to what an engine may have begun; held back, they would take 4 GB in a minute."""
    watch = PluginWatch("an engine", TokenBytes(text.vocabulary))
    begun = SampledToken(text.tokenizer(PLUGIN_MISSING)["input_ids"][0])
    stop = SampledToken(text.vocabulary.stop_ids[0])
    assert watch.passed([]) == ()
    assert watch.passed([begun]) == ()
    assert sum(len(watch.passed([stop])) for _ in range(1_000)) == 1_001


def test_a_stop_token_after_the_text_of_an_engine_without_the_plugin_is_part_of_it(text):
    watch = PluginWatch("an engine", TokenBytes(text.vocabulary))
    ids = [*text.tokenizer(PLUGIN_MISSING)["input_ids"], text.vocabulary.stop_ids[0]]
    for token_id in ids[:-2]:
        assert watch.passed([SampledToken(token_id)]) == ()
    with pytest.raises(PluginMissing, match="an engine"):
        watch.passed([SampledToken(token_id) for token_id in ids[-2:]], is_last=True)
