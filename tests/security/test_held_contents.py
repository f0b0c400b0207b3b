"""What the running requests of a client hold is bounded: decoded bodies, what they continue, and toolsets."""

import asyncio
import gc
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import msgspec
import pytest
from fake_runtime import FakeRuntime, text
from serving import served, wait_for

from gateway.app import create_app
from gateway.errors import TooMuchHeld
from gateway.http.held_contents import CHARACTER_BYTES, VALUE_BYTES, HoldingMiddleware, holding_of
from gateway.http.json_body import read_json
from gateway.wire.openai import read_request
from toolspecs.held_parts import HeldParts
from toolspecs.json_scan import ContentLimits, scan

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
MANY = 20_000
MOST = 1 << 20
LARGE = 140_000
"""Characters: one body of so many may be held, and two may not."""

BODIES = {
    "arrays": b"[" + b"[]," * MANY + b"0]",
    "members": b"{" + b"".join(b'"a%d":0,' % number for number in range(MANY)) + b'"b":0}',
    "nested objects": b"[" + b'{"a":{"a":{}}},' * MANY + b"0]",
    "strings": b"[" + b'"ab",' * MANY + b"0]",
    "emojis": b"[" + '"😀",'.encode() * MANY + b"0]",
    "one emoji makes all characters wide": b'["' + b"a" * 1_000_000 + "😀".encode() + b'"]',
}


@dataclass
class WaitingRuntime(FakeRuntime):
    """Answers nothing before it may; it runs in another thread than the tests."""

    may_answer: bool = False

    async def generate(self, request):
        self.requests.append(request)
        while not self.may_answer:
            await asyncio.sleep(0.01)
        for event in text("Done."):
            yield event


@pytest.fixture
def runtime():
    return WaitingRuntime()


@pytest.fixture
def client(settings, runtime):
    settings = msgspec.structs.replace(settings, max_held_bytes=MOST)
    with served(create_app(settings, runtime=runtime)) as client:
        try:
            yield client
        finally:
            runtime.may_answer = True


def measured(work):
    gc.collect()
    tracemalloc.start()
    try:
        kept = work()
        return kept, tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("raw", BODIES.values(), ids=BODIES)
def test_a_decoded_body_takes_no_more_than_is_counted(raw):
    _, num_bytes = measured(lambda: read_json(raw))
    assert (
        num_bytes <= CHARACTER_BYTES * len(raw) + VALUE_BYTES * scan(raw, ContentLimits()).num_values + 1_000
    )


@pytest.mark.parametrize("item", [{"role": "user", "content": "?"}, {"role": "assistant", "content": ""}])
def test_a_request_takes_no_more_than_is_counted(item):
    """Messages become objects of the wire format and of the turn, while the decoded body is still there."""
    raw = msgspec.json.encode({"model": "tiny", "messages": [item] * 10_000})

    def work():
        body = read_json(raw).value
        return body, read_request(body)

    work()  # what is made once in a process does not count
    _, num_bytes = measured(work)
    assert (
        num_bytes <= CHARACTER_BYTES * len(raw) + VALUE_BYTES * scan(raw, ContentLimits()).num_values + 1_000
    )


def body(content, **fields):
    return {"model": "tiny", "messages": [{"role": "user", "content": content}], **fields}


@pytest.fixture
def running(client, runtime):
    """Sends requests, and returns each future answer once the runtime has the request."""
    with ThreadPoolExecutor() as threads:

        def send(path, request):
            num_before = len(runtime.requests)
            answer = threads.submit(client.post, path, json=request)
            wait_for(lambda: len(runtime.requests) > num_before or answer.done())
            assert not answer.done(), answer.result().text
            return answer

        yield send
        runtime.may_answer = True


def code_of(refused):
    assert refused.status_code == 429, refused.text
    return refused.json()["error"]["code"]


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_client_whose_requests_hold_too_much_waits_for_their_ends(client, runtime, running, is_streamed):
    large = body("x" * LARGE, stream=is_streamed)
    first = running(CHAT, large)
    refused = client.post(CHAT, json=large)
    assert code_of(refused) == "too_much_held"
    assert f"the setting max_held_bytes allows {MOST};" in refused.json()["error"]["message"]
    assert refused.headers["Retry-After"] == "2"
    small = running(CHAT, body("Hi"))
    runtime.may_answer = True
    assert [answer.result().status_code for answer in (first, small)] == [200, 200]
    assert client.post(CHAT, json=large).status_code == 200, "what has ended is given back"


async def test_what_a_request_held_is_given_back_although_something_refers_to_it():
    """An error with its traceback can keep the request's objects until garbage is collected."""
    middleware, kept = HoldingMiddleware(HeldParts(MOST, TooMuchHeld)), []

    async def app(scope, *_):
        holding_of(scope).hold_body("a", LARGE, 1)
        kept.append(holding_of(scope))

    for _ in range(3):
        await middleware.handle({}, None, None, app)
    assert len(kept) == 3


def test_what_a_response_continues_counts(client, runtime, running):
    runtime.may_answer = True
    stored = client.post(RESPONSES, json={"model": "tiny", "input": "x" * LARGE})
    assert stored.status_code == 200, stored.text
    runtime.may_answer = False
    following = {"model": "tiny", "input": "And?", "previous_response_id": stored.json()["id"]}
    first = running(RESPONSES, following)
    assert code_of(client.post(RESPONSES, json=following)) == "too_much_held"
    runtime.may_answer = True
    assert first.result().status_code == 200


def test_a_toolset_counts_once_for_all_requests_that_hold_it(client, runtime, running):
    """Its contents are in memory once, as long as any request holds them."""
    for name in ("first", "second"):
        tools = [
            {"name": f"{name}{i}", "description": "x" * (LARGE // 20), "inputSchema": {"type": "object"}}
            for i in range(20)
        ]
        registered = client.put(f"/v1/toolsets/{name}", json={"tools": tools})
        assert registered.status_code == 201, registered.text
    answers = [running(CHAT, body("Hi", toolset="first")) for _ in range(3)]
    assert code_of(client.post(CHAT, json=body("Hi", toolset="second"))) == "too_much_held"
    runtime.may_answer = True
    assert [answer.result().status_code for answer in answers] == [200] * 3
    assert client.post(CHAT, json=body("Hi", toolset="second")).status_code == 200
