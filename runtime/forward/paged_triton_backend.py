"""The paged Triton backend: a kernel gets page tables, and looks up pages itself."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from runtime.device import upload
from runtime.forward.attention import Scoring
from runtime.scheduling.batch import Chunk
from runtime.scheduling.page_pool import NULL_PAGE

BLOCK_SIZE = 16


@dataclass(frozen=True, slots=True)
class QueryBlocks:
    """Which queries attend to which pages: int32 tensors on the device.

    `tables` [num_tables, longest] are page tables, padded with the null page. `blocks` [num_blocks, 4 or
    more] has a row for at most `block_size` consecutive queries of a sequence: the row of its page table, the
    first query's index in the packed row, the number of queries, and the first query's position in the
    sequence.
    """

    tables: Tensor
    blocks: Tensor
    block_size: int

    @classmethod
    def of(cls, chunks: tuple[Chunk, ...], device: torch.device) -> "QueryBlocks":
        """The blocks of a batch; where all sequences decode, each block is one query."""
        block_size = BLOCK_SIZE if any(chunk.num_tokens > 1 for chunk in chunks) else 1
        tables = np.full((len(chunks), max(len(c.sequence.page_table) for c in chunks)), NULL_PAGE, np.int32)
        blocks: list[tuple[int, int, int, int]] = []
        offset = 0
        for row, chunk in enumerate(chunks):
            tables[row, : len(chunk.sequence.page_table)] = chunk.sequence.page_table
            for done in range(0, chunk.num_tokens, block_size):
                count = min(block_size, chunk.num_tokens - done)
                blocks.append((row, offset + done, count, chunk.start + done))
            offset += chunk.num_tokens
        return cls(upload(tables, device), upload(blocks, device, torch.int32), block_size)


class PagedAttentionKernel(Protocol):
    """A kernel that looks up pages in page tables; `paged_triton_kernel.attend_pages` is one."""

    def __call__(
        self, query: Tensor, keys: Tensor, values: Tensor, queries: QueryBlocks, scoring: Scoring
    ) -> Tensor:
        """Attention [tokens, heads, dim] of queries [heads, tokens, dim] to one layer of a `KVCache`."""


@dataclass(frozen=True, slots=True)
class PagedTritonBackend:
    """Attention of a batch's blocks of queries, by a kernel."""

    queries: QueryBlocks
    kernel: PagedAttentionKernel

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, scoring: Scoring) -> Tensor:
        """Attention [tokens, heads, dim] of queries [heads, tokens, dim] to one layer of a `KVCache`."""
        return self.kernel(query, keys, values, self.queries, scoring)
