"""Greedy decoding over pages writes the tokens that `model.generate` writes."""

import paged_attention_cases
import pytest
import torch
from sequences import finish, make_sequence
from transformers import (
    AutoModelForCausalLM,
    DeepseekV3Config,
    DiffLlamaConfig,
    Gemma2Config,
    Gemma3TextConfig,
    GemmaConfig,
    GptOssConfig,
    Llama4TextConfig,
    LlamaConfig,
    MistralConfig,
    NemotronConfig,
    Phi3Config,
    PhiConfig,
    Qwen2Config,
    Qwen2MoeConfig,
    Qwen3Config,
)

from compiler.prepared_vocabulary import prepare
from compiler.vocabulary import Vocabulary
from runtime.engine import Engine
from runtime.errors import ModelLoadError
from runtime.forward.device_operations import DeviceOperations
from runtime.forward.model_runner import ModelRunner
from runtime.settings import EngineSettings

SHAPE = {
    "vocab_size": 258,
    "hidden_size": 48,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
}
WINDOW = {"sliding_window": 12}
HEADS = {"head_dim": 16}
MOE = {
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
}
LATENT = {  # keys are 24 wide, values 12
    "kv_lora_rank": 16,
    "q_lora_rank": 24,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 12,
    "num_key_value_heads": 4,
}
EXPERTS = {
    "n_routed_experts": 8,
    "n_group": 2,
    "topk_group": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 1,
}
CHUNKED = {
    "attention_chunk_size": 96,
    "no_rope_layers": [1, 0],
    "intermediate_size_mlp": 96,
    "num_local_experts": 4,
    "num_experts_per_tok": 1,
}

CONFIGS = {
    "llama": LlamaConfig(**SHAPE),
    "qwen2": Qwen2Config(**SHAPE),
    "qwen2-window": Qwen2Config(**SHAPE, use_sliding_window=True, max_window_layers=1, **WINDOW),
    "qwen3": Qwen3Config(**SHAPE, **HEADS),
    "mistral": MistralConfig(**SHAPE, **WINDOW),
    "gemma": GemmaConfig(**SHAPE, **HEADS),
    "gemma2": Gemma2Config(**SHAPE, **HEADS, **WINDOW),
    "gemma3": Gemma3TextConfig(**SHAPE, **HEADS, **WINDOW),
    "phi": PhiConfig(**SHAPE),
    "phi3": Phi3Config(**SHAPE),
    "gpt-oss": GptOssConfig(**SHAPE, **HEADS, **WINDOW, **MOE),
    "llama4": Llama4TextConfig(**SHAPE, **HEADS, **CHUNKED),
    "deepseek-v3": DeepseekV3Config(**SHAPE | LATENT, **EXPERTS),
}
BACKENDS = ["gather", "paged, in graphs"]
PREFIX = list(range(40, 62))
PROMPTS = [[7, 9, 11], [*PREFIX, 3, 4], PREFIX + [5] * 9, [100 + i for i in range(50)], [8]]
EVERYTHING = Vocabulary.from_tokens(
    [bytes([i % 256]) or b"?" for i in range(1, 258)] + [b""], stop_ids=(257,)
)


def build(config, dtype=torch.float32):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=dtype).eval()
    for weights in (p for p in model.parameters() if p.dim() > 1):
        torch.nn.init.normal_(weights, std=0.25)
    return model


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
    settings = EngineSettings(page_size=4, num_pages=128, max_batch_tokens=16, max_sequences=8)
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
    ModelRunner(model, EngineSettings(page_size=4, num_pages=8, max_sequences=2), backend)
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
