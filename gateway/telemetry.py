"""Traces: how the SDK is set up, and the gateway's spans.

A request has a server span, which is a child of the caller's span if the caller sends a W3C `traceparent`.
Below it are a span for finding the grammar and one for the generation.

The GenAI semantic conventions still change: `CONVENTIONS` holds the names of each version. Callgate's own
attributes are `callgate.*`. Prompts and arguments are recorded only if `capture_content` is set.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from litestar.enums import ScopeType
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from opentelemetry import trace
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from gateway.errors import ExtraMissing
from gateway.headers import REQUEST_ID
from gateway.settings import Settings
from runtime.events import ArgumentsDelta, CallStarted, Event, Finished, TextDelta
from runtime.request import GenerationRequest
from toolspecs.toolset import Revision

_COMMON = {
    "operation": "gen_ai.operation.name",
    "request_model": "gen_ai.request.model",
    "choice_count": "gen_ai.request.choice.count",
    "max_tokens": "gen_ai.request.max_tokens",
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "seed": "gen_ai.request.seed",
    "stop": "gen_ai.request.stop_sequences",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "response_id": "gen_ai.response.id",
    "response_model": "gen_ai.response.model",
    "finish_reasons": "gen_ai.response.finish_reasons",
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
}
CONVENTIONS: Mapping[str, Mapping[str, str]] = {
    "1.36": _COMMON | {"provider": "gen_ai.system", "input": "gen_ai.prompt", "output": "gen_ai.completion"},
    "1.37": _COMMON
    | {
        "provider": "gen_ai.provider.name",
        "input": "gen_ai.input.messages",
        "output": "gen_ai.output.messages",
    },
}


def open_provider(settings: Settings) -> TracerProvider | None:
    """The SDK's provider for the settings, None for no traces; raises ExtraMissing."""
    if settings.telemetry == "none":
        return None
    exporter = (
        ConsoleSpanExporter(out=sys.stdout)
        if settings.telemetry == "console"
        else _otlp(settings.otlp_endpoint)
    )
    # The SDK's own variables (OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES) win.
    resource = Resource.create({"service.name": "callgate"}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _otlp(endpoint: str | None) -> SpanExporter:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ExtraMissing("telemetry = otlp", "otlp") from error
    return OTLPSpanExporter(endpoint=endpoint)


@dataclass(frozen=True)
class Telemetry:
    """Makes the gateway's spans."""

    tracer: Tracer = field(default_factory=lambda: trace.NoOpTracerProvider().get_tracer("callgate"))
    conventions: str = "1.37"
    captures_content: bool = False

    @contextmanager
    def grammar(self, revisions: Sequence[Revision]) -> Iterator["GrammarSpan"]:
        """Open the span of finding a grammar."""
        with self.tracer.start_as_current_span("callgate.grammar") as span:
            if revisions:
                span.set_attributes(_toolset_attributes(revisions))
            yield GrammarSpan(span)

    def generation(self, request: GenerationRequest) -> "GenerationSpan":
        """Open the span of a generation."""
        names = CONVENTIONS[self.conventions]
        attributes = _named(names, _request_values(request))
        if self.captures_content:
            attributes[names["input"]] = json.dumps([asdict(message) for message in request.messages])
        span = self.tracer.start_span(f"chat {request.model}", kind=SpanKind.INTERNAL, attributes=attributes)
        if request.constraint:
            span.set_attribute("callgate.grammar.digest", request.constraint.digest)
        return GenerationSpan(span, names, request, captures_content=self.captures_content)


@dataclass(frozen=True, slots=True)
class GrammarSpan:
    """The span of finding a grammar."""

    span: Span

    def found(self, digest: str, source: str, wait_ms: float) -> None:
        """Record the grammar that was found."""
        self.span.set_attribute("callgate.grammar.digest", digest)
        self.span.set_attribute("callgate.grammar.source", source)
        self.span.set_attribute("callgate.grammar.wait_ms", wait_ms)


@dataclass
class GenerationSpan:
    """The span of a generation; it observes the events."""

    span: Span
    names: Mapping[str, str]
    request: GenerationRequest
    captures_content: bool
    finished: list[Finished] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)

    def observed(self, event: Event) -> None:
        """Record an event."""
        if isinstance(event, Finished):
            self.finished.append(event)
        elif self.captures_content:
            self._capture(event)

    def ended(self, error: BaseException | None) -> None:
        """Close the span."""
        if self.finished:
            self.span.set_attributes(_named(self.names, self._response_values()))
            self.span.set_attributes(_mask_attributes(self.finished))
        if self.texts:
            self.span.set_attribute(self.names["output"], json.dumps(self.texts))
        if error is not None:
            self.span.set_attribute("error.type", type(error).__qualname__)
            self.span.set_status(Status(StatusCode.ERROR, str(error)))
        self.span.end()

    def _response_values(self) -> Mapping[str, Any]:
        stats = [finished.stats for finished in self.finished]
        return {
            "response_id": self.request.request_id,
            "response_model": self.request.model,
            "finish_reasons": [finished.reason.value for finished in self.finished],
            "input_tokens": max(s.num_prompt_tokens for s in stats),
            "output_tokens": sum(s.num_output_tokens for s in stats),
        }

    def _capture(self, event: Event) -> None:
        match event:
            case TextDelta(choice, text):
                key = f"{choice}"
            case CallStarted(choice, index, name):
                key, text = f"{choice}.{index}", f"{name} "
            case ArgumentsDelta(choice, index, text):
                key = f"{choice}.{index}"
            case _:
                return
        self.texts[key] = self.texts.get(key, "") + text


