"""The console in a real browser, over a gateway whose runtime plays a script."""

import pytest
from browser import opened_browser, opened_page
from fake_runtime import FakeRuntime
from sample_tools import TIME, WEATHER
from serving import served

from gateway.app import create_app
from gateway.settings import Settings


@pytest.fixture(scope="module")
def browser():
    """One for all tests of a file."""
    with opened_browser() as browser:
        yield browser


@pytest.fixture
def settings(tmp_path):
    return Settings(data_dir=str(tmp_path), secret="0123456789abcdef", compile_workers=0)


@pytest.fixture
def runtime():
    return FakeRuntime()


@pytest.fixture
def gateway(settings, runtime):
    """The gateway, served; a client of it."""
    with served(create_app(settings, runtime=runtime)) as client:
        yield client


@pytest.fixture
def page(browser, gateway):
    """The console, opened; the test fails if there is an error in it, or a call to another origin."""
    with opened_page(browser, str(gateway.base_url).rstrip("/")) as page:
        yield page


@pytest.fixture
def weather(gateway):
    """The toolset `weather`, registered."""
    gateway.put("/v1/toolsets/weather", json={"tools": [WEATHER, TIME]}).raise_for_status()
