"""Limits on connections: their number, the time and size of heads and bodies, and clients that stop reading.

Anybody can connect without a key, so these limits apply before a request is complete. uvicorn has none of
them: a head and a body may take any time, and `limit_concurrency` counts only complete requests. So its
protocol is extended here, where bytes arrive.

A connection is checked several times within each limit. Its phase is what it waits for:

| phase   | what the connection waits for                    | limit           |
|---------|--------------------------------------------------|-----------------|
| HEAD    | the rest of a head, or the first byte of one     | `head_seconds`  |
| BODY    | the rest of a body                               | `body_seconds`  |
| UNREAD  | the client's reading of what was sent            | `stall_seconds` |
| CLOSING | the same, where nothing follows                  | `stall_seconds` |
| REFUSED | the rest of a body that nobody reads             | `LINGER_S`      |
| OPEN    | the application, or the next request, see below  | none            |

uvicorn itself closes connections that wait for a next request, after `idle_seconds`.

A gateway that ends closes no connection on which a request may be on its way: each answer that begins from
then on says that the connection closes, and a connection without one stays for `LAST_REQUEST_S`.
"""

import asyncio
import re
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from typing import Any

import h11
import uvicorn
from litestar.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from gateway.settings import Settings

HEAD_BYTES = 16 * 1024
"""The longest head, as in other servers; a head of 256 KiB would take 70 ms to parse."""

CHUNK_BYTES = 64
"""Bytes that chunks must have on average, after the first `FREE_CHUNKS`: each takes microseconds to parse."""

FREE_CHUNKS = 1024

LINGER_S = 5.0
"""How long a body is read after its answer. If it were cut off, its client would not read the answer."""

LAST_REQUEST_S = 1
"""How long a gateway that ends waits for a request on a connection that is open."""

CLOSE_HEADER = (b"connection", b"close")

MAX_UNREAD_BYTES = 128 << 20
"""The most unread bytes of answers on all connections together; one answer may have megabytes."""

AHEAD_BYTES = 64 * 1024
"""What a client may send of its next requests before its last one is answered."""

BACKLOG = 256
"""Connections that the system queues until they are accepted; all are accepted at once."""

_END_OF_HEAD = re.compile(rb"\n\r?\n")


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The settings of the same names."""

    max_connections: int
    head_seconds: float
    body_seconds: float
    stall_seconds: float

    @property
    def check_seconds(self) -> float:
        """How often a connection is checked."""
        return min(1.0, self.head_seconds / 4, self.body_seconds / 4, self.stall_seconds / 4)


class ServerConfig(uvicorn.Config):
    """uvicorn's configuration of a gateway, with limits on connections."""

    def __init__(self, app: ASGIApp, settings: Settings, **options: Any) -> None:
        super().__init__(
            app,
            http=LimitedProtocol,
            ws="none",
            lifespan="on",
            # Otherwise any program on this machine could choose the address that the gateway sees.
            proxy_headers=False,
            server_header=False,
            backlog=BACKLOG,
            timeout_keep_alive=settings.idle_seconds,
            h11_max_incomplete_event_size=HEAD_BYTES,
            **options,
        )
        self.limits = ConnectionLimits(
            max_connections=settings.max_connections,
            head_seconds=settings.head_seconds,
            body_seconds=settings.body_seconds,
            stall_seconds=settings.stall_seconds,
        )


