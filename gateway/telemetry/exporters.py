"""Sets up OpenTelemetry's SDK as the settings say: where spans and metrics are sent."""

import logging
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import MeterProvider, NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider as SDKMeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

from gateway.errors import ExtraMissing
from gateway.settings import Settings

FLUSH_S = 3.0
"""How long a collector may take for the last spans and metrics. The chart leaves a pod some 5 s to end."""

_log = logging.getLogger(__name__)


def open_provider(settings: Settings) -> TracerProvider | None:
    """The SDK's tracer provider for the settings; None if they ask for no traces. Raises ExtraMissing."""
    if settings.telemetry != "otlp":
        for name in ("otlp_endpoint", "otlp_metrics_endpoint"):
            if getattr(settings, name):
                _log.warning("%s is set, but nothing is sent there: telemetry is not otlp", name)
    if settings.telemetry == "none":
        return None
    exporter = ConsoleSpanExporter(out=sys.stdout) if settings.telemetry == "console" else _spans_to(settings)
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
            readers.append(PeriodicExportingMetricReader(_metrics_to(settings)))
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


def _spans_to(settings: Settings) -> SpanExporter:
    exporter: SpanExporter
    try:
        if settings.otlp_protocol == "grpc":
            from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415 - an extra
                OTLPSpanExporter as GrpcSpanExporter,
            )

            exporter = GrpcSpanExporter(endpoint=settings.otlp_endpoint)
        else:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - an extra
                OTLPSpanExporter,
            )

            exporter = OTLPSpanExporter(endpoint=settings.otlp_endpoint)
    except ImportError as error:
        raise _missing(settings) from error
    return exporter


def _metrics_to(settings: Settings) -> MetricExporter:
    exporter: MetricExporter
    endpoint: Any = settings.metrics_endpoint
    try:
        if settings.otlp_protocol == "grpc":
            from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import (  # noqa: PLC0415 - an extra
                OTLPMetricExporter as GrpcMetricExporter,
            )

            exporter = GrpcMetricExporter(endpoint=endpoint)
        else:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415 - an extra
                OTLPMetricExporter,
            )

            exporter = OTLPMetricExporter(endpoint=endpoint)
    except ImportError as error:
        raise _missing(settings) from error
    return exporter


def _missing(settings: Settings) -> ExtraMissing:
    extra = "otlp-grpc" if settings.otlp_protocol == "grpc" else "otlp"
    return ExtraMissing("telemetry = otlp", extra)
