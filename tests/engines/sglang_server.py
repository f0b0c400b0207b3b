"""A real SGLang on a CPU with this package as its plugin; `make test-engines` fetches it to `build/sglang`."""

import os
import sys
from functools import partial
from pathlib import Path

import httpx
import pytest
from engine_server import MODEL, ROOT, EngineKind, EngineServer, running, starting

HERE = Path(__file__).resolve().parent
PACKAGE = ROOT / "build" / "sglang"
ENTRY_POINTS = "[sglang.srt.plugins]\ncallgate = runtime.engines.sglang.plugin:register\n"


def generate(
    server: EngineServer, prompt: list[int], grammar: str | None, *, max_tokens: int, **sampling
) -> httpx.Response:
    """The answer to a request of `/generate`."""
    sampling = {"max_new_tokens": max_tokens, **sampling}
    if grammar is not None:
        sampling["ebnf"] = grammar
    body = {"input_ids": prompt, "sampling_params": sampling}
    return httpx.post(f"{server.url}/generate", json=body, timeout=300)


def variables_of_sglang(folder: Path) -> dict[str, str]:
    """What lets a Python of ours import SGLang, and lets SGLang find our package as if it were installed.

    Skips the test where SGLang is missing. `folder` gets the metadata of our package.
    """
    if not PACKAGE.exists():
        pytest.skip("there is no package of SGLang; `make test-engines` fetches it")
    installed = folder / "callgate-0.1.0.dist-info"
    installed.mkdir(exist_ok=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: callgate\nVersion: 0.1.0\n")
    (installed / "entry_points.txt").write_text(ENTRY_POINTS)
    path = os.pathsep.join(map(str, (folder, ROOT, HERE, PACKAGE)))
    return {"PYTHONPATH": path, "SGLANG_USE_CPU_ENGINE": "1", "OMP_NUM_THREADS": "1"}


def _command(model: Path, port: int) -> list[str]:
    return [
        *(sys.executable, str(HERE / "sglang_on_a_cpu.py"), "serve", "--model-path", str(model)),
        *("--served-model-name", MODEL, "--host", "127.0.0.1", "--port", str(port)),
        *("--device", "cpu", "--attention-backend", "torch_native", "--dtype", "float32"),
        *("--grammar-backend", "xgrammar", "--max-total-tokens", "20000", "--mem-fraction-static", "0.1"),
        "--incremental-streaming-output",
    ]


SGLANG = EngineKind("sglang", _command, variables_of_sglang)
starting_sglang, running_sglang = partial(starting, SGLANG), partial(running, SGLANG)
