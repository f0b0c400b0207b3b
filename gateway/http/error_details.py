"""What each error says besides its message: the field at fault, further members of a problem, and headers."""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from compiler import errors as compiler
from gateway import errors as gateway
from runtime import errors as runtime
from toolspecs import errors as toolspecs
from toolspecs.json_pointer import pointer_keys

_WIRE_NAMES = {"template_options": "chat_template_kwargs"}
"""What every API calls a field of a generation request."""

_PLAIN_KEY = re.compile(r"[\w$-]+")


@dataclass(frozen=True, slots=True)
class Details:
    """The field at fault, the extension members and the headers of an error."""

    param: str | None = None
    extensions: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


def details_of(error: Exception) -> Details:
    """What an error says besides its message, by its type or the nearest base in the table."""
    return next((_DETAILS[kind](error) for kind in type(error).__mro__ if kind in _DETAILS), Details())


def _fault(
    tool: str | int | None, pointer: str, keyword: str, reason: str, suggestion: str
) -> dict[str, Any]:
    return {"tool": tool, "pointer": pointer, "keyword": keyword, "reason": reason, "suggestion": suggestion}


def field_path(pointer: str) -> str:
    """A JSON pointer as a path of fields.

    >>> field_path("/tools/0/function/parameters/a b")
    'tools[0].function.parameters["a b"]'
    """
    return "".join(map(_step, pointer_keys(pointer))).lstrip(".")


def _step(key: str) -> str:
    if key.isdecimal():
        return f"[{key}]"
    return f".{key}" if _PLAIN_KEY.fullmatch(key) else f"[{json.dumps(key, ensure_ascii=False)}]"


def _try_again(error: Any) -> Details:
    return Details(headers={"Retry-After": str(max(1, math.ceil(error.retry_after_s)))})


def _invalid_tools(error: toolspecs.InvalidTools) -> Details:
    errors = [_fault(f.tool, f.pointer, f.keyword, f.message, f.suggestion) for f in error.faults]
    return Details(field_path(error.faults[0].pointer), {"errors": errors})


def _unsupported_toolset(error: compiler.UnsupportedToolset) -> Details:
    errors = [_fault(tool, e.pointer, e.keyword, e.reason, e.suggestion) for tool, e in error.refusals]
    return Details("tools", {"errors": errors})


def _unsupported_schema(error: compiler.UnsupportedSchema) -> Details:
    fault = _fault(None, error.pointer, error.keyword, error.reason, error.suggestion)
    return Details("response_format", {"errors": [fault]})


_DETAILS: Mapping[type[Exception], Callable[[Any], Details]] = {
    # Errors of requests
    gateway.MalformedBody: lambda e: Details(
        extensions={"line": e.line, "column": e.column} if e.line else {}
    ),
    gateway.InvalidField: lambda e: Details(e.param or None),
    gateway.NoEffect: lambda e: Details(e.param),
    # By these members Anthropic's clients know that they may go on without a thread, and do.
    gateway.ThreadUnsupported: lambda e: Details(
        e.param, {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
    ),
    gateway.RefusedTool: lambda e: Details(f"tools[{e.index}]"),
    runtime.RequestRefused: lambda e: Details(_WIRE_NAMES.get(e.parameter, e.parameter)),
    gateway.Unauthorized: lambda _: Details(headers={"WWW-Authenticate": "Bearer"}),
    # Errors after which a client may or must not try again
    gateway.NotReady: _try_again,
    gateway.RateLimited: _try_again,
    gateway.TooMuchHeld: _try_again,
    compiler.CompilerOverloaded: _try_again,
    runtime.Overloaded: _try_again,
    runtime.NoEngine: _try_again,
    runtime.EngineFull: _try_again,
    runtime.GrammarNotStored: _try_again,
    compiler.CompilingUnfinished: lambda e: Details("tools", {"not_reached": list(e.tools)}),
    # Otherwise OpenAI's clients retry after a 5xx.
    runtime.DeadlineExceeded: lambda _: Details(headers={"X-Should-Retry": "false"}),
    # Errors of toolsets
    toolspecs.UnknownToolset: lambda e: Details("toolset", {"near": list(e.near)}),
    toolspecs.DeletedToolset: lambda e: Details(
        "toolset", {"near": [], "latest": e.latest, "deleted_at": e.deleted_at.isoformat()}
    ),
    toolspecs.ForbiddenToolset: lambda e: Details("toolset", {"near": e.allowed}),
    toolspecs.UnknownTool: lambda e: Details(extensions={"near": list(e.near)}),
    toolspecs.UnknownRevision: lambda e: Details("toolset", {"latest": e.latest}),
    toolspecs.DroppedRevision: lambda e: Details("toolset", {"latest": e.latest, "dropped_before": e.before}),
    toolspecs.QuotaExceeded: lambda e: Details(extensions={"limit": e.limit, "maximum": e.maximum}),
    toolspecs.StaleRevision: lambda e: Details(
        extensions={"etag": e.current_etag}, headers={"ETag": e.current_etag} if e.current_etag else {}
    ),
    # Errors of schemas
    toolspecs.InvalidTools: _invalid_tools,
    compiler.UnsupportedToolset: _unsupported_toolset,
    compiler.UnsupportedSchema: _unsupported_schema,
}
