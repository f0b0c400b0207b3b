"""The console in a real browser, over a gateway whose runtime plays a script."""

import pytest
from browser import opened_browser, opened_page
from gateway_fixtures import app, app_with, gateway, runtime, settings, spans
from sample_tools import TIME, WEATHER

__all__ = ["app", "app_with", "gateway", "runtime", "settings", "spans"]


@pytest.fixture(scope="module")
def browser():
    """One for all tests of a file."""
    with opened_browser() as browser:
        yield browser


@pytest.fixture
def page(browser, gateway):
    """The console, opened; the test fails if there is an error in it, or a call to another origin."""
    with opened_page(browser, str(gateway.base_url).rstrip("/")) as page:
        yield page


@pytest.fixture
def weather(gateway):
    """The toolset `weather`, registered."""
    gateway.put("/v1/toolsets/weather", json={"tools": [WEATHER, TIME]}).raise_for_status()
