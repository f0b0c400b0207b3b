"""What is loaded, and what is closed if that fails."""

import json
import shutil

import pytest

from compiler.isolation.limits import CompileLimits
from gateway.app import create_app
from gateway.resources import Loaded
from gateway.served_models import start_runtime
from gateway.settings import Settings
from runtime.errors import ModelLoadError
from runtime.models import TINY_MODEL_FOLDER


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
        Loaded.load(Settings(model=str(tmp_path / "none"), data_dir=tmp_path), compile_pool=compile_pool)
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


@pytest.mark.parametrize(("defaults", "temperature"), [("model", 0.3), ("openai", 1.0)])
async def test_models_are_sampled_as_their_authors_say_unless_settings_say_otherwise(
    tmp_path, defaults, temperature
):
    folder = shutil.copytree(TINY_MODEL_FOLDER, tmp_path / "model")
    config = {"eos_token_id": 4087, "do_sample": True, "temperature": 0.3}
    (folder / "generation_config.json").write_text(json.dumps(config))
    settings = Settings(
        model=str(folder),
        engine="vllm",
        engine_url=("http://127.0.0.1:1",),
        sampling_defaults=defaults,
        data_dir=tmp_path,
    )
    runtime = start_runtime(settings, lambda _: None)
    [card] = await runtime.models()
    assert card.sampling.temperature == temperature
    await runtime.close()
