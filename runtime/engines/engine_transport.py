"""How bytes travel to and from an engine: asyncio's streams below httpx's connection pool.

By default httpx reads through anyio, which stops and resumes reading the socket at each read. An engine sends
each token by itself, and this would be a third of what reading one costs. asyncio's streams go on reading, up
to a bound. What has come is handed on in small pieces, with turns for others between them: each chunk of an
answer takes microseconds to parse, and may be a single byte.
"""

import asyncio
import re
import select
import socket
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any
from urllib.request import getproxies

import httpcore
import httpx

from runtime.engines.host_lookups import HostLookups

_READ_BYTES = 4096
"""What is handed on at once."""
_INTERIM_BYTES = 16 * 1024
"""The most bytes of interim answers (1xx) before an answer; engines send none."""
_INTERIM = re.compile(rb"(?:HTTP/\d\.\d 1\d\d[^\n]*\n(?:[^\r\n][^\n]*\n)*+\r?\n)*+")
_FINAL = re.compile(rb"(?!HTTP/\d\.\d 1).{10}", re.DOTALL)


def engine_transport(
    *, verify: ssl.SSLContext | bool, limits: httpx.Limits
) -> httpx.AsyncHTTPTransport | None:
    """The transport to an engine; None, which stands for httpx's own, if the environment names a proxy."""
    _use_locks_of_asyncio()
    if getproxies():
        return None
    transport = httpx.AsyncHTTPTransport(verify=verify, limits=limits)
    pool = transport._pool  # noqa: SLF001 - httpx has no parameter for the backend of its pool
    assert type(pool._network_backend).__name__ == "AutoBackend", "httpx has another pool"  # noqa: SLF001
    pool._network_backend = _Streams()  # noqa: SLF001
    return transport


def _use_locks_of_asyncio() -> None:
    """Give httpx's connections locks that do not suspend while they are free, in the whole process.

    Those of anyio, which httpcore uses, do. A request that is cancelled there leaves its connection in the
    pool for good: open, and in use by nobody. httpcore has no parameter for its locks. A tunnel through a
    proxy may still be left open: httpcore does not close one that is cancelled while it begins.
    """
    for name in ("connection", "http11"):
        module: Any = import_module(f"httpcore._async.{name}")
        assert hasattr(module, "AsyncLock"), "httpcore has other locks"
        module.AsyncLock = asyncio.Lock


class _Stream(httpcore.AsyncNetworkStream):
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._beginning: bytes | None = None
        """What has come of an answer, until more than interim answers have; then None."""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - the protocol's
        """The beginning of what has come, once something has; empty at the end."""
        size = min(max_bytes, _READ_BYTES)
        with _raising(httpcore.ReadTimeout, httpcore.ReadError):
            if timeout is None:
                received = await self._reader.read(size)
            else:
                async with asyncio.timeout(timeout):
                    received = await self._reader.read(size)
        if len(received) == size:  # perhaps more is here, and the next read will not wait
            await asyncio.sleep(0)
        if self._beginning is not None:
            self._beginning = _after_interim(self._beginning + received)
        return received

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the protocol's
        """Send."""
        self._beginning = b""
        with _raising(httpcore.WriteTimeout, httpcore.WriteError):
            async with asyncio.timeout(timeout):
                self._writer.write(buffer)
                await self._writer.drain()

    async def aclose(self) -> None:
        """Close the connection at once: what is not sent yet would wait for an engine that reads nothing."""
        self._writer.transport.abort()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the protocol's
    ) -> httpcore.AsyncNetworkStream:
        """This connection, encrypted from here on."""
        try:
            with _raising(httpcore.ConnectTimeout, httpcore.ConnectError):
                async with asyncio.timeout(timeout):
                    await self._writer.start_tls(ssl_context, server_hostname=server_hostname)
        except BaseException:
            await self.aclose()
            raise
        return self

    def get_extra_info(self, info: str) -> Any:
        """What the pool asks: the TLS connection, and whether an idle connection has been closed."""
        if info == "is_readable":
            return self._reader.at_eof() or _is_readable(self._writer.get_extra_info("socket"))
        return self._writer.get_extra_info(info)


class _Streams(httpcore.AsyncNetworkBackend):
    """Opens connections."""

    def __init__(self) -> None:
        self._lookups = HostLookups()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the protocol's
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """A connection to a host."""
        assert local_address is None, "engines have no such setting"
        assert not socket_options, "nor this one"
        with _raising(httpcore.ConnectTimeout, httpcore.ConnectError):
            async with asyncio.timeout(timeout):
                *others, last = await self._lookups.addresses(host, port)
                for address in others:
                    with suppress(OSError):
                        return await _connected(address)
                return await _connected(last)

    async def sleep(self, seconds: float) -> None:
        """Wait before another try."""
        await asyncio.sleep(seconds)


async def _connected(address: tuple[Any, ...]) -> _Stream:
    host, port, *_ = address
    return _Stream(*await asyncio.open_connection(host, port))


def _after_interim(beginning: bytes) -> bytes | None:
    """The beginning of an answer while it may consist of interim answers; raises RemoteProtocolError."""
    interim = _INTERIM.match(beginning)
    assert interim is not None, "it matches nothing as well"
    if _FINAL.match(beginning, interim.end()):
        return None
    if len(beginning) > _INTERIM_BYTES:
        raise httpcore.RemoteProtocolError(f"more than {_INTERIM_BYTES} bytes of interim answers (1xx)")
    return beginning


def _is_readable(connection: socket.socket) -> bool:
    """Whether something has come that the event loop has not read yet, the end included."""
    if connection.fileno() < 0:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


@contextmanager
def _raising(timeout: type[Exception], other: type[Exception]) -> Iterator[None]:
    """Inside the block, errors of the system become those of httpcore."""
    try:
        yield
    except TimeoutError as error:
        raise timeout(error) from error
    except OSError as error:  # `ssl.SSLError` is one
        raise other(error) from error
