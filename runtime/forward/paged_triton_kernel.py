"""Paged attention in Triton: the kernel looks up pages in page tables itself.

One program computes one block of queries and one key head, over one split of the keys that they see. It
looks up the page of each key, and keeps a running softmax (Dao et al., FlashAttention, 2022; splits are
joined by their log-sum-exp as in Flash-Decoding, 2023). Query heads that share a key head are rows of the
same block, so that keys are read once for all of them. Keys that no query sees are not read: neither those
before a sliding window, nor those that an earlier sequence left in a page.
"""

from functools import cache
from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

if TYPE_CHECKING:
    from runtime.forward.attention import Scoring
    from runtime.forward.paged_triton_backend import QueryBlocks

LOG2_E = tl.constexpr(1.4426950408889634)
SPLITS = (32, 8, 1)
"""The numbers of splits. They are few, since the kernel is compiled for each."""
MIN_ROWS = 16
"""Tensor cores multiply at least this many rows."""
TILE_BYTES = 16384


@triton.jit
def _key_range(position, count, split, num_splits, WINDOW: tl.constexpr, BLOCK_KEYS: tl.constexpr):
    """The range of one split, of all keys that `count` queries from `position` on see."""
    low = tl.maximum(position - WINDOW + 1, 0) if WINDOW > 0 else 0
    high = position + count
    length = tl.cdiv(tl.cdiv(high - low, BLOCK_KEYS), num_splits) * BLOCK_KEYS
    start = low + split * length
    return start, tl.minimum(start + length, high)


@triton.jit
def _scores(
    states,
    key,
    scale,
    softcap,
    key_positions,
    is_key,
    query_positions,
    WINDOW: tl.constexpr,
    HAS_SOFTCAP: tl.constexpr,
):
    """Scores [rows, keys] for powers of two, -inf where a query does not see a key."""
    scores = tl.dot(states, key, input_precision="ieee") * scale
    if HAS_SOFTCAP:  # softcap * tanh(scores / softcap)
        scores = softcap * (2.0 * tl.sigmoid(2.0 * scores / softcap) - 1.0)
    is_seen = is_key[None, :] & (key_positions[None, :] <= query_positions[:, None])
    if WINDOW > 0:
        is_seen = is_seen & (query_positions[:, None] - key_positions[None, :] < WINDOW)
    return tl.where(is_seen, scores * LOG2_E, float("-inf"))


@triton.jit
def _weights(best, scores):
    """A softmax step: the best score so far, weights relative to it, the factor for earlier weights."""
    higher = tl.maximum(best, tl.max(scores, 1))
    base = tl.where(higher == float("-inf"), 0.0, higher)  # a row may see none of these keys
    return higher, tl.exp2(scores - base[:, None]), tl.exp2(best - base)


@triton.jit
def _start(sinks, head, is_query, split, HAS_SINKS: tl.constexpr, BLOCK_ROWS: tl.constexpr):
    """The softmax before any key; a sink is a key without a value, which the first split counts."""
    best = tl.full([BLOCK_ROWS], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_ROWS], tl.float32)
    if HAS_SINKS:
        if split == 0:
            best = tl.load(sinks + head, mask=is_query, other=0.0).to(tl.float32) * LOG2_E
            total = tl.full([BLOCK_ROWS], 1.0, tl.float32)
    return best, total


