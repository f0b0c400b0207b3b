"""The model runner: a batch of token ids in, logits out."""

import logging
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface
from transformers.modeling_layers import GradientCheckpointingLayer

from runtime.device import upload
from runtime.errors import ModelLoadError
from runtime.forward.attention import IMPLEMENTATION, KVCache, PagedBatch, Reader, paged_attention
from runtime.forward.context import context_length, longest_row
from runtime.forward.cuda_graphs import DecodeGraphs
from runtime.forward.device_operations import Backend, backend_of
from runtime.forward.forward_pass import pack_weights
from runtime.forward.gather_backend import Gathered
from runtime.forward.paged_triton_backend import Walk, Walked
from runtime.forward.probe import probe
from runtime.memory import is_out_of_memory
from runtime.scheduler import Batch, Chunk
from runtime.sequence import Sequence
from runtime.settings import EngineSettings

COMPILE_OPTIONS: dict[str, Any] = {"dynamic": True}

logger = logging.getLogger(__name__)


class ModelRunner:
    """A transformers causal LM over a paged KV cache.

    `num_columns` is the width of its logits. `backend` is by default that of the model's device; its graphs
    compute decode steps, and whatever else a step holds is launched kernel by kernel. `is_async` is whether
    `run` returns before the logits are computed. On a CPU the model's weights may be packed, in place.

    Raises:
        ModelLoadError: it would not write over pages what it writes by itself, and why (`probe`).
    """

    def __init__(self, model: Any, settings: EngineSettings, backend: Backend | None = None) -> None:
        _check_row(model, settings.max_batch_tokens)
        model.set_attn_implementation(IMPLEMENTATION)
        self.model = model.eval()
        pack_weights(model)
        self.device: torch.device = model.device
        self.is_async = self.device.type != "cpu"
        self.backend = backend or backend_of(self.device)
        self.graphs: DecodeGraphs | None = None
        self.cache = KVCache(0, settings.page_size)
        self.num_columns = probe(self)
        self.cache = self._sized_cache(settings)
        if settings.compile_layers:
            _compile_layers(model)
        if self.is_async:
            self._warm_up(settings)
        self.graphs = self._record(settings)

    def _sized_cache(self, settings: EngineSettings) -> KVCache:
        num_pages = settings.num_pages or max(2, settings.kv_bytes // self.cache.bytes_per_page)
        try:
            return self.cache.resized(num_pages)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            size = num_pages * self.cache.bytes_per_page
            raise ModelLoadError.of(
                self.model, f"a KV cache of {size} bytes does not fit beside it into memory; lower kv_bytes"
            ) from error

    @torch.inference_mode()
    def run(self, batch: Batch) -> Tensor:
        """Compute a batch; float32 logits [len(batch.sampled), num_columns], good until the next run.

        On an accelerator they may not be computed yet when this returns: reading them waits.
        """
        last = _last_tokens(batch.chunks)
        if self.graphs is not None and self.graphs.takes(batch):
            logits = self.graphs.run(batch)
            return logits if len(last) == len(logits) else logits[upload(last, self.device, torch.long)]
        reader = self.reader(batch.chunks)
        return self.compute(batch.chunks, reader, upload(last, self.device, torch.long))

    def compute(self, chunks: tuple[Chunk, ...], reader: Reader, keep: Tensor | int = 0) -> Tensor:
        """Float32 logits of the tokens in `keep`, 0 for all, launched kernel by kernel."""
        ids = [i for chunk in chunks for i in chunk.sequence.token_ids[chunk.start : chunk.end]]
        positions = [p for chunk in chunks for p in range(chunk.start, chunk.end)]
        inputs = upload([ids, positions, self._slots(chunks)], self.device)
        return self._forward(inputs[0], inputs[1], PagedBatch(self.cache, inputs[2], reader), keep)

    def reader(self, chunks: tuple[Chunk, ...]) -> Reader:
        """What reads the pages of some chunks, on this device."""
        if self.backend is None:
            return Gathered.of(chunks, self.cache.page_size, self.device)
        return Walked(Walk.of(chunks, self.device), self.backend.kernel)

    def _forward(self, ids: Tensor, positions: Tensor, paged: PagedBatch, keep: Tensor | int = 0) -> Tensor:
        output = self.model(
            input_ids=ids[None],
            position_ids=positions[None],
            use_cache=False,
            logits_to_keep=keep,
            paged=paged,
        )
        logits: Tensor = output.logits[0].float()
        return logits

    def _warm_up(self, settings: EngineSettings) -> None:
        """Run a short and a full batch, so that no request waits for kernels to be compiled."""
        room = (self.cache.num_pages - 1) * self.cache.page_size
        for num_tokens in (2, settings.max_batch_tokens):
            sequence = Sequence("warm-up", [0] * min(num_tokens, room), max_tokens=1)
            sequence.page_table = list(range(1, 1 + -(-len(sequence.token_ids) // self.cache.page_size)))
            self.run(Batch((Chunk(sequence, 0, len(sequence.token_ids)),)))
        self.cache.clear(range(1, self.cache.num_pages))

    @torch.inference_mode()
    def _record(self, settings: EngineSettings) -> DecodeGraphs | None:
        """Graphs for every running sequence to decode, and as many tokens again that are forced."""
        if self.backend is None or self.backend.capture is None:
            return None
        length = min(
            context_length(self.model.config.get_text_config()),
            settings.context_length or self.cache.num_pages * self.cache.page_size,
        )
        try:
            return DecodeGraphs(
                self._forward,
                self.cache,
                self.backend.kernel,
                self.backend.capture,
                max_rows=min(2 * settings.max_sequences, settings.max_batch_tokens),
                max_pages=min(-(-length // self.cache.page_size), self.cache.num_pages),
                device=self.device,
            )
        except RuntimeError as error:  # a module that looks at values, as some mixtures of experts do
            logger.warning("decoding runs without graphs: %s", error)
            return None

    def _slots(self, chunks: tuple[Chunk, ...]) -> list[int]:
        size = self.cache.page_size
        return [
            chunk.sequence.page_table[position // size] * size + position % size
            for chunk in chunks
            for position in range(chunk.start, chunk.end)
        ]


def _check_row(model: Any, num_tokens: int) -> None:
    longest = longest_row(model.config.get_text_config())
    if longest is not None and num_tokens > longest:
        raise ModelLoadError.of(
            model, f"it computes at most {longest} tokens at once; set max_batch_tokens to no more"
        )


def _compile_layers(model: Any) -> None:
    """Compile each layer for any number of tokens; all layers of a kind share what is compiled.

    They are cut at attention, which depends on what a batch holds and not only on its shape.
    """
    whole = torch.compiler.disable(paged_attention)  # type: ignore[no-untyped-call]
    AttentionInterface.register(IMPLEMENTATION, whole)
    for module in model.modules():
        if isinstance(module, GradientCheckpointingLayer):  # transformers' word for a layer
            module.compile(**COMPILE_OPTIONS)


def _last_tokens(chunks: tuple[Chunk, ...]) -> list[int]:
    """Where in the packed row the sampled chunks end."""
    last, offset = [], 0
    for chunk in chunks:
        offset += chunk.num_tokens
        if chunk.is_sampled:
            last.append(offset - 1)
    return last
