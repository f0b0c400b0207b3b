"""The processor time that threads take for a piece of work, so that its client can be made to pay for it."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class ThreadTime:
    """The processor time of some work, one thread at a time."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, work: Callable[[], T]) -> T:
        """What `work` returns or raises; to be run in the thread whose time counts."""
        start = time.thread_time()
        try:
            return work()
        finally:
            self.seconds += time.thread_time() - start

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count what `in_thread` runs in the block."""
        token = _counted.set(self)
        try:
            yield
        finally:
            _counted.reset(token)


_counted: ContextVar[ThreadTime | None] = ContextVar("counted", default=None)


async def in_thread(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of `work` in a thread, as of `asyncio.to_thread`; its time counts where somebody counts."""
    job, counted = partial(work, *args, **kwargs), _counted.get()
    return await asyncio.to_thread(job if counted is None else partial(counted.timed, job))
