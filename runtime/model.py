"""The model runner: a batch of token ids in, logits out."""

from collections import defaultdict
from typing import Any

import torch
from torch import Tensor

from runtime.attention import IMPLEMENTATION, Group, KVCache, PagedBatch, pad_tables
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
                f"only {len(self.cache.layers)} of its {num_layers} layers use transformers' attention interface",
            )

    def _slots(self, chunks: tuple[Chunk, ...]) -> list[int]:
        size = self.cache.page_size
        return [
            chunk.sequence.page_table[position // size] * size + position % size
            for chunk in chunks
            for position in range(chunk.start, chunk.end)
        ]

    def _groups(self, chunks: tuple[Chunk, ...]) -> tuple[Group, ...]:
        """Single queries of similar length together, longer chunks each on their own."""
        members: defaultdict[tuple[int, ...], list[tuple[int, Chunk]]] = defaultdict(list)
        offset = 0
        for chunk in chunks:
            num_pages = -(-chunk.end // self.cache.page_size)
            key = (1, num_pages.bit_length()) if chunk.num_tokens == 1 else (chunk.num_tokens, offset)
            members[key].append((offset, chunk))
            offset += chunk.num_tokens
        return tuple(self._group(group) for group in members.values())

    def _group(self, members: list[tuple[int, Chunk]]) -> Group:
        size = self.cache.page_size
        return Group(
            tokens=self._tensor([offset + i for offset, chunk in members for i in range(chunk.num_tokens)]),
            pages=pad_tables([c.sequence.page_table[: -(-c.end // size)] for _, c in members], self.device),
            positions=self._tensor([list(range(c.start, c.end)) for _, c in members]),
            page_size=size,
        )

    def _tensor(self, values: list[Any]) -> Tensor:
        return torch.tensor(values, dtype=torch.long, device=self.device)


def _last_tokens(chunks: tuple[Chunk, ...]) -> list[int]:
    """Where in the packed row the sampled chunks end."""
    last, offset = [], 0
    for chunk in chunks:
        offset += chunk.num_tokens
        if chunk.is_sampled:
            last.append(offset - 1)
    return last
