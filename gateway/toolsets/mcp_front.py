"""The MCP front: a toolset as an MCP server, which lists its tools and checks arguments of calls.

The gateway does not run the tools. The only tool that it runs itself, `check_arguments`, says which arguments
of a call are invalid, and why.

The MCP SDK implements the protocol, in all its versions, and calls a `ToolsetFront` to list and call tools.
Each request gets a server of its own, with the revision that its key sees. Nothing is kept between requests,
so any replica can answer any of them. This module needs the extra `mcp`.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import mcp_types as types
from litestar.types import ASGIApp, Receive, Scope, Send
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from compiler.argument_faults import MAX_FAULTS, ArgumentFault
from compiler.errors import CompilerError, UnsupportedSchema
from gateway.version import VERSION
from toolspecs.errors import UnknownTool
from toolspecs.json_value import count_values
from toolspecs.schemas.bundle import compound_schema
from toolspecs.shapes import Shape, write_tool
from toolspecs.tool import Tool
from toolspecs.toolset import Revision

CHECK = "check_arguments"
PAGE, PAGE_BYTES, PAGE_VALUES = 500, 256_000, 25_000
"""Tools on one page of the list, their size together, and how many JSON values they are made of.

The SDK takes microseconds for each value. A tool of more values is listed without its schema, and a larger
one has a page of its own.
"""

_log = logging.getLogger(__name__)

T = TypeVar("T")

_NOT_LISTED = frozenset({"outputSchema", "execution", "icons"})
"""Fields about running a tool or its progress; the MCP front runs no tools."""

FindFaults = Callable[[Tool, Any], Awaitable[tuple[ArgumentFault, ...]]]
"""Finds the faults in the arguments of a call of a tool; raises CompilerError if it cannot."""


def mcp_app(revision: Revision, find_faults: FindFaults, *, max_bytes: int) -> ASGIApp:
    """An MCP server for one request: streamable HTTP, without sessions, every answer one JSON object.

    `max_bytes` is the size of the request's body, which has been read. The caller has checked `Host` and
    `Origin`.
    """
    front = ToolsetFront(revision, find_faults)
    toolset = revision.toolset
    server = Server(
        toolset.name,
        version=VERSION,
        title=f"{toolset.name}, listed by Callgate",
        instructions=f"These are the tools of the toolset {toolset.name!r} at revision {revision.number}."
        f" They are not run here, but by the server that owns them. {front.check_name!r} tells whether a"
        " call's arguments are valid under the tool's JSON Schema, and if not, where and why.",
        on_list_tools=_hiding_failures(front.list_tools),
        on_call_tool=_hiding_failures(front.call_tool),
        get_tool_input_schema=lambda _: None,  # no tool that runs here takes arguments from headers
    )
    server.middleware.clear()  # its only one makes spans of names, ids and trace contexts that clients choose
    manager = StreamableHTTPSessionManager(
        server, json_response=True, stateless=True, max_request_body_size=max(1, max_bytes)
    )

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async with manager.run():
            await manager.handle_request(scope, receive, send)  # type: ignore[arg-type] # ASGI, in other words

    return app


def _hiding_failures(answer: Callable[[Any, Any], Awaitable[T]]) -> Callable[[Any, Any], Awaitable[T]]:
    """`answer`, except that unexpected errors are logged; the SDK would send their text to clients."""

    async def answered(context: Any, params: Any) -> T:
        try:
            return await answer(context, params)
        except MCPError:
            raise
        except Exception as error:
            _log.exception("a message to the MCP front was not answered")
            raise MCPError(types.INTERNAL_ERROR, "the gateway failed; its log says why") from error

    return answered


@dataclass(frozen=True, slots=True)
class ToolsetFront:
    """What an MCP client sees of one revision."""

    revision: Revision
    find_faults: FindFaults

    @property
    def check_name(self) -> str:
        """The name of our own tool, chosen so that no tool of the toolset has it."""
        name = CHECK
        while name in self.revision.toolset:
            name = f"callgate_{name}"
        return name

    async def list_tools(
        self, _context: Any, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """One page of the tools in their order; the first page begins with our own tool."""
        cursor = params.cursor if params else None
        try:
            page = self.revision.toolset.page(after=cursor, limit=PAGE)
        except UnknownTool as error:
            reason = f"the cursor is of another list: {error}; list again without a cursor"
            raise MCPError(types.INVALID_PARAMS, reason) from error
        shown = page.items[: max(1, _num_fitting(page.items))]
        following = shown[-1].name if len(shown) < len(page.items) else page.next_key
        own = [] if cursor is not None else [_check_tool(self.check_name)]
        return types.ListToolsResult(tools=[*own, *map(to_mcp, shown)], next_cursor=following)

    async def call_tool(self, _context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Check arguments, or answer that the tool does not run here."""
        if params.name == self.check_name:
            return await self._check(params.arguments or {})
        try:
            tool = self.revision.toolset[params.name]
        except UnknownTool as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        return _failed(
            f"Callgate does not run tools: call {tool.name!r} at the server that owns it."
            f" Here {self.check_name!r} checks the arguments of the call."
        )

    async def _check(self, arguments: dict[str, Any]) -> types.CallToolResult:
        name = arguments.get("tool")
        if not isinstance(name, str) or "arguments" not in arguments or len(arguments) > 2:
            return _failed(
                'send {"tool": NAME, "arguments": {…}}: the name of a tool and the arguments of its call'
            )
        try:
            tool = self.revision.toolset[name]
            faults = await self.find_faults(tool, arguments["arguments"])
        except UnknownTool as error:
            return _failed(str(error))
        except UnsupportedSchema as error:
            return _failed(f"these arguments cannot be checked: {error.reason}")
        except CompilerError as error:
            return _failed(f"nothing can be checked right now: {error}")
        return _faults_result(tool.name, faults)


