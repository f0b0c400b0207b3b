"""Sets up OpenTelemetry's SDK as the settings say: where spans and metrics are sent."""

import logging
import pkgutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import MeterProvider, NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider as SDKMeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

from gateway.errors import ExtraMissing
from gateway.settings import Settings

FLUSH_S = 3.0
"""How long a collector may take for the last spans and metrics. The chart leaves a pod some 5 s to end."""

_EXPORTED = {"trace": "Span", "metric": "Metric"}

_log = logging.getLogger(__name__)


def open_provider(settings: Settings) -> TracerProvider | None:
    """The SDK's tracer provider for the settings; None if they ask for no traces. Raises ExtraMissing."""
    if settings.telemetry != "otlp":
        for name in ("otlp_endpoint", "otlp_metrics_endpoint"):
            if getattr(settings, name):
                _log.warning("%s is set, but nothing is sent there: telemetry is not otlp", name)
    if settings.telemetry == "none":
        return None
    is_otlp = settings.telemetry == "otlp"
    exporter: SpanExporter = (
        _otlp_exporter(settings, "trace", settings.otlp_endpoint)
        if is_otlp
        else ConsoleSpanExporter(out=sys.stdout)
    )
    provider = TracerProvider(resource=_resource())
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


class Meters:
    """Where metrics go. `registry` is None if `/metrics` shows none."""

    def __init__(
        self, provider: SDKMeterProvider | None = None, registry: CollectorRegistry | None = None
    ) -> None:
        self._sdk = provider
        self.provider: MeterProvider = provider or NoOpMeterProvider()
        self.registry = registry
        self._lock = threading.Lock()

    def close(self) -> None:
        """Send what is left. This waits for the collector, so call it in a thread."""
        if self._sdk is not None:
            self._sdk.shutdown()

    def text(self) -> bytes:
        """All metrics in Prometheus' text format. This asks the event loop, so call it in a thread."""
        assert self.registry is not None, "the route asks whether there are metrics"
        with self._lock:  # a collector hands the metrics of two readings at once to one of them
            return generate_latest(self.registry)


def open_meters(settings: Settings) -> Meters:
    """The SDK's metrics for the settings; raises ExtraMissing."""
    readers: list[MetricReader] = []
    registry = CollectorRegistry() if settings.metrics else None
    if registry is not None:
        readers.append(PrometheusMetricReader(registry=registry, scope_info_enabled=False))
        ProcessCollector(registry=registry)
    if settings.telemetry == "otlp" and settings.metrics:
        if settings.sends_metrics:
            exporter = _otlp_exporter(settings, "metric", settings.metrics_endpoint)
            readers.append(PeriodicExportingMetricReader(exporter))
        else:
            _log.warning(
                "no metrics are sent: otlp_endpoint does not end in /v1/traces; set otlp_metrics_endpoint too"
            )
    if not readers:
        return Meters()
    return Meters(SDKMeterProvider(readers, _resource(), shutdown_on_exit=False), registry)


def end_in_time(endings: Sequence[Callable[[], None]]) -> None:
    """End exporters side by side, each in a thread, and wait at most `FLUSH_S` seconds.

    The SDK would wait up to half a minute for each collector that is down. What still runs then is left to
    the end of the process.
    """
    threads = [threading.Thread(target=_end, args=(ending,), daemon=True) for ending in endings]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + FLUSH_S
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    if any(thread.is_alive() for thread in threads):
        _log.warning("the last spans and metrics are lost: no collector took them in %g s", FLUSH_S)


def _end(ending: Callable[[], None]) -> None:
    try:
        ending()
    except Exception as error:  # noqa: BLE001 - the SDK raises plain ones, and nobody could do anything now
        _log.warning("the last spans and metrics may be lost: %s", error)


def _resource() -> Resource:
    # The SDK's own variables (OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES) win.
    return Resource.create({"service.name": "callgate"}).merge(OTELResourceDetector().detect())


def _otlp_exporter(settings: Settings, kind: Literal["trace", "metric"], endpoint: str | None) -> Any:
    """The exporter of spans or metrics to an endpoint; raises ExtraMissing."""
    package = f"opentelemetry.exporter.otlp.proto.{settings.otlp_protocol}.{kind}_exporter"
    try:
        exporter = pkgutil.resolve_name(f"{package}:OTLP{_EXPORTED[kind]}Exporter")
        return exporter(endpoint=endpoint)
    except ImportError as error:
        extra = "otlp-grpc" if settings.otlp_protocol == "grpc" else "otlp"
        raise ExtraMissing("telemetry = otlp", extra) from error
