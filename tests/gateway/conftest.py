"""A gateway over a real store with a runtime that plays a script."""

import pytest
from fake_runtime import FakeRuntime
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sample_tools import TIME, WEATHER
from serving import client_of, served
from typer.testing import CliRunner

from gateway.app import create_app
from gateway.cli import cli
from gateway.settings import Settings


@pytest.fixture
def settings(tmp_path):
    """Compiling in this process: workers take seconds to start, and have tests of their own."""
    return Settings(
        data_dir=str(tmp_path),
        secret="0123456789abcdef",
        max_body_bytes=100_000,
        max_toolset_bytes=100_000,
        compile_workers=0,
    )


@pytest.fixture
def runtime():
    return FakeRuntime()


@pytest.fixture
def spans():
    return InMemorySpanExporter()


@pytest.fixture
def app(settings, runtime, spans):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return create_app(settings, runtime=runtime, tracer_provider=provider)


@pytest.fixture
def run():
    """Runs a command of the command line."""

    def invoke(*arguments):
        return CliRunner().invoke(cli, list(arguments), env={"COLUMNS": "200", "NO_COLOR": "1"})

    return invoke


@pytest.fixture
def gateway(settings, runtime, monkeypatch):
    """The gateway that commands find, served; a client of it."""
    with served(create_app(settings, runtime=runtime)) as client:
        monkeypatch.setenv("CALLGATE_URL", str(client.base_url))
        yield client


@pytest.fixture
async def client(app):
    async with client_of(app) as client:
        yield client


@pytest.fixture
async def weather(client):
    """The toolset `weather`, registered."""
    response = await client.put("/v1/toolsets/weather", json={"tools": [WEATHER, TIME]})
    assert response.status_code == 201, response.text
    return response.json()
