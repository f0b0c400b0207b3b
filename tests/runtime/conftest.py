"""Small models and engines over them."""

import pytest
import torch
from embedded import SETTINGS
from transformers import LlamaConfig, LlamaForCausalLM

from compiler.prepared_vocabulary import prepare
from compiler.vocabulary import Vocabulary
from runtime import loading
from runtime.embedded import EmbeddedRuntime
from runtime.engine import Engine
from runtime.forward.model_runner import ModelRunner
from runtime.models.random_model import RandomModelSettings, ensure_random_model
from runtime.request import Sampling
from runtime.scheduling.sequence import Sequence, SequenceStatus
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
def vocabulary():
    return Vocabulary.of_bytes()


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
def make_engine(byte_model, vocabulary):
    """An engine over the byte model; keyword arguments are settings."""

    def make(*, context_length=512, **settings):
        chosen = EngineSettings(**{"page_size": 4, "num_pages": 256, "max_sequences": 16} | settings)
        return Engine(
            ModelRunner(byte_model, chosen), prepare(vocabulary), chosen, context_length=context_length
        )

    return make


@pytest.fixture
def make_sequence():
    def make(prompt="hello", max_tokens=20, *, sequence_id="s", temperature=0.0, seed=0, **options):
        sampling = options.pop("sampling", Sampling(temperature=temperature))
        prompt_ids = list(prompt.encode()) if isinstance(prompt, str) else prompt
        return Sequence(sequence_id, prompt_ids, max_tokens, sampling, seed=seed, **options)

    return make


@pytest.fixture
def finish():
    """Run an engine until nothing is left to do; its integrity holds after every step."""

    def run(engine, *sequences, max_steps=2000):
        for sequence in sequences:
            engine.add(sequence)
        outputs = []
        for _ in range(max_steps):
            if not engine.has_work:
                break
            outputs += engine.step()
            engine.check_integrity()
        assert all(sequence.status is SequenceStatus.FINISHED for sequence in sequences)
        assert engine.pool.num_free == engine.pool.num_usable
        return outputs

    return run


@pytest.fixture(scope="session")
def random_model(tmp_path_factory):
    """The directory of the small random model that the gateway embeds."""
    return ensure_random_model(
        tmp_path_factory.mktemp("models"), RandomModelSettings(hidden_size=64, num_layers=2)
    )


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
