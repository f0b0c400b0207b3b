"""The model runner: computes a batch, by CUDA graphs where they fit, else kernel by kernel."""

import logging
from typing import Any

import torch
from torch import Tensor

from runtime.device import is_out_of_memory, upload
from runtime.errors import ModelLoadError
from runtime.forward.attention import KVCache
from runtime.forward.cuda_graphs import DecodeGraphs
from runtime.forward.device_operations import DeviceOperations, device_operations_of
from runtime.forward.forward_pass import ForwardPass, compile_layers, context_length, max_row_tokens, prepare
from runtime.forward.probe import probe
from runtime.scheduler import Batch, Chunk
from runtime.sequence import Sequence
from runtime.settings import EngineSettings

logger = logging.getLogger(__name__)


class ModelRunner:
    """A transformers causal LM over a paged KV cache.

    `num_columns` is the width of its logits. `operations` are by default those of the model's device. Their
    graphs compute decode steps; all other steps are launched kernel by kernel. `is_async` says whether `run`
    returns before the logits are computed. The model is changed in place: its attention, and on a CPU the
    layout of its weights.

    Raises:
        ModelLoadError: over pages the model would compute something else (`probe`), or memory is too small.
    """

    def __init__(
        self, model: Any, settings: EngineSettings, operations: DeviceOperations | None = None
    ) -> None:
        _check_row_length(model, settings.max_batch_tokens)
        self.model = prepare(model)
        self.device: torch.device = model.device
        self.is_async = self.device.type != "cpu"
        self.operations = operations or device_operations_of(self.device)
        self.forward_pass = ForwardPass(self.model, self.operations)
        self.graphs: DecodeGraphs | None = None
        self.num_columns, cache = probe(self.forward_pass, settings.page_size)
        self.cache = self._sized_cache(cache, settings)
        if settings.compile_layers:
            compile_layers(model)
        if self.is_async:
            self._warm_up(settings)
        self.graphs = self._record_graphs(settings)

    @torch.inference_mode()
    def run(self, batch: Batch) -> Tensor:
        """Compute a batch; float32 logits [len(batch.rows), num_columns], overwritten by the next run.

        On an accelerator this may return before they are computed; reading them waits.
        """
        kept = _kept_tokens(batch.chunks)
        if self.graphs is not None and self.graphs.takes(batch):
            logits = self.graphs.run(batch)
            return logits if len(kept) == len(logits) else logits[upload(kept, self.device, torch.long)]
        backend = self.forward_pass.attention_backend(batch.chunks, self.cache.page_size)
        keep = upload(kept, self.device, torch.long)
        return self.forward_pass.compute(batch.chunks, self.cache, backend, keep)

    def _sized_cache(self, cache: KVCache, settings: EngineSettings) -> KVCache:
        """A cache with the layers of `cache` and as many pages as the settings ask for."""
        num_pages = settings.num_pages or max(2, settings.kv_bytes // cache.bytes_per_page)
        try:
            return cache.resized(num_pages)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            size = num_pages * cache.bytes_per_page
            raise ModelLoadError.of(
                self.model, f"a KV cache of {size} bytes does not fit into memory beside it; lower kv_bytes"
            ) from error

    def _warm_up(self, settings: EngineSettings) -> None:
        """Run a short and a full batch, so that no request waits for kernels to be compiled."""
        max_tokens = (self.cache.num_pages - 1) * self.cache.page_size
        for num_tokens in (2, settings.max_batch_tokens):
            sequence = Sequence("warm-up", [0] * min(num_tokens, max_tokens), max_tokens=1)
            sequence.page_table = list(range(1, 1 + -(-len(sequence.token_ids) // self.cache.page_size)))
            self.run(Batch((Chunk(sequence, 0, len(sequence.token_ids)),)))
        self.cache.clear(range(1, self.cache.num_pages))

    @torch.inference_mode()
    def _record_graphs(self, settings: EngineSettings) -> DecodeGraphs | None:
        """Graphs of up to two tokens for each running sequence: one to decode, and one that is forced."""
        if self.operations is None or self.operations.capture is None:
            return None
        length = min(
            context_length(self.model.config.get_text_config()),
            settings.context_length or self.cache.num_pages * self.cache.page_size,
        )
        try:
            return DecodeGraphs(
                self.forward_pass,
                self.cache,
                self.operations.kernel,
                self.operations.capture,
                max_rows=min(2 * settings.max_sequences, settings.max_batch_tokens),
                max_pages=min(-(-length // self.cache.page_size), self.cache.num_pages),
                device=self.device,
            )
        except RuntimeError as error:  # some modules look at values, as some mixtures of experts do
            logger.warning("decoding runs without CUDA graphs: %s", error)
            return None


def _check_row_length(model: Any, num_tokens: int) -> None:
    longest = max_row_tokens(model.config.get_text_config())
    if longest is not None and num_tokens > longest:
        raise ModelLoadError.of(
            model, f"it computes at most {longest} tokens at once; set max_batch_tokens to no more"
        )


def _kept_tokens(chunks: tuple[Chunk, ...]) -> list[int]:
    """The indices in the packed row of the tokens whose logits are needed."""
    kept, offset = [], 0
    for chunk in chunks:
        kept += [offset + position - chunk.start for position in chunk.logit_positions]
        offset += chunk.num_tokens
    return kept
