"""CUDA graphs: small batches are computed by replaying a step that was recorded for a batch of that size."""

from collections.abc import Callable, Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.device import upload
from runtime.forward.attention import KVCache, PagedBatch
from runtime.forward.device_operations import Capture
from runtime.forward.forward_pass import ForwardPass
from runtime.forward.paged_triton_backend import PagedAttentionKernel, PagedTritonBackend, QueryBlocks
from runtime.scheduling.batch import Batch, Chunk
from runtime.scheduling.page_pool import NULL_PAGE

LONGEST_CHUNK = 16
"""Longer chunks run without graphs, in blocks of queries: here each token would read all keys separately."""
TABLE, TOKEN, COUNT, POSITION, TOKEN_ID = range(5)


class TableRows:
    """Assigns page tables to rows of a tensor on the device, so that only new pages are copied.

    A page table is a list that only grows. A sequence that is preempted gets a new list.
    """

    def __init__(self, num_rows: int) -> None:
        self._num_rows = num_rows
        self._row_of: dict[int, int] = {}
        self._tables: dict[int, tuple[list[int], int]] = {}  # by row; keeps lists alive, and so their ids

    def assign(self, tables: Iterable[list[int]]) -> tuple[list[int], list[tuple[int, int, int]]]:
        """The row of each table, and (row, index, page) of each page that is not in its row yet."""
        batch_tables = list(tables)
        known = {id(table): self._row_of[id(table)] for table in batch_tables if id(table) in self._row_of}
        free = iter(sorted(set(range(self._num_rows)) - set(known.values())))
        self._row_of = {id(table): known.get(id(table), -1) for table in batch_tables}
        self._tables = {row: self._tables[row] for row in known.values()}
        changes: list[tuple[int, int, int]] = []
        for table in batch_tables:
            row = self._row_of[id(table)]
            if row < 0:
                row = self._row_of[id(table)] = next(free)
            _, num_copied = self._tables.get(row, (table, 0))
            changes += [(row, index, table[index]) for index in range(num_copied, len(table))]
            self._tables[row] = (table, len(table))
        return [self._row_of[id(table)] for table in batch_tables], changes


class DecodeGraphs:
    """Computes batches of at most `max_rows` tokens with page tables of at most `max_pages` pages.

    Each token is a row. A decoding sequence has one row. A chunk of a few tokens has several rows over the
    same page table; each token sees those before it, since every layer writes before it reads. The recorded
    steps read tensors that stay in place: `rows` int32 [max_rows, 5], a block of `QueryBlocks` and the
    token's id, and `tables` int32 [max_rows + 1, max_pages]. Padding rows, up to a recorded size, use the
    scratch page: the null page stays zero.
    """

    def __init__(
        self,
        forward_pass: ForwardPass,
        cache: KVCache,
        kernel: PagedAttentionKernel,
        capture: Capture,
        *,
        max_rows: int,
        max_pages: int,
        device: torch.device,
    ) -> None:
        self.sizes = sizes_up_to(max_rows)
        self.max_pages = max_pages
        self._forward_pass = forward_pass
        self._cache = cache
        self._kernel = kernel
        self._device = device
        self._table_rows = TableRows(self.max_rows)
        self._tables = torch.full((self.max_rows + 1, max_pages), NULL_PAGE, dtype=torch.int32, device=device)
        self._tables[self.max_rows] = cache.scratch_page
        self._rows = upload(self._padding(self.max_rows), device)
        # The largest first: the others then reuse its memory.
        self._replays = {size: capture(self._step(size)) for size in reversed(self.sizes)}

    @property
    def max_rows(self) -> int:
        """The largest batch, in tokens."""
        return self.sizes[-1]

    def takes(self, batch: Batch) -> bool:
        """Whether a batch is small enough for the graphs."""
        return batch.num_tokens <= self.max_rows and all(
            chunk.num_tokens <= LONGEST_CHUNK and len(chunk.sequence.page_table) <= self.max_pages
            for chunk in batch.chunks
        )

    def run(self, batch: Batch) -> Tensor:
        """Float32 logits [batch.num_tokens, num_columns], overwritten by the next run."""
        size = next(size for size in self.sizes if size >= batch.num_tokens)
        table_rows, changes = self._table_rows.assign(chunk.sequence.page_table for chunk in batch.chunks)
        if changes:
            self._write(changes)
        rows = self._padding(size)
        rows[: batch.num_tokens, [TABLE, POSITION, TOKEN_ID]] = _tokens(batch.chunks, table_rows)
        self._rows[:size].copy_(upload(rows, self._device))
        return self._replays[size]()[: batch.num_tokens]

    def _step(self, size: int) -> Callable[[], Tensor]:
        rows = self._rows[:size]
        backend = PagedTritonBackend(QueryBlocks(self._tables, rows, 1), self._kernel)
        page_size = self._cache.page_size

        def step() -> Tensor:
            table_rows, positions, ids = (rows[:, i].long() for i in (TABLE, POSITION, TOKEN_ID))
            pages = self._tables[table_rows, positions // page_size].long()
            slots = pages * page_size + positions % page_size
            return self._forward_pass(ids, positions, PagedBatch(self._cache, slots, backend))

        return step

    def _write(self, changes: list[tuple[int, int, int]]) -> None:
        row, index, page = upload(changes, self._device).T
        self._tables.view(-1).index_copy_(0, row * self.max_pages + index, page.int())

    def _padding(self, size: int) -> NDArray[np.int32]:
        rows = np.zeros((size, 5), np.int32)
        rows[:, TABLE] = self.max_rows
        rows[:, TOKEN] = np.arange(size)
        rows[:, COUNT] = 1
        return rows


def sizes_up_to(max_rows: int) -> tuple[int, ...]:
    """Powers of two, and `max_rows` itself."""
    return (*(1 << i for i in range((max_rows - 1).bit_length())), max_rows)


def _tokens(chunks: tuple[Chunk, ...], table_rows: list[int]) -> list[tuple[int, int, int]]:
    """For each token, the row of its page table, its position and its id."""
    return [
        (row, position, chunk.sequence.token_ids[position])
        for chunk, row in zip(chunks, table_rows, strict=True)
        for position in range(chunk.start, chunk.end)
    ]
