"""The tokenizer of a small random model, by which stand-ins of engines write."""

import pytest

from runtime.models.random_model import RandomModelSettings, ensure_random_model
from runtime.text.tokenizer import load_tokenizer


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return load_tokenizer(
        ensure_random_model(folder, RandomModelSettings(hidden_size=64, num_layers=2)), model_id="remote"
    )
