"""Errors as clients see them: one table from error types to statuses.

`gateway.http.error_details` has what an error says besides its message, and `gateway.http.error_shapes` how
each API writes it.

>>> problem_of(gateway.InvalidField("n", "the setting max_choices allows 16; the request asks for 20"))
Problem(status=400, kind='invalid_field', detail='n: the setting max_choices allows 16; ...', param='n', ...)
"""

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from litestar import Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.types import HTTPScope, Receive, Scope, Send

from compiler import errors as compiler
from gateway import errors as gateway
from gateway.http.error_details import details_of
from gateway.http.error_shapes import ANTHROPIC, REGISTRY, Problem, shape_of
from gateway.http.headers import REQUEST_ID, HttpRequest, note_error
from gateway.http.plain_reasons import plain
from runtime import errors as runtime
from toolspecs import errors as toolspecs
from toolspecs.nearest import MAX_NAME, instead, shorten
from toolspecs.shapes import Shape
from toolspecs.toolset import TOOLSET_NAME

_log = logging.getLogger(__name__)

_ROUTE_HINTS: Mapping[str, str] = {
    "/chat/completions": "; did you mean /v1/chat/completions? A client's base URL ends in /v1",
    "/completions": "; did you mean /v1/completions? A client's base URL ends in /v1",
    "/embeddings": "; this gateway makes no embeddings: give the client another base URL for them",
    "/mcp": "; each toolset has an MCP server of its own: POST /mcp/TOOLSET",
    "/messages": "; did you mean /v1/messages? The base URL of Anthropic's clients ends before /v1",
    "/models": "; did you mean /v1/models? A client's base URL ends in /v1",
    "/responses": "; did you mean /v1/responses? A client's base URL ends in /v1",
}
"""What to do instead, by the end of a path: clients try routes of other APIs, or leave out `/v1`."""

_OTHER_ROUTES: Mapping[str, str] = {
    "/responses/compact": "; conversations are not compacted here: truncation 'auto' drops the oldest turns",
}
"""The same for paths of other APIs that look like the path of something stored."""

CLIENT_CLOSED_REQUEST = 499

