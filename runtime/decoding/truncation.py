"""Truncation: `top_k`, `top_p` and `min_p` leave out improbable tokens, in all rows of a step at once.

Rows are not sorted where that can be helped: sorting a vocabulary takes longer than computing its logits.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from runtime.device import upload
from runtime.request import Sampling

FLOAT_BITS = 31
"""The bits of a float32 that is not negative. Such floats are in the order of their bits."""
NUM_PROBABLE = 1024
"""A nucleus mostly lies within this many of the most probable tokens; only other rows need more work."""
LEAST_MASS = torch.finfo(torch.float64).tiny
"""The least mass of a nucleus, so that a `top_p` of 0 keeps the most probable token."""


def truncate(probabilities: Tensor, samplings: Sequence[Sampling | None]) -> None:
    """Set to zero what each row's sampling leaves out, and make the rest sum to 1 again; in place.

    `probabilities` is float32 [len(samplings), num_columns]. A row without a sampling stays as it is.
    Nothing waits for the device.
    """
    chosen = {
        i: sampling for i, sampling in enumerate(samplings) if sampling is not None and sampling.truncates
    }
    if not chosen:
        return
    index = upload(list(chosen), probabilities.device, torch.long)
    rows = probabilities[index]
    rows = _most_probable(rows, [sampling.top_k for sampling in chosen.values()])
    rows = _nucleus(rows, [sampling.top_p for sampling in chosen.values()])
    rows = _probable_enough(rows, [sampling.min_p for sampling in chosen.values()])
    probabilities[index] = rows / rows.sum(dim=1, keepdim=True)


def _most_probable(rows: Tensor, top_k: Sequence[int | None]) -> Tensor:
    """The `top_k` most probable tokens of each row that has a `top_k`.

    Tokens that are as probable as the last of them are kept too: `topk` chooses among them by the largest
    `top_k` of all rows.
    """
    limits = [k for k in top_k if k is not None]
    if not limits:
        return rows
    num_columns = rows.shape[1]
    values = rows.topk(min(max(limits), num_columns)).values
    # A client's number may be larger than any integer of torch.
    counts = [num_columns if k is None else min(k, num_columns) for k in top_k]
    numbers = upload(counts, rows.device, torch.long)[:, None]
    last = values.gather(1, (numbers - 1).clamp(max=values.shape[1] - 1))
    least = torch.where(numbers < num_columns, last, 0.0)
    kept = rows.clone().ge_(least)  # 1.0 and 0.0: on a CPU, a mask of bool takes several times as long
    return rows * kept


def _nucleus(rows: Tensor, top_p: Sequence[float]) -> Tensor:
    """The most probable tokens of each row that together have the share `top_p` of its mass.

    Tokens that are as probable as the last of them are kept too.
    """
    if all(p >= 1.0 for p in top_p):
        return rows
    shares = upload(list(top_p), rows.device, torch.float64)
    mass = (shares * _mass(rows)).clamp(min=LEAST_MASS)
    least = torch.where(shares < 1.0, _threshold(rows, mass), 0.0)
    return rows.masked_fill(rows < least[:, None], 0.0)


def _threshold(rows: Tensor, mass: Tensor) -> Tensor:
    """The largest number of each row such that the tokens at least as probable have the mass `mass`."""
    return _threshold_of_sorted(rows, mass) if rows.device.type == "cpu" else _threshold_by_bits(rows, mass)


def _threshold_of_sorted(rows: Tensor, mass: Tensor) -> Tensor:
    """See `_threshold`: sort the most probable tokens, and all of them in rows where these have too little.

    Where few tokens are probable, a CPU does this in a thirtieth of the time of the bisection.
    """
    least = torch.zeros(len(rows), dtype=rows.dtype)
    pending = torch.arange(len(rows))
    for number in (NUM_PROBABLE, rows.shape[1]):
        values = rows[pending].topk(min(number, rows.shape[1])).values
        is_reached = values.cumsum(dim=1, dtype=torch.float64) >= mass[pending, None]
        first = is_reached.to(torch.uint8).argmax(dim=1, keepdim=True)
        is_enough = is_reached[:, -1]
        least[pending[is_enough]] = values.gather(1, first)[is_enough, 0]
        pending = pending[~is_enough]
        if not len(pending):
            break
    return least


def _threshold_by_bits(rows: Tensor, mass: Tensor) -> Tensor:
    """See `_threshold`: a bisection over the bits of the number, of which each pass settles one."""
    bits = torch.zeros(len(rows), dtype=torch.int32, device=rows.device)
    for bit in reversed(range(FLOAT_BITS)):
        larger = bits | 1 << bit
        is_probable = rows >= larger.view(torch.float32)[:, None]
        bits = torch.where(_mass(rows * is_probable) >= mass, larger, bits)
    return bits.view(torch.float32)


def _mass(rows: Tensor) -> Tensor:
    return rows.sum(dim=1, dtype=torch.float64)


def _probable_enough(rows: Tensor, min_p: Sequence[float]) -> Tensor:
    """The tokens of each row that have at least `min_p` times the probability of the most probable one."""
    if not any(min_p):
        return rows
    least = upload(list(min_p), rows.device, rows.dtype) * rows.amax(dim=1)
    return rows.masked_fill(rows < least[:, None], 0.0)
