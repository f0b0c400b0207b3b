"""What is recorded of one turn: the span `chat MODEL` with those below it, its metrics, its part of the log.

    POST /v1/chat/completions
    └── chat tiny                  from when the model is known to the end; an event for each call
        ├── grammar                finding it: its source, and how long that took
        │   └── compile            for each unit that a worker compiles; for a unit that another request has
        │                          compiled, the wait, with a link to that request's span
        ├── queue                  waiting for the engine of this process
        ├── prefill                computing the prompt; of an engine elsewhere, also its queue
        └── decode                 writing tokens

The GenAI semantic conventions still change: `CONVENTIONS` holds the names of each version. Callgate's own
attributes are `callgate.*`. Prompts and arguments are recorded only if `capture_content` is set, and then as
the setting `content_redactor` leaves them.
"""

import asyncio
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from opentelemetry import trace
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.trace import Span, SpanContext, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from compiler.errors import UnsupportedSchema
from gateway.errors import ClientGone
from gateway.telemetry.metrics import (
    CACHED_TOKENS,
    CLOSED_OUTPUTS,
    COMPILE_DURATION,
    ERROR,
    FILL_TIME,
    FORCED_TOKENS,
    GRAMMAR_KIND,
    GRAMMAR_WAIT,
    KEYWORD,
    MASKED_TOKENS,
    MASKS,
    MASS_REMOVED,
    MODEL,
    PROMPT_TOKENS,
    QUEUE_DURATION,
    REFUSALS,
    REFUSED_TOKENS,
    REQUEST_DURATION,
    RESCUED_TOKENS,
    SLOWEST_FILL,
    SOURCE,
    TIME_PER_OUTPUT_TOKEN,
    TIME_TO_FIRST_TOKEN,
    TOKEN_TYPE,
    TOKEN_USAGE,
    UNITS,
    Labels,
    Metrics,
    refused_keyword,
)
from gateway.telemetry.served_requests import add_to_log
from runtime.events import (
    ArgumentsDelta,
    CallStarted,
    Event,
    Finished,
    GenerationStats,
    TextDelta,
    mass_removed,
    num_rescued,
)
from runtime.request import GenerationRequest
from toolspecs.toolset import Revision

