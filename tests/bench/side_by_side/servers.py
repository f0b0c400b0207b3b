"""Engines that serve Chat Completions: a process each, asked over HTTP."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from ports import free_port
from side_by_side.answer import Answer, Run
from side_by_side.workload import Workload

START_S = 900.0
ANSWER_S = 600.0


class NotServing(Exception):
    """An engine does not come up; what it printed has been shown."""


class Server:
    """A running server; `url` is that of its API."""

    def __init__(self, url: str, model: str) -> None:
        self.url = url
        self.model = model

    def run(self, workload: Workload, *, concurrency: int, num_requests: int, **extra: Any) -> Run:
        """Ask, with as many requests open as `concurrency` says; `extra` goes into every body."""
        return asyncio.run(self._run(workload, concurrency, num_requests, extra))

    def first_token_seconds(self, workload: Workload, number: int) -> float:
        """From sending a request to the first piece of its streamed answer."""
        body = workload.request(number) | {"model": self.model, "stream": True}
        start = time.perf_counter()
        with httpx.stream("POST", f"{self.url}/chat/completions", json=body, timeout=ANSWER_S) as response:
            for line in response.iter_lines():
                if line.startswith("data:") and '"tool_calls"' in line:
                    break
            else:
                raise RuntimeError(f"no call came: {response.status_code}")
        return time.perf_counter() - start

    async def _run(
        self, workload: Workload, concurrency: int, num_requests: int, extra: dict[str, Any]
    ) -> Run:
        gate = asyncio.Semaphore(concurrency)
        async with httpx.AsyncClient(timeout=ANSWER_S) as client:

            async def ask(number: int) -> Answer:
                async with gate:
                    body = workload.request(number) | {"model": self.model} | extra
                    return await self._ask(client, workload, body)

            start = time.perf_counter()
            answers = await asyncio.gather(*(ask(number) for number in range(num_requests)))
            return Run(concurrency, time.perf_counter() - start, tuple(answers))

    async def _ask(self, client: httpx.AsyncClient, workload: Workload, body: dict[str, Any]) -> Answer:
        start = time.perf_counter()
        try:
            response = await client.post(f"{self.url}/chat/completions", json=body)
            content = response.json()
        except (httpx.TransportError, ValueError) as error:
            return Answer(time.perf_counter() - start, 0, 0, 0, error=repr(error))
        seconds = time.perf_counter() - start
        if response.is_error:
            return Answer(seconds, 0, 0, 0, error=response.text[:300])
        calls = content["choices"][0]["message"].get("tool_calls") or []
        return Answer(
            seconds,
            content["usage"]["completion_tokens"],
            len(calls),
            sum(map(workload.is_valid, calls)),
            num_forced=content.get("callgate", {}).get("forced_tokens", 0),
        )


@contextmanager
def callgate(model: Path, *, dtype: str, max_batch: int, options: tuple[str, ...] = ()) -> Iterator[Server]:
    """This project's gateway with its embedded runtime."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "-c", "from gateway.cli import main; main()", "serve"),
            *("--model", str(model), "--model-name", "bench"),
            *("--port", str(port), "--data-dir", folder, "--dtype", dtype, "--max-batch", str(max_batch)),
            *("--device", "cpu", "--log-level", "warning", *options),
        ]
        url = f"http://127.0.0.1:{port}"
        with _process(command, {}, probe=f"{url}/readyz"):
            yield Server(f"{url}/v1", "bench")


@contextmanager
def vllm(
    model: Path, *, python: Path, dtype: str, max_batch: int, max_length: int = 32_768
) -> Iterator[Server]:
    """The server of vLLM, by the interpreter of its own environment, without loops of whitespace.

    Started as a module, since the `vllm` command of the CPU package does not find its own version. It keeps one
    core for its other threads unless it is told not to.
    """
    port = free_port()
    command = [
        *(str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)),
        *("--served-model-name", "bench", "--host", "127.0.0.1", "--port", str(port), "--dtype", dtype),
        *("--max-num-seqs", str(max_batch), "--max-model-len", str(max_length)),
        *("--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
        *("--structured-outputs-config", '{"backend": "xgrammar", "disable_any_whitespace": true}'),
    ]
    environment = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    url = f"http://127.0.0.1:{port}"
    with _process(command, environment, probe=f"{url}/health"):
        yield Server(f"{url}/v1", "bench")


@contextmanager
def _process(command: list[str], environment: dict[str, str], *, probe: str) -> Iterator[None]:
    """Start a process, wait until `probe` answers, and end its whole group; shows what it printed if it failed."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, env=os.environ | environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            _wait(probe, process)
            yield
        except BaseException:
            log.seek(0)
            sys.stderr.write(log.read().decode(errors="replace")[-4000:])
            raise
        finally:
            _end(process)


def _wait(url: str, process: "subprocess.Popen[bytes]") -> None:
    start = time.monotonic()
    while time.monotonic() - start < START_S:
        if process.poll() is not None:
            raise NotServing(f"a server ended with exit code {process.returncode}")
        with suppress(httpx.TransportError):
            if httpx.get(url, timeout=5).is_success:
                return
        time.sleep(0.5)
    raise NotServing(f"{url} did not answer within {START_S:.0f} s")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """What it started may outlive it, so the group is asked, and then killed."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
