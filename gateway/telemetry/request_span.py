"""Records each HTTP request that has access: its server span and its duration.

A request has a server span, which is a child of the caller's span if the caller sends a W3C `traceparent`.
"""

import time
from http import HTTPStatus

from litestar.enums import ScopeType
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from gateway.http.headers import ERROR_TYPE, REQUEST_ID, noting_status
from gateway.telemetry.access_log import QUIET_PATHS, add_to_log, method_of, route_of
from gateway.telemetry.metrics import ERROR, HTTP_DURATION, Metrics

_PROPAGATOR = TraceContextTextMapPropagator()


class RequestSpanMiddleware(ASGIMiddleware):
    """Records requests, from their head to the last byte of the answer.

    It sees only requests that have access, so nobody else can write into the traces.
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
        method, route = method_of(scope), route_of(scope)
        start = time.perf_counter()
        labels: dict[str, str | int] = {"http.request.method": method, "http.route": route}
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
            context = span.get_span_context()
            if context.is_valid:
                add_to_log(trace_id=f"{context.trace_id:032x}", span_id=f"{context.span_id:016x}")

            def note(status: int) -> None:
                labels["http.response.status_code"] = status
                span.set_attribute("http.response.status_code", status)

            try:
                await next_app(scope, receive, noting_status(send, note))
            finally:
                # A client that left before the answer began got no status.
                status = labels.get("http.response.status_code")
                if isinstance(status, int) and (failure := _failure(scope, status)) is not None:
                    labels[ERROR] = failure
                    span.set_status(Status(StatusCode.ERROR))
                    span.set_attribute(ERROR, failure)
                self._metrics.record(HTTP_DURATION, time.perf_counter() - start, labels)


def _failure(scope: HTTPScope, status: int) -> str | None:
    """The kind of error by which the server failed: from 500 on, or in a stream whose status was sent before.

    By the HTTP conventions a 4xx is not an error of the server.
    """
    error_type: str | None = scope.get(ERROR_TYPE)  # type: ignore[assignment] # a name of a type
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return error_type or str(status)
    return error_type if status < HTTPStatus.BAD_REQUEST else None
