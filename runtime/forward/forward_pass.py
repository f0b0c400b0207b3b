"""Packed weights: linear layers whose weights lie in memory as the kernels of a CPU read them.

In bfloat16, where a step of few tokens waits for nothing but its weights, packing them once makes it up to
twice as fast. They are the operators that torch's own compiler packs with; there is no public name for them.
"""

from typing import Any

import torch
from torch import Tensor, nn

_ROWS = 16  # of a typical step; any number is computed about as fast


class PackedLinear(nn.Module):
    """Computes what `linear` does, from a copy of its weight."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self._weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), _ROWS)  # noqa: SLF001
        self._bias = linear.bias

    def forward(self, states: Tensor) -> Tensor:
        """[..., inputs] to [..., outputs]."""
        found: Tensor = torch.ops.mkldnn._linear_pointwise(  # noqa: SLF001
            states, self._weight, self._bias, "none", [], ""
        )
        return found


def pack_weights(model: Any) -> None:
    """Replace a model's linear layers, in place, where that makes it faster; no other module looks at them.

    Only plain ones: what inherits from `nn.Linear` computes something else.
    """
    if not can_pack(model):
        return
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if type(child) is nn.Linear and child.weight.dtype == torch.bfloat16:
                setattr(parent, name, PackedLinear(child))


def can_pack(model: Any) -> bool:
    """Whether the model computes on a CPU that multiplies bfloat16."""
    if model.device.type != "cpu" or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    is_supported: bool = torch.ops.mkldnn._is_mkldnn_bf16_supported()  # noqa: SLF001
    return is_supported
