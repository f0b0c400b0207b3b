"""Flights: what is being done for one caller is waited for by all others that want the same."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class Flights(Generic[Result]):
    """Tasks by key, one at a time for each; they go on where whoever began one goes away."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[Result]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._tasks

    def join(self, key: str, begin: Callable[[], Coroutine[Any, Any, Result]]) -> asyncio.Future[Result]:
        """The flight of a key, begun unless it is under way; what cancels the future does not cancel it."""
        if key not in self._tasks:
            self._tasks[key] = task = asyncio.create_task(begin())
            task.add_done_callback(lambda task: self._landed(key, task))
        return asyncio.shield(self._tasks[key])

    async def cancel(self) -> None:
        """End them all."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _landed(self, key: str, task: asyncio.Task[Result]) -> None:
        del self._tasks[key]
        if not task.cancelled():
            task.exception()  # whoever still waits gets it; nobody waiting is no error
