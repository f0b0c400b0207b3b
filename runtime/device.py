"""Copying to a device without waiting for it."""

from typing import Any

import torch
from torch import Tensor


def upload(values: Any, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """Numbers from an array or nested lists as a tensor on `device`.

    On an accelerator the copy is queued like any other work, from pinned memory, which torch's allocator
    hands out again only when the copy is done. A plain copy would wait until all work queued before is done.
    """
    tensor = torch.as_tensor(values, dtype=dtype)
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
