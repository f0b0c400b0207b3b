"""All metrics of a gateway, in one table. `/metrics` and OTLP export the same instruments.

Names and buckets follow OpenTelemetry's semantic conventions where these have them. The others begin with
`callgate.`. Prometheus writes `_` for `.`, and appends the unit and `_total`.

Labels take few values: the models served, routes, statuses, words of our own. Text from clients is never a
label, except names of toolsets if the settings allow it, and then only the first `MAX_TOOLSETS`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from threading import Lock

from opentelemetry.metrics import CallbackOptions, Histogram, Meter, Observation

from compiler.errors import LimitReached, UnsupportedSchema
from compiler.frontend.keywords import ASSERTIONS

OTHER = "_OTHER"
"""The value of a label that stands for all others, as in OpenTelemetry's conventions."""
MAX_TOOLSETS = 100

Labels = Mapping[str, str | int]


class Kind(Enum):
    """The kind of a metric. Observable ones are measured when somebody reads them."""

    COUNTER = auto()
    HISTOGRAM = auto()
    OBSERVABLE_GAUGE = auto()
    OBSERVABLE_COUNTER = auto()


@dataclass(frozen=True, slots=True)
class Metric:
    """A row of the table. Its values may have the labels `labels`; only a histogram has `buckets`."""

    name: str
    kind: Kind
    unit: str
    description: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


_HTTP_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
# Prometheus takes no quantile for more than the last bucket: these go on behind those of the conventions.
_REQUEST_BUCKETS = (
    *(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
    *(163.84, 327.68),
)
_FIRST_TOKEN_BUCKETS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0),
    *(2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0, 160.0, 320.0),
)
_OUTPUT_TOKEN_BUCKETS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
_USAGE_BUCKETS = tuple(4.0**power for power in range(14))
_COMPILE_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_FILL_BUCKETS = (1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 1)
_SHARE_BUCKETS = (0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)

MODEL = "gen_ai.request.model"
TOOLSET = "callgate.toolset"
ERROR = "error.type"
SOURCE = "callgate.grammar.source"
KEYWORD = "callgate.schema.keyword"
GRAMMAR_KIND = "callgate.grammar.kind"
TOKEN_TYPE = "gen_ai.token.type"  # noqa: S105 - of a language model
DRAFT_END = "callgate.draft.end"
CLOSED_BY = "callgate.closed_by"
STATE = "callgate.state"
ENGINE = "callgate.engine"
_CHAT = ("gen_ai.operation.name", "gen_ai.provider.name", MODEL, TOOLSET)
_MODEL = (MODEL, TOOLSET)

