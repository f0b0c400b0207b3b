"""Work that goes to its end, even if the task that waits for it is cancelled."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def to_the_end(work: Coroutine[Any, Any, T], give_up: Callable[[], object] = lambda: None) -> T:
    """Wait for work that must not stop on the way. Cancelling the wait leaves the work going.

    `give_up` is called when the wait is cancelled, so that work that has not begun yet need not begin.
    """
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        give_up()
        await asyncio.wait([task])
        _ = task.cancelled() or task.exception()  # marks it as retrieved
        raise
