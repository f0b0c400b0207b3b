"""A real vLLM with this package in its environment, which `make test-engines` makes in `build/engines`."""

from functools import partial
from pathlib import Path

import httpx
import pytest
from engine_server import MODEL, ROOT, EngineKind, EngineServer, running, starting

PYTHON = ROOT / "build" / "engines" / "bin" / "python"


def complete(
    server: EngineServer, prompt: list[int], grammar: str | None, *, max_tokens: int, **sampling
) -> httpx.Response:
    """The answer to a request of `/v1/completions`."""
    body = {"model": MODEL, "prompt": prompt, "return_token_ids": True, "max_tokens": max_tokens, **sampling}
    if grammar is not None:
        body["structured_outputs"] = {"grammar": grammar}
    return httpx.post(f"{server.url}/v1/completions", json=body, timeout=300)


def _command(model: Path, port: int) -> list[str]:
    return [
        *(str(PYTHON), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)),
        *("--served-model-name", MODEL, "--host", "127.0.0.1", "--port", str(port), "--enforce-eager"),
        *("--dtype", "float32", "--max-num-seqs", "32", "--max-model-len", "4096"),
        *("--structured-outputs-config", '{"backend": "xgrammar"}'),
    ]


def _variables(_: Path) -> dict[str, str]:
    if not PYTHON.exists():
        pytest.skip("there is no environment with vLLM; `make test-engines` makes it")
    return {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
        "VLLM_NO_USAGE_STATS": "1",
    }


SPECULATING = (
    "--speculative-config",
    '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 1, "prompt_lookup_max": 3}',
)
"""It drafts what once followed the last one to three tokens, and writes several tokens a step if they agree."""

VLLM = EngineKind("vllm", _command, _variables)
starting_vllm, running_vllm = partial(starting, VLLM), partial(running, VLLM)
