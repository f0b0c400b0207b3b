"""A small model of each architecture that the engine is held against, with random weights."""

import torch
from transformers import (
    AutoModelForCausalLM,
    DeepseekV3Config,
    Gemma2Config,
    Gemma3TextConfig,
    GemmaConfig,
    GptOssConfig,
    Llama4TextConfig,
    LlamaConfig,
    MistralConfig,
    Phi3Config,
    PhiConfig,
    Qwen2Config,
    Qwen3Config,
)

from compiler.vocabulary import Vocabulary

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
