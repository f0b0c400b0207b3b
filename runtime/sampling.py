"""Sampling: masked logits in, one token per sequence out.

The noise of a draw is a hash of the seed, the choice and the position, and nothing else: what a seeded
sequence writes does not depend on what it shared a batch with.
"""

import hashlib
import struct
from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor

from runtime.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Draw:
    """A token; its log probability and the most probable alternatives, if they were asked for."""

    token_id: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


def sample(logits: Tensor, sequences: list[Sequence]) -> list[Draw | None]:
    """Draw one token per row of float32 logits [len(sequences), num_columns], which are used up.

    None stands for a row nothing can be drawn from: NaN or infinite logits, or everything masked.
    """
    if not sequences:
        return []
    for row, sequence in zip(logits, sequences, strict=True):
        _adjust(row, sequence)
    peaks, favourites = logits.max(dim=1)
    chosen = favourites.tolist()
    drawn = [i for i, sequence in enumerate(sequences) if sequence.sampling.temperature > 0]
    if drawn:
        subset = [sequences[i] for i in drawn]
        logits[drawn] = _shape(logits[drawn], subset)
        for i, token_id in zip(drawn, _draw(logits[drawn], subset), strict=True):
            chosen[i] = token_id
    return [
        _describe(logits[i], chosen[i], sequence) if is_sound else None
        for i, (sequence, is_sound) in enumerate(zip(sequences, peaks.isfinite().tolist(), strict=True))
    ]


def noise(seed: int, choice: int, position: int) -> float:
    """Uniform in [0, 1), in steps of 2**-32."""
    digest = hashlib.blake2b(struct.pack("<QII", seed % 2**64, choice, position), digest_size=4)
    return int.from_bytes(digest.digest(), "little") / 2**32


def _adjust(logits: Tensor, sequence: Sequence) -> None:
    """Add the bias and subtract the penalties, in place."""
    sampling = sequence.sampling
    if sampling.logit_bias:
        ids = torch.tensor(list(sampling.logit_bias), device=logits.device)
        logits[ids] += logits.new_tensor(list(sampling.logit_bias.values()))
    if sequence.num_output and (sampling.presence_penalty or sampling.frequency_penalty):
        counts = Counter(sequence.output_ids)
        ids = torch.tensor(list(counts), device=logits.device)
        times = logits.new_tensor(list(counts.values()))
        logits[ids] -= sampling.frequency_penalty * times + sampling.presence_penalty


def _shape(logits: Tensor, sequences: list[Sequence]) -> Tensor:
    """Temperature on every row, then top_k, top_p and min_p where asked for."""
    temperatures = logits.new_tensor([s.sampling.temperature for s in sequences])
    logits = logits / temperatures[:, None]
    for row, sequence in zip(logits, sequences, strict=True):
        sampling = sequence.sampling
        if sampling.top_k is not None or sampling.top_p < 1.0:
            _truncate(row, sampling.top_k or row.numel(), sampling.top_p)
        if sampling.min_p > 0.0:
            probabilities = row.softmax(dim=0)
            row[probabilities < sampling.min_p * probabilities.max()] = float("-inf")
    return logits


def _truncate(row: Tensor, top_k: int, top_p: float) -> None:
    """Keep the `top_k` best, and of those the fewest whose probabilities add up to `top_p`; in place."""
    values, order = row.topk(min(top_k, row.numel()))
    probabilities = values.softmax(dim=0)
    is_kept = probabilities.cumsum(dim=0) - probabilities < top_p
    is_kept[0] = True
    row.fill_(float("-inf"))
    row[order[is_kept]] = values[is_kept]


def _draw(logits: Tensor, sequences: list[Sequence]) -> list[int]:
    """Invert the cumulative distribution at each sequence's noise; a token without mass is never drawn."""
    cumulative = logits.softmax(dim=1).double().cumsum(dim=1)
    uniform = [noise(s.seed, s.choice, s.num_output) for s in sequences]
    targets = cumulative[:, -1:] * cumulative.new_tensor(uniform)[:, None]
    chosen = torch.searchsorted(cumulative, targets, right=True)
    ids: list[int] = chosen.clamp_(max=logits.shape[1] - 1).flatten().tolist()
    return ids


def _describe(logits: Tensor, token_id: int, sequence: Sequence) -> Draw:
    if sequence.num_logprobs is None:
        return Draw(token_id)
    logprobs = logits.log_softmax(dim=0)
    values, ids = logprobs.topk(min(sequence.num_logprobs, len(logprobs)))
    top = tuple((i, v) for i, v in zip(ids.tolist(), values.tolist(), strict=True) if v != float("-inf"))
    return Draw(token_id, float(logprobs[token_id]), top)
