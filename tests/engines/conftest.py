"""What tests of engines share: the tokenizer by which stand-ins write, and a store with units for plugins."""

import pytest
from engine_models import look_up

from runtime.models.random_model import RandomModelSettings, ensure_random_model
from runtime.text.tokenizer import load_tokenizer


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return load_tokenizer(
        ensure_random_model(folder, RandomModelSettings(hidden_size=64, num_layers=2)), model_id="remote"
    )


@pytest.fixture(scope="module")
def store_url(tmp_path_factory):
    return f"sqlite://{tmp_path_factory.mktemp('store')}/store.sqlite3"


@pytest.fixture(scope="module")
def found(store_url):
    return look_up(store_url)
