"""Connections to engines: encrypted or not, used again, closed ones noticed, and errors as httpx has them."""

import asyncio
import itertools
import socket
import ssl
import threading
import time
import types
from contextlib import asynccontextmanager, suppress
from functools import partial

import httpx
import pytest
from certificates import self_signed
from completions_server import StandIn, serving
from remote_engines import REQUEST, tokens_of

from runtime.engines import host_lookups
from runtime.engines.client import ClientLimits, EngineAddress, EngineConnection
from runtime.engines.engine_transport import engine_transport
from runtime.engines.event_stream import EventLimits
from runtime.engines.vllm_client import VllmClient
from runtime.errors import EngineBroke, EngineUnreachable

EVENTS = b"data: 1\n\ndata: 2\n\ndata: [DONE]\n\n"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return self_signed(tmp_path_factory.mktemp("certificate"))


class Server:
    """Answers every request with `EVENTS` in pieces of `size` bytes; counts its connections."""

    def __init__(self, size=1000):
        self.size = size
        self.writers = []
        self.tasks = []

    async def __call__(self, reader, writer):
        self.writers.append(writer)
        self.tasks.append(asyncio.current_task())
        with suppress(asyncio.IncompleteReadError, ConnectionError):  # the client leaves
            while True:
                await reader.readuntil(b"\r\n\r\n{}")
                await self.answer(writer)
        writer.close()

    async def answer(self, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for at in range(0, len(EVENTS), self.size):
            piece = EVENTS[at : at + self.size]
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
            await asyncio.sleep(0.001)
        writer.write(b"0\r\n\r\n")

    async def closed(self):
        """Wait until all connections have ended."""
        await asyncio.gather(*self.tasks)


@asynccontextmanager
async def connected(server, certificate=None, *, limits=None, **options):
    """A connection to a server, which listens with a certificate or without."""
    context = None
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*certificate)
    listener = await asyncio.start_server(server, "localhost", 0, ssl=context)
    port = listener.sockets[0].getsockname()[1]
    scheme = "http" if certificate is None else "https"
    connection = EngineConnection(EngineAddress(f"{scheme}://localhost:{port}", **options), limits)
    try:
        yield connection
    finally:
        await connection.close()
        listener.close()
        await listener.wait_closed()
        await server.closed()


async def read_events(connection):
    async with connection.events("/", {}, {}, EventLimits.of(REQUEST)) as events:
        return [data async for batch in events for data in batch]


@pytest.mark.parametrize("size", [3, 1000])
async def test_answers_are_read_and_their_connection_is_used_again(size):
    server = Server(size)
    async with connected(server) as connection:
        for _ in range(3):
            assert await read_events(connection) == [b"1", b"2"]
    assert len(server.writers) == 1


async def test_a_connection_that_the_engine_has_closed_is_not_used_again():
    server = Server()
    async with connected(server) as connection:
        await read_events(connection)
        server.writers[0].close()
        await server.writers[0].wait_closed()
        assert await read_events(connection) == [b"1", b"2"]
    assert len(server.writers) == 2


async def test_an_answer_that_is_left_closes_its_connection():
    server = Server(size=3)
    async with connected(server) as connection:
        async with connection.events("/", {}, {}, EventLimits.of(REQUEST)) as events:
            await anext(events)
        await read_events(connection)
    assert len(server.writers) == 2


async def test_a_request_that_is_left_is_not_sent_to_the_end():
    """An engine that reads nothing would hold its body, and a descriptor, for as long as its process lives."""
    size = 64 << 20
    server = ReadsLate()
    async with connected(server) as connection:
        request = connection.events("/", {"prompt": "x" * size}, {}, EventLimits.of(REQUEST))
        asking = asyncio.create_task(request.__aenter__())
        await server.has_begun.wait()
        asking.cancel()
        await asyncio.wait([asking])
        assert asking.cancelled()
        server.may_read.set()
        async with asyncio.timeout(20):
            await server.closed()
    assert 0 < server.num_bytes < size


class ReadsLate(Server):
    """Reads the beginning of a request, and what else there is of it once it may."""

    def __init__(self):
        super().__init__()
        self.has_begun, self.may_read = asyncio.Event(), asyncio.Event()
        self.num_bytes = 0

    async def __call__(self, reader, writer):
        self.tasks.append(asyncio.current_task())
        with suppress(ConnectionError):
            while data := await reader.read(1 << 20):
                self.num_bytes += len(data)
                self.has_begun.set()
                await self.may_read.wait()
        writer.close()


def answered(monkeypatch, answer):
    """Look hosts up by `answer`, which gets the real look-up; returns the names of the threads that do."""
    looked_up_in, look_up = [], socket.getaddrinfo

    def noted(*arguments, **options):
        looked_up_in.append(threading.current_thread().name)
        return answer(partial(look_up, *arguments, **options))

    monkeypatch.setattr(socket, "getaddrinfo", noted)
    return looked_up_in


async def test_connections_that_are_opened_together_share_a_look_up_in_a_thread_of_its_own(monkeypatch):
    """Else a name server that does not answer would hold all threads of other work."""

    def slow(look_up):
        time.sleep(0.2)
        return look_up()

    async with connected(Server()) as connection:
        looked_up_in = answered(monkeypatch, slow)
        answers = await asyncio.gather(*(read_events(connection) for _ in range(20)))
    assert answers == [[b"1", b"2"]] * 20
    assert looked_up_in == ["callgate-lookup_0"]


