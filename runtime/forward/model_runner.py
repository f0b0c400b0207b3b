"""The model runner: computes a batch, by CUDA graphs where they fit, else kernel by kernel."""

import logging
from typing import Any

import torch
from torch import Tensor

from runtime.device import is_out_of_memory, upload, use_device
from runtime.errors import ModelLoadError
from runtime.forward.attention import KVCache
from runtime.forward.cuda_graphs import DecodeGraphs, sizes_up_to
from runtime.forward.device_operations import DeviceOperations, device_operations_of
from runtime.forward.forward_pass import ForwardPass, compile_layers, prepare
from runtime.forward.probe import probe
from runtime.models.model_config import context_length, max_row_tokens
from runtime.scheduling.batch import Batch, Chunk
from runtime.scheduling.sequence import Sequence
from runtime.settings import CPU_KV_BYTES, EngineSettings

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
        use_device(self.device)
        self.is_async = self.device.type != "cpu"
        self.operations = operations or device_operations_of(self.device)
        self.forward_pass = ForwardPass(self.model, self.operations)
        self.graphs: DecodeGraphs | None = None
        self.num_columns, self.cache = probe(self.forward_pass, settings.page_size)
        if settings.compile_layers:
            compile_layers(model)
        self.cache = self._sized_cache(settings)
        if self.is_async:
            self._warm_up(settings)
        self.graphs = self._record_graphs(settings)

    @torch.inference_mode()
    def run(self, batch: Batch) -> Tensor:
        """Compute a batch; float32 logits [len(batch.rows), num_columns], overwritten by the next run.

        On an accelerator this may return before they are computed; reading them waits.
        """
        indexes = _logit_indexes(batch.chunks)
        if self.graphs is not None and self.graphs.takes(batch):
            logits = self.graphs.run(batch)
            return logits if len(indexes) == len(logits) else logits[upload(indexes, self.device, torch.long)]
        backend = self.forward_pass.attention_backend(batch.chunks, self.cache.page_size)
        keep = upload(indexes, self.device, torch.long)
        return self.forward_pass.compute(batch.chunks, self.cache, backend, keep)

    def _sized_cache(self, settings: EngineSettings) -> KVCache:
        """A cache with the layers of the probe's and as many pages as the settings ask for."""
        num_pages = settings.num_pages
        if num_pages is None:
            num_pages = max(2, self._kv_bytes(settings) // self.cache.bytes_per_page)
        try:
            return self.cache.resized(num_pages)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            size = num_pages * self.cache.bytes_per_page
            raise ModelLoadError.of(
                self.model, f"a KV cache of {size} bytes does not fit into memory beside it; lower kv_bytes"
            ) from error

    def _kv_bytes(self, settings: EngineSettings) -> int:
        """The size of the KV cache: the setting, or what a GPU has left after the largest batch."""
        if settings.kv_bytes is not None:
            return settings.kv_bytes
        if self.operations is None or self.operations.free_bytes is None:
            return CPU_KV_BYTES
        return self.operations.free_bytes(lambda: self._compute_largest_batch(settings))

    def _compute_largest_batch(self, settings: EngineSettings) -> None:
        """Compute the largest batch of any step, over a cache of its own that is freed afterwards."""
        probed = self.cache
        self.cache = probed.resized(2 + settings.max_batch_tokens // settings.page_size)
        self._compute(settings.max_batch_tokens)
        self.cache = probed

    def _warm_up(self, settings: EngineSettings) -> None:
        """Run batches of every size that has kernels of its own, so that no request waits for a compiler.

        The kernels of attention depend on how many blocks of queries a batch has. One long chunk has many,
        and so have many sequences that decode.
        """
        for num_tokens in sizes_up_to(settings.max_batch_tokens)[1:]:
            self._compute(num_tokens)
        for num_sequences in sizes_up_to(settings.max_batch):
            self._compute(1, num_sequences)
        self.cache.clear(range(1, self.cache.num_pages))

    def _compute(self, num_tokens: int, num_sequences: int = 1) -> None:
        """Compute a batch of sequences of `num_tokens` tokens, or of as many as the cache has pages for."""
        page_size = self.cache.page_size
        num_tokens = min(num_tokens, (self.cache.num_pages - 1) * page_size)
        chunks = []
        for _ in range(num_sequences):
            sequence = Sequence("warm-up", [0] * num_tokens, max_tokens=1)
            sequence.page_table = list(range(1, 1 + -(-num_tokens // page_size)))
            chunks.append(Chunk(sequence, 0, num_tokens))
        self.run(Batch(tuple(chunks)))

    @torch.inference_mode()
    def _record_graphs(self, settings: EngineSettings) -> DecodeGraphs | None:
        """Graphs of up to two tokens for each running sequence: one to decode, and one that is forced."""
        if self.operations is None or self.operations.capture is None or not settings.cuda_graphs:
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
                max_rows=min(2 * settings.max_batch, settings.max_batch_tokens),
                max_pages=min(-(-length // self.cache.page_size), self.cache.num_pages),
                device=self.device,
            )
        except RuntimeError as error:  # some modules look at values, as some mixtures of experts do
            if is_out_of_memory(error):
                reason = (
                    "CUDA graphs do not fit into memory beside it; lower kv_bytes, or turn cuda_graphs off"
                )
                raise ModelLoadError.of(self.model, reason) from error
            logger.warning("decoding runs without CUDA graphs: %s", error)
        self._check_device()
        return None

    def _check_device(self) -> None:
        """Check that the device still computes: a failed recording may have left it unusable.

        Raises:
            ModelLoadError: it does not.
        """
        try:
            self._compute(1)
            self.cache.clear([1])
        except RuntimeError as error:
            reason = "the device computes nothing more after CUDA graphs failed; turn cuda_graphs off"
            raise ModelLoadError.of(self.model, reason) from error


def _check_row_length(model: Any, num_tokens: int) -> None:
    longest = max_row_tokens(model.config.get_text_config())
    if longest is not None and num_tokens > longest:
        raise ModelLoadError.of(
            model, f"it computes at most {longest} tokens at once; set max_batch_tokens to no more"
        )


def _logit_indexes(chunks: tuple[Chunk, ...]) -> list[int]:
    """The indices in the packed row of the tokens whose logits are needed."""
    indexes, offset = [], 0
    for chunk in chunks:
        indexes += [offset + position - chunk.start for position in chunk.logit_positions]
        offset += chunk.num_tokens
    return indexes
