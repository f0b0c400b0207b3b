"""Attention over pages, registered with transformers as the implementation `callgate_paged`.

One forward pass computes a whole batch as one packed row. What the attention modules need to know of it
travels down to them as the keyword argument `paged`, a `PagedBatch`: every layer writes its new keys and
values into the pages of the KV cache, then its `Reader` reads each sequence's pages back.

There are two readers. `gathered.Gathered` gathers pages, on any device, and is the reference; `walked.Walked`
leaves the walking of page tables to a kernel.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

IMPLEMENTATION = "callgate_paged"


class KVCache:
    """Keys and values of every layer: [num_pages, page_size, num_kv_heads, head_dim] each.

    A layer's tensors are made when it first writes, in the shape and type it writes; values need not be as
    wide as keys.
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


@dataclass(frozen=True, slots=True)
class Scoring:
    """How a layer turns queries and keys into weights; `sinks` [heads] take probability away."""

    scaling: float | None = None
    window: int | None = None
    softcap: float | None = None
    sinks: Tensor | None = None


class Reader(Protocol):
    """Where the queries of one batch find the keys that they see."""

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, scoring: Scoring) -> Tensor:
        """[heads, tokens, dim] to [tokens, heads, dim], over one layer of a `KVCache`."""


@dataclass(frozen=True, slots=True)
class PagedBatch:
    """What attention needs to know of a forward pass: `slots` [num_tokens], where new keys and values go."""

    cache: KVCache
    slots: Tensor
    reader: Reader


def paged_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,  # noqa: ARG001 the interface passes it; causality follows from positions
    *,
    paged: PagedBatch | None = None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attend over the packed row: [1, heads, tokens, dim] in, [1, tokens, heads, dim] out.

    Raises:
        TypeError: the layers above did not hand `paged` down.
    """
    if paged is None:
        raise TypeError("its layers do not hand down to their attention what the model is called with")
    keys, values = paged.cache.write(int(module.layer_idx), key[0], value[0], paged.slots)  # type: ignore[arg-type]
    scoring = Scoring(scaling, sliding_window, softcap, s_aux)
    return paged.reader.attend(query[0], keys, values, scoring)[None], None


AttentionInterface.register(IMPLEMENTATION, paged_attention)
