"""Attention over pages, registered with transformers as the implementation `callgate_paged`.

One forward pass computes a whole batch as one packed row. The model hands the keyword argument `paged`, a
`PagedBatch`, down to its attention modules. There, every layer writes its new keys and values into the pages
of the KV cache; then the `AttentionBackend` lets each query attend to its sequence's pages.

There are two attention backends. `gather_backend.GatherBackend` runs on any device and is the reference;
`paged_triton_backend.PagedTritonBackend` hands page tables to a Triton kernel.
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

    A layer's tensors are made when it first writes, with the shape and type of what it writes. Values may
    have another width than keys.
    """

    def __init__(self, num_pages: int, page_size: int) -> None:
        self.num_pages = num_pages
        self.page_size = page_size
        self.layers: dict[int, tuple[Tensor, Tensor]] = {}

    @property
    def bytes_per_page(self) -> int:
        """The size of one page in all layers that have written."""
        return sum(t[0].nbytes for pair in self.layers.values() for t in pair)

    def resized(self, num_pages: int) -> "KVCache":
        """An empty cache of the same layers, with one page more: `scratch_page`."""
        cache = KVCache(num_pages, self.page_size)
        cache.layers = {
            index: (k.new_zeros(num_pages + 1, *k.shape[1:]), v.new_zeros(num_pages + 1, *v.shape[1:]))
            for index, (k, v) in self.layers.items()
        }
        return cache

    @property
    def scratch_page(self) -> int:
        """The page of a resized cache that no sequence has: padding is written there."""
        return self.num_pages

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
        """Fill pages with zeros, since a NaN is still a NaN when its weight is zero."""
        index = list(pages)
        for keys, values in self.layers.values():
            keys[index] = 0
            values[index] = 0

    @torch.inference_mode()
    def copy(self, source: int, target: int) -> None:
        """Give one page the content of another."""
        for keys, values in self.layers.values():
            keys[target] = keys[source]
            values[target] = values[source]

    def _empty(self, states: Tensor) -> Tensor:
        heads, _, dim = states.shape
        return states.new_zeros(self.num_pages, self.page_size, heads, dim)


@dataclass(frozen=True, slots=True)
class Scoring:
    """How a layer scores keys for a query.

    `scaling` None is 1 / sqrt(head_dim). A query sees only the last `window` keys. Scores are softly capped
    at `softcap`. `sinks` [heads] are scores that take part in the softmax without a value.
    """

    scaling: float | None = None
    window: int | None = None
    softcap: float | None = None
    sinks: Tensor | None = None


class AttentionBackend(Protocol):
    """Lets the queries of one batch attend to the keys of their sequences."""

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, scoring: Scoring) -> Tensor:
        """Attention [tokens, heads, dim] of queries [heads, tokens, dim] to one layer of a `KVCache`."""


@dataclass(slots=True, eq=False)
class PagedBatch:
    """What attention needs to know about a batch; `slots` [num_tokens] say where new keys and values go.

    It is not frozen, because torch's compiler looks into frozen values: it would compile a layer again for
    each new relation between the sizes of these tensors, although no layer reads them.
    """

    cache: KVCache
    slots: Tensor
    backend: AttentionBackend


def paged_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,  # noqa: ARG001 part of the interface; causality follows from positions
    *,
    paged: PagedBatch | None = None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention of a packed row: [1, heads, tokens, dim] in, [1, tokens, heads, dim] out.

    Raises:
        TypeError: the layers of the model did not pass `paged` on.
    """
    if paged is None:
        raise TypeError("its layers do not hand the model's keyword arguments down to attention")
    keys, values = paged.cache.write(int(module.layer_idx), key[0], value[0], paged.slots)  # type: ignore[arg-type]
    scoring = Scoring(scaling, sliding_window, softcap, s_aux)
    return paged.backend.attend(query[0], keys, values, scoring)[None], None


AttentionInterface.register(IMPLEMENTATION, paged_attention)
