"""Attention over pages, registered with transformers as the implementation `callgate_paged`.

One forward pass computes a whole batch as one packed row. What the attention modules need to know of it
travels down to them as the keyword argument `paged`, a `PagedBatch`: every layer writes its new keys and
values into the pages of the KV cache, then reads each sequence's pages back.

Reading gathers pages, on any device; pages that lie side by side are read in place. Sequences that begin
with the same pages attend to them together, once, and their parts are joined by their log-sum-exp. A kernel
that walks page tables itself replaces `_attend`, and nothing else.
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
class Span:
    """A run of keys, the first at position `start`: `pages` by sequence, or one list if all share them."""

    pages: list[list[int]]
    start: int
    page_size: int
    _index: Tensor | None = None
    _biases: dict[int | None, Tensor] = field(default_factory=dict)

    def read(self, states: Tensor) -> Tensor:
        """[rows, num_kv_heads, keys, head_dim] out of a layer's keys or values."""
        first = self.pages[0]
        if len(self.pages) == 1 and first[-1] - first[0] == len(first) - 1 and first == sorted(first):
            found = states[None, first[0] : first[-1] + 1]
        else:
            if self._index is None:
                self._index = pad_tables(self.pages, states.device)
            found = states[self._index]
        return found.flatten(1, 2).transpose(1, 2)

    def bias(self, positions: Tensor, window: int | None, repeats: int, dtype: torch.dtype) -> Tensor:
        """[sequences, 1, repeats * queries, keys]: 0 where a query at `positions` sees a key, else -inf."""
        if window not in self._biases:
            num_keys = max(map(len, self.pages)) * self.page_size
            keys = torch.arange(self.start, self.start + num_keys, device=positions.device)
            distance = positions[:, :, None] - keys
            is_seen = distance >= 0
            if window is not None:
                is_seen &= distance < window
            bias = torch.zeros(is_seen.shape, dtype=dtype, device=keys.device)
            bias.masked_fill_(~is_seen, float("-inf"))
            self._biases[window] = bias.repeat(1, repeats, 1)[:, None]
        return self._biases[window]


@dataclass(frozen=True, slots=True)
class Group:
    """Sequences with the same number of queries, attended to as one padded batch.

    `tokens` [sequences * queries]: where in the packed row they are; `positions` [sequences, queries].
    `shared` are keys that all of them see, if there are such, and `own` the rest.
    """

    tokens: Tensor
    positions: Tensor
    own: Span
    shared: Span | None = None


@dataclass(frozen=True, slots=True)
class PagedBatch:
    """What attention needs to know of a forward pass: `slots` [num_tokens], where new keys and values go."""

    cache: KVCache
    slots: Tensor
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True)
class Scoring:
    """How a layer turns queries and keys into weights; `sinks` [heads] take probability away."""

    scaling: float | None = None
    window: int | None = None
    softcap: float | None = None
    sinks: Tensor | None = None


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
    scoring = Scoring(scaling, sliding_window, softcap, s_aux)
    output = query.new_empty(query.shape[2], query.shape[1], values.shape[-1])
    for group in paged.groups:
        output[group.tokens] = _attend(query[0].index_select(1, group.tokens), keys, values, group, scoring)
    return output[None], None


def _attend(query: Tensor, keys: Tensor, values: Tensor, group: Group, scoring: Scoring) -> Tensor:
    """One group: [heads, sequences * queries, dim] to [sequences * queries, heads, dim].

    Query heads that share a key head become more queries of that head, so that keys are never repeated.
    """
    heads, _, dim = query.shape
    num, length = group.positions.shape
    kv_heads = keys.shape[2]
    repeats = heads // kv_heads
    query = query.view(kv_heads, repeats, num, length, dim).permute(2, 0, 1, 3, 4)
    query = query.reshape(num, kv_heads, repeats * length, dim)
    if group.shared is None and scoring.softcap is None and scoring.sinks is None:
        bias = group.own.bias(group.positions, scoring.window, repeats, query.dtype)
        output = scaled_dot_product_attention(
            query, group.own.read(keys), group.own.read(values), attn_mask=bias, scale=scoring.scaling
        )
    else:
        output = _attend_in_parts(query, keys, values, group, scoring)
    output = output.view(num, kv_heads, repeats, length, -1).permute(0, 3, 1, 2, 4)
    return output.reshape(num * length, heads, -1)


def _attend_in_parts(query: Tensor, keys: Tensor, values: Tensor, group: Group, scoring: Scoring) -> Tensor:
    """Attend to each span by itself; a part weighs as much as its share of the whole sum of exponentials."""
    num, kv_heads, length, dim = query.shape
    repeats = length // group.positions.shape[1]
    bias = group.own.bias(group.positions, scoring.window, repeats, query.dtype)
    parts = [_attend_to(query, group.own.read(keys), group.own.read(values), bias, scoring)]
    if group.shared is not None:
        together = query.transpose(0, 1).reshape(1, kv_heads, num * length, dim)
        bias = group.shared.bias(group.positions, scoring.window, repeats, query.dtype)
        bias = bias.flatten(0, 2)[None, None]
        part = _attend_to(together, group.shared.read(keys), group.shared.read(values), bias, scoring)
        output, mass = (states.view(kv_heads, num, length, -1).transpose(0, 1) for states in part)
        parts.append((output, mass))
    total = torch.stack([mass for _, mass in parts]).logsumexp(dim=0)
    if scoring.sinks is not None:
        sinks = scoring.sinks.view(1, kv_heads, repeats, 1).expand(-1, -1, -1, length // repeats)
        total = total.logaddexp(sinks.reshape(1, kv_heads, length, 1).float())
    return torch.stack([output * (mass - total).exp().to(output.dtype) for output, mass in parts]).sum(dim=0)


def _attend_to(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor, scoring: Scoring
) -> tuple[Tensor, Tensor]:
    """Attention to some of the keys, and the log of the sum of exponentials of their scores."""
    scale = query.shape[-1] ** -0.5 if scoring.scaling is None else scoring.scaling
    scores = (query @ key.transpose(2, 3)).float() * scale
    if scoring.softcap is not None:
        scores = torch.tanh(scores / scoring.softcap) * scoring.softcap
    scores = scores + bias
    # Where no key is seen the sum is zero; its logarithm stays finite, so that no NaN comes of it.
    mass = scores.logsumexp(dim=-1, keepdim=True).clamp(min=torch.finfo(torch.float32).min)
    return (scores - mass).exp().to(value.dtype) @ value, mass


def pad_tables(tables: Iterable[list[int]], device: torch.device) -> Tensor:
    """Page tables as one tensor [sequences, longest], padded with the null page."""
    rows = list(tables)
    longest = max(map(len, rows))
    return torch.tensor([row + [NULL_PAGE] * (longest - len(row)) for row in rows], device=device)


AttentionInterface.register(IMPLEMENTATION, paged_attention)