HTTP_DURATION = Metric(
    "http.server.request.duration",
    Kind.HISTOGRAM,
    "s",
    "HTTP requests that were let in, except probes: the time until the last byte of the answer.",
    ("http.request.method", "http.route", "http.response.status_code", ERROR),
    _HTTP_BUCKETS,
)
REQUEST_DURATION = Metric(
    "gen_ai.server.request.duration",
    Kind.HISTOGRAM,
    "s",
    "Turns of a model: the time until the answer is complete, or fails.",
    (*_CHAT, ERROR),
    _REQUEST_BUCKETS,
)
TIME_TO_FIRST_TOKEN = Metric(
    "gen_ai.server.time_to_first_token",
    Kind.HISTOGRAM,
    "s",
    "From a turn's beginning to its first token, finding the grammar and queueing included.",
    _CHAT,
    _FIRST_TOKEN_BUCKETS,
)
TIME_PER_OUTPUT_TOKEN = Metric(
    "gen_ai.server.time_per_output_token",
    Kind.HISTOGRAM,
    "s",
    "Mean time per token after the first one, of each turn.",
    _CHAT,
    _OUTPUT_TOKEN_BUCKETS,
)
TOKEN_USAGE = Metric(
    "gen_ai.client.token.usage",
    Kind.HISTOGRAM,
    "{token}",
    "Tokens of a turn's prompt, and of all its choices.",
    (*_CHAT, TOKEN_TYPE),
    _USAGE_BUCKETS,
)
QUEUE_DURATION = Metric(
    "callgate.queue.duration",
    Kind.HISTOGRAM,
    "s",
    "How long turns waited for the engine of this process.",
    _MODEL,
    _FIRST_TOKEN_BUCKETS,
)
CACHED_TOKENS = Metric(
    "callgate.tokens.cached",
    Kind.COUNTER,
    "{token}",
    "Tokens of prompts that were found in the prefix cache, of each choice.",
    _MODEL,
)
PROMPT_TOKENS = Metric(
    "callgate.tokens.prompt",
    Kind.COUNTER,
    "{token}",
    "Tokens of prompts, of each choice: cached or computed.",
    _MODEL,
)
FORCED_TOKENS = Metric(
    "callgate.tokens.forced",
    Kind.COUNTER,
    "{token}",
    "Tokens that the grammar forced, which were not sampled.",
    _MODEL,
)
MASKED_TOKENS = Metric(
    "callgate.tokens.masked",
    Kind.COUNTER,
    "{token}",
    "Tokens that were sampled under a mask.",
    _MODEL,
)
RESCUED_TOKENS = Metric(
    "callgate.tokens.rescued",
    Kind.COUNTER,
    "{token}",
    "Tokens where the mask forbade the model's own first choice; of external engines only llama-server"
    " tells, with log probabilities.",
    _MODEL,
)
OUTPUTS = Metric(
    "callgate.outputs",
    Kind.COUNTER,
    "{output}",
    "Outputs, by what completed them: the model (none), the budget closer, or the verifier of an external"
    " engine.",
    (*_MODEL, CLOSED_BY),
)
DRAFTS = Metric(
    "callgate.drafts",
    Kind.COUNTER,
    "{draft}",
    "Answers drawn exactly or proven best (`taken`), and unused drafts, by where they left the grammar.",
    (*_MODEL, DRAFT_END),
)
MASS_REMOVED = Metric(
    "callgate.mass.removed",
    Kind.HISTOGRAM,
    "1",
    "Mean probability that masks removed per step, of each turn; external engines do not tell.",
    _MODEL,
    _SHARE_BUCKETS,
)
MASKS = Metric("callgate.mask.fills", Kind.COUNTER, "{mask}", "Masks that were filled.", _MODEL)
FILL_TIME = Metric("callgate.mask.fill.time", Kind.COUNTER, "s", "Time it took to fill masks.", _MODEL)
SLOWEST_FILL = Metric(
    "callgate.mask.fill.slowest",
    Kind.HISTOGRAM,
    "s",
    "The slowest mask of each turn.",
    _MODEL,
    _FILL_BUCKETS,
)
UNITS = Metric(
    "callgate.grammar.lookups",
    Kind.COUNTER,
    "{unit}",
    "Grammars of tools and formats that requests needed, by the tier of the cache that had them.",
    (SOURCE,),
)
GRAMMAR_WAIT = Metric(
    "callgate.grammar.wait",
    Kind.HISTOGRAM,
    "s",
    "How long turns waited for their grammar, by its slowest part.",
    (SOURCE,),
    _COMPILE_BUCKETS,
)
COMPILE_DURATION = Metric(
    "callgate.grammar.compile.duration",
    Kind.HISTOGRAM,
    "s",
    "Compilations, waiting for a worker process included.",
    (GRAMMAR_KIND, ERROR),
    _COMPILE_BUCKETS,
)
REFUSALS = Metric(
    "callgate.grammar.refusals",
    Kind.COUNTER,
    "{schema}",
    "Schemas that were refused, by the keyword that cannot be enforced.",
    (KEYWORD,),
)
COMPILE_QUEUE = Metric(
    "callgate.grammar.queue", Kind.OBSERVABLE_GAUGE, "{schema}", "Schemas that wait to be compiled."
)
CACHE_BYTES = Metric(
    "callgate.grammar.cache.size", Kind.OBSERVABLE_GAUGE, "By", "Memory of the grammars in the cache."
)
STORE_READY = Metric(
    "callgate.store.ready", Kind.OBSERVABLE_GAUGE, "{store}", "1 if the store takes writes, else 0."
)
ENGINE_READY = Metric(
    "callgate.engine.ready",
    Kind.OBSERVABLE_GAUGE,
    "{engine}",
    "1 if the engine takes requests, else 0; `embedded` is the engine of this process.",
    (MODEL, ENGINE),
)
SEQUENCES = Metric(
    "callgate.engine.sequences",
    Kind.OBSERVABLE_GAUGE,
    "{sequence}",
    "Sequences that run (the batch) or wait (the queue); at an external engine, this gateway's requests.",
    (MODEL, ENGINE, STATE),
)
PAGES = Metric(
    "callgate.engine.kv_pages",
    Kind.OBSERVABLE_GAUGE,
    "{page}",
    "Pages of the KV cache that are used or free; free ones may hold cached prefixes.",
    (MODEL, ENGINE, STATE),
)
STEPS = Metric(
    "callgate.engine.steps", Kind.OBSERVABLE_COUNTER, "{step}", "Steps of the engine.", (MODEL, ENGINE)
)
STEPPED = Metric(
    "callgate.engine.step.sequences",
    Kind.OBSERVABLE_COUNTER,
    "{sequence}",
    "Sequences of all steps together: divided by the steps, the mean batch size.",
    (MODEL, ENGINE),
)
PREEMPTIONS = Metric(
    "callgate.engine.preemptions",
    Kind.OBSERVABLE_COUNTER,
    "{sequence}",
    "Sequences that lost their pages, and are computed again.",
    (MODEL, ENGINE),
)
ENGINE_REQUESTS = Metric(
    "callgate.engine.requests",
    Kind.OBSERVABLE_COUNTER,
    "{request}",
    "Requests to an external engine that were served or failed.",
    (MODEL, ENGINE, STATE),
)
REFUSED_TOKENS = Metric(
    "callgate.engine.refused_tokens",
    Kind.OBSERVABLE_COUNTER,
    "{token}",
    "Verification cuts: tokens of an external engine that the grammar refused; they are expected of an"
    " engine without guards.",
    (MODEL, ENGINE, STATE),
)
CANARY_AGE = Metric(
    "callgate.engine.canary.age",
    Kind.OBSERVABLE_GAUGE,
    "s",
    "Time since an external engine last passed the canary.",
    (MODEL, ENGINE),
)

