"""A real SGLang on a CPU with this package as its plugin; `make test-engines` fetches it to `build/sglang`."""

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx
import pytest
from engine_server import MODEL, ROOT, EngineServer, free_port, in_a_process, once_ready

from runtime.models import TINY_MODEL_FOLDER

HERE = Path(__file__).resolve().parent
SGLANG = ROOT / "build" / "sglang"
ENTRY_POINTS = "[sglang.srt.plugins]\ncallgate = runtime.engines.sglang.plugin:register\n"


def variables_of_sglang(folder: Path) -> dict[str, str]:
    """What lets a Python of ours import SGLang, and lets SGLang find our package as if it were installed.

    Skips the test where the package is missing. `folder` gets the package's metadata.
    """
    if not SGLANG.exists():
        pytest.skip("there is no package of SGLang; `make test-engines` fetches it")
    installed = folder / "callgate-0.1.0.dist-info"
    installed.mkdir(exist_ok=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: callgate\nVersion: 0.1.0\n")
    (installed / "entry_points.txt").write_text(ENTRY_POINTS)
    path = os.pathsep.join(map(str, (folder, ROOT, HERE, SGLANG)))
    return {"PYTHONPATH": path, "SGLANG_USE_CPU_ENGINE": "1", "OMP_NUM_THREADS": "1"}


def generate(server: EngineServer, prompt: list[int], grammar: str | None, **options) -> httpx.Response:
    """The answer to a request of `/generate`; the options are parameters of sampling."""
    sampling = {"max_new_tokens": 20, **options}
    if grammar is not None:
        sampling["ebnf"] = grammar
    body = {"input_ids": prompt, "sampling_params": sampling}
    return httpx.post(f"{server.url}/generate", json=body, timeout=300)


def running_sglang(folder: Path, **options) -> AbstractContextManager[EngineServer]:
    """An SGLang that is ready; the options are those of `starting_sglang`."""
    return once_ready(starting_sglang(folder, **options))


@contextmanager
def starting_sglang(
    folder: Path,
    *,
    store_url: str | None = None,
    secret: str | None = None,
    model: Path = TINY_MODEL_FOLDER,
    port: int | None = None,
    options: tuple[str, ...] = (),
) -> Iterator[EngineServer]:
    """An SGLang that need not be ready, so that several start at the same time; with the plugin if there is a store.

    Skips the test where the package is missing.
    """
    port = port or free_port()
    command = [
        *(sys.executable, str(HERE / "sglang_on_a_cpu.py"), "serve", "--model-path", str(model)),
        *("--served-model-name", MODEL, "--host", "127.0.0.1", "--port", str(port)),
        *("--device", "cpu", "--attention-backend", "torch_native", "--dtype", "float32"),
        *("--grammar-backend", "xgrammar", "--max-total-tokens", "20000", "--mem-fraction-static", "0.1"),
        *("--incremental-streaming-output", *options),
    ]
    variables = variables_of_sglang(folder)
    with in_a_process(
        "sglang", command, folder, port=port, store_url=store_url, secret=secret, variables=variables
    ) as server:
        yield server
