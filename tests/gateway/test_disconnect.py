"""A client that goes away stops the runtime; over a real server, as only that knows."""

import asyncio
import json
import threading
from contextlib import suppress

import httpx
import pytest
from chat import URL, body
from fake_runtime import STATS, FakeRuntime
from serving import connection_to, exchange, served, wait_for

from gateway.app import create_app
from gateway.generation import stored_responses
from gateway.http.leaving_clients import unless_gone
from runtime.events import Finished, FinishReason, TextDelta

BODY = body()
POST = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
END = Finished(0, FinishReason.STOP, STATS)


@pytest.fixture
def endless():
    return FakeRuntime([TextDelta(0, "Hi"), 300.0, END])


@pytest.mark.parametrize(
    ("path", "body"),
    [(URL, BODY), ("/v1/responses", {"model": "tiny", "input": "Hi"})],
    ids=["chat", "responses"],
)
def test_leaving_a_stream_aborts(settings, endless, path, body):
    with served(create_app(settings, runtime=endless)) as client:
        with client.stream("POST", path, json=body | {"stream": True}) as response:
            assert any(line.startswith("data: {") for line in response.iter_lines())
        wait_for(lambda: endless.num_aborted == 1)


@pytest.mark.parametrize("script", [[TextDelta(0, "Hi"), 300.0, END], [300.0, END]], ids=["later", "at once"])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_leaving_while_nothing_is_sent_aborts(settings, script, is_streamed):
    runtime = FakeRuntime(script)
    with served(create_app(settings, runtime=runtime)) as client:
        with (
            pytest.raises(httpx.ReadTimeout),
            client.stream("POST", URL, json=BODY | {"stream": is_streamed}, timeout=0.5) as response,
        ):
            list(response.iter_lines())
        wait_for(lambda: runtime.num_aborted == 1)
        wait_for(lambda: client.get("/v1/requests").json()["requests"])
        [request] = client.get("/v1/requests").json()["requests"]
        assert request["error"] == "ClientGone"
        assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("offer", ["", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"])
@pytest.mark.parametrize("num_ahead", [20_000, 300_000])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_leaving_behind_a_second_request_aborts(settings, is_streamed, num_ahead, offer):
    """The gateway learns that the client has gone only if it reads on behind the first request."""
    runtime = FakeRuntime([300.0, END])
    post = POST.replace("Content", f"{offer}Content")
    first, second = json.dumps(BODY | {"stream": is_streamed}), "x" * num_ahead
    with served(create_app(settings, runtime=runtime)) as client:
        with connection_to(client) as connection:
            connection.sendall(f"{post}{len(first)}\r\n\r\n{first}".encode())
            wait_for(lambda: runtime.requests)
            with suppress(ConnectionError):
                connection.sendall(f"{POST}{len(second)}\r\n\r\n{second}".encode())
        wait_for(lambda: runtime.num_aborted == 1)


def test_requests_that_are_sent_ahead_are_answered_in_order(settings):
    runtime = FakeRuntime([0.2, *FakeRuntime().script])
    body = json.dumps(BODY)
    chat = f"{POST}{len(body)}\r\n\r\n{body}"
    version = "GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with served(create_app(settings, runtime=runtime)) as client:
        answers = exchange(client, chat + version + chat + version * 200 + last)
    assert answers.count("HTTP/1.1 200 OK") == 204
    marks = ('"chat.completion"', '"version"', '"chat.completion"')
    places = [answers.index(marks[0]), answers.index(marks[1]), answers.rindex(marks[2])]
    assert places == sorted(places)
    assert answers.endswith('{"status":"ok"}')


def test_a_whole_answer_aborts_nothing_and_the_end_closes_the_runtime(settings):
    runtime = FakeRuntime()
    with served(create_app(settings, runtime=runtime)) as client:
        assert client.post(URL, json=BODY).status_code == 200
        assert client.post(URL, json=BODY | {"stream": True}).text.endswith("[DONE]\n\n")
    assert runtime.num_aborted == 0
    assert runtime.is_closed


def test_leaving_while_others_are_fetched_fetches_no_stored_response(settings, monkeypatch):
    unpack, gate, unpacked = stored_responses.unpack_json, threading.Event(), []

    def unpack_later(content, limits):
        unpacked.append(content)
        gate.wait(20)
        return unpack(content, limits)

    monkeypatch.setattr(stored_responses, "unpack_json", unpack_later)
    with served(create_app(settings, runtime=FakeRuntime())) as client:
        answer = client.post("/v1/responses", json={"model": "tiny", "input": "Hi"}).json()
        path = f"/v1/responses/{answer['id']}"
        for _ in range(3):
            with pytest.raises(httpx.ReadTimeout):
                client.get(path, timeout=0.3)
        gate.set()
        assert client.get(path).json() == answer
    assert len(unpacked) == 2


class SilentRequest:
    """A request whose client stays."""

    async def receive(self):
        await asyncio.Event().wait()


async def test_a_result_that_comes_as_its_request_is_cancelled_is_discarded():
    """Nobody would end the generation, and the engine would go on with it for nobody."""
    discarded = []

    async def discard(result):
        discarded.append(result)

    async def work():
        waiting.cancel()
        return "generation"

    waiting = asyncio.create_task(unless_gone(SilentRequest(), work(), discard=discard))
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert discarded == ["generation"]


async def test_a_result_that_is_returned_is_not_discarded():
    async def discard(_):
        raise AssertionError

    async def work():
        return "generation"

    assert await unless_gone(SilentRequest(), work(), discard=discard) == "generation"
