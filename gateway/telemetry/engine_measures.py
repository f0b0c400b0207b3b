"""Metrics that are measured when they are read: those of the grammar cache, the store and the engines.

Metrics are read in other threads. Each reading measures all of them once, on the event loop of the runtime.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from compiler.cache.grammar_cache import GrammarCache
from gateway.telemetry.metrics import (
    CACHE_BYTES,
    CANARY_AGE,
    COMPILE_QUEUE,
    ENGINE,
    ENGINE_READY,
    ENGINE_REQUESTS,
    METRICS,
    MODEL,
    PAGES,
    PREEMPTIONS,
    REFUSED_TOKENS,
    SEQUENCES,
    STATE,
    STEPPED,
    STEPS,
    STORE_READY,
    Kind,
    Labels,
    Metric,
)
from runtime.protocol import Circuit, EngineLoad, ReplicaState, Runtime
from toolspecs.errors import StoreError
from toolspecs.store import Store

FRESH_S = 0.2
"""Values that are not older than this are used again, so that one reading measures once."""
ANSWER_S = 5.0
"""How long the runtime may take to answer; after that, the reading has no such metrics."""

STORE_S = 4.0
"""How long the store may take for a write: less than `ANSWER_S`, so that a reading has the rest."""
WRITTEN, WRITTEN_S = "metrics/written", 600.0
"""The key that is written, and how long it stands."""

Measured = tuple[Metric, float, Labels]


class EngineMeasures:
    """Makes the instruments of these metrics, and measures them when they are read."""

    def __init__(self, meter: Meter) -> None:
        self._lock = threading.Lock()
        self._measured: tuple[Measured, ...] = ()
        self._measured_at = 0.0
        self._sources: tuple[Runtime, GrammarCache, Store, asyncio.AbstractEventLoop] | None = None
        for metric in METRICS:
            callbacks = [partial(self._observations, metric)]
            match metric.kind:
                case Kind.OBSERVABLE_GAUGE:
                    meter.create_observable_gauge(metric.name, callbacks, metric.unit, metric.description)
                case Kind.OBSERVABLE_COUNTER:
                    meter.create_observable_counter(metric.name, callbacks, metric.unit, metric.description)

    @asynccontextmanager
    async def of(self, runtime: Runtime, grammars: GrammarCache, store: Store) -> AsyncIterator[None]:
        """Measure these for the length of the block. The last values stay after it, for the last export.

        A block that is cancelled has none: the event loop ends, and does not wait for an answer of the store.
        """
        self._sources = (runtime, grammars, store, asyncio.get_running_loop())
        try:
            yield
            self._measured = await _measure(runtime, grammars, store)
        finally:
            self._sources = None

    def _observations(self, metric: Metric, _: CallbackOptions) -> Iterable[Observation]:
        return [
            Observation(value, labels) for measured, value, labels in self._current() if measured is metric
        ]

    def _current(self) -> tuple[Measured, ...]:
        with self._lock:
            sources = self._sources
            if sources is not None and time.monotonic() - self._measured_at > FRESH_S:
                self._measured = _measure_on_loop(*sources)
                self._measured_at = time.monotonic()
            return self._measured


def _measure_on_loop(
    runtime: Runtime, grammars: GrammarCache, store: Store, loop: asyncio.AbstractEventLoop
) -> tuple[Measured, ...]:
    """The values measured on the event loop; empty if it does not answer in time."""
    asking = _measure(runtime, grammars, store)
    try:
        answer = asyncio.run_coroutine_threadsafe(asking, loop)
    except RuntimeError:  # the event loop has ended in the meantime
        asking.close()
        return ()
    try:
        return answer.result(ANSWER_S)
    except TimeoutError:
        answer.cancel()
        return ()


async def _measure(runtime: Runtime, grammars: GrammarCache, store: Store) -> tuple[Measured, ...]:
    health = await runtime.health()
    return (
        (COMPILE_QUEUE, grammars.num_waiting, {}),
        (CACHE_BYTES, grammars.num_bytes, {}),
        (STORE_READY, int(await _takes_writes(store)), {}),
        *(row for load in health.loads for row in _embedded(load)),
        *(row for state in health.engines for row in _external_engine(state)),
    )


async def _takes_writes(store: Store) -> bool:
    """Whether a small write succeeds: a full store answers, too, and so does one that became read-only."""
    try:
        async with asyncio.timeout(STORE_S):
            await store.set(WRITTEN, b"", WRITTEN_S)
    except (StoreError, TimeoutError):
        return False
    return True


def _embedded(load: EngineLoad) -> Iterator[Measured]:
    labels: Labels = {MODEL: load.model_id, ENGINE: "embedded"}
    yield ENGINE_READY, int(load.is_ready), labels
    yield SEQUENCES, load.num_running, {**labels, STATE: "running"}
    yield SEQUENCES, load.num_waiting, {**labels, STATE: "waiting"}
    yield PAGES, load.num_pages - load.num_free_pages, {**labels, STATE: "used"}
    yield PAGES, load.num_free_pages, {**labels, STATE: "free"}
    yield STEPS, load.num_steps, labels
    yield STEPPED, load.num_stepped_sequences, labels
    yield PREEMPTIONS, load.num_preempted, labels


def _external_engine(state: ReplicaState) -> Iterator[Measured]:
    labels: Labels = {MODEL: state.model_id, ENGINE: state.name}
    yield ENGINE_READY, int(state.circuit is Circuit.CLOSED), labels
    yield SEQUENCES, state.num_running, {**labels, STATE: "running"}
    yield ENGINE_REQUESTS, state.num_served, {**labels, STATE: "served"}
    yield ENGINE_REQUESTS, state.num_failed, {**labels, STATE: "failed"}
    num_unexpected = state.num_refused_tokens - state.num_expected_refusals
    yield REFUSED_TOKENS, num_unexpected, {**labels, STATE: "unexpected"}
    yield REFUSED_TOKENS, state.num_expected_refusals, {**labels, STATE: "expected"}
    if state.canary_age_s is not None:
        yield CANARY_AGE, state.canary_age_s, labels