@triton.jit
def _slots(table, key_positions, is_key, key_head, PAGE_SIZE: tl.constexpr, KEY_HEADS: tl.constexpr):
    """The indices in the cache of one head's keys at some positions."""
    page = tl.load(table + key_positions // PAGE_SIZE, mask=is_key, other=0)
    return (page.to(tl.int64) * PAGE_SIZE + key_positions % PAGE_SIZE) * KEY_HEADS + key_head


@triton.jit
def _rows(count, key_head, REPEATS: tl.constexpr, PACK: tl.constexpr, BLOCK_ROWS: tl.constexpr):
    """For each row of a block: the index of its query, its head, and whether there is such a query."""
    rows = tl.arange(0, BLOCK_ROWS)
    index, repeat = rows // PACK, rows % PACK
    return index, key_head * REPEATS + repeat, (index < count) & (repeat < REPEATS)


@triton.jit
def _tile(states, rows, columns, is_row, WIDTH: tl.constexpr):
    """Load rows of states that are `WIDTH` wide, padded with zeros."""
    return tl.load(states + rows + columns, mask=is_row & (columns < WIDTH), other=0.0)


@triton.jit
def _store(output, rows, values, is_row, columns, WIDTH: tl.constexpr):
    """Store rows that are `WIDTH` wide, without their padding."""
    tl.store(
        output + rows[:, None] * WIDTH + columns[None, :],
        values.to(output.dtype.element_ty),
        mask=is_row[:, None] & (columns < WIDTH)[None, :],
    )


# These numbers differ from batch to batch. The kernel must not be compiled again for each of them.
@triton.jit(do_not_specialize=["num_splits", "num_tokens", "table_stride"])
def _attend(
    query,
    keys,
    values,
    sinks,
    tables,
    blocks,
    output,
    lses,
    scale,
    softcap,
    query_head_stride,
    query_token_stride,
    table_stride,
    block_stride,
    num_tokens,
    num_splits,
    WINDOW: tl.constexpr,
    HAS_SOFTCAP: tl.constexpr,
    HAS_SINKS: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    KEY_HEADS: tl.constexpr,
    REPEATS: tl.constexpr,
    PACK: tl.constexpr,
    DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
    BLOCK_VALUE_DIM: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_KEYS: tl.constexpr,
    IS_SPLIT: tl.constexpr,
):
    """One block of queries and one key head, over one split of the keys, in a running softmax."""
    key_head = tl.program_id(1)
    split = tl.program_id(2)
    block = blocks + tl.program_id(0) * block_stride
    table = tables + tl.load(block).to(tl.int64) * table_stride
    first, count, position = tl.load(block + 1), tl.load(block + 2), tl.load(block + 3)

    index, head, is_query = _rows(count, key_head, REPEATS, PACK, BLOCK_ROWS)
    token = (first + index).to(tl.int64)
    query_positions = position + index
    dims, value_dims = tl.arange(0, BLOCK_DIM), tl.arange(0, BLOCK_VALUE_DIM)
    at_query = head * query_head_stride + token * query_token_stride
    states = _tile(query, at_query[:, None], dims[None, :], is_query[:, None], DIM)

    start, end = _key_range(position, count, split, num_splits, WINDOW, BLOCK_KEYS)
    best, total = _start(sinks, head, is_query, split, HAS_SINKS, BLOCK_ROWS)
    accumulated = tl.zeros([BLOCK_ROWS, BLOCK_VALUE_DIM], tl.float32)
    for at in range(start, end, BLOCK_KEYS):
        key_positions = at + tl.arange(0, BLOCK_KEYS)
        is_key = key_positions < end
        slot = _slots(table, key_positions, is_key, key_head, PAGE_SIZE, KEY_HEADS)
        key = _tile(keys, slot[None, :] * DIM, dims[:, None], is_key[None, :], DIM)
        scores = _scores(
            states, key, scale, softcap, key_positions, is_key, query_positions, WINDOW, HAS_SOFTCAP
        )
        best, weights, shrink = _weights(best, scores)
        value = _tile(values, slot[:, None] * VALUE_DIM, value_dims[None, :], is_key[:, None], VALUE_DIM)
        total = total * shrink + tl.sum(weights, 1)
        accumulated = accumulated * shrink[:, None] + tl.dot(
            weights.to(value.dtype), value, input_precision="ieee"
        )

    output_rows = (split * num_tokens + token) * (KEY_HEADS * REPEATS) + head
    divisor = tl.where(total > 0, total, 1.0)
    _store(output, output_rows, accumulated / divisor[:, None], is_query, value_dims, VALUE_DIM)
    if IS_SPLIT:
        lse = tl.where(total > 0, best + tl.log2(divisor), float("-inf"))
        tl.store(lses + output_rows, lse, mask=is_query)


@triton.jit(do_not_specialize=["num_rows"])
def _join(
    parts,
    lses,
    output,
    num_rows,
    VALUE_DIM: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
    NUM_SPLITS: tl.constexpr,
):
    """One query and one head: the splits' outputs, each weighted by its share of the softmax's total."""
    row = tl.program_id(0).to(tl.int64)
    dims = tl.arange(0, BLOCK_DIM)
    part_rows = tl.arange(0, NUM_SPLITS) * num_rows + row
    lse = tl.load(lses + part_rows)
    weights = tl.exp2(lse - tl.max(lse, 0))
    accumulated = tl.load(
        parts + part_rows[:, None] * VALUE_DIM + dims[None, :], mask=(dims < VALUE_DIM)[None, :], other=0.0
    )
    joined = tl.sum(accumulated * weights[:, None], 0) / tl.sum(weights, 0)
    tl.store(output + row * VALUE_DIM + dims, joined.to(output.dtype.element_ty), mask=dims < VALUE_DIM)


def attend_pages(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    queries: "QueryBlocks",
    scoring: "Scoring",
    num_splits: int | None = None,
) -> Tensor:
    """Attention of [heads, tokens, dim] to pages [pages, page_size, kv_heads, dim]; [tokens, heads, dim].

    `num_splits` is a power of two; by default there are as many splits as keep the device busy.
    """
    heads, num_tokens, dim = query.shape
    _, page_size, key_heads, value_dim = values.shape
    if query.stride(2) != 1:
        query = query.contiguous()
    num_blocks = len(queries.blocks)
    splits = num_splits or _num_splits(num_blocks * key_heads, query.device)
    shape = (splits, num_tokens, heads)
    parts = query.new_empty(*shape, value_dim, dtype=query.dtype if splits == 1 else torch.float32)
    lses = query.new_empty(shape if splits > 1 else (0,), dtype=torch.float32)
    _attend[num_blocks, key_heads, splits](
        query,
        keys,
        values,
        scoring.sinks,
        queries.tables,
        queries.blocks,
        parts,
        lses,
        dim**-0.5 if scoring.scaling is None else scoring.scaling,
        scoring.softcap or 1.0,
        query.stride(0),
        query.stride(1),
        queries.tables.stride(0),
        queries.blocks.stride(0),
        num_tokens,
        splits,
        WINDOW=scoring.window or 0,
        HAS_SOFTCAP=scoring.softcap is not None,
        HAS_SINKS=scoring.sinks is not None,
        PAGE_SIZE=page_size,
        KEY_HEADS=key_heads,
        DIM=dim,
        VALUE_DIM=value_dim,
        IS_SPLIT=splits > 1,
        **_tiling(heads // key_heads, queries.block_size, dim, value_dim, keys.element_size()),
    )
    return parts[0] if splits == 1 else _joined(parts, lses, query.dtype)


def _tiling(repeats: int, block_size: int, dim: int, value_dim: int, key_bytes: int) -> dict[str, int]:
    """The sizes of one program's tiles, padded to powers of two, and how many warps compute them."""
    pack = triton.next_power_of_2(repeats)
    block_dim = max(16, triton.next_power_of_2(dim))
    block_rows = max(MIN_ROWS, triton.next_power_of_2(block_size) * pack)
    return {
        "REPEATS": repeats,
        "PACK": pack,
        "BLOCK_DIM": block_dim,
        "BLOCK_VALUE_DIM": max(16, triton.next_power_of_2(value_dim)),
        "BLOCK_ROWS": block_rows,
        "BLOCK_KEYS": max(16, min(64, TILE_BYTES // (block_dim * key_bytes))),
        "num_warps": 8 if block_rows > 64 or block_rows * block_dim > 8192 else 4,
        "num_stages": 2 if key_bytes < 4 else 1,  # float32 fills shared memory
    }


def _joined(parts: Tensor, lses: Tensor, dtype: torch.dtype) -> Tensor:
    """Splits [splits, tokens, heads, dim] weighted by their log-sum-exps in base 2; [tokens, heads, dim]."""
    splits, num_tokens, heads, dim = parts.shape
    output = parts.new_empty(num_tokens, heads, dim, dtype=dtype)
    _join[num_tokens * heads,](
        parts,
        lses,
        output,
        num_tokens * heads,
        VALUE_DIM=dim,
        BLOCK_DIM=triton.next_power_of_2(dim),
        NUM_SPLITS=splits,
    )
    return output


def _num_splits(num_programs: int, device: torch.device) -> int:
    """The number of splits that makes about two programs for each of the device's processors."""
    most = 2 * _num_processors(device) // num_programs
    return next((splits for splits in SPLITS if splits <= most), 1)


@cache
def _num_processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count