@pytest.mark.parametrize("is_silent", [True, False])
async def test_a_host_that_was_found_before_is_reached_while_its_name_server_cannot_answer(
    monkeypatch, is_silent
):
    monkeypatch.setattr(host_lookups, "_KNOWN_AFTER_S", 0.05)
    held = threading.Event()

    def lost(look_up):
        if not is_silent:
            raise socket.gaierror(socket.EAI_AGAIN, "try again")
        held.wait(20)
        return look_up()

    server = Server()
    async with connected(server) as connection:
        await read_events(connection)
        server.writers[0].close()
        await server.writers[0].wait_closed()
        answered(monkeypatch, lost)
        assert await read_events(connection) == [b"1", b"2"]
        held.set()
    assert len(server.writers) == 2


async def test_a_connection_is_encrypted_if_its_certificate_is_trusted(certificate):
    async with connected(Server(), certificate, ca_bundle=str(certificate[0])) as connection:
        assert await read_events(connection) == [b"1", b"2"]
    async with connected(Server(), certificate) as connection:
        with pytest.raises(EngineUnreachable, match="certificate verify failed"):
            await read_events(connection)


async def test_an_engine_that_cannot_be_reached():
    for url in ("http://127.0.0.1:9", "http://no-such-engine.invalid"):
        connection = EngineConnection(EngineAddress(url))
        with pytest.raises(EngineUnreachable, match="cannot be reached"):
            await connection.get("/health")
        await connection.close()


class Silent(Server):
    """Breaks off after a moment, without an answer."""

    async def __call__(self, reader, writer):
        self.tasks.append(asyncio.current_task())
        await asyncio.sleep(0.2)
        writer.transport.abort()


@pytest.mark.parametrize(("probe_s", "reason"), [(5.0, "broke off"), (0.05, "does not answer in time")])
async def test_an_engine_without_an_answer(probe_s, reason):
    async with connected(Silent(), limits=ClientLimits(probe_s=probe_s)) as connection:
        with pytest.raises(EngineBroke, match=reason):
            await connection.get("/health")


class Whole(Server):
    """Answers with these bytes."""

    def __init__(self, content):
        super().__init__()
        self.content = content

    async def __call__(self, reader, writer):
        self.tasks.append(asyncio.current_task())
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(self.content)
        writer.close()


async def test_others_have_turns_while_much_is_read(monkeypatch):
    """To parse 64 kB of tiny chunks takes nearly a second, and more may follow."""
    num_turns, sleep = 0, asyncio.sleep

    def noted(seconds):
        nonlocal num_turns
        num_turns += seconds == 0
        return sleep(seconds)

    content = b"x" * 100_000
    async with connected(Whole(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + content)) as connection:
        monkeypatch.setattr(asyncio, "sleep", noted)
        answer = await connection.get("/")
    assert answer.content == content
    assert num_turns > 10


INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: HTTP/1.1 200 OK\r\n\r\n"


async def test_a_few_interim_answers_are_passed_over_and_a_flood_of_them_is_refused():
    """They are no content, so no limit of an answer counts them."""
    final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    async with connected(Whole(INTERIM + final)) as connection:
        for _ in range(2):
            assert (await connection.get("/")).content == b"ok"
    async with connected(Whole(INTERIM * 300)) as connection:
        with pytest.raises(EngineBroke, match="interim answers"):
            await connection.get("/")


def test_a_proxy_of_the_environment_is_used(monkeypatch):
    assert engine_transport(verify=True, limits=httpx.Limits()) is not None
    monkeypatch.setenv("HTTP_PROXY", "http://proxy:3128")
    assert engine_transport(verify=True, limits=httpx.Limits()) is None


@types.coroutine
def cancelled_at(place, coroutine):
    """Run a coroutine in the current task, which is cancelled once it has suspended so many times."""
    thrown = None
    for number in itertools.count():
        try:
            waits_for = coroutine.throw(thrown) if thrown else coroutine.send(None)
        except StopIteration as end:
            return end.value
        if number == place:
            asyncio.get_running_loop().call_soon(asyncio.current_task().cancel)
        thrown = None
        try:
            yield waits_for
        except BaseException as error:  # noqa: BLE001 - the coroutine gets it
            thrown = error


async def test_a_request_leaves_no_connection_in_use_wherever_it_is_cancelled(text):
    """In twelve minutes of clients that left, 53 connections were never closed."""

    async def ask(place):
        return await cancelled_at(place, tokens_of(client))

    with serving(StandIn(text)) as url:
        client = VllmClient(EngineAddress(url))
        pool = client._connection._http._transport._pool
        num_cancelled = 0
        for place in range(40):
            asking = asyncio.create_task(ask(place))
            await asyncio.wait([asking])
            num_cancelled += asking.cancelled()
            assert all(one.is_idle() or one.is_closed() for one in pool.connections), (
                place,
                pool.connections,
            )
            assert not pool._requests
        assert num_cancelled > 3
        await client.close()
