"""Small models and engines over them."""

import time

import pytest
import torch
from embedded import SETTINGS
from transformers import LlamaConfig, LlamaForCausalLM
from vocabularies import BYTES

from compiler.prepared_vocabulary import prepare
from runtime import loading
from runtime.embedded import EmbeddedRuntime
from runtime.engine import Engine
from runtime.forward.model_runner import ModelRunner
from runtime.loading import load_model
from runtime.models.random_model import RandomModelSettings, ensure_random_model
from runtime.settings import EngineSettings


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _float32():
    """Once a model that is being loaded elsewhere in the process, and changes it meanwhile, is there."""
    with loading._ONE_AT_A_TIME:
        torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="session")
def byte_model():
    """A Llama over bytes whose output varies."""
    torch.manual_seed(1)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=257,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=512,
        )
    )
    for weights in (p for p in model.parameters() if p.dim() > 1):
        torch.nn.init.normal_(weights, std=0.3)
    return model.eval()


@pytest.fixture
def make_engine(byte_model):
    """An engine over the byte model; the other keyword arguments are settings."""

    def make(*, context_length=512, jump_forward=None, operations=None, **settings):
        chosen = EngineSettings(**{"page_size": 4, "num_pages": 256, "max_batch": 16} | settings)
        runner = ModelRunner(byte_model, chosen, operations)
        return Engine(
            runner, prepare(BYTES), chosen, context_length=context_length, jump_forward=jump_forward
        )

    return make


@pytest.fixture
def stop_clock(monkeypatch):
    """Stop the clock that deadlines are compared with at some second."""

    def stop(seconds):
        monkeypatch.setattr(time, "monotonic", lambda: seconds)

    return stop


@pytest.fixture(scope="session")
def random_model(tmp_path_factory):
    """The directory of the small random model that the gateway embeds."""
    return ensure_random_model(
        tmp_path_factory.mktemp("models"), RandomModelSettings(hidden_size=64, num_layers=2)
    )


@pytest.fixture(scope="session")
def loaded(random_model):
    return load_model(random_model)


@pytest.fixture
async def make_runtime(random_model):
    made = []

    def make(settings=SETTINGS, syntax=None):
        made.append(EmbeddedRuntime.load(random_model, settings, model_id="tiny", syntax=syntax))
        return made[-1]

    yield make
    for runtime in made:
        await runtime.close()


@pytest.fixture
def runtime(make_runtime):
    return make_runtime()
