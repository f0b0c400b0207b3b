"""Records one turn as the span `chat MODEL`, or `text_completion MODEL`, and the spans below it.

    POST /v1/chat/completions
    └── chat demo                  from when the model is known to the end; an event for each call
        ├── grammar                finding it: its source, and how long that took
        │   └── compile            for each unit that a worker compiles; for a unit that another request has
        │                          compiled, the wait, with a link to that request's span
        ├── queue                  waiting for the engine of this process
        ├── prefill                computing the prompt; of an external engine, also its queue
        └── decode                 writing tokens

`gateway.telemetry.span_attributes` has their attributes, `gateway.telemetry.ended_turn` the metrics of the
turn and its part of the log. Prompts and arguments are recorded only if `capture_content` is set, and then as
the setting `content_redactor` leaves them.
"""

import asyncio
import json
import logging
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from opentelemetry import trace
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.trace import Span, SpanContext, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from compiler.errors import UnsupportedSchema
from gateway.errors import ClientGone
from gateway.telemetry.access_log import add_to_log
from gateway.telemetry.ended_turn import EndedTurn
from gateway.telemetry.metrics import (
    COMPILE_DURATION,
    ERROR,
    GRAMMAR_KIND,
    GRAMMAR_WAIT,
    KEYWORD,
    REFUSALS,
    SOURCE,
    UNITS,
    Labels,
    Metrics,
    refused_keyword,
)
from gateway.telemetry.recent_requests import TurnTotals, add_to_recent
from gateway.telemetry.redaction import Redactor
from gateway.telemetry.span_attributes import (
    CONVENTIONS,
    compile_attributes,
    request_attributes,
    response_attributes,
    search_attributes,
    toolset_attributes,
    turn_attributes,
)
from runtime.events import ArgumentsDelta, CallStarted, Event, Finished, TextDelta
from runtime.request import GenerationRequest, Message
from toolspecs.lru_cache import LruCache
from toolspecs.tool import ToolSearchResult
from toolspecs.toolset import Revision

_MAX_COMPILED = 4096
_MAX_KEPT_TOOLSETS = 8
_PROPAGATOR = TraceContextTextMapPropagator()
_log = logging.getLogger(__name__)


class Telemetry:
    """Records turns, and as a `CacheObserver` what the grammar cache does for them.

    Without `redact`, no content is recorded.
    """

    def __init__(
        self,
        tracer: Tracer | None = None,
        metrics: Metrics | None = None,
        *,
        conventions: str = "1.37",
        redact: Redactor | None = None,
    ) -> None:
        self.tracer = tracer or trace.NoOpTracerProvider().get_tracer("callgate")
        self.metrics = metrics or Metrics(NoOpMeterProvider().get_meter("callgate"))
        self.names = CONVENTIONS[conventions]
        self._redact = redact
        self.totals = TurnTotals()
        self._compiled: LruCache[SpanContext] = LruCache(_MAX_COMPILED)

    @property
    def captures_content(self) -> bool:
        """Whether prompts and arguments are recorded."""
        return self._redact is not None

    def record_turn(self, model_id: str, operation: str) -> "TurnRecorder":
        """Begin to record a turn of a model; `operation` is as in `Turn`."""
        attributes = turn_attributes(self.names, operation, model_id)
        span = self.tracer.start_span(
            f"{operation} {model_id}", kind=SpanKind.INTERNAL, attributes=attributes
        )
        return TurnRecorder(self, model_id, operation, span)

    def record_content(self, span: Span, attribute: str, text: str) -> None:
        """Record redacted content; if the redactor fails, the content is not recorded."""
        assert self._redact is not None, "content is captured"
        try:
            redacted = self._redact(attribute, text)
            if redacted is not None:
                span.set_attribute(attribute, redacted)
        except Exception as error:  # noqa: BLE001 - an operator's own code; its message may hold the content
            _log.warning(
                "the content redactor failed with %s, so this content is not recorded", type(error).__name__
            )

    def looked_up(self, num_by_tier: Mapping[str, int]) -> None:
        """Count look-ups by tier."""
        for tier, count in num_by_tier.items():
            self.metrics.add(UNITS, count, {SOURCE: tier})

    def refused(self, refusal: UnsupportedSchema) -> None:
        """Count refusals by keyword."""
        self.metrics.add(REFUSALS, 1, {KEYWORD: refused_keyword(refusal)})

    @contextmanager
    def compiling(self, key: str, kind: str) -> Iterator[None]:
        """A span and the duration of a compilation."""
        labels: dict[str, str | int] = {GRAMMAR_KIND: kind}
        start = time.perf_counter()
        with self.tracer.start_as_current_span(
            "compile",
            attributes=compile_attributes(key, kind),
            record_exception=False,
            set_status_on_exception=False,  # a schema that is refused is no error of the gateway
        ) as span:
            if (context := span.get_span_context()).is_valid:
                self._compiled.put(key, context, 1)
            try:
                yield
            except BaseException as error:
                labels[ERROR] = type(error).__qualname__
                span.set_attribute(ERROR, type(error).__qualname__)
                raise
            finally:
                self.metrics.record(COMPILE_DURATION, time.perf_counter() - start, labels)

    @contextmanager
    def joining(self, key: str) -> Iterator[None]:
        """A span for waiting on another request's compilation, linked to its span if there is one."""
        with self.tracer.start_as_current_span(
            "compile", attributes=compile_attributes(key), record_exception=False
        ) as span:
            try:
                yield
            finally:
                if (context := self._compiled.get(key)) is not None:
                    span.add_link(context)


