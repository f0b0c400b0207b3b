"""Single flight, by which many callers wait for one task, and refusals that are remembered for minutes."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from compiler.errors import LimitReached

ResultT = TypeVar("ResultT")


@dataclass(slots=True)
class _Flight(Generic[ResultT]):
    task: asyncio.Task[ResultT]
    num_waiting: int = 0


class SingleFlight(Generic[ResultT]):
    """At most one task per key at a time, for which many callers can wait.

    A task goes on if its callers go away. With `stops_unwanted`, it is cancelled when the last of them goes.
    """

    def __init__(self, *, stops_unwanted: bool = False) -> None:
        self._stops_unwanted = stops_unwanted
        self._flights: dict[str, _Flight[ResultT]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._flights

    async def join(self, key: str, start: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
        """Wait for the task of `key`; if there is none yet, `start` makes it."""
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = _Flight(asyncio.create_task(start()))
            flight.task.add_done_callback(lambda _: self._remove(key, flight))
        flight.num_waiting += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.num_waiting -= 1
            if self._stops_unwanted and not flight.num_waiting:
                self._remove(key, flight)  # nobody may join a task that is being cancelled
                flight.task.cancel()

    async def cancel(self) -> None:
        """Cancel all tasks."""
        tasks = [flight.task for flight in self._flights.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _remove(self, key: str, flight: _Flight[ResultT]) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]
        if flight.task.done() and not flight.task.cancelled():
            flight.task.exception()  # marks it as retrieved: if nobody waits any more, asyncio is not to warn


REFUSAL_LIFETIME_S = 300.0
MAX_REFUSALS = 4096


class RecentRefusals:
    """Schemas that took too much time or memory, remembered for some minutes so that they cost nothing more.

    Each client has its own, so a refusal of one client never decides for another one.
    """

    def __init__(self) -> None:
        self._refusals: OrderedDict[tuple[str, str], tuple[LimitReached, float]] = OrderedDict()

    def add(self, client_id: str, key: str, refusal: LimitReached) -> None:
        """Remember a refusal; the oldest one beyond `MAX_REFUSALS` is forgotten."""
        self._refusals.pop((client_id, key), None)
        self._refusals[client_id, key] = (refusal, time.monotonic() + REFUSAL_LIFETIME_S)
        if len(self._refusals) > MAX_REFUSALS:
            self._refusals.popitem(last=False)

    def check(self, client_id: str, key: str) -> None:
        """Raise LimitReached if the job of `key` was refused a short time ago."""
        refusal, until = self._refusals.get((client_id, key), (None, 0.0))
        remaining = until - time.monotonic()
        if refusal is not None and remaining > 0:
            again = f"{refusal.suggestion} It is not tried again for {remaining:.0f} s.".lstrip()
            raise LimitReached(refusal.pointer, refusal.keyword, refusal.reason, again)
