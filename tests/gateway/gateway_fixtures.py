"""Fixtures of a gateway over a real store, whose runtime plays a script."""

import pytest
from fake_runtime import FakeRuntime
from msgspec.structs import replace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from serving import client_of, served

from gateway.app import create_app
from gateway.settings import Settings

__all__ = ["app", "app_with", "client", "client_with", "gateway", "runtime", "settings", "spans"]


@pytest.fixture
def settings(tmp_path):
    """Compiling in this process: workers take seconds to start, and have tests of their own."""
    return Settings(data_dir=str(tmp_path), secret="0123456789abcdef", compile_workers=0)


@pytest.fixture
def runtime():
    return FakeRuntime()


@pytest.fixture
def spans():
    """What the gateway has traced."""
    return InMemorySpanExporter()


@pytest.fixture
def app_with(settings, runtime, spans):
    """Makes a gateway with some other settings."""

    def made(**changes):
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(spans))
        return create_app(replace(settings, **changes), runtime=runtime, tracer_provider=provider)

    return made


@pytest.fixture
def app(app_with):
    return app_with()


@pytest.fixture
async def client(app):
    async with client_of(app) as client:
        yield client


@pytest.fixture
def client_with(app_with):
    """Opens a client of a gateway with some other settings."""
    return lambda **changes: client_of(app_with(**changes))


@pytest.fixture
def gateway(app, monkeypatch):
    """The gateway that commands find, served; a client of it."""
    with served(app) as client:
        monkeypatch.setenv("CALLGATE_URL", str(client.base_url))
        yield client
