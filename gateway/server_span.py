"""The span of an HTTP request, child of the caller's where it sends a W3C `traceparent`."""

from litestar.enums import ScopeType
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

QUIET_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})

_PROPAGATOR = TraceContextTextMapPropagator()


class ServerSpanMiddleware(ASGIMiddleware):
    """Opens the span with the request and closes it when the last byte of the answer is sent."""

    scopes = (ScopeType.HTTP,)

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Trace all but the probes."""
        if scope["path"] in QUIET_PATHS:
            await next_app(scope, receive, send)
            return
        method, route = str(scope["method"]), scope.get("path_template") or scope["path"]  # type: ignore[typeddict-item]
        headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
        with self._tracer.start_as_current_span(
            f"{method} {route}",
            context=_PROPAGATOR.extract(headers),
            kind=SpanKind.SERVER,
            attributes={"http.request.method": method, "http.route": route, "url.path": scope["path"]},
        ) as span:
            await next_app(scope, receive, _watched(send, span))


def _watched(send: Send, span: Span) -> Send:
    async def watched(message: Message) -> None:
        if message["type"] == "http.response.start":
            span.set_attribute("http.response.status_code", message["status"])
            if message["status"] >= 500:
                span.set_status(Status(StatusCode.ERROR))
        await send(message)

    return watched
