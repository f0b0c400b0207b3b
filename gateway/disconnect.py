"""Stopping work that nobody waits for any more."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from litestar import Request

from gateway.errors import ClientGone

T = TypeVar("T")


async def unless_gone(request: Request[Any, Any, Any], work: Coroutine[Any, Any, T]) -> T:
    """Do `work`; cancel it and raise ClientGone if the client leaves. The request's body was read before."""
    task, gone = asyncio.create_task(work), asyncio.create_task(_wait_until_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone
        return task.result()
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _wait_until_gone(request: Request[Any, Any, Any]) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
