"""Writes a small random Llama as a GGUF file, as llama.cpp's converter would."""

import gguf
import numpy as np
from transformers import LlamaConfig

HIDDEN, INNER, LAYERS, HEADS, KV_HEADS, CONTEXT = 64, 128, 2, 4, 2, 2048
MARKERS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHATML_WITHOUT_TOOLS = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_letters() -> list[str]:
    """The letters that stand for the 256 bytes in byte-level vocabularies, space and `~` among the shifted ones."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    shifted = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(shifted)) for byte in range(256)]


def write_gguf(path, *, kind=gguf.GGMLQuantizationType.Q8_0, template=CHATML_WITHOUT_TOOLS) -> LlamaConfig:
    rng = np.random.default_rng(0)
    tokens = [*MARKERS, *byte_letters(), "he", "hel"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types(
        [gguf.TokenType.CONTROL] * len(MARKERS) + [gguf.TokenType.NORMAL] * (len(tokens) - 3)
    )
    writer.add_token_merges(["h e", "he l"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(template)

    def matrix(name, *shape):
        weights = rng.normal(0, 0.3, shape).astype(np.float32)
        writer.add_tensor(name, gguf.quants.quantize(weights, kind), raw_dtype=kind)

    matrix("token_embd.weight", len(tokens), HIDDEN)
    width = HIDDEN // HEADS * KV_HEADS
    for layer in range(LAYERS):
        at = f"blk.{layer}"
        matrix(f"{at}.attn_q.weight", HIDDEN, HIDDEN)
        matrix(f"{at}.attn_k.weight", width, HIDDEN)
        matrix(f"{at}.attn_v.weight", width, HIDDEN)
        matrix(f"{at}.attn_output.weight", HIDDEN, HIDDEN)
        matrix(f"{at}.ffn_gate.weight", INNER, HIDDEN)
        matrix(f"{at}.ffn_up.weight", INNER, HIDDEN)
        matrix(f"{at}.ffn_down.weight", HIDDEN, INNER)
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"{at}.{norm}.weight", np.ones(HIDDEN, np.float32))
    writer.add_tensor("output_norm.weight", np.ones(HIDDEN, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
