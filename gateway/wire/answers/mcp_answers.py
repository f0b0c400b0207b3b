"""The answers of the MCP front: messages of JSON-RPC 2.0."""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType


class McpError(Struct):
    """An error; `data.code` is its kind if it is one of ours."""

    code: int
    message: str
    data: Any = None


class McpErrorBody(Struct):
    """The answer to a message that failed; without an id, the message was not read."""

    jsonrpc: Literal["2.0"]
    id: str | int | None
    error: McpError


class McpAnswer(Struct):
    """The answer to a message: what the method returns, or an error."""

    jsonrpc: Literal["2.0"]
    id: str | int | None
    result: dict[str, Any] | UnsetType = UNSET
    error: McpError | UnsetType = UNSET
