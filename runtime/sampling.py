"""Sampling: from logits to one token per sequence, `adjust` before the mask and `sample` after it.

The noise of a draw is a hash of the seed, the choice and the position, and nothing else: what a seeded
sequence writes does not depend on what it shared a batch with.
"""

import hashlib
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from compiler.output_parts import OutputPart
from runtime.device import upload
from runtime.request import Sampling
from runtime.sequence import Sequence

BLOCK = 128  # which divides the width of most models, so that nothing is copied
ALMOST_ONE = 1 - 2**-32
LEAST_TEMPERATURE = 1e-5


@dataclass(frozen=True, slots=True)
class Draw:
    """A token; its log probability and the most probable alternatives, if they were asked for."""

    token_id: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class WrittenToken:
    """A token of an output, and what the matcher told apart in it; `parts` None where there is no matcher.

    `is_thought`: it is of a thought that goes on behind it.
    """

    draw: Draw
    parts: tuple[OutputPart, ...] | None = None
    is_thought: bool = False


def certain(token_id: int, num_logprobs: int | None) -> Draw:
    """A token that was not drawn, as nothing else could stand there: its log probability is 0."""
    if num_logprobs is None:
        return Draw(token_id)
    return Draw(token_id, 0.0, ((token_id, 0.0),) if num_logprobs else ())


def is_greedy(sampling: Sampling) -> bool:
    """Whether the likeliest token is taken; so near to zero, dividing by the temperature would overflow."""
    return sampling.temperature < LEAST_TEMPERATURE


def adjust(logits: Tensor, sequences: list[Sequence]) -> None:
    """Bias, penalties and temperature, in place, on logits [len(sequences), num_columns]."""
    for row, sequence in zip(logits, sequences, strict=True):
        sampling = sequence.sampling
        if sampling.logit_bias:
            _add(row, sampling.logit_bias)
        if sequence.num_output and (sampling.presence_penalty or sampling.frequency_penalty):
            counts = Counter(sequence.output_ids)
            _add(
                row,
                {i: -(sampling.frequency_penalty * n + sampling.presence_penalty) for i, n in counts.items()},
            )
    temperatures = [1.0 if is_greedy(s.sampling) else s.sampling.temperature for s in sequences]
    if any(temperature != 1.0 for temperature in temperatures):
        logits /= upload(temperatures, logits.device, logits.dtype)[:, None]


def sample(probabilities: Tensor, sequences: list[Sequence]) -> list[Draw | None]:
    """Draw one token per row of [len(sequences), num_columns], which are used up; None for a row of NaN.

    A device is waited for once, when all that is asked of it has been asked.
    """
    if not sequences:
        return []
    is_sound = probabilities[:, 0].isfinite()
    for row, sequence in zip(probabilities, sequences, strict=True):
        _truncate(row, sequence.sampling)
    drawn = _choose(probabilities, sequences)
    described = [
        _describe(row, token_id, sequence.num_logprobs)
        for row, token_id, sequence in zip(probabilities, drawn, sequences, strict=True)
    ]
    token_ids = torch.where(is_sound, drawn, -1).tolist()
    return [
        Draw(token_id, *_read(description)) if token_id >= 0 else None
        for token_id, description in zip(token_ids, described, strict=True)
    ]


def noise(seed: int, choice: int, position: int) -> float:
    """Uniform in [0, 1), in steps of 2**-32."""
    digest = hashlib.blake2b(struct.pack("<QII", seed % 2**64, choice, position), digest_size=4)
    return int.from_bytes(digest.digest(), "little") / 2**32


def _add(row: Tensor, amounts: Mapping[int, float]) -> None:
    """Add to some columns of a row."""
    ids, values = zip(*amounts.items(), strict=True)
    row.index_add_(0, upload(ids, row.device), upload(values, row.device, row.dtype))


def _truncate(row: Tensor, sampling: Sampling) -> None:
    """Zero what top_k, top_p and min_p leave out, in place."""
    if sampling.top_k is not None or sampling.top_p < 1.0:
        values, order = row.topk(min(sampling.top_k or row.numel(), row.numel()))
        before = values.cumsum(dim=0) - values
        is_left_out = before >= sampling.top_p * values.sum()
        is_left_out[0] = False
        row.zero_().scatter_(0, order, values.masked_fill_(is_left_out, 0.0))
    if sampling.min_p > 0.0:
        row.masked_fill_(row < sampling.min_p * row.max(), 0.0)


def _choose(probabilities: Tensor, sequences: list[Sequence]) -> Tensor:
    """The token ids drawn; the likeliest ones for greedy sequences."""
    is_likeliest = [is_greedy(sequence.sampling) for sequence in sequences]
    if all(is_likeliest):
        return probabilities.argmax(dim=1)
    uniform = [noise(s.seed, s.choice, s.num_output) for s in sequences]
    drawn = _draw(probabilities, upload(uniform, probabilities.device, torch.float64))
    if any(is_likeliest):
        drawn = torch.where(upload(is_likeliest, drawn.device), probabilities.argmax(dim=1), drawn)
    return drawn


def _draw(weights: Tensor, uniform: Tensor) -> Tensor:
    """Invert the cumulative distribution, over blocks, then inside one; what weighs nothing is not drawn."""
    num_rows, num_columns = weights.shape
    if num_missing := -num_columns % BLOCK:
        weights = pad(weights, (0, num_missing))
    blocks = weights.view(num_rows, -1, BLOCK)
    chosen, within = _invert(blocks.sum(dim=2), uniform)
    inner, _ = _invert(blocks[torch.arange(num_rows, device=weights.device), chosen], within)
    return (chosen * BLOCK + inner).clamp_(max=num_columns - 1)  # of a row of NaN, any id


def _invert(weights: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """By row, the column where the cumulated weight passes its `uniform` part, and how far into it."""
    cumulative = weights.double().cumsum(dim=1)
    targets = uniform[:, None] * cumulative[:, -1:]
    columns = torch.searchsorted(cumulative, targets, right=True).clamp_(max=weights.shape[1] - 1)
    end, width = cumulative.gather(1, columns), weights.double().gather(1, columns)
    within = (1 - (end - targets) / width).clamp(0, ALMOST_ONE)
    return columns[:, 0], within[:, 0]


def _describe(probabilities: Tensor, token_id: Tensor, num_logprobs: int | None) -> tuple[Tensor, ...] | None:
    """The log probability of a token, and those of the likeliest ones with their ids."""
    if num_logprobs is None:
        return None
    logprobs = (probabilities / probabilities.sum()).log()
    return logprobs.gather(0, token_id[None]), *logprobs.topk(min(num_logprobs, len(logprobs)))


def _read(description: tuple[Tensor, ...] | None) -> tuple[float | None, tuple[tuple[int, float], ...]]:
    if description is None:
        return None, ()
    logprob, values, ids = description
    top = zip(ids.tolist(), values.tolist(), strict=True)
    return float(logprob), tuple((i, value) for i, value in top if value != float("-inf"))