_COMMON = {
    "operation": "gen_ai.operation.name",
    "request_model": MODEL,
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
PROVIDER = "callgate"
_MAX_COMPILED = 4096
_PROPAGATOR = TraceContextTextMapPropagator()
_log = logging.getLogger(__name__)

Redactor = Callable[[str, str], str | None]
"""Gets the name of an attribute and its text; returns the text to record, or None for none."""


def as_it_is(attribute: str, text: str) -> str:  # noqa: ARG001 - a redactor
    """Redact nothing."""
    return text


class Telemetry:
    """Records turns, and what the grammar cache does for them (it is a `CacheObserver`).

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
        self._compiled: OrderedDict[str, SpanContext] = OrderedDict()

    @property
    def captures_content(self) -> bool:
        """Whether prompts and arguments are recorded."""
        return self._redact is not None

    def chat(self, model_id: str) -> "Chat":
        """Begin to record a turn of a model."""
        return Chat(self, model_id, self.tracer.start_span(f"chat {model_id}", kind=SpanKind.INTERNAL))

    def record_content(self, span: Span, attribute: str, text: str) -> None:
        """Record content as the redactor leaves it; if it fails, the content is not recorded."""
        assert self._redact is not None, "content is captured"
        try:
            redacted = self._redact(attribute, text)
            if redacted is not None:
                span.set_attribute(attribute, redacted)
        except Exception as error:  # noqa: BLE001 - an operator's own code; its message may hold the content
            _log.warning("the content redactor failed with %s: nothing is recorded", type(error).__name__)

    def found(self, sources: Mapping[str, int]) -> None:
        """Count look-ups by tier."""
        for source, count in sources.items():
            self.metrics.add(UNITS, count, {SOURCE: source})

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
            attributes=_compile_attributes(key, kind),
            record_exception=False,
            set_status_on_exception=False,  # a schema that is refused is no error of the gateway
        ) as span:
            self._remember(key, span.get_span_context())
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
        """A span of the wait, linked to the span of the compilation if there was one."""
        with self.tracer.start_as_current_span(
            "compile", attributes=_compile_attributes(key), record_exception=False
        ) as span:
            try:
                yield
            finally:
                if (context := self._compiled.get(key)) is not None:
                    span.add_link(context)

    def _remember(self, key: str, context: SpanContext) -> None:
        if context.is_valid:
            self._compiled.pop(key, None)
            self._compiled[key] = context
            if len(self._compiled) > _MAX_COMPILED:
                self._compiled.popitem(last=False)


def _compile_attributes(key: str, kind: str | None = None) -> dict[str, Any]:
    attributes: dict[str, Any] = {"callgate.unit.key": key, "callgate.compile.is_joined": kind is None}
    return attributes | ({GRAMMAR_KIND: kind} if kind else {})


class Chat:
    """Records one turn. It observes the events of the generation that answers it."""

    def __init__(self, telemetry: Telemetry, model_id: str, span: Span) -> None:
        self._telemetry = telemetry
        self._model_id = model_id
        self._span = span
        self._start = time.perf_counter()
        self._first_at: float | None = None
        self._request: GenerationRequest | None = None
        self._finished: list[Finished] = []
        self._texts: dict[str, str] = {}
        self._toolset: Labels = {}
        self._is_ended = False

    @contextmanager
    def beginning(self) -> Iterator[None]:
        """What the block does belongs to the turn. An error that leaves it ends the turn."""
        try:
            with trace.use_span(self._span, record_exception=False, set_status_on_exception=False):
                yield
        except asyncio.CancelledError:  # so the routes end what a client no longer waits for
            self.ended(ClientGone())
            raise
        except BaseException as error:
            self.ended(error)
            raise

    def uses(self, revisions: Sequence[Revision]) -> None:
        """The turn's toolsets."""
        self._toolset = self._telemetry.metrics.toolset_label([r.toolset.name for r in revisions])

    @contextmanager
    def grammar(self, revisions: Sequence[Revision]) -> Iterator["GrammarSpan"]:
        """Record how the grammar of some toolsets is found."""
        with self._telemetry.tracer.start_as_current_span("grammar", record_exception=False) as span:
            if revisions and span.is_recording():
                span.set_attributes(_toolset_attributes(revisions))
            yield GrammarSpan(span, self._telemetry.metrics)

    def headers(self) -> Mapping[str, str]:
        """The W3C headers that put an engine's spans below this turn."""
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier, trace.set_span_in_context(self._span))
        return carrier

    def asked(self, request: GenerationRequest) -> None:
        """Record what the runtime is asked for; of several tries, the last one counts."""
        self._request = request
        if not self._span.is_recording():
            return
        names = self._telemetry.names
        self._span.set_attributes(_named(names, _request_values(request)))
        if request.constraint:
            self._span.set_attribute("callgate.grammar.digest", request.constraint.digest)
        if self._telemetry.captures_content:
            written = json.dumps([asdict(message) for message in request.messages])
            self._telemetry.record_content(self._span, names["input"], written)

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
        if self._span.is_recording():
            self._end_span(error)
        self._record_metrics(error)
        self._add_to_log(error)
        self._span.end()

    def _end_span(self, error: BaseException | None) -> None:
        names = self._telemetry.names
        if self._finished:
            self._span.set_attributes(_named(names, self._response_values()))
            self._span.set_attributes(_mask_attributes(self._finished))
        if self._texts:
            self._telemetry.record_content(self._span, names["output"], json.dumps(self._texts))
        if error is not None:
            self._span.set_attribute(ERROR, type(error).__qualname__)
            self._span.set_status(Status(StatusCode.ERROR, str(error)))
        self._add_steps(time.time_ns())

    def _add_steps(self, end: int) -> None:
        """Spans for the steps that the request came to, each until the next."""
        if self._request is None:
            return
        times, below = self._request.times, trace.set_span_in_context(self._span)
        steps = (("queue", times.queued_ns), ("prefill", times.prefill_ns), ("decode", times.decode_ns))
        until = end
        for name, start in reversed(steps):
            if start is not None:
                self._telemetry.tracer.start_span(name, below, start_time=start).end(max(start, until))
                until = start

    def _record_metrics(self, error: BaseException | None) -> None:
        metrics, end = self._telemetry.metrics, time.perf_counter()
        labels: dict[str, str | int] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": PROVIDER,
            MODEL: self._model_id,
            **self._toolset,
        }
        failed = {ERROR: type(error).__qualname__} if error is not None else {}
        metrics.record(REQUEST_DURATION, end - self._start, labels | failed)
        if self._first_at is not None:
            metrics.record(TIME_TO_FIRST_TOKEN, self._first_at - self._start, labels)
        if not self._finished:
            return
        stats = [finished.stats for finished in self._finished]
        num_prompt, num_output = _num_prompt(stats), sum(one.num_output_tokens for one in stats)
        metrics.record(TOKEN_USAGE, num_prompt, {**labels, TOKEN_TYPE: "input"})
        metrics.record(TOKEN_USAGE, num_output, {**labels, TOKEN_TYPE: "output"})
        longest = max(one.num_output_tokens for one in stats)
        if self._first_at is not None and longest > 1:
            metrics.record(TIME_PER_OUTPUT_TOKEN, (end - self._first_at) / (longest - 1), labels)
        _record_masks(metrics, self._finished, {MODEL: self._model_id, **self._toolset})
        times = self._request.times if self._request else None
        if times and times.queued_ns is not None and times.prefill_ns is not None:
            waited_s = (times.prefill_ns - times.queued_ns) / 1e9
            metrics.record(QUEUE_DURATION, waited_s, {MODEL: self._model_id, **self._toolset})

    def _add_to_log(self, error: BaseException | None) -> None:
        add_to_log(model=self._model_id, error=type(error).__qualname__ if error is not None else None)
        if self._first_at is not None:
            add_to_log(first_token_ms=round((self._first_at - self._start) * 1e3, 1))
        if self._finished:
            stats = [finished.stats for finished in self._finished]
            add_to_log(
                input_tokens=_num_prompt(stats),
                output_tokens=sum(one.num_output_tokens for one in stats),
                forced_tokens=sum(one.num_forced_tokens for one in stats),
                rescued_tokens=num_rescued(stats),
                finish_reasons=[finished.reason.value for finished in self._finished],
                closed_by=_closed_by(self._finished),
            )

    def _response_values(self) -> Mapping[str, Any]:
        stats = [finished.stats for finished in self._finished]
        return {
            "response_id": self._request.request_id if self._request else None,
            "response_model": self._model_id,
            "finish_reasons": [finished.reason.value for finished in self._finished],
            "input_tokens": _num_prompt(stats),
            "output_tokens": sum(one.num_output_tokens for one in stats),
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
        self._texts[key] = self._texts.get(key, "") + text


@dataclass(frozen=True, slots=True)
class GrammarSpan:
    """The span of finding a grammar."""

    span: Span
    metrics: Metrics

    def found(self, digest: str, source: str, wait_ms: float) -> None:
        """Record the grammar that was found."""
        self.span.set_attribute("callgate.grammar.digest", digest)
        self.span.set_attribute(SOURCE, source)
        self.span.set_attribute("callgate.grammar.wait_ms", wait_ms)
        self.metrics.record(GRAMMAR_WAIT, wait_ms / 1e3, {SOURCE: source})
        add_to_log(grammar_source=source, grammar_wait_ms=round(wait_ms, 1))


def _record_masks(metrics: Metrics, finished: Sequence[Finished], labels: Labels) -> None:
    """Record what the masks of a turn cost and changed; what its engine cannot tell is left out."""
    stats = [one.stats for one in finished]
    metrics.add(PROMPT_TOKENS, sum(one.num_prompt_tokens for one in stats), labels)
    metrics.add(CACHED_TOKENS, sum(one.num_cached_tokens for one in stats), labels)
    metrics.add(MASKED_TOKENS, sum(one.num_masked_steps for one in stats), labels)
    metrics.add(FORCED_TOKENS, sum(one.num_forced_tokens for one in stats), labels)
    metrics.add(REFUSED_TOKENS, sum(one.num_refused_tokens for one in stats), labels)
    metrics.add(CLOSED_OUTPUTS, sum(one.closed_by is not None for one in finished), labels)
    metrics.add(RESCUED_TOKENS, num_rescued(stats) or 0, labels)
    if num_masks := sum(one.num_masks for one in stats):
        metrics.add(MASKS, num_masks, labels)
        metrics.add(FILL_TIME, sum(one.mask_fill_us_sum for one in stats) / 1e6, labels)
        metrics.record(SLOWEST_FILL, max(one.mask_fill_us_max for one in stats) / 1e6, labels)
    removed = mass_removed(stats)
    if removed is not None and any(one.num_masked_steps for one in stats):
        metrics.record(MASS_REMOVED, removed, labels)


def _num_prompt(stats: Sequence[GenerationStats]) -> int:
    return max(one.num_prompt_tokens for one in stats)


def _closed_by(finished: Sequence[Finished]) -> str | None:
    return next((one.closed_by for one in finished if one.closed_by), None)


def _named(names: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
    return {names[key]: value for key, value in values.items() if value is not None}


def _request_values(request: GenerationRequest) -> Mapping[str, Any]:
    sampling = request.sampling
    return {
        "operation": "chat",
        "provider": PROVIDER,
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
    stats = [one.stats for one in finished]
    known = {
        "callgate.tokens.rescued": num_rescued(stats),
        "callgate.mass.removed": mass_removed(stats),
        "callgate.closed_by": _closed_by(finished),
    }
    return {
        "callgate.mask.fill_us.sum": sum(one.mask_fill_us_sum for one in stats),
        "callgate.mask.fill_us.max": max(one.mask_fill_us_max for one in stats),
        "callgate.tokens.forced": sum(one.num_forced_tokens for one in stats),
        **{name: value for name, value in known.items() if value is not None},
    }
