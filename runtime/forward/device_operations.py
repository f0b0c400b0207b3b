"""Backends: what a device has beyond what any device can do."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from runtime.forward.paged_triton_backend import AttendPages

logger = logging.getLogger(__name__)

NUM_WARM_UPS = 2


class Capture(Protocol):
    """Records a computation over tensors that stay where they are, to repeat it at once."""

    def __call__(self, compute: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """What runs `compute` again, on whatever its tensors then hold."""


@dataclass(frozen=True, slots=True)
class Backend:
    """A kernel that walks page tables, and how to record decode steps, if that can be done."""

    kernel: AttendPages
    capture: Capture | None = None


class CudaCapture:
    """CUDA graphs. They share their memory, so what one returns is good until another is replayed."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, compute: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """Run it a few times, so that kernels are compiled and libraries set up, then record it."""
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


def backend_of(device: torch.device) -> Backend | None:
    """The backend of a device; None for one that does with what torch has everywhere."""
    if device.type != "cuda":
        return None
    try:
        from runtime.forward.paged_triton_kernel import attend_pages  # noqa: PLC0415 Triton is not on every machine
    except ImportError as error:
        logger.warning("attention gathers pages, and decoding runs without graphs: %s", error)
        return None
    return Backend(attend_pages, CudaCapture())
