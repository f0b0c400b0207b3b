"""Work that goes to its end, even if the task that waits for it is cancelled."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def to_the_end(work: Awaitable[T], give_up: Callable[[], object] = lambda: None) -> T:
    """Wait for work that must not stop on the way. Cancelling the wait leaves the work going.

    `give_up` is called when the wait is cancelled, so that work that has not begun yet need not begin.
    """
    working = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        give_up()
        while not working.done():  # a deadline may cancel the wait once more
            with suppress(asyncio.CancelledError):
                await asyncio.wait([working])
        _ = working.cancelled() or working.exception()  # marks it as retrieved
        raise
