"""The span of an HTTP request, child of the caller's where it sends a W3C `traceparent`."""

from litestar.enums import ScopeType
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from gateway.problems import problem_of

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
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                await next_app(scope, receive, _watched(send, span))
            except Exception as error:
                # Of another middleware, such as the one that asks for a key: answered outside of this one.
                problem = problem_of(error)
                _answered(span, problem.status)
                if problem.is_ours:
                    span.record_exception(error)
                raise


def _watched(send: Send, span: Span) -> Send:
    async def watched(message: Message) -> None:
        if message["type"] == "http.response.start":
            _answered(span, message["status"])
        await send(message)

    return watched


def _answered(span: Span, status: int) -> None:
    """Note the status; by the HTTP conventions a 4xx is no error of the server."""
    span.set_attribute("http.response.status_code", status)
    if status >= 500:
        span.set_status(Status(StatusCode.ERROR))
