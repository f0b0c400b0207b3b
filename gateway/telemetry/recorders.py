"""All recorders of an application, wired in one place."""

import asyncio
from dataclasses import dataclass

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from gateway.settings import Settings
from gateway.telemetry.chat_spans import Telemetry
from gateway.telemetry.engine_measures import EngineMeasures
from gateway.telemetry.exporters import Meters, open_meters, open_provider
from gateway.telemetry.metrics import Metrics
from gateway.telemetry.recent_requests import RequestRing
from gateway.telemetry.redaction import read_redactor
from gateway.telemetry.served_requests import ServedRequests


@dataclass(frozen=True, slots=True)
class Recorders:
    """The recorders of turns, requests and engines, the destination of metrics, and recent requests."""

    telemetry: Telemetry
    requests: ServedRequests
    engines: EngineMeasures
    meters: Meters
    ring: RequestRing
    _own_provider: TracerProvider | None
    _has_own_meters: bool

    @classmethod
    def open(
        cls, settings: Settings, provider: trace.TracerProvider | None = None, meters: Meters | None = None
    ) -> "Recorders":
        """Make the recorders that the settings ask for; `close` closes what this made.

        Raises:
            SettingsError: there is no such redactor.
            ExtraMissing: an exporter is not installed.
        """
        redact = read_redactor(settings)
        own_provider = open_provider(settings) if provider is None else None
        tracer = (provider or own_provider or trace.NoOpTracerProvider()).get_tracer("callgate")
        open_meter = open_meters(settings) if meters is None else meters
        meter = open_meter.provider.get_meter("callgate")
        metrics = Metrics(meter, labels_toolsets=settings.metrics_toolsets)
        ring = RequestRing(settings.recent_requests)
        return cls(
            Telemetry(tracer, metrics, conventions=settings.genai_conventions, redact=redact),
            ServedRequests(tracer, metrics),
            EngineMeasures(meter),
            open_meter,
            ring,
            own_provider,
            _has_own_meters=meters is None,
        )

    async def close(self) -> None:
        """Send what is left, in threads: this waits for a collector and for the event loop."""
        if self._own_provider:
            await asyncio.to_thread(self._own_provider.shutdown)
        if self._has_own_meters:
            await asyncio.to_thread(self.meters.close)
