"""The route of the MCP front. Without the extra `mcp`, it answers that the extra is missing."""

import asyncio
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any

import msgspec
from litestar import post
from litestar.params import FromPath
from litestar.types import ASGIApp, Receive, Scope, Send

from gateway.access.principal import RequestPrincipal
from gateway.errors import ExtraMissing
from gateway.http.headers import HttpRequest
from gateway.http.json_body import read_json
from gateway.http.problems import MCP
from gateway.routes.transport import check_query, read_held
from gateway.services import WiredServices
from toolspecs.toolset import ToolsetReference

MAX_VALUES = 25_000
"""JSON values of a message. The SDK takes microseconds for each, on the event loop."""


class McpMessage(msgspec.Struct, omit_defaults=True):
    """A JSON-RPC 2.0 message of the Model Context Protocol; a message without an id gets no answer."""

    jsonrpc: str
    method: str
    id: str | int | None = None
    params: dict[str, Any] = {}


@post(f"{MCP}/{{toolset:str}}", status_code=200, before_request=check_query)
async def mcp_message(
    toolset: FromPath[str], request: HttpRequest, services: WiredServices, principal: RequestPrincipal
) -> ASGIApp:
    """A message to the MCP server that lists the tools of a toolset, written `name` or `name@revision`.

    It offers one tool of its own, `check_arguments`, and runs no other. There are no sessions: each message
    is answered separately, with one JSON object.
    """
    front = await asyncio.to_thread(_front)
    reference = ToolsetReference.parse(toolset)
    contents = services.bodies.contents
    limits = replace(contents, num_values=min(MAX_VALUES, contents.num_values))
    raw = await read_held(request, services, principal.client_id, partial(_checked, limits=limits))
    revision = await services.registry.catalog.resolve(reference)
    judge = partial(services.registry.faults, principal=principal)
    app: ASGIApp = front.mcp_app(revision, judge, max_bytes=len(raw))
    return _with_body(app, raw)


def _front() -> ModuleType:
    """The module that needs the extra; importing it takes a second."""
    try:
        from gateway.toolsets import mcp_front  # noqa: PLC0415 - needs an extra
    except ImportError as error:
        raise ExtraMissing("the MCP front", "mcp") from error
    return mcp_front


def _checked(raw: bytes, **limits: Any) -> bytes:
    """The raw body, after a check with our own reader: the SDK accepts NaN and any depth."""
    read_json(raw, **limits)
    return raw


def _with_body(app: ASGIApp, body: bytes) -> ASGIApp:
    """An ASGI application that receives a body that was read already."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        messages: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_again() -> Any:
            return messages.pop() if messages else await receive()

        await app(scope, receive_again, send)

    return answer


MCP_ROUTES = (mcp_message,)
