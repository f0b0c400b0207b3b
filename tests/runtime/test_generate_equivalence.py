"""Greedy decoding over pages writes the tokens that `model.generate` writes."""

import paged_attention_cases
import pytest
import torch
from architectures import CHUNKED, CONFIGS, EVERYTHING, HEADS, PROMPTS, SHAPE, build
from sequences import finish, make_sequence
from transformers import (
    AutoModelForCausalLM,
    DiffLlamaConfig,
    Llama4TextConfig,
    NemotronConfig,
    Qwen2MoeConfig,
)

from compiler.prepared_vocabulary import prepare
from runtime.engine import Engine
from runtime.errors import ModelLoadError
from runtime.forward.device_operations import DeviceOperations
from runtime.forward.model_runner import ModelRunner
from runtime.settings import EngineSettings

BACKENDS = ["gather", "paged, in graphs"]


def reference(model, prompt, length):
    ids = torch.tensor([prompt])
    with torch.inference_mode():
        output = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=length, do_sample=False
        )
    return output[0, len(prompt) :].tolist()


@pytest.mark.parametrize(
    "backend", [None, DeviceOperations(paged_attention_cases.reference, lambda step: step)], ids=BACKENDS
)
@pytest.mark.parametrize("name", CONFIGS)
def test_tokens_are_those_of_generate(name, backend, monkeypatch):
    model = build(CONFIGS[name])
    expected = [reference(model, prompt, 24) for prompt in PROMPTS]
    assert len({i for ids in expected for i in ids}) > 20, "a model that repeats itself shows nothing"
    settings = EngineSettings(page_size=4, num_pages=128, max_batch_tokens=16, max_batch=8)
    engine = Engine(ModelRunner(model, settings, backend), prepare(EVERYTHING), settings, context_length=256)
    monkeypatch.setattr(engine.writer, "stop_ids", frozenset())
    monkeypatch.setattr(engine.masks, "_zero_forbidden", lambda probabilities, bitmask: None)
    sequences = [make_sequence(prompt, 24) for prompt in PROMPTS]
    finish(engine, *sequences)
    assert [sequence.output_ids for sequence in sequences] == expected


@pytest.mark.parametrize("name", CONFIGS)
def test_a_decode_step_looks_at_no_values(name):
    """So a CUDA graph can record it: tensors on the `meta` device have no values."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(CONFIGS[name], dtype=torch.bfloat16).eval()

    def kernel(query, keys, values, queries, scoring):
        return query.new_empty(query.shape[1], query.shape[0], values.shape[-1])

    shapes = []
    backend = DeviceOperations(kernel, lambda step: shapes.append(tuple(step().shape)))
    ModelRunner(model, EngineSettings(page_size=4, num_pages=8, max_batch=2), backend)
    assert shapes == [(4, 258), (2, 258), (1, 258)]


SETTINGS = EngineSettings(page_size=4, num_pages=8)
WINDOWED = {"use_sliding_window": True, "max_window_layers": 2, "num_experts": 4}
REFUSED = {
    "attends twice in a layer": (DiffLlamaConfig(**SHAPE), "2 layers attend 4 times"),
    "hands nothing down": (
        NemotronConfig(**SHAPE),
        "TypeError: its layers do not hand the model",
    ),
    "a window in masks alone": (
        Qwen2MoeConfig(**SHAPE, **WINDOWED, sliding_window=200),
        "sliding window of 200 is only in its masks",
    ),
    "scales queries by their index in a row": (
        Llama4TextConfig(**SHAPE, **HEADS, **CHUNKED, floor_scale=512),
        "at most 511 tokens at once",
    ),
}


@pytest.mark.parametrize(("config", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_pages_cannot_serve_is_refused(config, reason):
    with pytest.raises(ModelLoadError, match=reason):
        ModelRunner(build(config), SETTINGS)


def test_a_model_whose_layers_ignore_the_attention_interface_is_refused():
    model = build(CONFIGS["llama"])
    model.config.num_hidden_layers = 3  # the third is never seen to use the pages
    with pytest.raises(ModelLoadError, match="2 of its 3 layers"):
        ModelRunner(model, SETTINGS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_that_computes_something_else_over_pages_is_refused(dtype):
    """For instance, one that takes a token's index in the row for its position."""
    model = build(CONFIGS["llama"], dtype)

    def count(layer, states):
        indices = torch.arange(states[0].shape[1], dtype=dtype)[:, None]
        return (states[0] * (1 + indices / 16), *states[1:])

    hook = model.model.layers[0].register_forward_pre_hook(count)
    with pytest.raises(ModelLoadError, match=r"other logits than by itself: they differ by \d+%"):
        ModelRunner(model, SETTINGS)
    hook.remove()
    ModelRunner(model, SETTINGS)


@pytest.mark.parametrize("name", CONFIGS)
def test_rounding_is_no_reason_to_refuse(name):
    ModelRunner(build(CONFIGS[name], torch.bfloat16), SETTINGS)
