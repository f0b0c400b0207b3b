"""Attention over pages, registered with transformers as the implementation `callgate_paged`.

One forward pass computes a whole batch as one packed row. What the attention modules need to know of it
travels down to them as the keyword argument `paged`, a `PagedBatch`: every layer writes its new keys and
values into the pages of the KV cache, then reads each sequence's pages back.

Reading gathers pages and calls scaled-dot-product attention, on any device. A kernel that walks page tables
itself replaces `_attend`, and nothing else.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from runtime.pages import NULL_PAGE

IMPLEMENTATION = "callgate_paged"


class KVCache:
    """Keys and values of every layer: [num_pages, page_size, num_kv_heads, head_dim] each.

    A layer's tensors are made when it first writes, in the shape and type it writes.
    """

    def __init__(self, num_pages: int, page_size: int) -> None:
        self.num_pages = num_pages
        self.page_size = page_size
        self.layers: dict[int, tuple[Tensor, Tensor]] = {}

    @property
    def bytes_per_page(self) -> int:
        """What one page takes in all layers that have written."""
        return sum(t[0].nbytes for pair in self.layers.values() for t in pair)

    def resized(self, num_pages: int) -> "KVCache":
        """An empty cache of the same layers."""
        cache = KVCache(num_pages, self.page_size)
        cache.layers = {
            index: (k.new_zeros(num_pages, *k.shape[1:]), v.new_zeros(num_pages, *v.shape[1:]))
            for index, (k, v) in self.layers.items()
        }
        return cache

    def write(self, layer: int, key: Tensor, value: Tensor, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Store [num_kv_heads, num_tokens, head_dim] at `slots`; returns the layer's whole tensors."""
        if layer not in self.layers:
            self.layers[layer] = (self._empty(key), self._empty(value))
        keys, values = self.layers[layer]
        keys.flatten(0, 1).index_copy_(0, slots, key.transpose(0, 1))
        values.flatten(0, 1).index_copy_(0, slots, value.transpose(0, 1))
        return keys, values

    @torch.inference_mode()
    def clear(self, pages: Iterable[int]) -> None:
        """Zero pages: a masked NaN is still a NaN."""
        index = list(pages)
        for keys, values in self.layers.values():
            keys[index] = 0
            values[index] = 0

    def _empty(self, states: Tensor) -> Tensor:
        heads, _, dim = states.shape
        return states.new_zeros(self.num_pages, self.page_size, heads, dim)


@dataclass(slots=True)
class Group:
    """Sequences with the same number of queries, attended to as one padded batch.

    `tokens` [sequences * queries]: where in the packed row they are; `pages` [sequences, pages];
    `positions` [sequences, queries].
    """

    tokens: Tensor
    pages: Tensor
    positions: Tensor
    page_size: int
    _biases: dict[int | None, Tensor] = field(default_factory=dict)

    def bias(self, window: int | None, dtype: torch.dtype) -> Tensor:
        """[sequences, 1, queries, keys]: 0 where a query sees a key, else minus infinity."""
        if window not in self._biases:
            keys = torch.arange(self.pages.shape[1] * self.page_size, device=self.pages.device)
            distance = self.positions[:, :, None] - keys
            is_seen = distance >= 0
            if window is not None:
                is_seen &= distance < window
            bias = torch.zeros(is_seen.shape, dtype=dtype, device=keys.device)
            self._biases[window] = bias.masked_fill_(~is_seen, float("-inf"))[:, None]
        return self._biases[window]


@dataclass(frozen=True, slots=True)
class PagedBatch:
    """What attention needs to know of a forward pass: `slots` [num_tokens], where new keys and values go."""

    cache: KVCache
    slots: Tensor
    groups: tuple[Group, ...]


def paged_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,  # noqa: ARG001 the interface passes it; causality follows from positions
    *,
    paged: PagedBatch,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attend over the packed row: [1, heads, tokens, dim] in, [1, tokens, heads, dim] out."""
    keys, values = paged.cache.write(int(module.layer_idx), key[0], value[0], paged.slots)  # type: ignore[arg-type]
    output = query.new_empty(query.shape[2], query.shape[1], values.shape[-1])
    for group in paged.groups:
        bias = group.bias(sliding_window, query.dtype)
        states = query[0].index_select(1, group.tokens)
        output[group.tokens] = _attend(states, keys, values, group.pages, bias, scaling, softcap, s_aux)
    return output[None], None


def _attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    pages: Tensor,
    bias: Tensor,
    scaling: float | None,
    softcap: float | None,
    sinks: Tensor | None,
) -> Tensor:
    """One group: [heads, sequences * queries, dim] to [sequences * queries, heads, dim].

    Query heads that share a key head become more queries of that head, so that keys are never repeated.
    """
    heads, _, dim = query.shape
    num, kv_heads = pages.shape[0], keys.shape[2]
    repeats, length = heads // kv_heads, bias.shape[2]
    query = query.view(kv_heads, repeats, num, length, dim).permute(2, 0, 1, 3, 4)
    query = query.reshape(num, kv_heads, repeats * length, dim)
    key = keys[pages].flatten(1, 2).transpose(1, 2)
    value = values[pages].flatten(1, 2).transpose(1, 2)
    if length > 1:
        bias = bias.repeat(1, 1, repeats, 1)
    if softcap is None and sinks is None:
        output = scaled_dot_product_attention(query, key, value, attn_mask=bias, scale=scaling)
    else:
        output = _attend_eagerly(query, key, value, bias, scaling, softcap, sinks)
    output = output.view(num, kv_heads, repeats, length, -1).permute(0, 3, 1, 2, 4)
    return output.reshape(num * length, heads, -1)


def _attend_eagerly(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor,
    scaling: float | None,
    softcap: float | None,
    sinks: Tensor | None,
) -> Tensor:
    """With a soft cap on the scores, or a learned sink per head that takes probability away."""
    num, kv_heads, length, dim = query.shape
    scores = query @ key.transpose(2, 3) * (dim**-0.5 if scaling is None else scaling)
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    scores = scores + bias
    if sinks is not None:
        repeats = sinks.numel() // kv_heads
        column = sinks.view(1, kv_heads, repeats, 1).expand(num, -1, -1, length // repeats)
        scores = torch.cat([scores, column.reshape(num, kv_heads, length, 1).to(scores.dtype)], dim=-1)
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(value.dtype)
    return weights[..., : key.shape[2]] @ value


def pad_tables(tables: Iterable[list[int]], device: torch.device) -> Tensor:
    """Page tables as one tensor [sequences, longest], padded with the null page."""
    rows = list(tables)
    longest = max(map(len, rows))
    return torch.tensor([row + [NULL_PAGE] * (longest - len(row)) for row in rows], device=device)


AttentionInterface.register(IMPLEMENTATION, paged_attention)
