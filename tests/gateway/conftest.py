"""What tests of the gateway share beside its fixtures: its commands, and a registered toolset."""

import anthropic
import openai
import pytest
from gateway_fixtures import app, app_with, client, client_with, gateway, runtime, settings, spans
from sample_tools import TIME, WEATHER
from serving import served
from typer.testing import CliRunner

from gateway.cli import cli

__all__ = ["app", "app_with", "client", "client_with", "gateway", "runtime", "settings", "spans"]


@pytest.fixture
def run():
    """Runs a command of the command line."""

    def invoke(*arguments):
        return CliRunner().invoke(cli, list(arguments), env={"COLUMNS": "200", "NO_COLOR": "1"})

    return invoke


@pytest.fixture
def openai_client(app):
    """OpenAI's client, of a gateway that is served."""
    with (
        served(app) as http,
        openai.OpenAI(base_url=f"{http.base_url}/v1", api_key="none-needed", max_retries=0) as client,
    ):
        yield client


@pytest.fixture
def anthropic_client(app):
    """Anthropic's client, of a gateway that is served."""
    with (
        served(app) as http,
        anthropic.Anthropic(base_url=str(http.base_url), api_key="none-needed", max_retries=0) as client,
    ):
        yield client


@pytest.fixture
async def weather(client):
    """The toolset `weather`, registered."""
    response = await client.put("/v1/toolsets/weather", json={"tools": [WEATHER, TIME]})
    assert response.status_code == 201, response.text
    return response.json()
