"""Sampling: from logits to one token per sequence. `adjust` runs before the mask, `sample` after it.

The random number that samples a token is a hash of the seed, the choice and the position alone. So a seeded
sequence writes the same tokens whatever other sequences share its batches.
"""

import hashlib
import math
import struct
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from runtime.decoding.masks import MaskedDistribution
from runtime.decoding.truncation import truncate
from runtime.device import upload
from runtime.scheduling.sequence import Sequence
from runtime.scheduling.token_counts import TokenCounts
from runtime.written_token import SampledStep, SampledToken

BLOCK = 128  # divides the width of most models, so that padding copies nothing
ALMOST_ONE = 1 - 2**-32


class Draw(NamedTuple):
    """A token that is sampled from a row of probabilities, with a seed."""

    row: int
    seed: int


def adjust(logits: Tensor, sequences: list[Sequence], lengths: list[int] | None = None) -> None:
    """Apply bias, penalties and temperature, in place, to logits [len(sequences), num_columns].

    Penalties count the tokens before the row's own: as many as `lengths` says, or all of the sequence's. A
    sequence may have several rows, in the order of their lengths.
    """
    lengths = lengths or [len(sequence.token_ids) for sequence in sequences]
    for row, sequence, length in zip(logits, sequences, lengths, strict=True):
        sampling = sequence.sampling
        if sampling.repetition_penalty != 1.0:
            _token_counts(sequence, row, length).penalise_repetition(row, sampling.repetition_penalty)
        if sampling.logit_bias:
            _add(row, sampling.logit_bias)
        if sequence.num_output and (sampling.presence_penalty or sampling.frequency_penalty):
            counts = _token_counts(sequence, row, length)
            counts.penalise_written(row, sampling.presence_penalty, sampling.frequency_penalty)
    temperatures = [1.0 if s.sampling.is_greedy else s.sampling.temperature for s in sequences]
    if any(temperature != 1.0 for temperature in temperatures):
        logits /= upload(temperatures, logits.device, logits.dtype)[:, None]


def sample(masked: MaskedDistribution, sequences: list[Sequence]) -> list[SampledToken | None]:
    """One token per row of the distributions, which are overwritten; None for a row of NaN.

    This waits for the device once, for the token ids. What is known of their steps, log probabilities and
    runners-up, if any sequence wants them, are copied after that.
    """
    if not sequences:
        return []
    probabilities = masked.probabilities
    is_valid = probabilities[:, 0].isfinite()
    # A weighed sequence was truncated before the mask.
    truncate(probabilities, [None if s.weight is not None else s.sampling for s in sequences])
    draws = [Draw(row, sequence.seed) for row, sequence in enumerate(sequences)]
    draws += [Draw(row, seed) for row, sequence in enumerate(sequences) for seed in sequence.other_seeds]
    rows = upload([draw.row for draw in draws], probabilities.device, torch.long)
    chosen = _choose(probabilities, sequences, draws, rows)
    own_ids = chosen[: len(sequences)]
    logprobs = _logprobs(probabilities, own_ids, sequences)
    own_probability = probabilities.gather(1, own_ids[:, None])[:, 0]
    of_steps = torch.stack([masked.allowed_mass, masked.is_rescued.float(), own_probability])
    token_ids = torch.where(is_valid[rows], chosen, -1).tolist()
    runners_up = _runners_up(probabilities, own_ids, sequences)
    values = _download(logprobs, sequences)
    parting = _parting_seeds(draws[len(sequences) :], token_ids)
    tokens: list[SampledToken | None] = []
    for row, (mass, is_rescued, probability) in enumerate(zip(*of_steps.tolist(), strict=True)):
        logprob, top = values.get(row, (None, ()))
        step = SampledStep(mass, bool(is_rescued), probability, runners_up.get(row, ()), parting.get(row, ()))
        is_sampled = token_ids[row] >= 0
        tokens.append(SampledToken(token_ids[row], logprob, top, step=step) if is_sampled else None)
    return tokens