def _named(names: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
    return {names[key]: value for key, value in values.items() if value is not None}


def _request_values(request: GenerationRequest) -> Mapping[str, Any]:
    sampling = request.sampling
    return {
        "operation": "chat",
        "provider": "callgate",
        "request_model": request.model,
        "choice_count": request.num_choices if request.num_choices != 1 else None,
        "max_tokens": request.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "seed": sampling.seed,
        "stop": list(request.stop) or None,
        "frequency_penalty": sampling.frequency_penalty or None,
        "presence_penalty": sampling.presence_penalty or None,
    }


def _toolset_attributes(revisions: Sequence[Revision]) -> dict[str, Any]:
    if len(revisions) == 1:
        [only] = revisions
        return {"callgate.toolset": only.toolset.name, "callgate.toolset.revision": only.number}
    return {
        "callgate.toolset": [r.toolset.name for r in revisions],
        "callgate.toolset.revision": [r.number for r in revisions],
    }


def _mask_attributes(finished: Sequence[Finished]) -> dict[str, Any]:
    stats = [f.stats for f in finished]
    closed_by = next((f.closed_by for f in finished if f.closed_by), None)
    num_output = sum(s.num_output_tokens for s in stats)
    mass = sum(s.mass_removed * s.num_output_tokens for s in stats) / num_output if num_output else 0.0
    return {
        "callgate.mask.fill_us.sum": sum(s.mask_fill_us_sum for s in stats),
        "callgate.mask.fill_us.max": max(s.mask_fill_us_max for s in stats),
        "callgate.tokens.forced": sum(s.num_forced_tokens for s in stats),
        "callgate.tokens.rescued": sum(s.num_rescued_tokens for s in stats),
        "callgate.mass.removed": mass,
        **({"callgate.closed_by": closed_by} if closed_by else {}),
    }


QUIET_PATHS = frozenset({"/health", "/healthz", "/metrics", "/ping", "/readyz"})

_PROPAGATOR = TraceContextTextMapPropagator()


class ServerSpanMiddleware(ASGIMiddleware):
    """Opens the server span with the request and closes it when the last byte of the answer is sent.

    It runs for requests that may come in only, so nobody else writes into the traces.
    """

    scopes = (ScopeType.HTTP,)

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Trace every request except probes."""
        if scope["path"] in QUIET_PATHS:
            await next_app(scope, receive, send)
            return
        method, route = str(scope["method"]), scope.get("path_template") or scope["path"]  # type: ignore[typeddict-item]
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
            await next_app(scope, receive, _with_status(send, span))


def _with_status(send: Send, span: Span) -> Send:
    async def send_recorded(message: Message) -> None:
        if message["type"] == "http.response.start":
            _record_status(span, message["status"])
        await send(message)

    return send_recorded


def _record_status(span: Span, status: int) -> None:
    """Record the status; by the HTTP conventions a 4xx is not an error of the server."""
    span.set_attribute("http.response.status_code", status)
    if status >= 500:
        span.set_status(Status(StatusCode.ERROR))