METRICS = (
    *(HTTP_DURATION, REQUEST_DURATION, TIME_TO_FIRST_TOKEN, TIME_PER_OUTPUT_TOKEN, TOKEN_USAGE),
    *(QUEUE_DURATION, PROMPT_TOKENS, CACHED_TOKENS, MASKED_TOKENS, FORCED_TOKENS, RESCUED_TOKENS),
    *(OUTPUTS, DRAFTS, MASS_REMOVED, MASKS, FILL_TIME, SLOWEST_FILL),
    *(UNITS, GRAMMAR_WAIT, COMPILE_DURATION, REFUSALS, COMPILE_QUEUE, CACHE_BYTES, STORE_READY),
    *(ENGINE_READY, SEQUENCES, PAGES, STEPS, STEPPED, PREEMPTIONS, ENGINE_REQUESTS, REFUSED_TOKENS),
    CANARY_AGE,
)


class Metrics:
    """Records values of the table's counters and histograms; any thread may call it.

    It adds up the counters itself, and the SDK observes them when somebody reads metrics. The SDK's own
    counters take many times as long to add a value, and do so once per exporter.
    """

    def __init__(self, meter: Meter, *, labels_toolsets: bool = False) -> None:
        self._counted: dict[str, dict[frozenset[tuple[str, str | int]], float]] = {}
        self._histograms: dict[str, Histogram] = {}
        self._lock = Lock()
        for metric in METRICS:
            match metric.kind:
                case Kind.COUNTER:
                    self._counted[metric.name] = {}
                    callbacks = [partial(self._observations, metric.name)]
                    meter.create_observable_counter(metric.name, callbacks, metric.unit, metric.description)
                case Kind.HISTOGRAM:
                    self._histograms[metric.name] = meter.create_histogram(
                        metric.name,
                        metric.unit,
                        metric.description,
                        explicit_bucket_boundaries_advisory=metric.buckets,
                    )
        self._labels_toolsets = labels_toolsets
        self._toolsets: set[str] = set()

    def add(self, metric: Metric, value: float, labels: Labels) -> None:
        """Add to a counter. Adding 0 creates its series: Prometheus sees no increase in a first value."""
        counted, key = self._counted[metric.name], frozenset(labels.items())
        with self._lock:
            counted[key] = counted.get(key, 0) + value

    def record(self, metric: Metric, value: float, labels: Labels) -> None:
        """Add a value to a histogram."""
        self._histograms[metric.name].record(value, labels)

    def _observations(self, name: str, _: CallbackOptions) -> Iterable[Observation]:
        with self._lock:
            return [Observation(value, dict(labels)) for labels, value in self._counted[name].items()]

    def toolset_label(self, names: Sequence[str]) -> Labels:
        """The label of a turn's toolset, if the settings allow it and the turn has exactly one."""
        if not self._labels_toolsets or len(names) != 1:
            return {}
        name = names[0]
        if name not in self._toolsets:
            if len(self._toolsets) >= MAX_TOOLSETS:
                return {TOOLSET: OTHER}
            self._toolsets.add(name)
        return {TOOLSET: name}


def refused_keyword(refusal: UnsupportedSchema) -> str:
    """The label of a refusal: its keyword, if the specification has it; others are clients' own words."""
    if refusal.keyword in ASSERTIONS:
        return refusal.keyword
    if isinstance(refusal, LimitReached):
        return "(limit)"
    return OTHER if refusal.keyword else "(schema)"
