"""Connections of strangers: half requests, floods, readers that stall, heads that can be read in two ways."""

import asyncio
import http.client
import socket
import threading
import time
from contextlib import ExitStack, closing, contextmanager, suppress

import msgspec
import pytest
from fake_runtime import STATS, FakeRuntime
from serving import connection_to, everything, exchange, served, server_of, wait_for

from gateway.app import create_app
from gateway.connections import LAST_REQUEST_S
from gateway.settings import Settings
from runtime.events import Finished, FinishReason, TextDelta

CHAT = b'{"model": "tiny", "stream": true, "messages": [{"role": "user", "content": "Hi"}]}'
POST = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
HALVES = {
    "nothing": "",
    "half a line": "GET /v1/mod",
    "half a head": "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-A",
    "no body": f"{POST}Content-Length: 100\r\n\r\n",
    "half a body": f"{POST}Content-Length: 100\r\n\r\n{{",
    "half a chunk": f"{POST}Transfer-Encoding: chunked\r\n\r\n64\r\n{{",
}


@contextmanager
def started(settings, runtime, **changes):
    """A server whose limits are short; yields a client, and the server."""
    limits = {"head_seconds": 0.3, "body_seconds": 0.3, "stall_seconds": 0.3} | changes
    limited = msgspec.structs.replace(settings, **limits)
    server = server_of(create_app(limited, runtime=runtime), limited)
    with served(server) as client:
        yield client, server


