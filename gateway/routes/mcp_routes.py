"""The route of the MCP front. Without the extra `mcp`, it answers that the extra is missing."""

import asyncio
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any

import msgspec
from litestar import MediaType, post
from litestar.params import FromPath
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from gateway.errors import ExtraMissing, InvalidField, WrongMediaType
from gateway.http.error_shapes import MCP
from gateway.http.headers import HttpRequest
from gateway.http.json_body import JsonBody
from gateway.routes.request_context import WiredContext, check_query
from toolspecs.toolset import ToolsetReference

MAX_VALUES = 25_000
"""JSON values of a message. The SDK takes microseconds for each, on the event loop."""
MAX_DEPTH = 200
"""How deep a message may be nested: the SDK reads no deeper one."""
LARGE_LIST, MANY_TOOLS = 20_000, 30
"""Bytes or tools of a toolset from which its client must have a turn to list it: the SDK takes long for each.
"""


class McpMessage(msgspec.Struct, omit_defaults=True):
    """A JSON-RPC 2.0 message of the Model Context Protocol; a message without an id gets no answer."""

    jsonrpc: str
    method: str
    id: str | int | None = None
    params: dict[str, Any] = {}


@post(f"{MCP}/{{toolset:str}}", status_code=200, before_request=check_query)
async def mcp_message(toolset: FromPath[str], context: WiredContext) -> ASGIApp:
    """A message to the MCP server that lists the tools of a toolset, written `name` or `name@revision`.

    It offers one tool of its own, `check_arguments`, and runs no other. There are no sessions: each message
    is answered separately, with one JSON object.
    """
    front = await asyncio.to_thread(_front)
    reference = ToolsetReference.parse(toolset)
    contents = context.services.bodies.contents
    check_media_type(context.request)
    limits = replace(contents, depth=MAX_DEPTH)
    if contents.num_values > MAX_VALUES:
        limits = replace(limits, num_values=MAX_VALUES, setting="")
    raw, is_listing = await context.read_held(_checked, limits=limits)
    revision = await context.services.registry.catalog.resolve(reference)
    judge = partial(context.services.registry.faults, principal=context.principal)
    app = _with_body(front.mcp_app(revision, judge, max_bytes=len(raw)), raw)
    is_small = revision.toolset.num_bytes < LARGE_LIST and len(revision.toolset) < MANY_TOOLS
    if not is_listing or is_small:
        return app
    listing = partial(_sent_by, app, context.request.scope)
    sent = await context.in_turn(lambda turn: turn.run(listing))
    return _sending(sent)


def check_media_type(request: HttpRequest) -> None:
    """Refuse a body of another type than JSON; the SDK would do so without a JSON-RPC error."""
    media_type, _ = request.content_type
    if media_type != MediaType.JSON:
        raise WrongMediaType(media_type)


def _front() -> ModuleType:
    """The module that needs the extra; importing it takes a second."""
    try:
        from gateway.toolsets import mcp_front  # noqa: PLC0415 - needs an extra
    except ImportError as error:
        raise ExtraMissing("the MCP front", "mcp") from error
    return mcp_front


def _checked(body: JsonBody) -> tuple[bytes, bool]:
    """The raw body, and whether it asks for a list of tools.

    It is checked here, because the SDK accepts NaN, answers a message of another shape with the traces of its
    own reader, and takes one with an id of another type for a notification.

    Raises:
        InvalidField: it is not one request or notification of JSON-RPC 2.0.
    """
    message = body.value
    if not isinstance(message, dict):
        raise InvalidField("", "the body must be one JSON-RPC message, an object")
    if message.get("jsonrpc") != "2.0":
        raise InvalidField("jsonrpc", "it must be '2.0'")
    if "id" in message and type(message["id"]) not in {int, str}:
        raise InvalidField("id", "it must be a text or a whole number; a notification has none")
    if not isinstance(message.get("method"), str):
        raise InvalidField(
            "method", "it must be a text; responses are not taken, since nothing is asked here"
        )
    if not isinstance(message.get("params"), dict | None):
        raise InvalidField("params", "it must be an object")
    return body.raw, message["method"] == "tools/list"


def _with_body(app: ASGIApp, body: bytes) -> ASGIApp:
    """An ASGI application that receives a body that was read already."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        messages: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_again() -> Any:
            return messages.pop() if messages else await receive()

        await app(scope, receive_again, send)

    return answer


def _sent_by(app: ASGIApp, scope: Scope) -> list[Message]:
    """What an application sends that needs nothing of the gateway's event loop: this thread runs it."""
    sent: list[Message] = []

    async def receive() -> Any:
        await asyncio.Event().wait()  # whether the client leaves is noticed elsewhere

    async def send(message: Message) -> None:
        sent.append(message)

    async def run() -> None:
        await app(scope, receive, send)

    asyncio.run(run())
    return sent


def _sending(messages: list[Message]) -> ASGIApp:
    """An ASGI application that sends these messages."""

    async def answer(_scope: Scope, _receive: Receive, send: Send) -> None:
        for message in messages:
            await send(message)

    return answer


MCP_ROUTES = (mcp_message,)
