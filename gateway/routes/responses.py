"""Responses."""

from typing import Any

from litestar import Request, Response, post

from gateway.disconnect import unless_gone
from gateway.parts import WiredParts
from gateway.routes.reading import read_asked
from gateway.routes.server_sent import stream
from gateway.wire.responses import Answer, read_request


@post("/v1/responses", status_code=200)
async def create_response(request: Request[Any, Any, Any], parts: WiredParts) -> Response[Any]:
    """The assistant's next turn, whole or as server-sent events."""
    asked = await read_asked(request, read_request)
    generation = await unless_gone(request, parts.completions.start(asked.turn))
    answer = Answer(generation, asked.echoed)
    if not asked.is_streamed:
        return Response(await unless_gone(request, answer.whole()))
    return stream(generation, answer.events(), broken_off=answer.failed)
