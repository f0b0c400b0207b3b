"""Server-sent events: an answer while it is written."""

import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from litestar.background_tasks import BackgroundTask
from litestar.response import Stream

from gateway.generation import Generation
from gateway.problems import Problem, problem_of

_log = logging.getLogger(__name__)

_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}

JSON = dict[str, Any]


def stream(
    generation: Generation,
    events: AsyncGenerator[JSON],
    *,
    broken_off: Callable[[Problem], JSON],
    end: str = "",
) -> Stream:
    """`events`, then `end`; or, if the answer cannot be whole, what `broken_off` says of it."""
    return Stream(
        _sent(generation, events, broken_off, end),
        media_type="text/event-stream",
        headers=_HEADERS,
        # Runs when the client has gone, too: that is what stops the runtime.
        background=BackgroundTask(generation.aclose),
    )


async def _sent(
    generation: Generation, events: AsyncGenerator[JSON], broken_off: Callable[[Problem], JSON], end: str
) -> AsyncIterator[str]:
    try:
        async with aclosing(events):
            async for event in events:
                yield _spelled(event)
    except Exception as error:  # noqa: BLE001 - the status is sent: any error has to go into the stream
        problem = problem_of(error)
        _log.warning("stream %s broke off: %s", generation.request_id, error, exc_info=problem.is_ours)
        yield _spelled(broken_off(problem))
        return
    if end:
        yield end


def _spelled(event: JSON) -> str:
    """An event with a type of its own is named by it."""
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event, ensure_ascii=False, separators=(',', ':'))}\n\n"