class LimitedConnection(h11.Connection):
    """h11's parser, which also refuses floods, and requests that another program might parse differently."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER, HEAD_BYTES)
        self.fault = h11.RemoteProtocolError("the request is not HTTP")
        self.is_paused = False
        """Whether the last request is whole and waits for its answer; what follows it is not parsed yet."""
        self.lingers = True
        """Whether a body is read after an answer that closes the connection; not if the server ends first."""
        self._num_chunks = 0
        self._num_bytes = 0

    @property
    def our_state(self) -> type[Any]:
        """As h11 says; if the connection must close, DONE until the request's body has been read.

        uvicorn closes the connection at MUST_CLOSE. A client that still sends would be cut off by a reset and
        would not see the answer.
        """
        state = super().our_state
        is_early = self.lingers and self.their_state is h11.SEND_BODY
        return h11.DONE if state is h11.MUST_CLOSE and is_early else state

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """The next event; raises RemoteProtocolError, and keeps it as `fault`."""
        try:
            if self.their_state is h11.IDLE:
                self._check_length()
            event = super().next_event()
            self.is_paused = event is h11.PAUSED
            if isinstance(event, h11.Request):
                self._num_chunks = self._num_bytes = 0
                _check_framing(event)
            elif isinstance(event, h11.Data):
                self._check_chunk(event)
        except h11.RemoteProtocolError as error:
            self.fault = error
            raise
        return event

    def _check_length(self) -> None:
        """Refuse a head that is too long before it is parsed."""
        received, _ = self.trailing_data
        if len(received) > HEAD_BYTES and not _END_OF_HEAD.search(received, 0, HEAD_BYTES):
            raise h11.RemoteProtocolError(
                f"the head is longer than {HEAD_BYTES} bytes", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            )

    def _check_chunk(self, data: h11.Data) -> None:
        self._num_chunks += data.chunk_start
        self._num_bytes += len(data.data)
        if self._num_chunks > FREE_CHUNKS + self._num_bytes / CHUNK_BYTES:
            raise h11.RemoteProtocolError(
                f"the body comes in chunks of less than {CHUNK_BYTES} bytes on average; send larger ones"
            )


def _check_framing(request: h11.Request) -> None:
    """Refuse a body whose end other programs might see in a different place."""
    names = {name for name, _ in request.headers}
    if b"transfer-encoding" not in names:
        return
    if b"content-length" in names:
        raise h11.RemoteProtocolError("it has both Content-Length and Transfer-Encoding; send one")
    if request.http_version < b"1.1":
        raise h11.RemoteProtocolError("HTTP/1.0 has no Transfer-Encoding; send Content-Length")


class Phase(Enum):
    """What a connection waits for; the module's docstring has the table."""

    HEAD = "the head of a request"
    BODY = "the body of a request"
    UNREAD = "the client"
    CLOSING = "the client, to close"
    REFUSED = "the end of a body"
    OPEN = "the application"


