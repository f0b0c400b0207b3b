"""What is loaded, and what is closed if that fails."""

import msgspec
import pytest

from compiler.isolation.limits import CompileLimits
from gateway.app import create_app, load_runtime
from gateway.settings import Settings
from runtime.errors import ModelLoadError


class FakeCompiling:
    def __init__(self):
        self.happened = []

    def launch(self):
        self.happened.append("launched")

    def learn(self, prepared):
        self.happened.append("learned")

    async def close(self):
        self.happened.append("closed")


def test_what_compiles_begins_before_the_model_is_loaded_and_ends_if_there_is_none(tmp_path):
    compile_pool = FakeCompiling()
    with pytest.raises(ModelLoadError):
        load_runtime(Settings(model=str(tmp_path / "none"), data_dir=tmp_path), compile_pool)
    assert compile_pool.happened == ["launched", "closed"]


class Recorded:
    """Records in `closed` that it was closed; it can list no models."""

    num_workers = 1
    limits = CompileLimits()

    def __init__(self, name, closed):
        self._name = name
        self._closed = closed

    def launch(self):
        """Nothing to prepare."""

    def learn(self, prepared):
        """Nothing to prepare."""

    async def start(self, prepared):
        """Nothing to prepare."""

    async def models(self):
        raise RuntimeError("the models cannot be listed")

    async def close(self):
        self._closed.append(self._name)


async def test_a_start_that_fails_closes_what_was_opened(settings):
    closed = []
    runtime, compile_pool, store = (Recorded(name, closed) for name in ("runtime", "pool", "store"))
    app = create_app(settings, runtime=runtime, compile_pool=compile_pool, store=store)
    with pytest.raises(ExceptionGroup) as error:
        async with app.lifespan():
            pass
    assert str(error.value.exceptions[0]) == "the models cannot be listed"
    assert closed == ["runtime", "pool", "store"]


async def test_a_model_that_cannot_be_loaded_closes_what_was_opened(settings, tmp_path):
    closed = []
    compile_pool, store = Recorded("pool", closed), Recorded("store", closed)
    missing = msgspec.structs.replace(settings, model=str(tmp_path / "none"))
    with pytest.raises(ExceptionGroup) as error:
        async with create_app(missing, compile_pool=compile_pool, store=store).lifespan():
            pass
    assert isinstance(error.value.exceptions[0], ModelLoadError)
    assert closed == ["pool", "store"]