def own_probabilities(
    logits: Tensor, sequences: list[Sequence], lengths: list[int], token_ids: list[int]
) -> list[float]:
    """The model's own probability of a token, per row of [len(token_ids), num_columns], without a mask.

    The logits are overwritten. For `lengths` see `adjust`.
    """
    adjust(logits, sequences, lengths)
    probabilities = logits.softmax(dim=1)
    truncate(probabilities, [sequence.sampling for sequence in sequences])
    columns = upload(token_ids, logits.device, torch.long)
    return [float(p) for p in probabilities.gather(1, columns[:, None])[:, 0].tolist()]


def seeded_uniform(seed: int, choice: int, position: int) -> float:
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


def _token_counts(sequence: Sequence, row: Tensor, length: int) -> TokenCounts:
    """How often a sequence has each token among its first `length` ones."""
    if sequence.token_counts is None:
        sequence.token_counts = TokenCounts(row.numel(), row.device)
    sequence.token_counts.count(sequence.token_ids, length, len(sequence.prompt_ids))
    return sequence.token_counts


def _choose(probabilities: Tensor, sequences: list[Sequence], draws: list[Draw], rows: Tensor) -> Tensor:
    """A token id per draw: the most probable one for greedy sequences, else a random one."""
    greedy = [sequences[draw.row].sampling.is_greedy for draw in draws]
    if all(greedy):
        return probabilities.argmax(dim=1)[rows]
    uniform = [seeded_uniform(d.seed, sequences[d.row].choice, sequences[d.row].num_output) for d in draws]
    chosen = _choose_randomly(probabilities, rows, upload(uniform, probabilities.device, torch.float64))
    if any(greedy):
        chosen = torch.where(upload(greedy, chosen.device), probabilities.argmax(dim=1)[rows], chosen)
    return chosen


def _choose_randomly(weights: Tensor, rows: Tensor, uniform: Tensor) -> Tensor:
    """A column for each of `rows`, which are [number of draws], as the numbers of `uniform` choose it.

    They invert the cumulative distribution, first over blocks, then inside one; weight 0 is never chosen.
    """
    num_rows, num_columns = weights.shape
    if num_missing := -num_columns % BLOCK:
        weights = pad(weights, (0, num_missing))
    blocks = weights.view(num_rows, -1, BLOCK)
    block, rest = _invert(blocks.sum(dim=2)[rows], uniform)
    column, _ = _invert(blocks[rows, block], rest)
    return (block * BLOCK + column).clamp_(max=num_columns - 1)  # any id for a row of NaN


def _parting_seeds(others: list[Draw], token_ids: list[int]) -> dict[int, tuple[int, ...]]:
    """By row, the seeds of the other draws that have another token than the row's own.

    The ids of the others come last.
    """
    parting: defaultdict[int, tuple[int, ...]] = defaultdict(tuple)
    for draw, token_id in zip(others, token_ids[len(token_ids) - len(others) :], strict=True):
        if token_id != token_ids[draw.row]:
            parting[draw.row] += (draw.seed,)
    return parting


