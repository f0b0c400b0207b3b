"""The probe: whether a model computes over pages what it computes by itself, on a made-up text, at load.

A model may run and still write other tokens: a layer may attend in a way that nothing tells the attention
interface of, or twice, or take what it needs from a cache that is not there.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from runtime.errors import ModelLoadError
from runtime.forward.attention import IMPLEMENTATION, KVCache, Reader, Scoring
from runtime.forward.context import context_length
from runtime.scheduler import Chunk
from runtime.sequence import Sequence

if TYPE_CHECKING:
    from runtime.forward.model_runner import ModelRunner

LENGTH = 48
LONGEST = 256
"""Tokens of the text: more than the usual where that shows what a sliding window does."""
TOLERANCE = {torch.float32: 0.01, torch.float64: 0.01}
TOLERANCE_ROUNDED = 0.2
"""By how much logits may differ, relative to how far they are from their mean. Of small models with random
weights in bfloat16, rounding makes 0.02, a sliding window that is not heeded 0.4 to 1.4."""


class Unfit(Exception):
    """Why a model cannot run over pages."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A reader that notes how each layer in turn asks it to attend."""

    reader: Reader
    scorings: list[Scoring] = field(default_factory=list)

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, scoring: Scoring) -> Tensor:
        """What the reader finds."""
        self.scorings.append(scoring)
        return self.reader.attend(query, keys, values, scoring)


@torch.inference_mode()
def probe(runner: "ModelRunner") -> int:
    """The width of the model's logits; leaves the runner with a cache in which every layer has written.

    Raises:
        ModelLoadError: the model would not write over pages what it writes by itself, or cannot run.
    """
    model = runner.model
    try:
        text = _text(model.config.get_text_config())
        logits = _over_pages(runner, text)
        if logits.device.type != "meta":  # which has no values
            _compare(logits, _by_itself(model, text), model.dtype)
    except Exception as error:
        reason = str(error) if isinstance(error, Unfit) else f"a first text fails: {_named(error)}"
        raise ModelLoadError.of(model, reason) from error
    return logits.shape[1]


def _text(config: Any) -> list[int]:
    """Ids that do not repeat soon; twice as many as a sliding window has, if these are few."""
    window = getattr(config, "sliding_window", None) or 0
    length = max(LENGTH, 2 * window) if 2 * window <= LONGEST else LENGTH
    return [(7 + 31 * i * i) % config.vocab_size for i in range(min(length, context_length(config)))]


def _over_pages(runner: "ModelRunner", text: list[int]) -> Tensor:
    """The logits of the text's second half, which reads back what the first wrote."""
    size = runner.cache.page_size
    num_pages = -(-len(text) // size)
    runner.cache = KVCache(1 + num_pages, size)
    sequence = Sequence("probe", text, max_tokens=1)
    sequence.page_table = list(range(1, 1 + num_pages))
    half = len(text) // 2
    for chunk in (Chunk(sequence, 0, half), Chunk(sequence, half, len(text) - half)):
        watched = Watched(runner.reader((chunk,)))
        logits = runner.compute((chunk,), watched)
        _check_layers(runner.model.config.get_text_config(), list(runner.cache.layers), watched.scorings)
    return logits


def _check_layers(config: Any, layers: list[int], scorings: list[Scoring]) -> None:
    """Each layer attends once, and says so if it does not see all that came before."""
    if len(layers) != config.num_hidden_layers:
        raise Unfit(
            f"only {len(layers)} of its {config.num_hidden_layers} layers use the attention interface"
        )
    if len(scorings) != len(layers):
        raise Unfit(
            f"its {len(layers)} layers attend {len(scorings)} times in a pass; a layer can do so once"
        )
    window = getattr(config, "sliding_window", None)
    if not window or window >= config.max_position_embeddings:
        return
    kinds = getattr(config, "layer_types", None)
    told = [scoring.window is not None for scoring in scorings]
    sliding = [kinds[layer] == "sliding_attention" for layer in layers] if kinds else [not any(told)]
    if any(is_sliding and not is_told for is_sliding, is_told in zip(sliding, told, strict=False)):
        raise Unfit(f"its sliding window of {window} is in its masks alone, which pages know nothing of")


def _by_itself(model: Any, text: list[int]) -> Tensor:
    """The logits of the same half, by the attention of the model's own modules."""
    model.set_attn_implementation("eager")
    try:
        output = model(input_ids=torch.tensor([text], device=model.device), use_cache=False)
    finally:
        model.set_attn_implementation(IMPLEMENTATION)
    logits: Tensor = output.logits[0, len(text) // 2 :].float()
    return logits


def _compare(found: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    """By the median token: where rounding decides which expert computes a token, that one differs a lot."""
    spread = (expected - expected.mean(dim=-1, keepdim=True)).norm(dim=-1)
    difference = float(((found - expected).norm(dim=-1) / spread).nanmedian())
    if difference > TOLERANCE.get(dtype, TOLERANCE_ROUNDED):
        raise Unfit(f"over pages it computes other logits than by itself, which differ by {difference:.0%}")


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).strip().splitlines()), '')}"
