"""A real vLLM with this package in its environment, which `make test-engines` makes in `build/engines`."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx
import pytest
from engine_server import MODEL, ROOT, EngineServer, free_port, in_a_process, once_ready

from runtime.models import TINY_MODEL_FOLDER

PYTHON = ROOT / "build" / "engines" / "bin" / "python"


def complete(server: EngineServer, prompt: list[int], grammar: str | None, **options) -> httpx.Response:
    """The answer to a request of `/v1/completions`."""
    body = {"model": MODEL, "prompt": prompt, "return_token_ids": True, "skip_special_tokens": False}
    if grammar is not None:
        body["structured_outputs"] = {"grammar": grammar}
    return httpx.post(f"{server.url}/v1/completions", json={**body, **options}, timeout=300)


def running_vllm(folder: Path, **options) -> AbstractContextManager[EngineServer]:
    """A vLLM that is ready; the options are those of `starting_vllm`."""
    return once_ready(starting_vllm(folder, **options))


@contextmanager
def starting_vllm(
    folder: Path,
    *,
    store_url: str | None = None,
    secret: str | None = None,
    model: Path = TINY_MODEL_FOLDER,
    port: int | None = None,
    options: tuple[str, ...] = (),
) -> Iterator[EngineServer]:
    """A vLLM that need not be ready, so that several start at the same time; with the plugin if there is a store.

    Skips the test where the environment is missing.
    """
    if not PYTHON.exists():
        pytest.skip("there is no environment with vLLM; `make test-engines` makes it")
    port = port or free_port()
    variables = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
        "VLLM_NO_USAGE_STATS": "1",
    }
    command = [
        *(str(PYTHON), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)),
        *("--served-model-name", MODEL, "--host", "127.0.0.1", "--port", str(port), "--enforce-eager"),
        *("--dtype", "float32", "--max-num-seqs", "32", "--max-model-len", "4096"),
        *("--structured-outputs-config", '{"backend": "xgrammar"}', *options),
    ]
    with in_a_process(
        "vllm", command, folder, port=port, store_url=store_url, secret=secret, variables=variables
    ) as server:
        yield server
