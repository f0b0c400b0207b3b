"""What is loaded, and what is closed if that fails."""

import pytest

from gateway.app import load_runtime
from gateway.settings import Settings
from runtime.errors import ModelLoadError


class FakeCompiling:
    def __init__(self):
        self.happened = []

    def launch(self):
        self.happened.append("launched")

    async def close(self):
        self.happened.append("closed")


def test_what_compiles_begins_before_the_model_is_loaded_and_ends_if_there_is_none(tmp_path):
    compile_pool = FakeCompiling()
    with pytest.raises(ModelLoadError):
        load_runtime(Settings(model=str(tmp_path / "none"), data_dir=tmp_path), compile_pool)
    assert compile_pool.happened == ["launched", "closed"]
