"""The forward pass of a transformers causal LM over a paged KV cache: a packed row of tokens in, logits out.

`prepare` makes a loaded model ready for it. `runtime.models.model_config` says how long texts and rows may
be.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.modeling_layers import GradientCheckpointingLayer

from runtime.device import upload
from runtime.forward.attention import IMPLEMENTATION, AttentionBackend, KVCache, PagedBatch, paged_attention
from runtime.forward.device_operations import DeviceOperations
from runtime.forward.gather_backend import GatherBackend
from runtime.forward.paged_triton_backend import PagedTritonBackend, QueryBlocks
from runtime.scheduling.batch import Chunk

COMPILE_OPTIONS: dict[str, Any] = {"dynamic": True}
_TYPICAL_ROWS = 16  # what weights are packed for; other numbers of rows are computed about as fast


@dataclass(frozen=True, slots=True)
class ForwardPass:
    """A model in transformers' format, with the attention backend of its device.

    Without `operations`, attention gathers pages, which any device can do.
    """

    model: Any
    operations: DeviceOperations | None = None

    @property
    def device(self) -> torch.device:
        """The model's device."""
        device: torch.device = self.model.device
        return device

    def __call__(
        self, ids: Tensor, positions: Tensor, paged: PagedBatch, logits_to_keep: Tensor | int = 0
    ) -> Tensor:
        """Float32 logits [num_kept, num_columns] of a packed row.

        `ids` and `positions` are [num_tokens]. `logits_to_keep` has the indices of the tokens whose logits
        are wanted; 0 stands for all.
        """
        output = self.model(
            input_ids=ids[None],
            position_ids=positions[None],
            use_cache=False,
            logits_to_keep=logits_to_keep,
            paged=paged,
        )
        logits: Tensor = output.logits[0].float()
        return logits

    def compute(
        self,
        chunks: tuple[Chunk, ...],
        cache: KVCache,
        backend: AttentionBackend,
        logits_to_keep: Tensor | int = 0,
    ) -> Tensor:
        """Pack chunks into a row and compute it, one kernel launch after the other."""
        size = cache.page_size
        tokens = [(chunk.sequence, p) for chunk in chunks for p in range(chunk.start, chunk.end)]
        ids = [sequence.token_ids[position] for sequence, position in tokens]
        positions = [position for _, position in tokens]
        slots = [s.page_table[position // size] * size + position % size for s, position in tokens]
        # Positions are first: compiled layers would be compiled again for each offset in the row's storage.
        inputs = upload([positions, ids, slots], self.device)
        return self(inputs[1], inputs[0], PagedBatch(cache, inputs[2], backend), logits_to_keep)

    def attention_backend(self, chunks: tuple[Chunk, ...], page_size: int) -> AttentionBackend:
        """The attention backend for some chunks, on this device."""
        if self.operations is None:
            return GatherBackend.of(chunks, page_size, self.device)
        return PagedTritonBackend(QueryBlocks.of(chunks, self.device), self.operations.kernel)


def prepare(model: Any) -> Any:
    """Make a model attend over pages, and pack its weights on a CPU; in place. Returns the model."""
    model.set_attn_implementation(IMPLEMENTATION)
    model = model.eval()
    pack_weights(model)
    return model


def compile_layers(model: Any) -> None:
    """Compile each layer for any number of tokens; layers of the same kind share the compiled code.

    Attention is left out: it depends on the content of a batch, not only on its shape.
    """
    uncompiled = torch.compiler.disable(paged_attention)  # type: ignore[no-untyped-call]
    AttentionInterface.register(IMPLEMENTATION, uncompiled)
    for module in model.modules():
        if isinstance(module, GradientCheckpointingLayer):  # transformers' word for a layer
            module.compile(**COMPILE_OPTIONS)


class PackedLinear(nn.Module):
    """Computes what `linear` does, from a copy of its weight in the memory layout of the CPU's kernels.

    In bfloat16, a step of few tokens takes as long as reading the weights takes. Packing them once makes it
    up to twice as fast. Torch's own compiler packs with these operators; they have no public names.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self._weight = torch.ops.mkldnn._reorder_linear_weight(  # noqa: SLF001
            linear.weight.detach(), _TYPICAL_ROWS
        )
        self._bias = linear.bias

    def forward(self, states: Tensor) -> Tensor:
        """[..., inputs] to [..., outputs]."""
        output: Tensor = torch.ops.mkldnn._linear_pointwise(  # noqa: SLF001
            states, self._weight, self._bias, "none", [], ""
        )
        return output


def pack_weights(model: Any) -> None:
    """Replace a model's linear layers in place, where that makes it faster.

    Classes that inherit from `nn.Linear` compute something else, and are left alone.
    """
    if not can_pack(model):
        return
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if type(child) is nn.Linear and child.weight.dtype == torch.bfloat16:
                setattr(parent, name, PackedLinear(child))


def can_pack(model: Any) -> bool:
    """Whether the model runs on a CPU that multiplies bfloat16."""
    if model.device.type != "cpu" or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    is_supported: bool = torch.ops.mkldnn._is_mkldnn_bf16_supported()  # noqa: SLF001
    return is_supported