def _invert(weights: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Per row, the column where the cumulated weight passes the share `uniform`, and how far into it."""
    cumulative = weights.double().cumsum(dim=1)
    targets = uniform[:, None] * cumulative[:, -1:]
    columns = torch.searchsorted(cumulative, targets, right=True).clamp_(max=weights.shape[1] - 1)
    end, width = cumulative.gather(1, columns), weights.double().gather(1, columns)
    rest = (1 - (end - targets) / width).clamp(0, ALMOST_ONE)
    return columns[:, 0], rest[:, 0]


def _logprobs(probabilities: Tensor, chosen: Tensor, sequences: list[Sequence]) -> Tensor | None:
    """The log probabilities of the sequences that want them, as float64 [number of them, 1 + 2 * most].

    Each row has that of the chosen token, then those of the most probable tokens, then the ids of these.
    """
    num_top_by_row = _with_logprobs(sequences)
    if not num_top_by_row:
        return None
    rows = probabilities[upload(list(num_top_by_row), probabilities.device, torch.long)]
    logprobs = (rows / rows.sum(dim=1, keepdim=True)).log()
    ids = _most_probable(rows, min(max(num_top_by_row.values()), rows.shape[1]))
    values = logprobs.gather(1, ids)
    own = logprobs.gather(1, chosen[upload(list(num_top_by_row), chosen.device, torch.long)][:, None])
    return torch.cat([own.double(), values.double(), ids.double()], dim=1)


def _most_probable(rows: Tensor, number: int) -> Tensor:
    """The ids of the most probable tokens of each row, int64 [len(rows), number], the most probable first.

    Of tokens that are equally probable, those with lower ids come first. They are looked for in the `number`
    blocks whose most probable tokens come first: each of these blocks has a token that comes before all those
    of any other block. `topk` over all columns takes longer, and chooses among equal ones by `number`.
    """
    num_rows, num_columns = rows.shape
    if num_missing := -num_columns % BLOCK:
        rows = pad(rows, (0, num_missing), value=-1.0)
    peaks = rows.view(num_rows, -1, BLOCK).amax(dim=2)
    blocks = _largest(peaks, min(number, peaks.shape[1])).sort(dim=1).values
    ids = (blocks[:, :, None] * BLOCK + torch.arange(BLOCK, device=rows.device)).flatten(1)
    return ids.gather(1, _largest(rows.gather(1, ids), number))


def _largest(values: Tensor, number: int) -> Tensor:
    """The columns of the largest float32 values of each row; of equal ones, those further left come first.

    As float64, these leave the last 29 bits unused. As integers, they are in the same order.
    """
    order = values.double().view(torch.int64) - torch.arange(values.shape[1], device=values.device)
    return order.topk(number).indices


def _runners_up(
    probabilities: Tensor, chosen: Tensor, sequences: list[Sequence]
) -> dict[int, tuple[tuple[int, float], ...]]:
    """By row, the most probable tokens beside the chosen one, where a population wants them.

    They come with the natural logarithms of their probabilities, the most probable first. Of equally probable
    tokens, those with lower ids count.
    """
    searching = [row for row, sequence in enumerate(sequences) if sequence.num_runners_up]
    if not searching:
        return {}
    index = upload(searching, probabilities.device, torch.long)
    rows = probabilities[index]
    number = max(sequences[row].num_runners_up for row in searching) + 1
    ids = _most_probable(rows, min(number, rows.shape[1]))
    both = torch.stack([ids.double(), rows.gather(1, ids).double().log()], dim=1)  # one copy to the host
    runners_up = {}
    for row, sampled, (likely, logprobs) in zip(
        searching, chosen[index].tolist(), both.tolist(), strict=True
    ):
        pairs = zip(map(int, likely), logprobs, strict=True)
        others = [(i, logprob) for i, logprob in pairs if i != sampled and logprob > -math.inf]
        runners_up[row] = tuple(others[: sequences[row].num_runners_up])
    return runners_up


def _download(
    logprobs: Tensor | None, sequences: list[Sequence]
) -> dict[int, tuple[float, tuple[tuple[int, float], ...]]]:
    """By row, the log probability of its token; ids and log probabilities of the most probable ones."""
    if logprobs is None:
        return {}
    most = logprobs.shape[1] // 2
    values = {}
    for (row, number), (own, *top) in zip(_with_logprobs(sequences).items(), logprobs.tolist(), strict=True):
        pairs = list(zip(top[most:], top[:most], strict=True))[:number]
        values[row] = own, tuple((int(i), value) for i, value in pairs if value != float("-inf"))
    return values


def _with_logprobs(sequences: list[Sequence]) -> dict[int, int]:
    """The rows of the sequences that want log probabilities, with the number of alternatives."""
    return {i: s.num_logprobs for i, s in enumerate(sequences) if s.num_logprobs is not None}
