"""How long texts may be, and the rows they are packed into, for a model to compute what it is meant to."""

from collections.abc import Iterator
from typing import Any

SHIFTING_ROPE = {"dynamic", "longrope"}
"""Rotary embeddings that change for all positions once one sequence is long; a batch cannot share them."""


def context_length(config: Any) -> int:
    """The longest text, in tokens; `config` is that of the text model.

    Raises:
        ValueError: it does not say.
    """
    if getattr(config, "max_position_embeddings", None) is None:
        raise ValueError("its config has no max_position_embeddings: how long may a text be?")
    return min(_bounds(config))


def longest_row(config: Any) -> int | None:
    """How many tokens one pass may have; None for any number.

    Llama 4 scales queries by where in the row they are, from `floor_scale` on.
    """
    return int(config.floor_scale) - 1 if getattr(config, "attn_temperature_tuning", None) else None


def _bounds(config: Any) -> Iterator[int]:
    yield int(config.max_position_embeddings)
    rope = getattr(config, "rope_parameters", None) or {}
    original = rope.get("original_max_position_embeddings")
    if rope.get("rope_type") in SHIFTING_ROPE and original:
        yield int(original)
    if getattr(config, "attention_chunk_size", None):  # a longer text is cut into chunks, blind to each other
        yield int(config.attention_chunk_size)
    if (longest := longest_row(config)) is not None:
        yield longest
