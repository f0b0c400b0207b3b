"""Memory: what a device says when it has too little of it."""

import torch

_ALLOCATOR_ON_CPU = "DefaultCPUAllocator"
"""What torch's allocator on a CPU signs with: it raises a plain RuntimeError."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether something did not fit into memory, on any device."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and _ALLOCATOR_ON_CPU in str(error)
