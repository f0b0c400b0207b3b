"""Sampling: from logits to one token per sequence. `adjust` runs before the mask, `sample` after it.

The random number that samples a token is a hash of the seed, the choice and the position alone. So a seeded
sequence writes the same tokens whatever other sequences share its batches.
"""

import hashlib
import struct
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import pad

from runtime.device import upload
from runtime.request import Sampling
from runtime.sequence import Sequence
from runtime.token_counts import TokenCounts
from runtime.written_token import SampledToken

BLOCK = 128  # divides the width of most models, so that padding copies nothing
ALMOST_ONE = 1 - 2**-32


def adjust(logits: Tensor, sequences: list[Sequence]) -> None:
    """Apply bias, penalties and temperature, in place, to logits [len(sequences), num_columns]."""
    for row, sequence in zip(logits, sequences, strict=True):
        sampling = sequence.sampling
        if sampling.repetition_penalty != 1.0:
            _counts(sequence, row).penalise_repetition(row, sampling.repetition_penalty)
        if sampling.logit_bias:
            _add(row, sampling.logit_bias)
        if sequence.num_output and (sampling.presence_penalty or sampling.frequency_penalty):
            counts = _counts(sequence, row)
            counts.penalise_written(row, sampling.presence_penalty, sampling.frequency_penalty)
    temperatures = [1.0 if s.sampling.is_greedy else s.sampling.temperature for s in sequences]
    if any(temperature != 1.0 for temperature in temperatures):
        logits /= upload(temperatures, logits.device, logits.dtype)[:, None]


def sample(probabilities: Tensor, sequences: list[Sequence]) -> list[SampledToken | None]:
    """One token per row of [len(sequences), num_columns], which is overwritten; None for a row of NaN.

    This waits for the device once, after all work for it has been queued.
    """
    if not sequences:
        return []
    is_valid = probabilities[:, 0].isfinite()
    for row, sequence in zip(probabilities, sequences, strict=True):
        if sequence.weight is None:  # else it was truncated before the mask
            truncate(row, sequence.sampling)
    chosen = _choose(probabilities, sequences)
    logprobs = [
        _logprobs(row, token_id, sequence.num_logprobs)
        for row, token_id, sequence in zip(probabilities, chosen, sequences, strict=True)
    ]
    token_ids = torch.where(is_valid, chosen, -1).tolist()
    return [
        SampledToken(token_id, *_download(tensors)) if token_id >= 0 else None
        for token_id, tensors in zip(token_ids, logprobs, strict=True)
    ]


def own_probabilities(logits: Tensor, sequences: list[Sequence], token_ids: list[int]) -> list[float]:
    """The model's own probability of a token, per row of [len(token_ids), num_columns], without a mask.

    The logits are overwritten. Penalties do not count the tokens of later rows, so no sequence may have any.
    """
    adjust(logits, sequences)
    probabilities = logits.softmax(dim=1)
    for row, sequence in zip(probabilities, sequences, strict=True):
        truncate(row, sequence.sampling)
    columns = upload(token_ids, logits.device, torch.long)
    return [float(p) for p in probabilities.gather(1, columns[:, None])[:, 0].tolist()]


def record_drawn(probabilities: Tensor, sequences: list[Sequence], tokens: list[SampledToken | None]) -> None:
    """Record the probability of each weighed sequence's token, from [len(sequences), num_columns]."""
    drawn = [
        (row, token.token_id, sequence.weight)
        for row, (sequence, token) in enumerate(zip(sequences, tokens, strict=True))
        if sequence.weight is not None and token is not None
    ]
    if not drawn:
        return
    rows, ids, weights = zip(*drawn, strict=True)
    columns = upload(ids, probabilities.device, torch.long)
    found = probabilities[list(rows)].gather(1, columns[:, None])[:, 0].tolist()
    for weight, probability in zip(weights, found, strict=True):
        weight.drawn_probability = probability


def noise(seed: int, choice: int, position: int) -> float:
    """A uniform random number in [0, 1), in steps of 2**-32."""
    digest = hashlib.blake2b(struct.pack("<QII", seed % 2**64, choice, position), digest_size=4)
    return int.from_bytes(digest.digest(), "little") / 2**32


