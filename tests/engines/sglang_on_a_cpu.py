"""`sglang serve` on a CPU, without SGLang's kernels: a script that replaces what SGLang imports and we lack.

    python sglang_on_a_cpu.py serve --model-path MODEL --device cpu --attention-backend torch_native

Without its kernels for CPUs (package `sgl_kernel`, which no registry has built for CPUs), SGLang computes models
of plain layers in PyTorch. It still imports names of that package. Here they are functions that raise, so that
nothing is computed wrongly. torchvision is replaced by the one name that SGLang imports of it at its start: its
wheels want a PyTorch for CUDA.

Each process that SGLang spawns runs this module again, all but its last lines.
"""

import sys
from collections.abc import Callable
from enum import Enum
from types import ModuleType
from typing import Any, NoReturn

from transformers.utils.import_utils import is_torchvision_available

# transformers remembers this answer, and so imports nothing of what is put in torchvision's place below.
assert not is_torchvision_available(), "torchvision is installed, and would be replaced"


class InterpolationMode(Enum):
    """How images are resized: these servers get none."""

    BICUBIC = "bicubic"


def missing_kernel(name: str) -> Callable[..., NoReturn]:
    """A function in the place of a kernel."""
    if name.startswith("__"):
        raise AttributeError(name)

    def kernel(*_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(f"there is no kernel sgl_kernel.{name} here")

    return kernel


def replace_module(name: str, **contents: Any) -> ModuleType:
    made = ModuleType(name)
    made.__path__ = []  # type: ignore[attr-defined]  # as a package has
    vars(made).update(contents)
    sys.modules[name] = made
    return made


replace_module("torchvision")
transforms = replace_module("torchvision.transforms", InterpolationMode=InterpolationMode)
transforms.functional = replace_module(  # type: ignore[attr-defined]
    "torchvision.transforms.functional", InterpolationMode=InterpolationMode
)
replace_module("sgl_kernel", __getattr__=missing_kernel)

if __name__ == "__main__":
    from sglang.cli.main import main

    main()
