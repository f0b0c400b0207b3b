"""Devices: which one to use, copying to it without waiting, and how much of its memory is free."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from runtime.errors import UnusableDevice, first_line

_ALLOCATOR_ON_CPU = "DefaultCPUAllocator"
"""Torch's CPU allocator raises a plain RuntimeError; its message begins with this name."""

UNUSED_SHARE = 0.1
"""The share of a GPU's memory that the KV cache leaves unused; vLLM's default is the same."""


def pick_device(name: str) -> str:
    """The torch name of a device that works here; "auto" is the accelerator if there is one, else the CPU.

    Raises:
        UnusableDevice: there is no such device here.
    """
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name).item()
    except Exception as error:
        gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
        raise UnusableDevice(name, ("auto", "cpu", *gpus), first_line(error)) from error
    return name


def use_device(device: torch.device) -> None:
    """Make a device the current one of the calling thread, for streams, CUDA graphs and Triton."""
    if device.type == "cuda":
        torch.cuda.set_device(device)


def upload(values: Any, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """An array or nested lists of numbers as a tensor on `device`, without waiting for the device.

    On an accelerator the copy is queued like any other work. It reads pinned memory, which torch's allocator
    reuses only after the copy. A plain copy would wait for all work queued before it.
    """
    tensor = torch.as_tensor(values, dtype=dtype)
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed for lack of memory, on any device."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and _ALLOCATOR_ON_CPU in str(error)


def free_cuda_bytes(device: torch.device, compute_largest_batch: Callable[[], None]) -> int:
    """What a CUDA device has left for a KV cache, beside a batch as large as any.

    It computes such a batch once to see what that takes, and leaves `UNUSED_SHARE` of the device for CUDA
    graphs and fragments. Peaks of before, as of loading another model, do not count.
    """
    torch.cuda.reset_peak_memory_stats(device)
    compute_largest_batch()
    torch.cuda.synchronize(device)
    at_peak = torch.cuda.max_memory_allocated(device) - torch.cuda.memory_allocated(device)
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info(device)
    return int(free - at_peak - UNUSED_SHARE * total)
