"""The compile queue: whose schema is compiled next. It is fair between shares, whatever each of them sends.

    async with queue.turn("a client's share") as turn:
        ...  # compile, at most `limits.first_seconds`
        await turn.lengthen()  # gives the place back and waits for one of those for long jobs
        ...  # compile, at most `limits.seconds`

There is a place for each worker. Of the shares that wait, the one is next that has had least of the workers'
time (`FairShares`). A job is first tried for a short time, which is enough for real tools. Only what takes
longer becomes a long job, and long jobs never hold the last place. Neither does one share. So the first try
of a newcomer waits at most for first tries of others.

The queue is bounded, for each share and in all. When it is full, the newest job of the share with most jobs
makes room for one of a share with fewer.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from compiler.errors import CompilerOverloaded, TooManyCompilations
from compiler.isolation.limits import CompileLimits
from toolspecs.fair_shares import FairShares

RETRY_AFTER_S = 2.0


@dataclass(eq=False)
class _Place:
    """A wish for a place, and whether it was granted."""

    share: str
    is_long: bool
    granted: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    started: float = 0.0


class CompileTurn:
    """The turn of one job, which holds a place."""

    def __init__(self, queue: "CompileQueue", share: str) -> None:
        self._queue = queue
        self.place = _Place(share, is_long=False)

    async def lengthen(self) -> None:
        """Wait for one of the places for long jobs; until then, others have this one."""
        self._queue.release(self.place)
        self.place = _Place(self.place.share, is_long=True)
        await self._queue.acquire(self.place)


class CompileQueue:
    """Grants `num_workers` places; owned by one event loop."""

    def __init__(
        self, num_workers: int, limits: CompileLimits, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._num_workers = num_workers
        self._most = max(1, num_workers - 1)  # places of one share, and of long jobs
        self._limits = limits
        self._clock = clock
        self._shares = FairShares()
        self._waiting: list[_Place] = []
        self._running: set[_Place] = set()

    @property
    def num_waiting(self) -> int:
        """How many jobs wait for a place."""
        return len(self._waiting)

    @asynccontextmanager
    async def turn(self, share: str) -> AsyncIterator[CompileTurn]:
        """Hold a place for a job of `share`, for as long as the block runs.

        Raises:
            TooManyCompilations: too many jobs of this share wait.
            CompilerOverloaded: too many jobs wait.
        """
        turn = CompileTurn(self, share)
        await self.acquire(turn.place)
        try:
            yield turn
        finally:
            self.release(turn.place)

    async def acquire(self, place: _Place) -> None:
        """Wait until the place is granted; raises what `turn` raises."""
        self._make_room(place.share)
        self._waiting.append(place)
        self._shares.enter(place.share)
        self._grant()
        try:
            await place.granted
        except BaseException:
            self.release(place)
            raise

    def release(self, place: _Place) -> None:
        """Give a place back, or the wish for one; the time that was held is charged. Once is enough."""
        if place in self._running:
            self._running.remove(place)
            self._shares.charge(place.share, self._clock() - place.started)
        elif place in self._waiting:
            self._waiting.remove(place)
        else:
            return
        self._shares.leave(place.share)
        self._grant()

    def _grant(self) -> None:
        """Grant free places, as long as somebody may have one."""
        while len(self._running) < self._num_workers:
            held = Counter(place.share for place in self._running)
            num_long = sum(place.is_long for place in self._running)
            able = [
                place
                for place in self._waiting
                if not place.granted.done()  # its job was cancelled just now
                and held[place.share] < self._most
                and not (place.is_long and num_long >= self._most)
            ]
            if not able:
                return
            place = min(able, key=lambda place: self._served(place.share, held))  # the first of equals
            self._waiting.remove(place)
            self._running.add(place)
            place.started = self._clock()
            place.granted.set_result(None)

    def _served(self, share: str, held: Counter[str]) -> float:
        """The time that a share has had; its jobs that still run count as first tries."""
        return self._shares.served(share) + held[share] * self._limits.first_seconds

    def _make_room(self, share: str) -> None:
        """Raise if the queue is full for a share; if it is full in all, the longest part gives way."""
        num_waiting = Counter(place.share for place in self._waiting)
        if num_waiting[share] >= self._limits.max_waiting_per_share:
            raise TooManyCompilations(num_waiting[share], RETRY_AFTER_S)
        if len(self._waiting) < self._limits.max_waiting:
            return
        largest, number = num_waiting.most_common(1)[0]
        if number <= num_waiting[share] + 1:
            raise CompilerOverloaded(f"{len(self._waiting)} schemas wait to be compiled", RETRY_AFTER_S)
        newest = next(place for place in reversed(self._waiting) if place.share == largest)
        if not newest.granted.done():
            newest.granted.set_exception(TooManyCompilations(number, RETRY_AFTER_S))
        self.release(newest)
