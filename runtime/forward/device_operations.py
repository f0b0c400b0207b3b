"""Device operations: what a device can do beyond torch's own operators."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from runtime.device import free_cuda_bytes
from runtime.forward.paged_triton_backend import PagedAttentionKernel

logger = logging.getLogger(__name__)

NUM_WARM_UPS = 2


class Capture(Protocol):
    """Records a computation over tensors that stay in place, so that it can be replayed in one launch."""

    def __call__(self, compute: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """A function that runs `compute` again, on the current values of its tensors."""


@dataclass(frozen=True, slots=True)
class DeviceOperations:
    """A paged attention kernel, and what else a device can do.

    `capture` records decode steps. `free_bytes` computes the largest batch with the function that it is
    given, and says how much memory that leaves for a KV cache.
    """

    kernel: PagedAttentionKernel
    capture: Capture | None = None
    free_bytes: Callable[[Callable[[], None]], int] | None = None


class CudaCapture:
    """Records CUDA graphs. They share memory: replaying one overwrites another one's output."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, compute: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """Run `compute` a few times, so that kernels are compiled and libraries set up; then record it."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(NUM_WARM_UPS):
                compute()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            output = compute()

        def replay() -> Tensor:
            graph.replay()
            return output

        return replay


def device_operations_of(device: torch.device) -> DeviceOperations | None:
    """The operations of a device; None for a device that uses torch's operators only."""
    if device.type != "cuda":
        return None
    try:
        from runtime.forward.paged_triton_kernel import attend_pages  # noqa: PLC0415 Triton is not on every machine
    except ImportError as error:
        logger.warning("attention gathers pages, and decoding runs without CUDA graphs: %s", error)
        return None
    return DeviceOperations(attend_pages, CudaCapture(), partial(free_cuda_bytes, device))
