"""All recorders of an application, wired in one place."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from gateway.settings import Settings
from gateway.telemetry.engine_measures import EngineMeasures
from gateway.telemetry.exporters import Meters, end_in_time, open_meters, open_provider
from gateway.telemetry.metrics import Metrics
from gateway.telemetry.recent_requests import RequestRing
from gateway.telemetry.redaction import read_redactor
from gateway.telemetry.request_span import RequestSpanMiddleware
from gateway.telemetry.turn_recorder import Telemetry


@dataclass(frozen=True, slots=True)
class Recorders:
    """The recorders of turns, requests and engines, the destination of metrics, and recent requests."""

    telemetry: Telemetry
    request_spans: RequestSpanMiddleware
    engines: EngineMeasures
    meters: Meters
    ring: RequestRing
    provider: trace.TracerProvider | None
    """Where spans go; None if the settings ask for no traces."""
    _endings: list[Callable[[], None]]
    """What ends the exporters; empty once closed."""

    @classmethod
    def open(cls, settings: Settings, tracer_provider: trace.TracerProvider | None = None) -> "Recorders":
        """Make the recorders that the settings ask for; `close` closes the provider, given or not.

        Raises:
            SettingsError: there is no such redactor.
            ExtraMissing: an exporter is not installed.
        """
        redact = read_redactor(settings)
        provider = tracer_provider or open_provider(settings)
        tracer = (provider or trace.NoOpTracerProvider()).get_tracer("callgate")
        meters = open_meters(settings)
        meter = meters.provider.get_meter("callgate")
        metrics = Metrics(meter, labels_toolsets=settings.metrics_toolsets)
        endings = [meters.close, *([provider.shutdown] if isinstance(provider, TracerProvider) else [])]
        return cls(
            Telemetry(tracer, metrics, conventions=settings.genai_conventions, redact=redact),
            RequestSpanMiddleware(tracer, metrics),
            EngineMeasures(meter),
            meters,
            RequestRing(settings.recent_requests),
            provider,
            endings,
        )

    async def close(self) -> None:
        """Send what is left, in threads: this waits for a collector, if not long, and for the event loop.

        Once closed, this does nothing.
        """
        endings = [self._endings.pop() for _ in range(len(self._endings))]
        await asyncio.to_thread(end_in_time, endings)
