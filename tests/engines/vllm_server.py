"""A real vLLM with this package in its environment, which `make test-engines` makes in `build/engines`."""

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from runtime.models import TINY_MODEL_FOLDER

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "build" / "engines" / "bin" / "python"
MODEL = "m"
START_S = 600.0
WHILE_IT_WRITES_S = 0.3
_OWN_VARIABLES = ("CALLGATE_STORE", "CALLGATE_SECRET", "CALLGATE_SECRET_FILE")


@dataclass(frozen=True)
class VllmServer:
    """A server that is ready; `log` is what it has printed."""

    port: int
    log: Path
    process: subprocess.Popen

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all of its processes."""
        os.killpg(self.process.pid, number)

    def wait(self) -> None:
        """Return once it answers; raises AssertionError if it ended or takes too long."""
        start = time.monotonic()
        while time.monotonic() - start < START_S:
            assert self.process.poll() is None, f"vLLM ended with exit code {self.process.returncode}"
            with suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/health", timeout=5).is_success:
                    return
            time.sleep(0.5)
        raise AssertionError(f"vLLM was not ready after {START_S:.0f} s")

    def complete(self, prompt: list[int], grammar: str | None, **options) -> httpx.Response:
        """The answer to a request of `/v1/completions`."""
        body = {"model": MODEL, "prompt": prompt, "return_token_ids": True, "skip_special_tokens": False}
        if grammar is not None:
            body["structured_outputs"] = {"grammar": grammar}
        return httpx.post(f"{self.url}/v1/completions", json={**body, **options}, timeout=300)


@contextmanager
def once_it_runs(gateway: httpx.Client, action: Callable[[], None]) -> Iterator[None]:
    """Run `action` soon after an engine has begun the request that the block sends.

    The lines of its answer do not tell when: on busy cores, vLLM sends most of an answer at its end.
    """
    is_answered = threading.Event()

    def watch() -> None:
        while not any(state["running"] for state in gateway.get("/v1/engines").json()["data"]):
            assert not is_answered.wait(0.01), "no engine ran the request"
        time.sleep(WHILE_IT_WRITES_S)
        action()

    with ThreadPoolExecutor(1) as thread:
        watching = thread.submit(watch)
        try:
            yield
        finally:
            is_answered.set()
        watching.result()


@contextmanager
def running_vllm(
    folder: Path,
    *,
    store_url: str | None = None,
    secret: str | None = None,
    model: Path = TINY_MODEL_FOLDER,
    port: int | None = None,
    options: tuple[str, ...] = (),
) -> Iterator[VllmServer]:
    """A vLLM that is ready, with the plugin if there is a store; its log is in `folder`.

    Skips the test where the environment is missing.
    """
    with starting_vllm(
        folder, store_url=store_url, secret=secret, model=model, port=port, options=options
    ) as server:
        try:
            server.wait()
            yield server
        except BaseException:
            print(server.log.read_text("utf-8", "replace")[-4000:])
            raise


@contextmanager
def starting_vllm(
    folder: Path,
    *,
    store_url: str | None,
    secret: str | None,
    model: Path = TINY_MODEL_FOLDER,
    port: int | None = None,
    options: tuple[str, ...] = (),
) -> Iterator[VllmServer]:
    """As `running_vllm`, before it is ready: several can start at the same time."""
    if not PYTHON.exists():
        pytest.skip("there is no environment with vLLM; `make test-engines` makes it")
    if port is None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if name not in _OWN_VARIABLES}
    environment |= {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    if store_url:
        environment |= {"CALLGATE_STORE": store_url, "CALLGATE_SECRET": secret}
    command = [
        *(str(PYTHON), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)),
        *("--served-model-name", MODEL, "--host", "127.0.0.1", "--port", str(port), "--enforce-eager"),
        *("--dtype", "float32", "--max-num-seqs", "32", "--max-model-len", "4096"),
        *("--structured-outputs-config", '{"backend": "xgrammar"}', *options),
    ]
    log = folder / f"vllm-{port}.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield VllmServer(port, log, process)
    finally:
        # What it started may outlive it, and a paused process ends by no signal but the last.
        for number in (signal.SIGTERM, signal.SIGCONT, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(0 if number is signal.SIGTERM else 30)
