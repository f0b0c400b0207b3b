"""The model of the comparison: Qwen 3's shape and vocabulary, 103 million random weights, calls that end.

Random weights alone would write strings until the budget ends. One neuron gives the output a bias, as the random
model of the demo has one (`runtime/models/random_model.py`), with the means of the architecture, so that every engine
computes it without knowing of it.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from corpus import corpus
from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

from runtime.models.chatml import CHATML

WIDTH = 151_936
HIDDEN = 512
FORMAT = 1  # raise it when the same folder would hold other files

CONSTANT, BIAS = 0, 1
"""Dimensions of the residual stream: the first is the same for every token, the second carries the bias."""

BIASES = {
    '"': 8.0,
    '",': 7.0,
    '"}': 7.5,
    '"]': 6.0,
    "}": 6.0,
    "]": 6.0,
    ",": 5.0,
    "}}": 5.0,
    "<|im_end|>": 8.0,
}
"""By how much the logits of what ends strings, lists and calls are raised; the others are about normal."""

STREAM = 16.0
"""Root mean square of the residual stream after the last layer: what the layers add must drown the last
token's own embedding, or tied embeddings would repeat it for ever."""


def ensure_model(folder: Path) -> Path:
    """The directory of the model below `folder`, built if it is not there."""
    target = folder / f"qwen3-103m-{FORMAT}"
    if not target.is_dir():
        building = folder / f"{target.name}.building"
        shutil.rmtree(building, ignore_errors=True)
        build(building)
        building.rename(target)
    return target


def build(folder: Path) -> None:
    """Write model and tokenizer in transformers' format, bfloat16."""
    tokenizer = AutoTokenizer.from_pretrained(corpus("tokenizers", "qwen3"))
    tokenizer.chat_template = CHATML
    tokenizer.save_pretrained(folder)
    weights(tokenizer).to(torch.bfloat16).save_pretrained(folder)
    generation = {"eos_token_id": tokenizer.convert_tokens_to_ids("<|im_end|>"), "do_sample": True}
    (folder / "generation_config.json").write_text(json.dumps(generation))


def shape(**special: Any) -> Qwen3Config:
    """Qwen 3's modules, about 100 million weights; `special` are ids of special tokens."""
    return Qwen3Config(
        vocab_size=WIDTH,
        hidden_size=HIDDEN,
        intermediate_size=1536,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=64,
        max_position_embeddings=32_768,
        tie_word_embeddings=True,
        bos_token_id=None,
        **special,
    )


def weights(tokenizer: Any) -> Qwen3ForCausalLM:
    """Random weights; the first layer's first neuron turns the constant dimension into the bias."""
    config = shape(eos_token_id=tokenizer.convert_tokens_to_ids("<|im_end|>"))
    model = Qwen3ForCausalLM(config)
    noise = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in (p for p in model.parameters() if p.dim() == 2):
            parameter.copy_(torch.randn(parameter.shape, generator=noise) * parameter.shape[1] ** -0.5)
        _add_bias(model, {tokenizer.convert_tokens_to_ids(text): bias for text, bias in BIASES.items()})
    return model


def _add_bias(model: Any, biases: dict[int, float]) -> None:
    """Let the first layer's first neuron write a constant into a dimension that only the biased tokens read."""
    embeddings, layers = model.model.embed_tokens.weight, model.model.layers
    embeddings.copy_(embeddings * HIDDEN**0.5)  # about normal
    for layer in layers:
        gain = STREAM / (2 * len(layers)) ** 0.5
        layer.self_attn.o_proj.weight *= gain * 4  # attention averages, which makes it small
        layer.mlp.down_proj.weight *= gain * 2
        for writer in (layer.self_attn.o_proj, layer.mlp.down_proj):
            writer.weight[[CONSTANT, BIAS]] = 0
    embeddings[:, CONSTANT] = STREAM
    embeddings[:, BIAS] = 0
    for token_id, bias in biases.items():
        embeddings[token_id, BIAS] = bias / STREAM
    first = layers[0].mlp
    for reader in (first.gate_proj, first.up_proj):
        reader.weight[0] = 0
        reader.weight[0, CONSTANT] = 2.0
    first.down_proj.weight[:, 0] = 0
    first.down_proj.weight[BIAS, 0] = STREAM
    model.model.norm.weight.fill_(HIDDEN**-0.5)
    model.model.norm.weight[BIAS] = 1.0
    _calibrate(model, biases)


@torch.inference_mode()
def _calibrate(model: Any, biases: dict[int, float]) -> None:
    """Scale the bias dimension so that it adds what was asked for, at the average of some random tokens."""
    ids = torch.randint(0, 100_000, (1, 64), generator=torch.Generator().manual_seed(1))
    hidden = model.model(ids, use_cache=False).last_hidden_state[0]
    model.model.norm.weight[BIAS] *= STREAM / hidden[:, BIAS].mean()
