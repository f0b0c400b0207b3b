"""Attention in bfloat16 on a CPU, as matrix products: of many queries, or of many sequences.

Torch's fused attention multiplies bfloat16 on a CPU no faster than float32; its matrix products are several
times as fast. So scores are computed as such. Many queries are computed in tiles, one after the other: the
scores of a tile stay in a core's cache. Scores are rounded to bfloat16, as by the attention that transformers
calls eager.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from runtime.forward.query_tiles import Tile

MIN_QUERIES = 16
"""With fewer queries, either way spends most of the time reading keys."""
TILE_QUERIES = 64
MIN_SEQUENCES = 4
"""With fewer sequences, the matrices are too few to gain what starting a product costs."""


def is_faster(query: Tensor) -> bool:
    """Whether `attend` is faster than torch's attention for queries [heads, queries, dim]."""
    return query.dtype == torch.bfloat16 and query.device.type == "cpu" and query.shape[1] >= MIN_QUERIES


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    tiles: Iterable[Tile],
    *,
    bias: Tensor | None,
    scaling: float | None,
    lse: Tensor | None = None,
) -> Tensor:
    """[heads, queries, dim] to [queries, heads, dim], over keys and values [kv_heads, keys, dim].

    `bias` [queries, keys] is added to the scores of keys that not all queries of a tile see. The log-sum-exp
    of each query's scores is written into `lse` [queries, heads, 1], if it is given.
    """
    heads, num_queries, dim = query.shape
    query = query.view(len(key), -1, num_queries, dim)
    key, value = key.contiguous().transpose(1, 2), value.contiguous()
    scale = dim**-0.5 if scaling is None else scaling
    output = query.new_empty(num_queries, heads, value.shape[-1])
    # One piece of memory for all tiles: new memory is slow when it is first written.
    memory = query.new_empty(2, heads * min(TILE_QUERIES, num_queries) * key.shape[-1])
    nothing = query.new_empty(1, 1, 1)
    for tile in tiles:
        rows = query[:, :, tile.rows].flatten(1, 2)
        columns = key[:, :, tile.columns]
        shape = (*rows.shape[:2], columns.shape[-1])
        scores, weights = (piece[: shape[0] * shape[1] * shape[2]].view(shape) for piece in memory)
        torch.baddbmm(nothing, rows, columns, beta=0, alpha=scale, out=scores)
        if bias is not None:
            hidden = bias[tile.rows, tile.columns][:, tile.num_common :]
            scores.view(heads, -1, shape[-1])[:, :, tile.num_common :] += hidden
        torch.softmax(scores, dim=-1, out=weights)
        output[tile.rows] = _by_query(torch.bmm(weights, value[:, tile.columns]), heads)
        if lse is not None:
            # The greatest score's weight is exp(score - lse).
            peak = scores.amax(-1, keepdim=True).float() - weights.amax(-1, keepdim=True).float().log()
            lse[tile.rows] = _by_query(peak, heads)
    return output


def is_faster_for_sequences(query: Tensor) -> bool:
    """Whether `attend_sequences` is faster than torch's attention for [sequences, kv_heads, queries, dim]."""
    return query.dtype == torch.bfloat16 and query.device.type == "cpu" and len(query) >= MIN_SEQUENCES


def attend_sequences(
    query: Tensor, key: Tensor, value: Tensor, *, bias: Tensor | None, scaling: float | None
) -> tuple[Tensor, Tensor]:
    """Attention [sequences, kv_heads, queries, dim] of each sequence to its own keys, and the log-sum-exps.

    All sequences have as many queries and keys. `bias` [sequences, 1, queries, keys] is added to the scores.
    The log-sum-exps are [sequences, kv_heads, queries, 1], in float32.
    """
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    queries, keys, values = (states.flatten(0, 1) for states in (query, key, value))
    scores = torch.bmm(queries, keys.transpose(1, 2)).view(*query.shape[:3], -1).float() * scale
    if bias is not None:
        scores = scores + bias
    weights = scores.softmax(dim=-1)
    # The greatest score's weight is exp(score - lse).
    lse = scores.amax(-1, keepdim=True) - weights.amax(-1, keepdim=True).log()
    output = torch.bmm(weights.to(values.dtype).flatten(0, 1), values)
    return output.view(*query.shape[:3], -1), lse


def _by_query(states: Tensor, heads: int) -> Tensor:
    """[kv_heads, repeats * queries, width] to [queries, heads, width]."""
    return states.reshape(heads, -1, states.shape[-1]).transpose(0, 1)
