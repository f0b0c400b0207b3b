"""What each error says besides its message: the field at fault, further members of a problem, and headers."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import singledispatch
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


@singledispatch
def details_of(_error: Exception) -> Details:
    """What an error says besides its message; the function of its type or of the nearest base says it."""
    return Details()


# Errors of requests


@details_of.register
def _malformed_body(error: gateway.MalformedBody) -> Details:
    return Details(extensions={"line": error.line, "column": error.column} if error.line else {})


@details_of.register
def _field_at_fault(error: gateway.InvalidField | gateway.NoEffect) -> Details:
    return Details(error.param or None)


@details_of.register
def _thread_unsupported(error: gateway.ThreadUnsupported) -> Details:
    # By these members Anthropic's clients know that they may go on without a thread, and do.
    return Details(error.param, {"error_code": "thread_unsupported_request", "unsupported": ["thread"]})


@details_of.register
def _refused_tool(error: gateway.RefusedTool) -> Details:
    return Details(f"tools[{error.index}]")


@details_of.register
def _refused_request(error: runtime.RequestRefused) -> Details:
    return Details(_WIRE_NAMES.get(error.parameter, error.parameter))


@details_of.register
def _unauthorized(_error: gateway.Unauthorized) -> Details:
    return Details(headers={"WWW-Authenticate": "Bearer"})


# Errors after which a client may or must not try again


@details_of.register
def _try_again_after(
    error: gateway.NotReady
    | gateway.RateLimited
    | gateway.TooMuchHeld
    | compiler.CompilerOverloaded
    | runtime.Overloaded
    | runtime.NoEngine
    | runtime.EngineFull
    | runtime.GrammarNotStored,
) -> Details:
    return Details(headers={"Retry-After": str(max(1, math.ceil(error.retry_after_s)))})


@details_of.register
def _compiling_unfinished(error: compiler.CompilingUnfinished) -> Details:
    return Details("tools", {"not_reached": list(error.tools)})


@details_of.register
def _deadline_exceeded(_error: runtime.DeadlineExceeded) -> Details:
    return Details(headers={"X-Should-Retry": "false"})  # otherwise OpenAI's clients retry after a 5xx


# Errors of toolsets


@details_of.register
def _unknown_toolset(error: toolspecs.UnknownToolset) -> Details:
    return Details("toolset", {"near": list(error.near)})


@details_of.register
def _deleted_toolset(error: toolspecs.DeletedToolset) -> Details:
    extensions = {"near": [], "latest": error.latest, "deleted_at": error.deleted_at.isoformat()}
    return Details("toolset", extensions)


@details_of.register
def _forbidden_toolset(error: toolspecs.ForbiddenToolset) -> Details:
    return Details("toolset", {"near": error.allowed})


@details_of.register
def _unknown_tool(error: toolspecs.UnknownTool) -> Details:
    return Details(extensions={"near": list(error.near)})


@details_of.register
def _unknown_revision(error: toolspecs.UnknownRevision) -> Details:
    return Details("toolset", {"latest": error.latest})


@details_of.register
def _dropped_revision(error: toolspecs.DroppedRevision) -> Details:
    return Details("toolset", {"latest": error.latest, "dropped_before": error.before})


@details_of.register
def _quota_exceeded(error: toolspecs.QuotaExceeded) -> Details:
    return Details(extensions={"limit": error.limit, "maximum": error.maximum})


@details_of.register
def _stale_revision(error: toolspecs.StaleRevision) -> Details:
    etag = error.current_etag
    return Details(extensions={"etag": etag}, headers={"ETag": etag} if etag else {})


# Errors of schemas


@details_of.register
def _invalid_tools(error: toolspecs.InvalidTools) -> Details:
    errors = [_fault(f.tool, f.pointer, f.keyword, f.message, f.suggestion) for f in error.faults]
    return Details(field_path(error.faults[0].pointer), {"errors": errors})


@details_of.register
def _unsupported_toolset(error: compiler.UnsupportedToolset) -> Details:
    errors = [_fault(tool, e.pointer, e.keyword, e.reason, e.suggestion) for tool, e in error.refusals]
    return Details("tools", {"errors": errors})


@details_of.register
def _unsupported_schema(error: compiler.UnsupportedSchema) -> Details:
    fault = _fault(None, error.pointer, error.keyword, error.reason, error.suggestion)
    return Details("response_format", {"errors": [fault]})


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
