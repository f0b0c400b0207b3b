"""The processor time that threads take for a piece of work, so that its client can be made to pay for it.

with during(turn):                    # the turn of a client to do this work
    content = await in_thread(pack)   # counts for the turn
    async with between_turns():       # others of the client have theirs meanwhile
        await compiled
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import ParamSpec, Protocol, TypeVar

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


class WorkTurn(Protocol):
    """A turn of a client to have something done."""

    @property
    def spent(self) -> ThreadTime:
        """What threads took for it."""
        ...

    def given_back(self) -> AbstractAsyncContextManager[None]:
        """Give the turn back for as long as the block takes, and wait for the next one after it."""
        ...


_turn: ContextVar[WorkTurn | None] = ContextVar("turn", default=None)


@contextmanager
def during(turn: WorkTurn) -> Iterator[None]:
    """What the block does is done in this turn."""
    token = _turn.set(turn)
    try:
        yield
    finally:
        _turn.reset(token)


async def in_thread(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of `work` in a thread, as of `asyncio.to_thread`. A turn, if there is one, pays for it."""
    job, turn = partial(work, *args, **kwargs), _turn.get()
    return await asyncio.to_thread(job if turn is None else partial(turn.spent.timed, job))


@asynccontextmanager
async def between_turns() -> AsyncIterator[None]:
    """Without the turn, if there is one: the block waits for others, for example for compile workers.

    Nothing may be locked meanwhile: whoever has the next turn may need it.
    """
    turn = _turn.get()
    if turn is None:
        yield
        return
    async with turn.given_back():
        yield
