"""What the files of a model say beside its weights: its vocabulary, its limits, and how to sample it.

A gateway reads them from the model's folder, and the plugin inside an engine from the loaded model. Both must
find the same vocabulary, or the grammars of one would not be those of the other. Beyond its limits, a model
computes something else without an error.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from compiler.vocabulary import Vocabulary
from runtime.request import Sampling, read_top_k

_IS_ALLOWED: Mapping[str, Callable[[float], bool]] = {
    "temperature": lambda value: 0 <= value <= 2,
    "top_p": lambda value: 0 < value <= 1,
    "top_k": lambda value: value >= -1 and type(value) is int,
    "min_p": lambda value: 0 <= value <= 1,
    "repetition_penalty": lambda value: 0.01 <= value <= 10,
}
"""The values that are read, in the ranges that requests have too."""
MODEL_FIELDS = tuple(_IS_ALLOWED)
"""The fields of `Sampling` that a model may set."""
_SHIFTING_ROPE = {"dynamic", "longrope"}
"""Rotary embeddings that change for all positions once one sequence is long: a batch cannot share them."""


def model_vocabulary(tokenizer: Any, config: Any, generation_config: Any = None) -> Vocabulary:
    """The vocabulary for logits of the width that the configuration says; all are objects of transformers.

    Every end-of-sequence token of the configurations is a stop token.

    Raises:
        ValueError: neither they nor the tokenizer name a stop token.
    """
    stop_ids = list(dict.fromkeys(_stop_ids(generation_config, config)))
    return Vocabulary.from_tokenizer(tokenizer, width=config.get_text_config().vocab_size, stop_ids=stop_ids)


def _stop_ids(*owners: Any) -> Iterator[int]:
    for owner in owners:
        ids = getattr(owner, "eos_token_id", None)
        if isinstance(ids, int):
            yield ids
        else:
            yield from ids or ()


def context_length(config: Any) -> int:
    """The longest text in tokens; `config` is that of the text model.

    Raises:
        ValueError: the config does not say.
    """
    if getattr(config, "max_position_embeddings", None) is None:
        raise ValueError("its config has no max_position_embeddings, so the length of its context is unknown")
    return min(_length_limits(config))


def max_row_tokens(config: Any) -> int | None:
    """How many tokens one packed row may have; None for any number.

    Llama 4 scales queries by their index in the row, from `floor_scale` on.
    """
    return int(config.floor_scale) - 1 if getattr(config, "attn_temperature_tuning", None) else None


def _length_limits(config: Any) -> Iterator[int]:
    yield int(config.max_position_embeddings)
    rope = getattr(config, "rope_parameters", None) or {}
    original = rope.get("original_max_position_embeddings")
    if rope.get("rope_type") in _SHIFTING_ROPE and original:
        yield int(original)
    if getattr(config, "attention_chunk_size", None):  # chunks do not see each other
        yield int(config.attention_chunk_size)
    if (longest := max_row_tokens(config)) is not None:
        yield longest


def model_sampling(generation_config: Any) -> Sampling:
    """The sampling that a `GenerationConfig` of transformers asks for; all else is as in OpenAI's API.

    A model that was trained for one temperature answers worse at another. vLLM and SGLang read the same
    values, and ignore `do_sample` too.

    Raises:
        ValueError: a value cannot be used.
    """
    values = {name: getattr(generation_config, name, None) for name in _IS_ALLOWED}
    for name, value in values.items():
        if value is not None and (type(value) not in {int, float} or not _IS_ALLOWED[name](value)):
            raise ValueError(f"generation_config.json: {name} cannot be {value!r}")
    known = {name: value for name, value in values.items() if value is not None}
    return Sampling(**known | {"top_k": read_top_k(known.get("top_k"))})