@pytest.fixture
def gateway(settings, runtime):
    """Starts a server of one test's own."""

    @contextmanager
    def start(runtime=runtime, **changes):
        with started(settings, runtime, **changes) as running:
            yield running

    return start


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A client and a server of all tests that leave it as it was."""
    data_dir = str(tmp_path_factory.mktemp("data"))
    settings = Settings(data_dir=data_dir, secret="0123456789abcdef", compile_workers=0)
    with started(settings, FakeRuntime()) as running:
        yield running


@pytest.mark.parametrize("half", HALVES.values(), ids=HALVES)
def test_half_a_request_is_not_waited_for(shared, half):
    client, server = shared
    assert exchange(client, half).startswith("HTTP/1.1 408 ")
    wait_for(lambda: not server.server_state.connections)


@pytest.mark.parametrize("start", ["GET /v1/models HTTP/1.1\r\nX: ", f"{POST}Content-Length: 9999\r\n\r\n"])
def test_a_request_that_drips_is_not_waited_for(shared, start):
    client, server = shared
    with connection_to(client) as connection:
        connection.sendall(start.encode())

        def drip():
            with suppress(OSError):
                while True:
                    connection.sendall(b"x")
                    time.sleep(0.02)

        dripping = threading.Thread(target=drip)
        dripping.start()
        wait_for(lambda: not server.server_state.connections)
        dripping.join(20)
        assert not dripping.is_alive()


def test_half_requests_keep_nobody_out(gateway):
    with gateway(max_connections=4, head_seconds=60.0) as (client, server), ExitStack() as opened:
        for _ in range(50):
            opened.enter_context(connection_to(client)).sendall(b"GET / HTTP/1.1\r\n")
            assert client.get("/healthz").status_code == 200
            wait_for(
                lambda: len(server.server_state.connections) <= 4
            )  # one that is closed leaves a tick later


def test_when_all_connections_are_in_use_the_next_one_is_told_to_come_back(gateway):
    endless = FakeRuntime([TextDelta(0, "Hi"), 300.0, Finished(0, FinishReason.STOP, STATS)])
    with gateway(endless, max_connections=3) as (client, _), ExitStack() as opened:
        for _ in range(3):
            stream = opened.enter_context(client.stream("POST", "/v1/chat/completions", content=CHAT))
            assert stream.status_code == 200
        refused = exchange(client, "")
        assert refused.startswith("HTTP/1.1 503 ")
        assert "Retry-After: 1" in refused


def test_a_client_that_does_not_read_its_stream_is_dropped(gateway):
    class Talkative(FakeRuntime):
        async def generate(self, request):
            try:
                while True:
                    yield TextDelta(0, "x" * 10_000)
                    await asyncio.sleep(0)
            finally:
                self.num_aborted += 1

    runtime = Talkative()
    with gateway(runtime) as (client, server), socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect((client.base_url.host, client.base_url.port))
        connection.sendall(f"{POST}Content-Length: {len(CHAT)}\r\n\r\n".encode() + CHAT)
        wait_for(lambda: runtime.num_aborted == 1)
        wait_for(lambda: not server.server_state.connections)


def test_an_answer_may_take_longer_than_every_limit(gateway):
    slow = FakeRuntime([*[TextDelta(0, "Hi"), 0.2] * 6, Finished(0, FinishReason.STOP, STATS)])
    with gateway(slow) as (client, _):
        assert client.post("/v1/chat/completions", content=CHAT).text.endswith("[DONE]\n\n")
        assert client.get("/v1/models").status_code == 200


def test_a_body_that_nobody_reads_is_cut_off(gateway, monkeypatch):
    monkeypatch.setattr("gateway.connections.LINGER_S", 0.3)
    with (
        gateway(api_key="a-key-of-many", body_seconds=60.0) as (client, server),
        connection_to(client) as connection,
    ):
        connection.sendall(f"{POST}Content-Length: 1000000\r\n\r\n".encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 401 ")
        wait_for(lambda: not server.server_state.connections)


@pytest.mark.parametrize("headers", [{}, {"Connection": "close"}])
def test_who_sends_a_large_body_sees_why_it_is_refused(gateway, headers):
    """Most clients read no answer before they have sent all, and some close each connection, as urllib."""
    with gateway(api_key="a-key-of-many") as (client, server):
        host, port = client.base_url.host, client.base_url.port
        with closing(http.client.HTTPConnection(host, port, timeout=20)) as connection:
            connection.request("POST", "/v1/chat/completions", body=bytes(30_000_000), headers=headers)
            answer = connection.getresponse()
            assert (answer.status, answer.headers["connection"]) == (401, headers.get("Connection"))
            assert b"key" in answer.read()
            wait_for(lambda: len(server.server_state.connections) == (not headers))


def test_a_connection_is_not_kept_for_good_because_a_body_came_after_its_answer(gateway):
    """Else strangers could keep all connections."""
    with (
        gateway(api_key="a-key-of-many", idle_seconds=1) as (client, server),
        connection_to(client) as connection,
    ):
        connection.sendall(f"{POST}Content-Length: 10\r\n\r\n".encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 401 ")
        connection.sendall(b"0123456789")
        wait_for(lambda: not server.server_state.connections)


HOST = "Host: localhost\r\n"
COSTLY = {
    "a long header": (f"GET / HTTP/1.1\r\n{HOST}X: " + "x" * 20_000 + "\r\n\r\n", 431),
    "many headers": (f"GET / HTTP/1.1\r\n{HOST}" + "a:\r\n" * 20_000 + "\r\n", 431),
    "a long target": ("GET /" + "x" * 300_000 + " HTTP/1.1\r\n", 431),
    "tiny chunks": (f"{POST}Transfer-Encoding: chunked\r\n\r\n" + "1\r\n \r\n" * 3000, 400),
}


@pytest.mark.parametrize(("request_text", "status"), COSTLY.values(), ids=COSTLY)
def test_what_is_costly_to_parse_is_refused(shared, request_text, status):
    client, _ = shared
    with connection_to(client) as connection:
        with suppress(ConnectionError):  # the gateway closes the connection before all of it is sent
            connection.sendall(request_text.encode())
        answer = everything(connection)
        assert answer.startswith(f"HTTP/1.1 {status} ")


BODY = b'{"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}'


@pytest.mark.parametrize("size", [100, 65536, 400_000])
def test_a_body_in_chunks_of_a_usual_size_is_taken(gateway, size):
    body = BODY + b" " * 900_000
    with gateway(body_seconds=60.0) as (client, _):
        pieces = (body[at : at + size] for at in range(0, len(body), size))
        assert client.post("/v1/chat/completions", content=pieces).status_code == 200


SMUGGLED = "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
AMBIGUOUS = {
    "length and chunks": ("1.1", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"),
    "chunks and length": ("1.1", "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n"),
    "two lengths": ("1.1", "Content-Length: 4\r\nContent-Length: 5\r\n"),
    "a list of lengths": ("1.1", "Content-Length: 4, 5\r\n"),
    "a signed length": ("1.1", "Content-Length: +4\r\n"),
    "two encodings": ("1.1", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
    "an unknown encoding": ("1.1", "Transfer-Encoding: xchunked\r\n"),
    "a blank before the colon": ("1.1", "Transfer-Encoding : chunked\r\n"),
    "chunks in HTTP/1.0": ("1.0", "Transfer-Encoding: chunked\r\n"),
    "a newline in a header": ("1.1", "X: a\rTransfer-Encoding: chunked\r\n"),
}


@pytest.mark.parametrize(("version", "headers"), AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_a_request_whose_end_is_ambiguous_is_refused_alone(shared, version, headers):
    client, _ = shared
    head = f"POST /v1/chat/completions HTTP/{version}\r\nHost: localhost\r\n{headers}\r\n"
    answer = exchange(client, f"{head}0\r\n\r\n{SMUGGLED}")
    assert answer.split()[1] in {"400", "501"}
    assert answer.count("HTTP/1.1 ") == 1


@pytest.mark.parametrize("protocol", ["websocket", "h2c", "HTTP/2.0"])
def test_no_protocol_is_upgraded_to(shared, protocol):
    client, _ = shared
    upgrade = f"Host: localhost\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\nSec-WebSocket-Key: eA==\r\n"
    answer = exchange(client, f"GET /v1/models HTTP/1.1\r\n{upgrade}\r\n{SMUGGLED}")
    assert [part.split()[0] for part in answer.split("HTTP/1.1 ")[1:]] == ["200", "200"]


def test_the_server_stops_while_strangers_hold_connections(gateway, monkeypatch):
    monkeypatch.setattr("gateway.connections.LAST_REQUEST_S", 0.1)
    with ExitStack() as opened:
        with gateway(head_seconds=60.0, body_seconds=60.0) as (client, server):
            for half in HALVES.values():
                opened.enter_context(connection_to(client)).sendall(half.encode())
            wait_for(lambda: len(server.server_state.connections) == len(HALVES))
            server.config.timeout_graceful_shutdown = LAST_REQUEST_S + 1
        assert not server.server_state.tasks
