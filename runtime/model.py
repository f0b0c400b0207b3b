"""The model runner: a batch of token ids in, logits out."""

from collections import Counter, defaultdict
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor

from runtime.attention import IMPLEMENTATION, Group, KVCache, PagedBatch, Span
from runtime.errors import ModelLoadError
from runtime.scheduler import Batch, Chunk
from runtime.sequence import Sequence
from runtime.settings import EngineSettings


class ModelRunner:
    """A transformers causal LM over a paged KV cache.

    `num_columns` is the width of its logits.

    Raises:
        ModelLoadError: its modules do not use transformers' attention interface in every layer.
    """

    def __init__(self, model: Any, settings: EngineSettings) -> None:
        model.set_attn_implementation(IMPLEMENTATION)
        self.model = model.eval()
        self.device: torch.device = model.device
        self.num_columns = 0
        self.cache = KVCache(2, settings.page_size)
        self._probe()
        num_pages = settings.num_pages or max(2, settings.kv_bytes // self.cache.bytes_per_page)
        self.cache = self.cache.resized(num_pages)

    @torch.inference_mode()
    def run(self, batch: Batch) -> Tensor:
        """Compute a batch; float32 logits [len(batch.sampled), num_columns]."""
        chunks = batch.chunks
        ids = [i for chunk in chunks for i in chunk.sequence.token_ids[chunk.start : chunk.end]]
        positions = [p for chunk in chunks for p in range(chunk.start, chunk.end)]
        output = self.model(
            input_ids=self._tensor(ids)[None],
            position_ids=self._tensor(positions)[None],
            use_cache=False,
            logits_to_keep=self._tensor(_last_tokens(chunks)),
            paged=PagedBatch(self.cache, self._tensor(self._slots(chunks)), self._groups(chunks)),
        )
        logits: Tensor = output.logits[0].float()
        return logits

    def _probe(self) -> None:
        """Run one token, to learn the shapes of the layers and whether all of them use the pages."""
        sequence = Sequence("probe", [0], max_tokens=1)
        sequence.page_table = [1]
        self.num_columns = self.run(Batch((Chunk(sequence, 0, 1),))).shape[1]
        num_layers = self.model.config.get_text_config().num_hidden_layers
        if len(self.cache.layers) != num_layers:
            raise ModelLoadError(
                self.model.config.name_or_path or type(self.model).__name__,
                f"only {len(self.cache.layers)} of its {num_layers} layers use the attention interface",
            )

    def _slots(self, chunks: tuple[Chunk, ...]) -> list[int]:
        size = self.cache.page_size
        return [
            chunk.sequence.page_table[position // size] * size + position % size
            for chunk in chunks
            for position in range(chunk.start, chunk.end)
        ]

    def _groups(self, chunks: tuple[Chunk, ...]) -> tuple[Group, ...]:
        """Single queries with whom they share a first page, or else by length; longer chunks alone."""
        first_pages = Counter(c.sequence.page_table[0] for c in chunks if c.num_tokens == 1)
        members: defaultdict[tuple[int, ...], list[tuple[int, Chunk]]] = defaultdict(list)
        offset = 0
        for chunk in chunks:
            table = chunk.sequence.page_table
            if chunk.num_tokens > 1:
                key: tuple[int, ...] = (offset,)
            elif first_pages[table[0]] > 1:
                key = (-1, table[0])
            else:
                key = (-2, len(table).bit_length())
            members[key].append((offset, chunk))
            offset += chunk.num_tokens
        return tuple(self._group(group) for group in members.values())

    def _group(self, members: list[tuple[int, Chunk]]) -> Group:
        size = self.cache.page_size
        tables = [c.sequence.page_table[: -(-c.end // size)] for _, c in members]
        num_shared = _num_shared(tables)
        return Group(
            tokens=self._tensor([offset + i for offset, chunk in members for i in range(chunk.num_tokens)]),
            positions=self._tensor([list(range(c.start, c.end)) for _, c in members]),
            own=Span([table[num_shared:] for table in tables], num_shared * size, size),
            shared=Span([tables[0][:num_shared]], 0, size) if num_shared else None,
        )

    def _tensor(self, values: list[Any]) -> Tensor:
        return torch.tensor(values, dtype=torch.long, device=self.device)


def _num_shared(tables: list[list[int]]) -> int:
    """How many pages all of several tables begin with; the last page of a table is always its own."""
    if len(tables) == 1:
        return 0
    columns = zip(*tables, strict=False)
    return sum(1 for _ in takewhile(lambda pages: len(set(pages)) == 1, columns))


def _last_tokens(chunks: tuple[Chunk, ...]) -> list[int]:
    """Where in the packed row the sampled chunks end."""
    last, offset = [], 0
    for chunk in chunks:
        offset += chunk.num_tokens
        if chunk.is_sampled:
            last.append(offset - 1)
    return last
