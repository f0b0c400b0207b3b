"""Attention that leaves the walking of page tables to a kernel."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from runtime.device import upload
from runtime.forward.attention import Scoring
from runtime.page_pool import NULL_PAGE
from runtime.scheduler import Chunk

BLOCK_SIZE = 16


@dataclass(frozen=True, slots=True)
class Walk:
    """Which queries walk which pages: int32 on the device that reads them.

    `tables` [num_tables, longest], padded with the null page. `blocks` [num_blocks, 4 or more], a row for at
    most `block_size` queries that follow one another: the row of their table, where in the packed row the
    first one is, how many there are, and the first one's position in its sequence.
    """

    tables: Tensor
    blocks: Tensor
    block_size: int

    @classmethod
    def of(cls, chunks: tuple[Chunk, ...], device: torch.device) -> "Walk":
        """The walk of a batch; decoding alone makes blocks of one query."""
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


class AttendPages(Protocol):
    """A kernel that walks page tables; `walk_kernel.attend_pages` is one."""

    def __call__(self, query: Tensor, keys: Tensor, values: Tensor, walk: Walk, scoring: Scoring) -> Tensor:
        """[heads, tokens, dim] to [tokens, heads, dim], over one layer of a `KVCache`."""


@dataclass(frozen=True, slots=True)
class Walked:
    """The queries of a batch, in blocks."""

    walk: Walk
    kernel: AttendPages

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, scoring: Scoring) -> Tensor:
        """[heads, tokens, dim] to [tokens, heads, dim], over one layer of a `KVCache`."""
        return self.kernel(query, keys, values, self.walk, scoring)
