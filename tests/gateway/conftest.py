"""What tests of the gateway share beside its fixtures: its commands, and a registered toolset."""

import pytest
from gateway_fixtures import app, app_with, client, client_with, gateway, runtime, settings, spans
from sample_tools import TIME, WEATHER
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
async def weather(client):
    """The toolset `weather`, registered."""
    response = await client.put("/v1/toolsets/weather", json={"tools": [WEATHER, TIME]})
    assert response.status_code == 201, response.text
    return response.json()