class TurnRecorder:
    """Records one turn. It observes the events of the generation that answers it."""

    def __init__(self, telemetry: Telemetry, model_id: str, operation: str, span: Span) -> None:
        self._telemetry = telemetry
        self._model_id = model_id
        self._operation = operation
        self._span = span
        self._start = time.perf_counter()
        self._first_at: float | None = None
        self._request: GenerationRequest | None = None
        self._finished: list[Finished] = []
        self._texts: defaultdict[str, list[str]] = defaultdict(list)
        self._toolset: Labels = {}
        self._grammar_ns: tuple[int, int] | None = None
        self._is_ended = False

    @contextmanager
    def beginning(self) -> Iterator[None]:
        """Make the block part of the turn's span. An error that leaves the block ends the turn."""
        try:
            with trace.use_span(self._span, record_exception=False, set_status_on_exception=False):
                yield
        except asyncio.CancelledError:  # so the routes end what a client no longer waits for
            self.ended(ClientGone())
            raise
        except BaseException as error:
            self.ended(error)
            raise

    def record_toolsets(self, revisions: Sequence[Revision]) -> None:
        """Record the turn's toolsets."""
        names = [f"{r.toolset.name}@{r.number}" for r in revisions[:_MAX_KEPT_TOOLSETS]]
        add_to_recent(toolsets=names)
        self._toolset = self._telemetry.metrics.toolset_label([r.toolset.name for r in revisions])

    def record_search(self, result: ToolSearchResult | None) -> None:
        """Record the tools that a search found for the prompt."""
        if result is not None and self._span.is_recording():
            self._span.set_attributes(search_attributes(result))

    @contextmanager
    def finding_grammar(self, revisions: Sequence[Revision]) -> Iterator["GrammarSpan"]:
        """Record how the grammar of some toolsets is found."""
        with self._telemetry.tracer.start_as_current_span("grammar", record_exception=False) as span:
            if revisions and span.is_recording():
                span.set_attributes(toolset_attributes(revisions))
            start_ns = time.time_ns()
            try:
                yield GrammarSpan(span, self._telemetry.metrics)
            finally:
                self._grammar_ns = (start_ns, time.time_ns())

    def trace_headers(self) -> Mapping[str, str]:
        """The W3C trace headers that make an engine's spans children of this turn."""
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier, trace.set_span_in_context(self._span))
        return carrier

    def record_request(self, request: GenerationRequest) -> None:
        """Record the request to the runtime; if there are several tries, the last one counts."""
        self._request = request
        add_to_log(response_id=request.request_id)
        if not self._span.is_recording():
            return
        names = self._telemetry.names
        self._span.set_attributes(request_attributes(names, request))
        if self._telemetry.captures_content:
            messages = [_message_fields(message) for message in request.messages]
            written = json.dumps(messages if request.prompt is None else request.prompt)
            self._telemetry.record_content(self._span, names["input"], written)
            if request.stop:
                self._telemetry.record_content(self._span, names["stop"], json.dumps(list(request.stop)))

    def prompt_rendered(self, num_tokens: int) -> None:
        """See `Observer`; what ends well says itself how many there were."""

    def began(self) -> None:
        """The first event came."""
        self._first_at = time.perf_counter()

    def observed(self, event: Event) -> None:
        """Record an event."""
        match event:
            case Finished():
                self._finished.append(event)
            case CallStarted(choice, index, name):
                place: dict[str, str | int] = {"callgate.choice": choice, "callgate.call.index": index}
                self._span.add_event("call", {"gen_ai.tool.name": name, **place})
        if self._telemetry.captures_content:
            self._capture(event)

    def ended(self, error: BaseException | None) -> None:
        """Close the span and record the metrics; a second call does nothing."""
        if self._is_ended:
            return
        self._is_ended = True
        turn = EndedTurn(
            model_id=self._model_id,
            operation=self._operation,
            toolset=self._toolset,
            start=self._start,
            first_at=self._first_at,
            end=time.perf_counter(),
            times=self._request.times if self._request else None,
            finished=self._finished,
            error=error,
        )
        if self._span.is_recording():
            self._end_span(turn)
        turn.record(self._telemetry.metrics)
        turn.add_to(self._telemetry.totals)
        add_to_log(**turn.log_values())
        grammar = [("grammar", *self._grammar_ns)] if self._grammar_ns else []
        steps = [*grammar, *self._steps(time.time_ns())]
        add_to_recent(steps=steps, **turn.log_values(), **turn.kept_values())
        self._span.end()

    def _end_span(self, turn: EndedTurn) -> None:
        names, error = self._telemetry.names, turn.error
        if turn.finished:
            request_id = self._request.request_id if self._request else None
            self._span.set_attributes(response_attributes(names, turn, request_id))
        if self._texts:
            texts = {key: "".join(pieces) for key, pieces in self._texts.items()}
            self._telemetry.record_content(self._span, names["output"], json.dumps(texts))
        if error is not None:
            self._span.set_attribute(ERROR, type(error).__qualname__)
            self._span.set_status(Status(StatusCode.ERROR, str(error)))
        self._add_steps(time.time_ns())

    def _add_steps(self, end: int) -> None:
        """Add a span for each step that the request reached."""
        below = trace.set_span_in_context(self._span)
        for name, start, until in self._steps(end):
            self._telemetry.tracer.start_span(name, below, start_time=start).end(until)

    def _steps(self, end: int) -> list[tuple[str, int, int]]:
        """The steps that the request reached; each one ends where the next one begins."""
        if self._request is None:
            return []
        times, reached, until = self._request.times, [], end
        steps = (("queue", times.queued_ns), ("prefill", times.prefill_ns), ("decode", times.decode_ns))
        for name, start in reversed(steps):
            if start is not None:
                reached.append((name, start, max(start, until)))
                until = start
        return reached[::-1]

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
        self._texts[key].append(text)


def _message_fields(message: Message) -> dict[str, Any]:
    """A message as it is recorded: of an image only its place and its size, as the data may be megabytes."""
    images = [{"at": image.at, "num_pixels": image.num_pixels} for image in message.images]
    return asdict(replace(message, images=())) | {"images": images}


@dataclass(frozen=True, slots=True)
class GrammarSpan:
    """The span of finding a grammar."""

    span: Span
    metrics: Metrics

    def record(self, digest: str, source: str, wait_ms: float) -> None:
        """Record the grammar that was found."""
        self.span.set_attribute("callgate.grammar.digest", digest)
        self.span.set_attribute(SOURCE, source)
        self.span.set_attribute("callgate.grammar.wait_ms", wait_ms)
        self.metrics.record(GRAMMAR_WAIT, wait_ms / 1e3, {SOURCE: source})
        add_to_recent(grammar=digest, grammar_source=source)
        add_to_log(grammar_source=source, grammar_wait_ms=round(wait_ms, 1))
