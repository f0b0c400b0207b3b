"""The pace at which a client is served, so that the answers of other clients go on meanwhile.

Reading a body of 4 MB can take half a second of Python, for which the engine's thread and the event loop have
to share the interpreter. So a client whose body took long rests before its next one is read, if other clients
have sent something lately, or wait for answers. So does one whose toolset took long to write or to show.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from toolspecs.fairness.thread_time import ThreadTime

REST_FACTOR = 4
"""A client rests this many times as long as its last turn took."""
USUAL_S = 0.002
"""A turn that took no longer than this causes no rest; most take less."""
RECENT_S = 2.0
"""For this long after its last body, a client is expected to send another."""
_RECHECK_S = 0.02
"""How often a resting client looks whether others are still there."""
_MAX_RESTS = 1_000
"""From this many rests on, those that are over are forgotten."""

_ClientLane = tuple[str, str]
"""A client and one of its lanes."""


class ClientPace:
    """Serves a client in turns, with rests between them; one event loop owns it.

    `has_others` says whether clients other than one wait for answers. A client that is alone does not rest.
    """

    def __init__(self, has_others: Callable[[str], bool]) -> None:
        self._has_others = has_others
        self._turns: WeakValueDictionary[_ClientLane, asyncio.Lock] = WeakValueDictionary()
        self._rests_until: dict[_ClientLane, float] = {}
        self._latest: dict[str, float] = {}
        """The two clients that sent a body last, and when they did."""

    def note(self, client_id: str) -> None:
        """A client sends a body."""
        self._latest.pop(client_id, None)
        self._latest[client_id] = time.monotonic()
        while len(self._latest) > 2:
            del self._latest[next(iter(self._latest))]

    def turn(self, client_id: str, lane: str) -> "ClientTurn":
        """A turn of a client in a lane, not begun yet. What another lane does is not waited for."""
        lock = self._turns.setdefault((client_id, lane), asyncio.Lock())
        return ClientTurn(self, (client_id, lane), lock)

    async def rest(self, lane: _ClientLane) -> None:
        """Wait until a client has rested, or is alone."""
        while (rest_s := self._rests_until.get(lane, 0.0) - time.monotonic()) > 0:
            if not (self._has_recent_others(lane[0]) or self._has_others(lane[0])):
                break
            await asyncio.sleep(min(rest_s, _RECHECK_S))

    def charge(self, lane: _ClientLane, seconds: float) -> None:
        """A turn took so long: the client's next one has to wait."""
        now = time.monotonic()
        if len(self._rests_until) >= _MAX_RESTS:
            self._rests_until = {other: until for other, until in self._rests_until.items() if until > now}
        if seconds > USUAL_S:
            self._rests_until[lane] = now + REST_FACTOR * seconds

    def _has_recent_others(self, client_id: str) -> bool:
        oldest = time.monotonic() - RECENT_S
        return any(name != client_id and at > oldest for name, at in self._latest.items())


class ClientTurn:
    """A turn of a client in a lane, from `begin` to `end`; after that it may begin again."""

    def __init__(self, pace: ClientPace, lane: _ClientLane, lock: asyncio.Lock) -> None:
        self.spent = ThreadTime()
        self._pace = pace
        self._lane = lane
        self._lock = lock
        self._is_held = False

    async def begin(self) -> None:
        """Wait for the turn, and until the client has rested."""
        await self._lock.acquire()
        try:
            await self._pace.rest(self._lane)
        except BaseException:
            self._lock.release()
            raise
        self._is_held = True

    def end(self) -> None:
        """Let the client rest as long as the work deserves. A turn that did not begin does not end."""
        if not self._is_held:
            return
        self._is_held = False
        self._pace.charge(self._lane, self.spent.seconds)
        self.spent.seconds = 0.0
        self._lock.release()

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Have the turn for as long as the block takes."""
        await self.begin()
        try:
            yield
        finally:
            self.end()
