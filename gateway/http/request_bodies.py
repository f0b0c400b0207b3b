"""Reads request bodies, with limits on their size and on the number of large ones in memory."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

from gateway.errors import ClientGone, EncodedBody, LargeBody, TooManyBodies
from gateway.http.client_pace import ClientPace, ClientTurn
from gateway.http.headers import HttpRequest
from gateway.http.leaving_clients import unless_gone
from toolspecs.cancellation import to_the_end
from toolspecs.fairness.fair_threads import FairThreads
from toolspecs.fairness.thread_time import ThreadTime, during
from toolspecs.json_scan import ContentLimits

T = TypeVar("T")

LARGE = 100_000
"""Bytes from which a body counts as large."""
SMALL = 500
"""Bytes up to which a body is decoded on the event loop: tools take up to two microseconds a byte."""
Lane = Literal["small", "large", "stored"]
"""A client has a turn at a time in each lane, so that its large bodies do not hold up its small ones."""

WAIT_S = 10.0
"""How long a large body may wait for others. Meanwhile the gateway does not read it from the network."""


@dataclass(frozen=True, slots=True)
class BodyLimit:
    """The most bytes of some bodies, and the setting that says so."""

    num_bytes: int
    setting: str


class RequestBodies:
    """Reads bodies, and only a few large ones at a time.

    All clients together have at most `max_large` large bodies in memory, and one client at most half of them.
    They are decoded one after the other, because decoding holds the interpreter's lock, and the event loop
    waits meanwhile. In threads, clients take turns, and each has its pace: see `ClientPace` for `has_others`.
    """

    def __init__(
        self,
        *,
        limit: BodyLimit,
        toolset_limit: BodyLimit,
        max_large: int,
        contents: ContentLimits,
        has_others: Callable[[str], bool],
    ) -> None:
        self.toolset_limit = toolset_limit
        self.contents = contents
        self._limit = limit
        self._max_large = max_large
        self._held: Counter[str] = Counter()
        self._changed = asyncio.Condition()
        self._threads: Mapping[Lane, FairThreads] = {
            "small": FairThreads(2, "bodies"),
            "large": FairThreads(1, "large-bodies"),
            "stored": FairThreads(2, "stored"),
        }
        self._pace = ClientPace(has_others)

    def close(self) -> None:
        """Read no more bodies."""
        for threads in self._threads.values():
            threads.shutdown()

    async def read(
        self,
        request: HttpRequest,
        reader: Callable[[bytes], T],
        *,
        client_id: str,
        limit: BodyLimit | None = None,
    ) -> T:
        """The result of `reader` on the body; unless it is small, this runs in a thread.

        Raises:
            LargeBody: the body is larger than `limit`, by default that of most routes.
            EncodedBody: the body is compressed.
            TooManyBodies: too many large bodies are being read, for too long.
            ClientGone: the client left before the body was read.
        """
        self._pace.note(client_id)
        limit = limit or self._limit
        if (request.content_length or 0) > limit.num_bytes:
            raise LargeBody(limit.num_bytes, limit.setting)
        encoding = request.headers.get("content-encoding", "")
        if encoding.lower() not in {"", "identity"}:
            raise EncodedBody(encoding)
        async with AsyncExitStack() as resources:
            raw = await self._received(request, limit, client_id, resources)
            if len(raw) <= SMALL:
                return reader(raw)
            lane: Lane = "large" if len(raw) > LARGE else "small"
            return await unless_gone(request, self._read_in_turn(partial(reader, raw), client_id, lane))

    async def _received(
        self, request: HttpRequest, limit: BodyLimit, client_id: str, resources: AsyncExitStack
    ) -> bytes:
        """The bytes of a body. Before more of a large one is read, it takes its room, in `resources`."""
        received = bytearray()
        is_large, has_more = False, True
        while has_more:
            message: Any = await request.receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            received += message.get("body", b"")
            has_more = message.get("more_body", False)
            if len(received) > limit.num_bytes:
                raise LargeBody(limit.num_bytes, limit.setting)
            if len(received) > LARGE and not is_large:
                is_large = True
                await resources.enter_async_context(self._room_for(client_id))
        return bytes(received)

    async def _read_in_turn(self, read: Callable[[], T], client_id: str, lane: Lane) -> T:
        async with self.turn(client_id, lane) as turn:
            return await turn.run(read)

    @asynccontextmanager
    async def turn(self, client_id: str, lane: Lane) -> AsyncIterator["ReadingTurn"]:
        """Wait for a turn of a client in a lane, with the rests that `ClientPace` describes."""
        turn = self._pace.turn(client_id, lane)
        async with turn.held():
            yield ReadingTurn(self._threads[lane], client_id, turn.spent)

    @asynccontextmanager
    async def registry_turn(self, request: HttpRequest, client_id: str) -> AsyncIterator[None]:
        """A turn of a client to change toolsets or to compare them, which it has except `between_turns`.

        What threads take for it counts for the client's rest: the smallest change writes the whole toolset.

        Raises:
            ClientGone: the client left before its turn.
        """
        turn = _RegistryTurn(request, self._pace.turn(client_id, "registry"))
        await turn.begin()
        try:
            with during(turn):
                yield
        finally:
            turn.end()

    @asynccontextmanager
    async def _room_for(self, client_id: str) -> AsyncIterator[None]:
        """Wait until another large body of a client may be read; raises TooManyBodies."""
        try:
            async with asyncio.timeout(WAIT_S), self._changed:
                await self._changed.wait_for(lambda: self._has_room(client_id))
                self._held[client_id] += 1
        except TimeoutError as error:
            raise TooManyBodies from error
        try:
            yield
        finally:
            self._held[client_id] -= 1
            self._held += Counter()  # forgets clients that hold nothing
            async with self._changed:
                self._changed.notify_all()

    def _has_room(self, client_id: str) -> bool:
        most = max(1, self._max_large // 2)
        return self._held.total() < self._max_large and self._held[client_id] < most


@dataclass(frozen=True, slots=True)
class ReadingTurn:
    """A client's turn to have something read: a body, or what is stored for the client."""

    threads: FairThreads
    client_id: str
    spent: ThreadTime

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work` in a thread; its time counts for the rest that the client takes.

        If the task is cancelled, the turn lasts until the thread has ended, or a client that leaves would not
        rest.
        """
        job = self.threads.submit(self.client_id, partial(self.spent.timed, work))
        return await to_the_end(asyncio.wrap_future(job), job.cancel)


class _RegistryTurn:
    """A client's turn at the registry. One that has left gets no turn any more."""

    def __init__(self, request: HttpRequest, turn: ClientTurn) -> None:
        self._request = request
        self._turn = turn

    @property
    def spent(self) -> ThreadTime:
        """See `WorkTurn`."""
        return self._turn.spent

    async def begin(self) -> None:
        """Wait for the turn; raises ClientGone."""
        await unless_gone(self._request, self._turn.begin())

    def end(self) -> None:
        """End the turn, if there is one."""
        self._turn.end()

    @asynccontextmanager
    async def given_back(self) -> AsyncIterator[None]:
        """See `WorkTurn`. A task that is cancelled waits for no other turn. Raises ClientGone."""
        self.end()
        try:
            yield
        except Exception:
            await self.begin()
            raise
        await self.begin()
