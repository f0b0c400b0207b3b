"""Sampling: from logits to one token per sequence, `adjust` before the mask and `sample` after it.

The noise of a draw is a hash of the seed, the choice and the position, and nothing else: what a seeded
sequence writes does not depend on what it shared a batch with.
"""

import hashlib
import struct
from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from runtime.request import Sampling
from runtime.sequence import Sequence

BLOCK = 512
ALMOST_ONE = 1 - 2**-32
LEAST_TEMPERATURE = 1e-5


@dataclass(frozen=True, slots=True)
class Draw:
    """A token; its log probability and the most probable alternatives, if they were asked for."""

    token_id: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


def is_greedy(sampling: Sampling) -> bool:
    """Whether the likeliest token is taken; so near to zero, dividing by the temperature would overflow."""
    return sampling.temperature < LEAST_TEMPERATURE


def adjust(logits: Tensor, sequences: list[Sequence]) -> None:
    """Bias, penalties and temperature, in place, on logits [len(sequences), num_columns]."""
    for row, sequence in zip(logits, sequences, strict=True):
        sampling = sequence.sampling
        if sampling.logit_bias:
            ids = torch.tensor(list(sampling.logit_bias), device=logits.device)
            row[ids] += row.new_tensor(list(sampling.logit_bias.values()))
        if sequence.num_output and (sampling.presence_penalty or sampling.frequency_penalty):
            counts = Counter(sequence.output_ids)
            ids = torch.tensor(list(counts), device=logits.device)
            times = row.new_tensor(list(counts.values()))
            row[ids] -= sampling.frequency_penalty * times + sampling.presence_penalty
        if sampling.temperature != 1.0 and not is_greedy(sampling):
            row.div_(sampling.temperature)


def sample(probabilities: Tensor, sequences: list[Sequence]) -> list[Draw | None]:
    """Draw one token per row of [len(sequences), num_columns], which are used up; None for a row of NaN."""
    if not sequences:
        return []
    is_sound = probabilities[:, 0].isfinite().tolist()
    for row, sequence in zip(probabilities, sequences, strict=True):
        _truncate(row, sequence.sampling)
    uniform = [noise(s.seed, s.choice, s.num_output) for s in sequences]
    drawn = _draw(probabilities, probabilities.new_tensor(uniform, dtype=torch.float64))
    greedy = [i for i, sequence in enumerate(sequences) if is_greedy(sequence.sampling)]
    for i, token_id in zip(greedy, probabilities[greedy].argmax(dim=1).tolist(), strict=True):
        drawn[i] = token_id
    return [
        _describe(probabilities[i], token_id, sequence) if is_sound[i] else None
        for i, (token_id, sequence) in enumerate(zip(drawn, sequences, strict=True))
    ]


def noise(seed: int, choice: int, position: int) -> float:
    """Uniform in [0, 1), in steps of 2**-32."""
    digest = hashlib.blake2b(struct.pack("<QII", seed % 2**64, choice, position), digest_size=4)
    return int.from_bytes(digest.digest(), "little") / 2**32


def _truncate(row: Tensor, sampling: Sampling) -> None:
    """Zero what top_k, top_p and min_p leave out, in place."""
    if sampling.top_k is not None or sampling.top_p < 1.0:
        values, order = row.topk(min(sampling.top_k or row.numel(), row.numel()))
        before = values.cumsum(dim=0) - values
        is_kept = before < sampling.top_p * values.sum()
        is_kept[0] = True
        row.zero_()
        row[order[is_kept]] = values[is_kept]
    if sampling.min_p > 0.0:
        row[row < sampling.min_p * row.max()] = 0.0


def _draw(weights: Tensor, uniform: Tensor) -> list[int]:
    """Invert the cumulative distribution, over blocks, then inside one; what weighs nothing is not drawn."""
    num_rows, num_columns = weights.shape
    num_blocks = -(-num_columns // BLOCK)
    blocks = pad(weights, (0, num_blocks * BLOCK - num_columns)).view(num_rows, num_blocks, BLOCK)
    chosen, within = _invert(blocks.sum(dim=2), uniform)
    inner, _ = _invert(blocks[torch.arange(num_rows, device=weights.device), chosen], within)
    ids: list[int] = (chosen * BLOCK + inner).tolist()
    return ids


def _invert(weights: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """By row, the column where the cumulated weight passes its `uniform` part, and how far into it."""
    cumulative = weights.double().cumsum(dim=1)
    targets = uniform[:, None] * cumulative[:, -1:]
    columns = torch.searchsorted(cumulative, targets, right=True).clamp_(max=weights.shape[1] - 1)
    end, width = cumulative.gather(1, columns), weights.double().gather(1, columns)
    within = (1 - (end - targets) / width).clamp(0, ALMOST_ONE)
    return columns[:, 0], within[:, 0]


def _describe(probabilities: Tensor, token_id: int, sequence: Sequence) -> Draw:
    if sequence.num_logprobs is None:
        return Draw(token_id)
    logprobs = (probabilities / probabilities.sum()).log()
    values, ids = logprobs.topk(min(sequence.num_logprobs, len(logprobs)))
    top = tuple((i, v) for i, v in zip(ids.tolist(), values.tolist(), strict=True) if v != float("-inf"))
    return Draw(token_id, float(logprobs[token_id]), top)
