"""Chat Completions."""

import json
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from litestar import Request, Response, post
from litestar.background_tasks import BackgroundTask
from litestar.response import Stream

from gateway.body import read_json
from gateway.disconnect import unless_gone
from gateway.generation import Generation
from gateway.parts import WiredParts
from gateway.problems import openai_error, problem_of
from gateway.wire.openai import chunks, completion, read_request

_log = logging.getLogger(__name__)

_STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


@post("/v1/chat/completions", status_code=200)
async def chat_completions(request: Request[Any, Any, Any], parts: WiredParts) -> Response[Any]:
    """The assistant's next turn, whole or as server-sent events."""
    asked = read_request(
        read_json(await request.body()),
        toolset_header=request.headers.get("x-toolset"),
        timeout_header=request.headers.get("x-request-timeout"),
    )
    generation = await unless_gone(request, parts.completions.start(asked.turn))
    if not asked.is_streamed:
        return Response(await unless_gone(request, completion(generation)))
    return Stream(
        _server_sent(generation, includes_usage=asked.includes_usage),
        media_type="text/event-stream",
        headers=_STREAM_HEADERS,
        # Runs when the client has gone, too: that is what stops the runtime.
        background=BackgroundTask(generation.aclose),
    )


async def _server_sent(generation: Generation, *, includes_usage: bool) -> AsyncIterator[str]:
    try:
        async with aclosing(chunks(generation, includes_usage=includes_usage)) as stream:
            async for chunk in stream:
                yield _event(chunk)
    except Exception as error:  # noqa: BLE001 - the status is sent: any error has to go into the stream
        problem = problem_of(error)
        _log.warning("stream %s broke off: %s", generation.request_id, error, exc_info=problem.is_ours)
        yield _event(openai_error(problem))
        return
    yield "data: [DONE]\n\n"


def _event(content: dict[str, Any]) -> str:
    return f"data: {json.dumps(content, ensure_ascii=False, separators=(',', ':'))}\n\n"