STATUSES: Mapping[type[Exception], tuple[int, str]] = {
    gateway.MalformedBody: (400, "malformed_body"),
    gateway.LargeBody: (413, "request_entity_too_large"),
    gateway.EncodedBody: (415, "encoded_body"),
    gateway.WrongMediaType: (415, "unsupported_media_type"),
    gateway.TooManyBodies: (429, "too_many_bodies"),
    gateway.TooMuchHeld: (429, "too_much_held"),
    gateway.TooManyImports: (429, "too_many_imports"),
    gateway.UnreadableBody: (422, "limit_exceeded"),
    gateway.InvalidField: (400, "invalid_field"),
    gateway.NoEffect: (400, "no_effect"),
    gateway.UnknownPrevious: (400, "previous_response_not_found"),
    gateway.ToolsetConflict: (400, "toolset_conflict"),
    gateway.TooManyTools: (422, "limit_exceeded"),
    gateway.UnknownResponse: (404, "unknown_response"),
    gateway.UnknownKey: (404, "unknown_key"),
    gateway.TooManyKeys: (403, "too_many_keys"),
    gateway.NoMetrics: (404, "no_metrics"),
    gateway.ExtraMissing: (501, "extra_missing"),
    gateway.UnknownRequest: (404, "unknown_request"),
    gateway.UnknownGrammar: (404, "unknown_grammar"),
    gateway.RefusedTool: (422, "unsupported_schema"),
    gateway.MalformedHead: (400, "malformed_head"),
    gateway.Unauthorized: (401, "unauthorized"),
    gateway.Forbidden: (403, "forbidden"),
    gateway.RateLimited: (429, "rate_limit_exceeded"),
    gateway.ForeignHost: (403, "foreign_host"),
    gateway.ForeignPage: (403, "foreign_page"),
    gateway.ClientGone: (CLIENT_CLOSED_REQUEST, "client_closed_request"),
    gateway.NotReady: (503, "not_ready"),
    gateway.StillLoading: (503, "loading"),
    gateway.KeysUnavailable: (503, "keys_unavailable"),
    toolspecs.InvalidName: (400, "invalid_name"),
    toolspecs.UnknownToolset: (404, "unknown_toolset"),
    toolspecs.ForbiddenToolset: (403, "forbidden_toolset"),
    toolspecs.UnknownTool: (404, "unknown_tool"),
    toolspecs.UnknownRevision: (404, "unknown_revision"),
    toolspecs.DroppedRevision: (410, "dropped_revision"),
    toolspecs.QuotaExceeded: (403, "quota_exceeded"),
    toolspecs.StaleRevision: (412, "stale_revision"),
    toolspecs.InvalidTools: (422, "invalid_tools"),
    toolspecs.UnreadableSource: (422, "unreadable_source"),
    toolspecs.LimitExceeded: (422, "limit_exceeded"),
    toolspecs.ThreadsStopped: (503, "engine_stopped"),
    toolspecs.DamagedEntry: (503, "damaged_entry"),
    toolspecs.StoreFull: (507, "store_full"),
    toolspecs.StoreError: (503, "store_unavailable"),
    compiler.CompilerError: (422, "unsupported_schema"),
    compiler.WorkersUnavailable: (503, "compiler_unavailable"),
    compiler.CompilerOverloaded: (503, "compiler_overloaded"),
    compiler.TooManyCompilations: (429, "too_many_compilations"),
    compiler.TooManyGrammars: (429, "too_many_grammars"),
    compiler.CompilingUnfinished: (503, "compiling_unfinished"),
    compiler.UnsupportedSchema: (422, "unsupported_schema"),
    compiler.UnsupportedToolset: (422, "unsupported_schema"),
    runtime.UnknownModel: (404, "model_not_found"),
    runtime.PromptTooLong: (400, "context_length_exceeded"),
    runtime.BudgetTooSmall: (400, "max_tokens_too_small"),
    runtime.RequestRefused: (400, "request_refused"),
    runtime.Overloaded: (429, "overloaded"),
    runtime.TooManySequences: (429, "too_many_sequences"),
    runtime.DeadlineExceeded: (504, "deadline_exceeded"),
    runtime.EngineFault: (502, "engine_failed"),
    runtime.EngineRefused: (502, "engine_refused"),
    runtime.EngineFull: (429, "engine_full"),
    runtime.PluginMissing: (502, "plugin_missing"),
    runtime.NoEngine: (503, "no_engine"),
    runtime.GrammarNotStored: (503, "store_unavailable"),
    runtime.EngineStopped: (503, "engine_stopped"),
    runtime.GenerationFailed: (500, "generation_failed"),
}

_QUERY_VALUES: Mapping[str, tuple[str, ...]] = {
    "shape": tuple(shape.value for shape in Shape),
    "order": ("asc", "desc"),
}

_RETRIED = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
"""Statuses that come with `Retry-After`, a second unless the error knows better."""

_FIELD_NAMES = "callgate.field_names"
"""Where a request's scope holds its names of fields that code outside its wire format names."""


def problem_of(error: Exception) -> Problem:
    """Describe any error. An error that is not in the table is a bug; its message is not sent."""
    if isinstance(error, ValidationException) and isinstance(error.extra, list) and error.extra:
        return _bad_parameter(error.extra[0])
    if isinstance(error, HTTPException):
        kind = HTTPStatus(error.status_code).phrase.lower().replace(" ", "_")
        return Problem(error.status_code, kind, error.detail, headers=error.headers or {})
    for kind_of_error in type(error).__mro__:
        if kind_of_error in STATUSES:
            status, kind = STATUSES[kind_of_error]
            details = details_of(error)
            retry = {"Retry-After": "1"} if status in _RETRIED else {}
            headers = {**retry, **details.headers}
            return Problem(status, kind, _with_remedy(error), details.param, details.extensions, headers)
    return Problem(500, "internal_error", "the gateway failed; its log says why")


def respond(request: HttpRequest, error: Exception) -> Response[Any]:
    """The response to an error, in the shape of the route's API."""
    problem = problem_for(request.scope, error)
    path = request.scope["path"]  # not of `request.url`, which fails where `Host` is no host
    note_error(request.scope, error, problem.status)
    if problem.is_gateway_failure:
        _log.error(
            "%s %r failed, request %s: %s",
            request.method,
            path,
            request.scope.get(REQUEST_ID, ""),
            error,
            exc_info=error if problem.is_bug else None,
        )
    shape = shape_of(path)
    content = shape.body(problem)
    if shape is ANTHROPIC:
        content["request_id"] = request.scope.get(REQUEST_ID, "")
    body = json.dumps(content).encode()  # ASCII, because a message may quote half a surrogate pair
    status, headers = shape.status(problem.status), dict(problem.headers)
    return Response(body, status_code=status, media_type=shape.media_type, headers=headers)