def draw_seed(seed: int, number: int) -> int:
    """The seed of one of several draws; the first has `seed` itself."""
    if number == 0:
        return seed
    digest = hashlib.blake2b(struct.pack("<QI", seed % 2**64, number), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


def _add(row: Tensor, amounts: Mapping[int, float]) -> None:
    """Add to some columns of a row."""
    ids, values = zip(*amounts.items(), strict=True)
    row.index_add_(0, upload(ids, row.device), upload(values, row.device, row.dtype))


def _counts(sequence: Sequence, row: Tensor) -> TokenCounts:
    """How often a sequence has each token, up to its last one."""
    if sequence.counts is None:
        sequence.counts = TokenCounts(row.numel(), row.device)
    sequence.counts.count(sequence.token_ids, len(sequence.prompt_ids))
    return sequence.counts


def truncate(row: Tensor, sampling: Sampling) -> None:
    """Set to zero what top_k, top_p and min_p leave out, and make the rest sum to 1 again; in place."""
    if not sampling.truncates:
        return
    if sampling.top_k is not None or sampling.top_p < 1.0:
        values, order = row.topk(min(sampling.top_k or row.numel(), row.numel()))
        mass_before = values.cumsum(dim=0) - values
        is_left_out = mass_before >= sampling.top_p * values.sum()
        is_left_out[0] = False
        row.zero_().scatter_(0, order, values.masked_fill_(is_left_out, 0.0))
    if sampling.min_p > 0.0:
        row.masked_fill_(row < sampling.min_p * row.max(), 0.0)
    row /= row.sum()


def _choose(probabilities: Tensor, sequences: list[Sequence]) -> Tensor:
    """A token id per row: the most probable one for greedy sequences, else a random one."""
    greedy = [sequence.sampling.is_greedy for sequence in sequences]
    if all(greedy):
        return probabilities.argmax(dim=1)
    uniform = [noise(s.seed, s.choice, s.num_output) for s in sequences]
    chosen = _choose_randomly(probabilities, upload(uniform, probabilities.device, torch.float64))
    if any(greedy):
        chosen = torch.where(upload(greedy, chosen.device), probabilities.argmax(dim=1), chosen)
    return chosen


def _choose_randomly(weights: Tensor, uniform: Tensor) -> Tensor:
    """Invert the cumulative distribution, first over blocks, then inside one; weight 0 is never chosen."""
    num_rows, num_columns = weights.shape
    if num_missing := -num_columns % BLOCK:
        weights = pad(weights, (0, num_missing))
    blocks = weights.view(num_rows, -1, BLOCK)
    block, rest = _invert(blocks.sum(dim=2), uniform)
    column, _ = _invert(blocks[torch.arange(num_rows, device=weights.device), block], rest)
    return (block * BLOCK + column).clamp_(max=num_columns - 1)  # any id for a row of NaN


def _invert(weights: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Per row, the column where the cumulated weight passes the share `uniform`, and how far into it."""
    cumulative = weights.double().cumsum(dim=1)
    targets = uniform[:, None] * cumulative[:, -1:]
    columns = torch.searchsorted(cumulative, targets, right=True).clamp_(max=weights.shape[1] - 1)
    end, width = cumulative.gather(1, columns), weights.double().gather(1, columns)
    rest = (1 - (end - targets) / width).clamp(0, ALMOST_ONE)
    return columns[:, 0], rest[:, 0]


def _logprobs(probabilities: Tensor, token_id: Tensor, num_logprobs: int | None) -> tuple[Tensor, ...] | None:
    """The log probability of a token, then those of the most probable tokens and their ids."""
    if num_logprobs is None:
        return None
    logprobs = (probabilities / probabilities.sum()).log()
    return logprobs.gather(0, token_id[None]), *logprobs.topk(min(num_logprobs, len(logprobs)))


def _download(
    tensors: tuple[Tensor, ...] | None,
) -> tuple[float | None, tuple[tuple[int, float], ...]]:
    """The tensors of `_logprobs` as Python numbers."""
    if tensors is None:
        return None, ()
    logprob, values, ids = tensors
    top = zip(ids.tolist(), values.tolist(), strict=True)
    return float(logprob), tuple((i, value) for i, value in top if value != float("-inf"))
