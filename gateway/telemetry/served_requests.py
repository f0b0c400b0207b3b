"""What is recorded of each HTTP request: the server span, its duration, and one line of the log.

A request has a server span, which is a child of the caller's span if the caller sends a W3C `traceparent`.
"""

import logging
import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from litestar.enums import ScopeType
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from gateway.headers import REQUEST_ID
from gateway.telemetry.metrics import HTTP_DURATION, OTHER, Metrics

QUIET_PATHS = frozenset({"/health", "/healthz", "/metrics", "/ping", "/readyz"})
"""Probes and scrapes, which come every few seconds: they leave no spans and no lines."""

METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})

REQUEST_LOG = "callgate.requests"
"""The logger of the lines of requests."""

_PROPAGATOR = TraceContextTextMapPropagator()
_log = logging.getLogger(REQUEST_LOG)


@dataclass(frozen=True, slots=True)
class LoggedFields:
    """What the log says of one request. Whoever learns something adds it: numbers, and our own words."""

    values: dict[str, Any] = field(default_factory=dict)


_current: ContextVar[LoggedFields | None] = ContextVar("callgate_logged_fields", default=None)


def add_to_log(**values: Any) -> None:
    """Add to the log's line of the request that is being answered, if one is."""
    if (fields := _current.get()) is not None:
        fields.values.update({name: value for name, value in values.items() if value is not None})


class ServedRequests(ASGIMiddleware):
    """Records requests, from their head to the last byte of the answer.

    It runs for requests that may come in only, so nobody else writes into the traces.
    """

    scopes = (ScopeType.HTTP,)

    def __init__(self, tracer: Tracer, metrics: Metrics) -> None:
        self._tracer = tracer
        self._metrics = metrics

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Record every request except probes."""
        if scope["type"] != ScopeType.HTTP or scope["path"] in QUIET_PATHS:
            await next_app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in METHODS else OTHER
        route = scope.get("path_template") or OTHER
        start = time.perf_counter()
        fields = LoggedFields()
        headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
        with self._tracer.start_as_current_span(
            f"{method} {route}",
            context=_PROPAGATOR.extract(headers),
            kind=SpanKind.SERVER,
            attributes={
                "http.request.method": method,
                "http.route": route,
                "url.path": scope["path"],
                "callgate.request_id": scope[REQUEST_ID],  # type: ignore[literal-required]
            },
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            token = _current.set(fields)
            try:
                await next_app(scope, receive, _with_status(send, span, fields))
            finally:
                _current.reset(token)
                self._record(scope, method, route, fields, time.perf_counter() - start)

    def _record(
        self, scope: HTTPScope, method: str, route: str, fields: LoggedFields, duration_s: float
    ) -> None:
        """Count the request and log it; a client that left before the answer began got no status."""
        labels: dict[str, str | int] = {"http.request.method": method, "http.route": route}
        if (status := fields.values.get("status")) is not None:
            labels["http.response.status_code"] = status
        self._metrics.record(HTTP_DURATION, duration_s, labels)
        if _log.isEnabledFor(logging.INFO):
            known = {
                "request_id": scope[REQUEST_ID],  # type: ignore[literal-required]
                "method": method,
                "route": route,
                "duration_ms": round(duration_s * 1e3, 1),
            }
            _log.info("%s %s", method, route, extra={"fields": known | fields.values})


def _with_status(send: Send, span: Span, fields: LoggedFields) -> Send:
    async def send_recorded(message: Message) -> None:
        if message["type"] == "http.response.start":
            fields.values["status"] = message["status"]
            _record_status(span, message["status"])
        await send(message)

    return send_recorded


def _record_status(span: Span, status: int) -> None:
    """Record the status; by the HTTP conventions a 4xx is not an error of the server."""
    span.set_attribute("http.response.status_code", status)
    if status >= 500:
        span.set_status(Status(StatusCode.ERROR))
