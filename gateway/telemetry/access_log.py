"""The access log: one line for each request, including refused ones.

A line has the method, the route, the status, the duration, the key's id, and the id of the trace. It has no
path, no header except the request's id, and nothing from a body, because paths and bodies may contain a
client's secrets. Other code adds fields to the line, but only numbers and words of our own.
"""

import logging
import time
from contextvars import ContextVar
from typing import Any

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

from gateway.access.grants import GRANT, Grant
from gateway.http.headers import REQUEST_ID, noted_error, noting_status
from gateway.telemetry.metrics import OTHER

QUIET_PATHS = frozenset({"/health", "/healthz", "/metrics", "/ping", "/readyz"})
"""Probes and scrapes, which come every few seconds: they leave no spans and no lines."""

METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})

REQUEST_LOG = "callgate.requests"
"""The logger of the lines of requests."""

_log = logging.getLogger(REQUEST_LOG)


_current: ContextVar[dict[str, Any] | None] = ContextVar("callgate_logged_fields", default=None)
"""The fields of the line of the request that is being answered, by name."""


def add_to_log(**values: Any) -> None:
    """Add fields to the line of the request that is being answered, if there is one."""
    if (fields := _current.get()) is not None:
        fields.update({name: value for name, value in values.items() if value is not None})


def method_of(scope: HTTPScope) -> str:
    """The method of a request, if it is a known one, because clients may send any word."""
    return scope["method"] if scope["method"] in METHODS else OTHER


def route_of(scope: HTTPScope) -> str:
    """The route that a request reached, with the names of its parameters; `OTHER` if it reached none."""
    return scope.get("path_template") or OTHER


class AccessLog:
    """Logs requests when the last byte of their answer is sent. It stands before `AccessControl`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        is_logged = _log.isEnabledFor(logging.INFO)
        if scope["type"] != ScopeType.HTTP or scope["path"] in QUIET_PATHS or not is_logged:
            await self._app(scope, receive, send)
            return
        fields: dict[str, Any] = {}
        start = time.perf_counter()
        token = _current.set(fields)
        try:
            noting = noting_status(send, lambda status: fields.update(status=status))
            await self._app(scope, receive, noting)
        finally:
            _current.reset(token)
            _write(scope, fields, time.perf_counter() - start)


def _write(scope: HTTPScope, fields: dict[str, Any], duration_s: float) -> None:
    """Write the line; there is no status if the client left before the answer began."""
    method, route = method_of(scope), route_of(scope)
    grant: Grant | None = scope.get(GRANT)  # type: ignore[assignment]
    known = {
        "request_id": scope[REQUEST_ID],  # type: ignore[literal-required]
        "method": method,
        "route": route,
        "duration_ms": round(duration_s * 1e3, 1),
        **({"key_id": grant.key_id} if grant is not None and grant.key_id else {}),
    }
    error = noted_error(scope)
    answered = {"error": error.type_name} if error else {}
    _log.info("%s %s", method, route, extra={"fields": known | fields | answered})
