"""The four shapes in which errors are written: clients of each API understand only its own.

Registry and key routes answer with problem details (RFC 9457), Messages with Anthropic's error object, the
MCP front with JSON-RPC's, and all other routes with OpenAI's.

>>> problem = Problem(401, "unauthorized", "a valid API key is required")
>>> shape_of("/v1/chat/completions").body(problem)["error"]["code"]
'invalid_api_key'
>>> shape_of("/v1/toolsets/mail").body(problem)["type"]
'urn:callgate:unauthorized'
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from toolspecs.json_value import JSON

REGISTRY = "/v1/toolsets"
KEYS = "/v1/keys"
MESSAGES = "/v1/messages"
MCP = "/mcp"

_EXPECTED_KINDS = {
    "deadline_exceeded",
    "compiler_overloaded",
    "compiling_unfinished",
    "engine_stopped",
    "extra_missing",
    "keys_unavailable",
    "loading",
    "no_engine",
}
"""Kinds with a status of 500 or above that are no failure of the gateway, so they are not logged as one."""

_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}

_OPENAI_CODES = {"unauthorized": "invalid_api_key"}
"""What OpenAI's clients know an error by; other codes are ours, or the same there."""

_ANTHROPIC_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """An error, ready for any shape; `param` is the field at fault, `extensions` are further members."""

    status: int
    kind: str
    detail: str
    param: str | None = None
    extensions: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_gateway_failure(self) -> bool:
        """Whether the gateway itself failed, so that the error is logged."""
        return self.status >= 500 and self.kind not in _EXPECTED_KINDS

    @property
    def is_bug(self) -> bool:
        """Whether the log needs a traceback."""
        return self.is_gateway_failure and self.status == HTTPStatus.INTERNAL_SERVER_ERROR


def problem_details(problem: Problem) -> JSON:
    """RFC 9457; `type` is a name, not an address that can be opened."""
    title = problem.kind.replace("_", " ").capitalize()
    return {
        "type": f"urn:callgate:{problem.kind.replace('_', '-')}",
        "title": title,
        "status": problem.status,
        "detail": problem.detail,
        **({"field": problem.param} if problem.param else {}),
        **problem.extensions,
    }


def openai_error(problem: Problem) -> JSON:
    """OpenAI's error object, which is also sent in streams."""
    fallback = "server_error" if problem.status >= 500 else "invalid_request_error"
    return {
        "error": {
            "message": problem.detail,
            "type": _OPENAI_TYPES.get(problem.status, fallback),
            "param": problem.param,
            "code": openai_code(problem.kind),
        }
    }


def openai_code(kind: str) -> str:
    """The code of a kind of problem in OpenAI's error object."""
    return _OPENAI_CODES.get(kind, kind)


def anthropic_error(problem: Problem) -> JSON:
    """Anthropic's error object, which is also sent in streams."""
    fallback = "api_error" if problem.status >= 500 else "invalid_request_error"
    return {
        "type": "error",
        "error": {
            "type": _ANTHROPIC_TYPES.get(problem.status, fallback),
            "message": problem.detail,
            "param": problem.param,
            "code": problem.kind,
            **({"details": problem.extensions} if "error_code" in problem.extensions else {}),
        },
    }


def json_rpc_error(problem: Problem) -> JSON:
    """JSON-RPC's error object for a message that was not read, and so without an id."""
    code = -32700 if problem.kind == "malformed_body" else -32600  # parse error, invalid request
    return {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": code, "message": problem.detail, "data": {"code": problem.kind}},
    }


@dataclass(frozen=True, eq=False, slots=True)
class ErrorShape:
    """How some routes write errors: the body, its media type, and what the API calls our codes."""

    body: Callable[[Problem], JSON]
    media_type: str = "application/json"
    code_of: Callable[[str], str] = str
    has_422: bool = False
    """Whether the API has this status; the APIs of models use 400 for a bad schema."""

    def status(self, status: int) -> int:
        """The status that the API has for a status of ours."""
        return 400 if status == 422 and not self.has_422 else status


PROBLEM_DETAILS = ErrorShape(problem_details, "application/problem+json", has_422=True)
OPENAI = ErrorShape(openai_error, code_of=openai_code)
ANTHROPIC = ErrorShape(anthropic_error)
JSON_RPC = ErrorShape(json_rpc_error)


def shape_of(path: str) -> ErrorShape:
    """The shape of the errors of a route."""
    if path.startswith((REGISTRY, KEYS)):
        return PROBLEM_DETAILS
    if path.startswith(MESSAGES):
        return ANTHROPIC
    return JSON_RPC if path == MCP or path.startswith(f"{MCP}/") else OPENAI
