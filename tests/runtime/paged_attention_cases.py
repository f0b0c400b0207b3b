"""Shapes of paged attention, and the attention of each, computed slowly and simply."""

import math
from dataclasses import dataclass, replace

import torch

from runtime.forward.attention import Scoring
from runtime.forward.paged_triton_backend import QueryBlocks


@dataclass(frozen=True)
class Case:
    """One shape of attention. `lengths` are (computed before, pending now) of each sequence."""

    name: str
    heads: int = 4
    key_heads: int = 2
    dim: int = 16
    value_dim: int | None = None
    page_size: int = 4
    lengths: tuple[tuple[int, int], ...] = ((29, 1), (0, 1))
    dtype: torch.dtype = torch.float32
    window: int | None = None
    softcap: float | None = None
    has_sinks: bool = False
    num_splits: int = 1

    def make(self, seed=0):
        """query, keys, values, queries, scoring; keys that no query may see are NaN."""
        noise = torch.Generator().manual_seed(seed)

        def randn(*shape):
            return torch.randn(shape, generator=noise).to(self.dtype)

        num_pages = [-(-sum(pair) // self.page_size) for pair in self.lengths]
        order = (1 + torch.randperm(sum(num_pages) + 3, generator=noise)).tolist()
        tables = [[order.pop() for _ in range(n)] for n in num_pages]
        shape = (sum(num_pages) + 4, self.page_size, self.key_heads)
        keys, values = randn(*shape, self.dim), randn(*shape, self.value_dim or self.dim)
        is_seen = torch.zeros(shape[:2], dtype=torch.bool)
        for table, (before, pending) in zip(tables, self.lengths, strict=True):
            for position in range(before + pending):
                is_seen[table[position // self.page_size], position % self.page_size] = True
        keys[~is_seen] = values[~is_seen] = math.nan
        tokens = sum(pending for _, pending in self.lengths)
        sinks = randn(self.heads) if self.has_sinks else None
        scoring = Scoring(0.3, self.window, self.softcap, sinks)
        return (
            randn(tokens, self.heads, self.dim).transpose(0, 1),
            keys,
            values,
            self._query_blocks(tables),
            scoring,
        )

    def _query_blocks(self, tables):
        size = min(4, max(pending for _, pending in self.lengths))
        blocks, first = [], 0
        for row, (before, pending) in enumerate(self.lengths):
            blocks += [
                (row, first + done, min(size, pending - done), before + done)
                for done in range(0, pending, size)
            ]
            first += pending
        longest = max(map(len, tables))
        padded = [table + [0] * (longest - len(table)) for table in tables]
        return QueryBlocks(
            torch.tensor(padded, dtype=torch.int32), torch.tensor(blocks, dtype=torch.int32), size
        )


def reference(query, keys, values, queries, scoring):
    """One query and one head at a time, in the type of `query`, or in float64 if that is what it is."""
    heads, tokens, dim = query.shape
    repeats = heads // keys.shape[2]
    output = torch.full((tokens, heads, values.shape[-1]), math.nan, dtype=query.dtype)
    for row, first, count, position in queries.blocks[:, :4].tolist():
        for index in range(count):
            own = position + index
            low = 0 if scoring.window is None else max(0, own - scoring.window + 1)
            seen = torch.arange(low, own + 1)
            pages, offsets = queries.tables[row].long()[seen // keys.shape[1]], seen % keys.shape[1]
            key = keys[pages, offsets].to(query.dtype).repeat_interleave(repeats, 1)
            value = values[pages, offsets].to(query.dtype).repeat_interleave(repeats, 1)
            scale = dim**-0.5 if scoring.scaling is None else scoring.scaling
            scores = torch.einsum("hd,nhd->hn", query[:, first + index], key) * scale
            if scoring.softcap is not None:
                scores = torch.tanh(scores / scoring.softcap) * scoring.softcap
            if scoring.sinks is not None:
                scores = torch.cat([scores, scoring.sinks.to(scores.dtype)[:, None]], dim=1)
            weights = scores.softmax(dim=1)[:, : len(seen)]
            output[first + index] = torch.einsum("hn,nhd->hd", weights, value)
    return output


def moved(queries, scoring, device):
    """The same on another device."""
    sinks = None if scoring.sinks is None else scoring.sinks.to(device)
    queries = QueryBlocks(queries.tables.to(device), queries.blocks.to(device), queries.block_size)
    return queries, replace(scoring, sinks=sinks)


MIXED = ((5, 7), (20, 1), (0, 3))
CASES = [
    Case("plain"),
    Case("split", num_splits=4),
    Case("chunks", lengths=MIXED),
    Case("chunks split", lengths=MIXED, num_splits=2),
    Case("window", window=7, num_splits=2),
    Case("window in chunks", window=3, lengths=MIXED),
    Case("softcap", softcap=5.0),
    Case("sinks", has_sinks=True, window=12),
    Case("sinks split", has_sinks=True, num_splits=4),
    Case("everything", has_sinks=True, softcap=8.0, window=9, lengths=MIXED, num_splits=2),
    Case("three queries a key", heads=6, key_heads=2),
    Case("eight queries a key", heads=8, key_heads=1, lengths=MIXED),
    Case("a key each", heads=2, key_heads=2),
    Case("many tiles", heads=2, key_heads=1, lengths=((150, 1),), page_size=16),
    Case("many tiles split", heads=2, key_heads=1, lengths=((300, 1),), num_splits=2, window=200),
    Case("dim 8", dim=8, lengths=((9, 1),)),
    Case("dim 64", dim=64, lengths=((9, 2),)),
    Case("dim 80", dim=80, lengths=((9, 1),), num_splits=2),
    Case("dim 96", dim=96, lengths=((9, 1),)),
    Case("dim 128", dim=128, lengths=((40, 1),)),
    Case("dim 256", dim=256, lengths=((40, 1),), softcap=30.0),
    Case("values of another size", dim=48, value_dim=20, lengths=((9, 1),), num_splits=2),
    Case("half", dtype=torch.float16, dim=128, lengths=((70, 1), (3, 4))),
    Case("half split", dtype=torch.float16, dim=80, lengths=((70, 1),), num_splits=2, has_sinks=True),
]
