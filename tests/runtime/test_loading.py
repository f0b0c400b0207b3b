"""What cannot be loaded is refused with the path and the reason."""

import json
import math
import shutil

import pytest
import torch
from transformers import AutoTokenizer, Llama4TextConfig

from compiler.errors import UnknownSyntax
from runtime.errors import ModelLoadError
from runtime.forward.model_runner import ModelRunner
from runtime.loading import load_model
from runtime.models.model_config import context_length
from runtime.request import Sampling
from runtime.settings import EngineSettings
from runtime.text.tokenizer import load_tokenizer


@pytest.fixture
def copied(random_model, tmp_path):
    return shutil.copytree(random_model, tmp_path / "model")


BFLOAT16 = [
    ("bfloat16", True, "bfloat16"),
    ("bfloat16", False, "float32"),
    ("float16", True, "float32"),
    ("float32", True, "float32"),
]


def edit(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_loaded_model_describes_itself(random_model):
    loaded = load_model(random_model, model_id="tiny")
    assert (loaded.model_id, loaded.syntax) == ("tiny", "hermes")
    assert loaded.vocabulary.width == loaded.model.config.vocab_size > len(loaded.tokenizer)
    assert loaded.vocabulary.stop_ids == (loaded.tokenizer.eos_token_id,)
    assert loaded.context_length == 32768
    assert load_model(random_model, syntax="json").syntax == "json"
    assert load_model(random_model).model_id == random_model.name


def test_a_cache_that_does_not_fit_is_told_with_its_setting(random_model):
    model = load_model(random_model).model
    with pytest.raises(
        ModelLoadError, match=r"KV cache of 2000000000000000 bytes does not fit .* lower kv_bytes"
    ):
        ModelRunner(model, EngineSettings(kv_bytes=2 * 10**15))


def test_every_stop_token_of_the_generation_config_stops(copied):
    edit(copied / "generation_config.json", eos_token_id=[7, 9])
    assert set(load_model(copied).vocabulary.stop_ids) >= {7, 9}


def test_a_model_is_sampled_as_its_authors_say(copied):
    edit(copied / "generation_config.json", do_sample=True, temperature=0.6, top_p=0.95, top_k=20)
    assert load_tokenizer(copied).sampling == Sampling(temperature=0.6, top_p=0.95, top_k=20)
    edit(copied / "generation_config.json", temperature=1.0, top_p=1, top_k=0, repetition_penalty=1.05)
    assert load_tokenizer(copied).sampling == Sampling(repetition_penalty=1.05)
    (copied / "generation_config.json").unlink()
    assert load_tokenizer(copied).sampling == Sampling()


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -1},
        {"top_p": 0},
        {"top_k": 2.5},
        {"top_k": math.inf},
        {"temperature": math.nan},
        {"min_p": "0.1"},
        {"repetition_penalty": True},
    ],
)
def test_sampling_that_cannot_be_is_refused(copied, wrong):
    edit(copied / "generation_config.json", **wrong)
    with pytest.raises(ModelLoadError, match=f"generation_config.json: {next(iter(wrong))} cannot be"):
        load_tokenizer(copied)


@pytest.mark.parametrize(("saved", "has_bfloat16", "loaded"), BFLOAT16)
def test_the_type_on_a_cpu(copied, monkeypatch, saved, has_bfloat16, loaded):
    edit(copied / "config.json", dtype=saved)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: has_bfloat16)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    assert str(load_model(copied, device="cpu").model.dtype) == f"torch.{loaded}"


def test_rotary_embeddings_that_shift_bound_the_context(copied):
    rope = {
        "rope_type": "dynamic",
        "factor": 2.0,
        "rope_theta": 1e4,
        "original_max_position_embeddings": 1000,
    }
    edit(copied / "config.json", rope_parameters=rope | {"partial_rotary_factor": 0.5})
    assert load_model(copied).context_length == 1000


def test_chunked_attention_bounds_the_context(copied):
    edit(copied / "config.json", attention_chunk_size=500)
    assert load_model(copied).context_length == 500
    assert context_length(Llama4TextConfig()) == 8191  # queries further on are tempered
    assert context_length(Llama4TextConfig(attn_temperature_tuning=False)) == 8192


def test_a_tokenizer_without_a_template_gets_one(copied):
    (copied / "chat_template.jinja").unlink()
    loaded = load_model(copied)
    assert "<|im_start|>" in loaded.tokenizer.chat_template
    assert loaded.syntax == "hermes"


def test_an_unknown_syntax_is_refused(random_model):
    with pytest.raises(UnknownSyntax):
        load_model(random_model, syntax="morse")


def remove(name):
    return lambda model: (model / name).unlink()


def forget_the_tokenizer(model):
    for path in model.glob("tokenizer*"):
        path.unlink()


def truncate(model):
    path = model / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])


def forget_a_layer(model):
    edit(model / "config.json", num_hidden_layers=3)


def widen(model):
    edit(model / "config.json", hidden_size=128)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (shutil.rmtree, "no such directory"),
        (remove("config.json"), "no config.json"),
        (lambda model: (model / "config.json").write_text("{"), "config"),
        (lambda model: edit(model / "config.json", model_type="t5"), "'t5' are not causal"),
        (lambda model: edit(model / "config.json", model_type="nonsense"), "nonsense"),
        (lambda model: edit(model / "config.json", max_position_embeddings=None), "max_position_embeddings"),
        (remove("tokenizer.json"), "its tokenizer"),
        (forget_the_tokenizer, "its tokenizer: it is missing"),
        (remove("model.safetensors"), "its weights"),
        (truncate, "its weights"),
        (forget_a_layer, "lack .* tensors, such as model.layers.2"),
        (widen, "its weights"),
    ],
)
def test_a_damaged_model_is_refused_with_the_reason(copied, damage, reason):
    damage(copied)
    with pytest.raises(ModelLoadError, match=reason) as failed:
        load_model(copied)
    assert failed.value.model == str(copied)
    assert "\n" not in str(failed.value)


def test_a_tokenizer_without_an_end_is_refused(copied):
    tokenizer = AutoTokenizer.from_pretrained(copied)
    tokenizer.eos_token = None
    tokenizer.save_pretrained(copied)
    for name in ("config.json", "generation_config.json"):
        edit(copied / name, eos_token_id=None)
    with pytest.raises(ModelLoadError, match="end-of-sequence"):
        load_model(copied)


@pytest.mark.parametrize(
    ("model", "num_asked", "said"),
    [
        ("nosuch/model", 1, "the hub does not answer (nobody there); write a hub id"),
        ("a/b/c", 0, "as ./PATH"),
    ],
)
def test_the_hub_is_asked_once(monkeypatch, model, num_asked, said):
    asked = []

    def ask(url):
        asked.append(url)
        raise ConnectionError("nobody there")

    monkeypatch.setattr("runtime.models.model_files.get_hf_file_metadata", ask)
    with pytest.raises(ModelLoadError) as error:
        load_model(model)
    assert said in str(error.value)
    assert len(asked) == num_asked
