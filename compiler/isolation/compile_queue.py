"""The compile queue: whose schema is compiled next. It is fair between clients, whatever each of them sends.

    async with queue.turn(client_id) as turn:
        ...  # compile, at most `limits.first_seconds`
        await turn.lengthen()  # gives the slot back and waits for one of those for long jobs
        ...  # compile, at most `limits.seconds`

There is a slot for each worker. The next free slot goes to the waiting client that has had least of the
workers' time (`FairShares`). A job is first tried for a short time, which is enough for real tools. Only what
takes longer becomes a long job. Long jobs never hold the last slot, nor does any one client. So the first try
of a newcomer waits at most for first tries of others.

The queue is bounded, for each client and in all. When it is full, the newest job of the client with most jobs
makes room for one of a client with fewer.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from compiler.errors import CompilerOverloaded, TooManyCompilations
from compiler.isolation.limits import CompileLimits
from toolspecs.fairness.fair_shares import FairShares

RETRY_AFTER_S = 2.0


@dataclass(eq=False)
class _Job:
    """A job that waits for a slot or holds one. `granted` is done once it has one."""

    client_id: str
    is_long: bool
    granted: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    started: float = 0.0


class CompileTurn:
    """The turn of one job, which holds a slot."""

    def __init__(self, queue: "CompileQueue", client_id: str) -> None:
        self._queue = queue
        self.job = _Job(client_id, is_long=False)

    async def lengthen(self) -> None:
        """Wait for one of the slots for long jobs; until then, others have this one."""
        self._queue.release(self.job)
        self.job = _Job(self.job.client_id, is_long=True)
        await self._queue.acquire(self.job)


class CompileQueue:
    """Grants `num_workers` slots; owned by one event loop."""

    def __init__(
        self, num_workers: int, limits: CompileLimits, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._num_workers = num_workers
        self._most = max(1, num_workers - 1)  # slots of one client, and of long jobs
        self._limits = limits
        self._clock = clock
        self._shares = FairShares()
        self._waiting: list[_Job] = []
        self._running: set[_Job] = set()

    @property
    def num_waiting(self) -> int:
        """How many jobs wait for a slot."""
        return len(self._waiting)

    @asynccontextmanager
    async def turn(self, client_id: str) -> AsyncIterator[CompileTurn]:
        """Hold a slot for a job of a client, for as long as the block runs.

        Raises:
            TooManyCompilations: too many jobs of this client wait.
            CompilerOverloaded: too many jobs wait.
        """
        turn = CompileTurn(self, client_id)
        await self.acquire(turn.job)
        try:
            yield turn
        finally:
            self.release(turn.job)

    async def acquire(self, job: _Job) -> None:
        """Wait until a job has a slot; raises what `turn` raises."""
        self._make_room(job.client_id)
        self._waiting.append(job)
        self._shares.enter(job.client_id)
        self._grant()
        try:
            await job.granted
        except BaseException:
            self.release(job)
            raise

    def release(self, job: _Job) -> None:
        """Take a job's slot back and charge its time, or withdraw it. A second call does nothing."""
        if job in self._running:
            self._running.remove(job)
            self._shares.charge(job.client_id, self._clock() - job.started)
        elif job in self._waiting:
            self._waiting.remove(job)
        else:
            return
        self._shares.leave(job.client_id)
        self._grant()

    def _grant(self) -> None:
        """Grant free slots, as long as somebody may have one."""
        while len(self._running) < self._num_workers:
            num_running = Counter(job.client_id for job in self._running)
            num_long = sum(job.is_long for job in self._running)
            able = [
                job
                for job in self._waiting
                if not job.granted.done()  # it was cancelled just now
                and num_running[job.client_id] < self._most
                and not (job.is_long and num_long >= self._most)
            ]
            if not able:
                return
            # the first of equals
            job = min(able, key=lambda job: self._served(job.client_id, num_running))
            self._waiting.remove(job)
            self._running.add(job)
            job.started = self._clock()
            job.granted.set_result(None)

    def _served(self, client_id: str, num_running: Counter[str]) -> float:
        """The time that a client has had; its jobs that still run count as first tries."""
        return self._shares.served(client_id) + num_running[client_id] * self._limits.first_seconds

    def _make_room(self, client_id: str) -> None:
        """Raise if the queue is full for a client; if it is full in all, the one with most jobs gives way."""
        num_waiting = Counter(job.client_id for job in self._waiting)
        if num_waiting[client_id] >= self._limits.max_waiting_per_client:
            raise TooManyCompilations(num_waiting[client_id], RETRY_AFTER_S)
        if len(self._waiting) < self._limits.max_waiting:
            return
        largest, number = num_waiting.most_common(1)[0]
        if number <= num_waiting[client_id] + 1:
            raise CompilerOverloaded(f"{len(self._waiting)} schemas wait to be compiled", RETRY_AFTER_S)
        newest = next(job for job in reversed(self._waiting) if job.client_id == largest)
        if not newest.granted.done():
            newest.granted.set_exception(TooManyCompilations(number, RETRY_AFTER_S))
        self.release(newest)
