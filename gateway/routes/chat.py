"""Chat Completions."""

from typing import Any

from litestar import Request, Response, post

from gateway.disconnect import unless_gone
from gateway.parts import WiredParts
from gateway.problems import openai_error
from gateway.routes.reading import read_asked
from gateway.routes.server_sent import stream
from gateway.wire.openai import chunks, completion, read_request


@post("/v1/chat/completions", status_code=200)
async def chat_completions(request: Request[Any, Any, Any], parts: WiredParts) -> Response[Any]:
    """The assistant's next turn, whole or as server-sent events."""
    asked = await read_asked(request, read_request)
    generation = await unless_gone(request, parts.completions.start(asked.turn))
    if not asked.is_streamed:
        return Response(await unless_gone(request, completion(generation)))
    events = chunks(generation, includes_usage=asked.includes_usage)
    return stream(generation, events, broken_off=openai_error, end="data: [DONE]\n\n")
