"""What tests of engines share: the tokenizer by which stand-ins write, and a store with units for plugins."""

import pytest
from engine_models import look_up
from remote_engines import load_text


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    return load_text(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def store_url(tmp_path_factory):
    return f"sqlite://{tmp_path_factory.mktemp('store')}/store.sqlite3"


@pytest.fixture(scope="module")
def lookup(store_url):
    return look_up(store_url)