class LimitedProtocol(H11Protocol):
    """uvicorn's protocol with limits."""

    def __init__(
        self,
        config: ServerConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.conn: LimitedConnection = LimitedConnection()
        self._limits = config.limits
        self._waits_for: tuple[object, ...] = ()
        self.waits_since = 0.0
        self._num_resumed = 0
        self._paused_at = 0.0
        self._check: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, unless too many are in use."""
        super().connection_made(transport)
        self._check_limits()
        if len(self.connections) > self._limits.max_connections:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop checking."""
        if self._check:
            self._check.cancel()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close the connection after an answer that says so, or when no next request has come for a while.

        uvicorn would close it at once, or after an answer that does not say so. A client that had just sent
        its next request would get no answer, and could not know whether the gateway has done what it asked.
        """
        self.timeout_keep_alive = LAST_REQUEST_S
        is_answered = self.cycle is None or self.cycle.response_complete
        self.conn.lingers = is_answered
        if is_answered:
            self._close_unless_used()
        elif not self.cycle.response_started:
            self.cycle.default_headers = [*self.cycle.default_headers, CLOSE_HEADER]

    def handle_events(self) -> None:
        """Take what came.

        Read on where a client sends its next request before the last one is answered, because only who reads
        learns that the client has gone. uvicorn would stop reading. It would also wait for a next request
        without end where the rest of a body came after the answer.
        """
        super().handle_events()
        if self.conn.our_state is h11.MUST_CLOSE:
            self.transport.close()
        elif not self.conn.is_paused:
            if self.phase is Phase.OPEN and self.conn.their_state is h11.IDLE:
                self._close_unless_used()
        elif len(self.conn.trailing_data[0]) > AHEAD_BYTES:
            self.transport.abort()
        else:
            self.flow.resume_reading()

    def pause_writing(self) -> None:
        """The client reads more slowly than the gateway sends."""
        super().pause_writing()
        self._paused_at = self.loop.time()
        self._drop_unread()

    def resume_writing(self) -> None:
        """The client has read most of what was sent."""
        self._num_resumed += 1
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - h11's message says more
        """Answer a request that is not HTTP, and close the connection."""
        fault = self.conn.fault
        self._refuse(HTTPStatus(fault.error_status_hint), f"{fault}")

    def _should_upgrade(self) -> bool:
        """Never upgrade the protocol: treat such a request like any other, without a line in the log."""
        return False

    @property
    def phase(self) -> Phase:
        """What the connection waits for now."""
        their_state, is_answered = self.conn.their_state, self.cycle is None or self.cycle.response_complete
        if self.transport.is_closing():
            return Phase.CLOSING
        if self.flow.write_paused:
            return Phase.UNREAD
        if their_state is h11.SEND_BODY:
            return Phase.REFUSED if is_answered else Phase.BODY
        if their_state is h11.IDLE and (self.cycle is None or self.conn.trailing_data[0]):
            return Phase.HEAD
        return Phase.OPEN

    @property
    def is_unused(self) -> bool:
        """Whether no request would be lost if the connection were closed."""
        return self.conn.their_state is h11.IDLE or self.phase is Phase.REFUSED

    def _close_unless_used(self) -> None:
        """Close the connection if no next request comes in time."""
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def _check_limits(self) -> None:
        """End the connection's wait if it has been too long; otherwise check again later."""
        now, phase = self.loop.time(), self.phase
        waits_for = (phase, self.cycle, self._num_resumed)
        if waits_for != self._waits_for:
            self._waits_for, self.waits_since = waits_for, now
        longest = self._longest(phase)
        if longest is not None and now - self.waits_since >= longest:
            self._end_wait(phase)
        self._check = self.loop.call_later(self._limits.check_seconds, self._check_limits)

    def _longest(self, phase: Phase) -> float | None:
        """The limit of a phase in seconds."""
        return {
            Phase.HEAD: self._limits.head_seconds,
            Phase.BODY: self._limits.body_seconds,
            Phase.UNREAD: self._limits.stall_seconds,
            Phase.CLOSING: self._limits.stall_seconds,
            Phase.REFUSED: LINGER_S,
        }.get(phase)

    def _end_wait(self, phase: Phase) -> None:
        if phase is Phase.HEAD or (phase is Phase.BODY and not self.cycle.response_started):
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, f"{phase.value} did not come in time")
        else:
            self.transport.abort()

    def _drop_unread(self) -> None:
        """Bound the memory for unread answers: close the connections that have not read for longest."""
        paused = [
            connection
            for connection in self.connections
            if isinstance(connection, LimitedProtocol) and connection.flow.write_paused
        ]
        sizes = {connection: connection.transport.get_write_buffer_size() for connection in paused}
        num_bytes = sum(sizes.values())
        for connection in sorted(paused, key=lambda connection: connection._paused_at):  # noqa: SLF001 - of its own class
            if num_bytes <= MAX_UNREAD_BYTES:
                return
            num_bytes -= sizes[connection]
            connection.transport.abort()

    def _make_room(self) -> None:
        """Close the connection that has been unused for longest, or else refuse this one."""
        others = [
            connection
            for connection in self.connections
            if isinstance(connection, LimitedProtocol) and connection is not self
        ]
        unused = [connection for connection in others if connection.is_unused]
        if unused:
            # Connections without any request yet go first, because strangers open them by the thousand.
            longest = min(
                unused, key=lambda connection: (connection.cycle is not None, connection.waits_since)
            )
            self.connections.discard(longest)
            longest.transport.close()
        else:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "all connections of the gateway are in use")

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        """Answer without the application, unless an answer has begun, and close the connection."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True  # the application learns of it as of a client that has gone
            self.cycle.message_event.set()
        if self.conn.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            self.transport.abort()
            return
        body = f"{reason}\n".encode()
        retry = "Retry-After: 1\r\n" if status is HTTPStatus.SERVICE_UNAVAILABLE else ""
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nConnection: close\r\n{retry}"
            f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()
