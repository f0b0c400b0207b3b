"""What each error says besides its message: the field at fault, further members of a problem, and headers."""

import json
import math
import re
from collections.abc import Mapping
from functools import singledispatch
from typing import Any

from compiler import errors as compiler
from gateway import errors as gateway
from runtime import errors as runtime
from toolspecs import errors as toolspecs
from toolspecs.bundle import pointer_keys

_WIRE_NAMES = {"template_options": "chat_template_kwargs"}
"""What every API calls a field of a generation request."""

_PLAIN_KEY = re.compile(r"[\w$-]+")

Details = tuple[str | None, Mapping[str, Any], Mapping[str, str]]


@singledispatch
def details_of(_error: Exception) -> Details:
    """The field at fault, the extension members and the headers of an error."""
    return None, {}, {}


@details_of.register
def _(error: gateway.MalformedBody) -> Details:
    return None, {"line": error.line, "column": error.column} if error.line else {}, {}


@details_of.register
def _(error: gateway.InvalidField) -> Details:
    return error.param or None, {}, {}


@details_of.register
def _(error: gateway.NoEffect) -> Details:
    return error.param, {}, {}


@details_of.register
def _(error: gateway.ThreadUnsupported) -> Details:
    # By these members Anthropic's clients know that they may go on without a thread, and do.
    return error.param, {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}, {}


@details_of.register
def _(error: gateway.RefusedTool) -> Details:
    return f"tools[{error.index}]", {}, {}


@details_of.register
def _(_error: gateway.Unauthorized) -> Details:
    return None, {}, {"WWW-Authenticate": "Bearer"}


@details_of.register
def _(error: gateway.NotReady) -> Details:
    return None, {}, _retry_after(error.retry_after_s)


@details_of.register
def _(error: gateway.RateLimited) -> Details:
    return None, {}, _retry_after(error.retry_after_s)


@details_of.register
def _(error: compiler.CompilerOverloaded) -> Details:
    return None, {}, _retry_after(error.retry_after_s)


@details_of.register
def _(_error: gateway.TooManyBodies | gateway.TooManyImports) -> Details:
    return None, {}, _retry_after(1)


@details_of.register
def _(error: runtime.Overloaded) -> Details:
    return None, {}, _retry_after(error.retry_after_s)


@details_of.register
def _(error: runtime.NoEngine | runtime.GrammarNotStored) -> Details:
    return None, {}, _retry_after(error.retry_after_s)


@details_of.register
def _(_error: runtime.DeadlineExceeded) -> Details:
    return None, {}, {"X-Should-Retry": "false"}  # otherwise OpenAI's clients retry after a 5xx


@details_of.register
def _(error: runtime.RequestRefused) -> Details:
    return _WIRE_NAMES.get(error.parameter, error.parameter), {}, {}


@details_of.register
def _(error: toolspecs.UnknownToolset) -> Details:
    return "toolset", {"near": list(error.near)}, {}


@details_of.register
def _(error: toolspecs.DeletedToolset) -> Details:
    return "toolset", {"near": [], "latest": error.latest, "deleted_at": error.deleted_at.isoformat()}, {}


@details_of.register
def _(error: toolspecs.ForbiddenToolset) -> Details:
    return "toolset", {"near": error.allowed}, {}


@details_of.register
def _(error: toolspecs.UnknownTool) -> Details:
    return None, {"near": list(error.near)}, {}


@details_of.register
def _(error: toolspecs.UnknownRevision) -> Details:
    return "toolset", {"latest": error.latest}, {}


@details_of.register
def _(error: toolspecs.DroppedRevision) -> Details:
    return "toolset", {"latest": error.latest, "dropped_before": error.before}, {}


@details_of.register
def _(error: toolspecs.QuotaExceeded) -> Details:
    return None, {"limit": error.limit, "maximum": error.maximum}, {}


@details_of.register
def _(error: toolspecs.StaleRevision) -> Details:
    etag = error.current_etag
    return None, {"etag": etag}, {"ETag": etag} if etag else {}


@details_of.register
def _(error: toolspecs.InvalidTools) -> Details:
    errors = [_fault(f.tool, f.pointer, f.keyword, f.message, f.suggestion) for f in error.faults]
    return _param(error.faults[0].pointer), {"errors": errors}, {}


@details_of.register
def _(error: compiler.UnsupportedToolset) -> Details:
    errors = [_fault(tool, e.pointer, e.keyword, e.reason, e.suggestion) for tool, e in error.refusals]
    return "tools", {"errors": errors}, {}


@details_of.register
def _(error: compiler.CompilingUnfinished) -> Details:
    return "tools", {"not_reached": list(error.tools)}, _retry_after(1)


@details_of.register
def _(error: compiler.UnsupportedSchema) -> Details:
    fault = _fault(None, error.pointer, error.keyword, error.reason, error.suggestion)
    return "response_format", {"errors": [fault]}, {}


def _fault(
    tool: str | int | None, pointer: str, keyword: str, reason: str, suggestion: str
) -> dict[str, Any]:
    return {"tool": tool, "pointer": pointer, "keyword": keyword, "reason": reason, "suggestion": suggestion}


def _param(pointer: str) -> str:
    """A JSON pointer as a path of fields.

    >>> _param("/tools/0/function/parameters/a b")
    'tools[0].function.parameters["a b"]'
    """
    return "".join(map(_step, pointer_keys(pointer))).lstrip(".")


def _step(key: str) -> str:
    if key.isdecimal():
        return f"[{key}]"
    return f".{key}" if _PLAIN_KEY.fullmatch(key) else f"[{json.dumps(key, ensure_ascii=False)}]"


def _retry_after(seconds: float) -> dict[str, str]:
    return {"Retry-After": str(max(1, math.ceil(seconds)))}
