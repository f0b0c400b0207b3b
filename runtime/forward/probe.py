"""The probe: compares a newly loaded model's logits over pages with those of its own attention.

A model may run over pages and still compute other logits. A layer may attend in a way that the attention
interface does not express, or attend twice, or read a cache of its own, which the engine does not give it.
The probe runs a made-up text both ways and refuses the model if the logits differ.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from runtime.errors import ModelLoadError, first_line
from runtime.forward.attention import IMPLEMENTATION, AttentionBackend, KVCache, Scoring
from runtime.forward.forward_pass import ForwardPass
from runtime.models.model_config import context_length
from runtime.scheduling.batch import Chunk
from runtime.scheduling.sequence import Sequence

LENGTH = 48
"""The number of tokens of the text."""
MAX_LENGTH = 256
"""The most tokens of a text that is longer to show the effect of a sliding window."""
TOLERANCE = {torch.float32: 0.01, torch.float64: 0.01}
TOLERANCE_ROUNDED = 0.2
"""How much logits may differ, relative to their distance from their mean. For small models with random
weights in bfloat16, rounding makes 0.02; ignoring a sliding window makes 0.4 to 1.4."""


class Unfit(Exception):
    """The reason why a model cannot run over pages."""


@dataclass(frozen=True, slots=True)
class RecordingBackend:
    """An attention backend that records how each layer asks it to attend, in order."""

    backend: AttentionBackend
    scorings: list[Scoring] = field(default_factory=list)

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, scoring: Scoring) -> Tensor:
        """The attention of `backend`."""
        self.scorings.append(scoring)
        return self.backend.attend(query, keys, values, scoring)


@torch.inference_mode()
def probe(forward_pass: ForwardPass, page_size: int) -> tuple[int, KVCache]:
    """The width of the model's logits, and a small cache in which each layer has written its keys and values.

    Raises:
        ModelLoadError: over pages the model computes other logits than by itself, or it cannot run.
    """
    model = forward_pass.model
    try:
        text = _probe_text(model.config.get_text_config())
        logits, cache = _logits_over_pages(forward_pass, text, page_size)
        if logits.device.type != "meta":  # tensors on this device have no values
            _compare(logits, _own_logits(model, text), model.dtype)
    except Exception as error:
        reason = str(error)
        if not isinstance(error, Unfit):
            reason = f"computing a first text fails: {type(error).__name__}: {first_line(error)}"
        raise ModelLoadError.of(model, reason) from error
    return logits.shape[1], cache


def _probe_text(config: Any) -> list[int]:
    """Token ids that rarely repeat; twice the length of a sliding window, if that is short enough."""
    window = getattr(config, "sliding_window", None) or 0
    length = max(LENGTH, 2 * window) if 2 * window <= MAX_LENGTH else LENGTH
    return [(7 + 31 * i * i) % config.vocab_size for i in range(min(length, context_length(config)))]


def _logits_over_pages(forward_pass: ForwardPass, text: list[int], page_size: int) -> tuple[Tensor, KVCache]:
    """The logits of the text's second half, which attends to what the first half wrote into the cache."""
    num_pages = -(-len(text) // page_size)
    cache = KVCache(1 + num_pages, page_size)
    sequence = Sequence("probe", text, max_tokens=1)
    sequence.page_table = list(range(1, 1 + num_pages))
    half = len(text) // 2
    for chunk in (Chunk(sequence, 0, half), Chunk(sequence, half, len(text) - half)):
        recording = RecordingBackend(forward_pass.attention_backend((chunk,), page_size))
        logits = forward_pass.compute((chunk,), cache, recording)
        _check_layers(forward_pass.model.config.get_text_config(), list(cache.layers), recording.scorings)
    return logits, cache


def _check_layers(config: Any, layers: list[int], scorings: list[Scoring]) -> None:
    """Check that each layer attends once, and with its sliding window if it has one."""
    if len(layers) != config.num_hidden_layers:
        raise Unfit(
            f"only {len(layers)} of its {config.num_hidden_layers} layers use the attention interface"
        )
    if len(scorings) != len(layers):
        raise Unfit(
            f"its {len(layers)} layers attend {len(scorings)} times in a pass; each layer may attend once"
        )
    window = getattr(config, "sliding_window", None)
    if not window or window >= config.max_position_embeddings:
        return
    kinds = getattr(config, "layer_types", None)
    has_window = [scoring.window is not None for scoring in scorings]
    sliding = [kinds[i] == "sliding_attention" for i in layers] if kinds else [not any(has_window)]
    if any(is_sliding and not is_told for is_sliding, is_told in zip(sliding, has_window, strict=False)):
        raise Unfit(
            f"its sliding window of {window} is only in its masks, and attention over pages uses no masks"
        )


def _own_logits(model: Any, text: list[int]) -> Tensor:
    """The logits of the same half, with the attention of the model's own modules."""
    model.set_attn_implementation("eager")
    try:
        output = model(input_ids=torch.tensor([text], device=model.device), use_cache=False)
    finally:
        model.set_attn_implementation(IMPLEMENTATION)
    logits: Tensor = output.logits[0, len(text) // 2 :].float()
    return logits


def _compare(computed: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    """Compare logits [tokens, columns] by their median token; raises Unfit.

    Single tokens may differ a lot, if rounding selects another expert.
    """
    spread = (expected - expected.mean(dim=-1, keepdim=True)).norm(dim=-1)
    difference = float(((computed - expected).norm(dim=-1) / spread).nanmedian())
    if difference > TOLERANCE.get(dtype, TOLERANCE_ROUNDED):
        raise Unfit(f"over pages it computes other logits than by itself: they differ by {difference:.0%}")