def _num_fitting(tools: Sequence[Tool]) -> int:
    """The number of tools, from the first, that fit on a page."""
    num_bytes = num_values = 0
    for number, tool in enumerate(tools):
        num_bytes += tool.num_bytes
        num_values += _num_values(tool)
        if num_bytes > PAGE_BYTES or num_values > PAGE_VALUES:
            return number
    return len(tools)


def _num_values(tool: Tool) -> int:
    return tool.num_values + count_values(tool.documents)


def to_mcp(tool: Tool) -> types.Tool:
    """A tool as MCP lists it: with the documents that it refers to, without fields about running it.

    Informational fields are left out if they do not conform to the protocol.
    """
    if (num_values := _num_values(tool)) > PAGE_VALUES:
        reason = f"(The schema of its arguments is not listed: it is made of {num_values} JSON values.)"
        return types.Tool(
            name=tool.name,
            description=f"{tool.description}\n\n{reason}".strip(),
            input_schema={"type": "object"},
        )
    schema = {**compound_schema(tool.parameters, tool.documents), "type": "object"}
    fields = {name: value for name, value in write_tool(tool, Shape.MCP).items() if name not in _NOT_LISTED}
    bare = {"name": tool.name, "description": tool.description, "inputSchema": schema}
    try:
        return types.Tool.model_validate({**fields, **bare})
    except ValidationError:
        return types.Tool.model_validate(bare)


def _check_tool(name: str) -> types.Tool:
    """Our own tool."""
    fault = {
        "type": "object",
        "properties": {
            "pointer": {
                "type": "string",
                "description": "JSON pointer into the arguments; empty for all of them.",
            },
            "keyword": {"type": "string", "description": "Keyword of the JSON Schema that fails."},
            "message": {"type": "string"},
        },
        "required": ["pointer", "keyword", "message"],
    }
    return types.Tool(
        name=name,
        title="Check arguments",
        description="Tells whether the arguments of a tool call are valid, and if not, where and why."
        " Calls nothing.",
        input_schema={
            "type": "object",
            "properties": {
                "tool": {"type": "string", "description": "Name of a tool of this list."},
                "arguments": {"type": "object", "description": "The arguments of the call."},
            },
            "required": ["tool", "arguments"],
            "additionalProperties": False,
        },
        output_schema={
            "type": "object",
            "properties": {
                "valid": {"type": "boolean"},
                "faults": {
                    "type": "array",
                    "description": f"The first {MAX_FAULTS}; empty if the arguments are valid.",
                    "items": fault,
                },
            },
            "required": ["valid", "faults"],
        },
        annotations=types.ToolAnnotations(
            read_only_hint=True, idempotent_hint=True, open_world_hint=False, destructive_hint=False
        ),
    )


def _faults_result(name: str, faults: Sequence[ArgumentFault]) -> types.CallToolResult:
    """The faults of arguments, as text for models and JSON for programs; they are no protocol error."""
    lines = [f"{fault.pointer or 'the arguments'}: {fault.message} ({fault.keyword})" for fault in faults]
    text = "\n".join(lines) or f"The arguments are valid for {name!r}."
    shown = [
        {"pointer": fault.pointer, "keyword": fault.keyword, "message": fault.message} for fault in faults
    ]
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)],
        structured_content={"valid": not faults, "faults": shown},
    )


def _failed(reason: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=reason)], is_error=True)
