"""Attention of many queries in bfloat16 on a CPU, as matrix products.

Torch's fused attention multiplies bfloat16 on a CPU no faster than float32; its matrix products are several
times as fast. So scores are computed as such, for one tile of queries after the other: the scores of a tile
stay in a core's cache. They are rounded to bfloat16, as by the attention that transformers calls eager.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

MIN_QUERIES = 16
"""For fewer queries, most of the time goes into reading keys, whichever way."""
TILE_QUERIES = 64


@dataclass(frozen=True, slots=True)
class Tile:
    """Queries `rows` and the keys `columns` that any of them sees; all see the first `num_common` keys."""

    rows: slice
    columns: slice
    num_common: int


def is_faster(query: Tensor) -> bool:
    """Whether `attend` is the faster way for queries [heads, queries, dim]."""
    return query.dtype == torch.bfloat16 and query.device.type == "cpu" and query.shape[1] >= MIN_QUERIES


def causal_tiles(num_queries: int, first_key: int, window: int | None) -> Iterator[Tile]:
    """Tiles of consecutive queries; the first query is that of the key number `first_key`."""
    for rows in _rows(num_queries):
        first, end = first_key + rows.start, first_key + rows.stop
        if window is None:
            yield Tile(rows, slice(0, end), first)
        else:
            yield Tile(rows, slice(max(0, first - window + 1), end), 0)


def past_tiles(num_queries: int, num_keys: int) -> Iterator[Tile]:
    """Tiles of queries that see all keys."""
    return (Tile(rows, slice(0, num_keys), num_keys) for rows in _rows(num_queries))


def _rows(num_queries: int) -> Iterator[slice]:
    starts = range(0, num_queries, TILE_QUERIES)
    return (slice(start, min(start + TILE_QUERIES, num_queries)) for start in starts)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    tiles: Iterable[Tile],
    *,
    bias: Tensor | None,
    scaling: float | None,
    mass: Tensor | None = None,
) -> Tensor:
    """[heads, queries, dim] to [queries, heads, dim], over keys and values [kv_heads, keys, dim].

    `bias` [queries, keys] is added to the scores of keys that not all queries of a tile see. The log-sum-exp
    of each query's scores is written into `mass` [queries, heads, 1], if it is given.
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
        if mass is not None:
            # The greatest score's weight is exp(score - mass).
            peak = scores.amax(-1, keepdim=True).float() - weights.amax(-1, keepdim=True).float().log()
            mass[tile.rows] = _by_query(peak, heads)
    return output


def _by_query(states: Tensor, heads: int) -> Tensor:
    """[kv_heads, repeats * queries, width] to [queries, heads, width]."""
    return states.reshape(heads, -1, states.shape[-1]).transpose(0, 1)