def problem_for(scope: HTTPScope, error: Exception) -> Problem:
    """Describe any error as the request's client knows it: what to call instead, and its names of fields."""
    problem = problem_of(error)
    method, path = scope["method"], scope["path"]
    if problem.status == HTTPStatus.NOT_FOUND and isinstance(error, HTTPException):
        return replace(problem, detail=_no_such_route(method, path))
    if problem.status == HTTPStatus.METHOD_NOT_ALLOWED:
        methods = ", ".join(sorted(problem.headers["allow"].split(", ")))
        hint = next((hint for end, hint in _OTHER_ROUTES.items() if path.endswith(end)), "")
        return replace(problem, detail=f"{path} takes {methods}, not {method}{hint}")
    if problem.param and problem.kind != "invalid_field":
        name = wire_name(scope, problem.param)
        return replace(problem, param=name, detail=_renamed(problem.detail, problem.param, name))
    return problem


async def send_error(scope: Scope, receive: Receive, send: Send, error: Exception) -> None:
    """Answer a request that reaches no route with an error."""
    request = HttpRequest(scope, receive, send)
    await respond(request, error).to_asgi_response(app=None, request=request)(scope, receive, send)


def _bad_parameter(fault: Mapping[str, Any]) -> Problem:
    """The first query parameter that Litestar refused."""
    name = str(fault.get("key") or "")
    message = str(fault.get("message", "it is not valid"))
    if name in _QUERY_VALUES and (quoted := re.search("'(.*)'", message)):
        shown = shorten(quoted[1], MAX_NAME)
        message = f"{shown!r} is not one of its values{instead(quoted[1], _QUERY_VALUES[name])}"
    message = plain(message, is_typed=False)
    return Problem(400, "invalid_field", f"{name}: {message}" if name else message, name or None)


def _no_such_route(method: str, path: str) -> str:
    hints = (hint for end, hint in _ROUTE_HINTS.items() if path.endswith(end))
    hint = next(hints, "; GET /docs lists the routes")
    return f"there is no route {method} {path}{hint}"


def _renamed(message: str, param: str, name: str) -> str:
    """A message that may begin with a field, with another name for it."""
    is_named = message.startswith((f"{param}: ", f"{param} is ", f"{param} at "))
    return name + message.removeprefix(param) if is_named else message


def note_names(scope: Scope, names: Mapping[str, str]) -> None:
    """Note what a request calls some fields, for `wire_name`."""
    scope[_FIELD_NAMES] = names  # type: ignore[literal-required]


def wire_name(scope: Scope, name: str) -> str:
    """The name that a request has for a field that code outside its wire format names.

    >>> names = {"response_format.json_schema": "text.format"}
    >>> wire_name({_FIELD_NAMES: names}, "response_format.json_schema.schema.requird")
    'text.format.schema.requird'
    """
    names: Mapping[str, str] = scope.get(_FIELD_NAMES, {})  # type: ignore[assignment]
    outer = max((each for each in names if f"{name}.".startswith(f"{each}.")), key=len, default="")
    return names[outer] + name.removeprefix(outer) if outer else name


def _with_remedy(error: Exception) -> str:
    """The message, with the field or the route: the lower packages that raise the error know neither.

    The message of a store names its file or its host, which is for the log only.
    """
    message = str(error)
    match error:
        case toolspecs.StoreFull():
            return (
                "the store is full: it can be read, but takes no changes; the gateway's log says what to do"
            )
        case toolspecs.StoreUnavailable():
            return "the store cannot be used now; the gateway's log says why"
        case compiler.UnsupportedSchema():  # of a format: of tools, other errors carry it
            return f"response_format at {message}"
        case toolspecs.DeletedToolset(name=name, latest=latest):
            remedy = f"POST {REGISTRY}/{name}/revisions/{latest}/restore brings it back"
        case toolspecs.UnknownToolset(name=name) if TOOLSET_NAME.fullmatch(name):
            remedy = f"PUT {REGISTRY}/{name} or `callgate tools apply` registers it, GET {REGISTRY} lists all"
        case runtime.DeadlineExceeded():
            remedy = "`timeout`, X-Request-Timeout and the setting request_seconds say how long that is"
        case _:
            return message
    return f"{message}{'' if message.endswith('?') else ';'} {remedy}"
