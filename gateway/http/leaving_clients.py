"""Notices clients that leave, so that nothing is done for them any more."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from gateway.errors import ClientGone
from gateway.http.headers import HttpRequest

T = TypeVar("T")


async def unless_gone(
    request: HttpRequest,
    work: Coroutine[Any, Any, T],
    *,
    discard: Callable[[T], Awaitable[None]] | None = None,
) -> T:
    """Run `work`; cancel it and raise ClientGone if the client leaves. The body must have been read.

    If `work` ends although nobody waits for its result any more, `discard` gets the result.
    """
    task, gone = asyncio.create_task(work), asyncio.create_task(_wait_until_gone(request))
    is_wanted = False
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone
        is_wanted = True
        return task.result()
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)
        if discard and not is_wanted and not task.cancelled() and task.exception() is None:
            await discard(task.result())


async def _wait_until_gone(request: HttpRequest) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
