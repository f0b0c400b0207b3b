"""A gateway over a real store with a runtime that plays a script."""

import pytest
from fake_runtime import FakeRuntime

from gateway.settings import Settings


@pytest.fixture
def runtime():
    return FakeRuntime()


@pytest.fixture
def settings(tmp_path):
    return Settings(data_dir=str(tmp_path), secret="0123456789abcdef", compile_workers=0)
