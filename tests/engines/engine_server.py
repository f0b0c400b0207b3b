"""A real engine with this package in its environment, in processes of its own."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
from ports import free_port

from runtime.models import TINY_MODEL_FOLDER

ROOT = Path(__file__).resolve().parents[2]
MODEL = "m"
"""The name by which each of them serves its model."""
START_S = 600.0
WHILE_IT_WRITES_S = 0.3
RUNNING_S, STOPPED_S = 0.05, 0.1
"""The slices of `in_slices`."""
_OWN_VARIABLES = ("CALLGATE_STORE", "CALLGATE_SECRET", "CALLGATE_SECRET_FILE")


@dataclass(frozen=True)
class EngineServer:
    """A server; `log` is what it has printed. `kind` is what the gateway calls it, such as `vllm`."""

    kind: str
    port: int
    log: Path
    process: subprocess.Popen

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def said(self) -> str:
        return self.log.read_text("utf-8", "replace")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all of its processes, if there are any left."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def wait(self) -> None:
        """Return once it answers; raises AssertionError if it ended or takes too long."""
        start = time.monotonic()
        while time.monotonic() - start < START_S:
            assert self.process.poll() is None, f"{self.kind} ended with exit code {self.process.returncode}"
            with suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/health", timeout=20).is_success:
                    return
            time.sleep(0.5)
        raise AssertionError(f"{self.kind} was not ready after {START_S:.0f} s")


@contextmanager
def in_slices(engines: Sequence[EngineServer]) -> Iterator[Callable[[], None]]:
    """Let engines run for a moment at a time, until the yielded function stops them all, or the block ends.

    So an answer has certainly begun and not ended when a test breaks its engine, however fast or busy the cores.
    """
    is_over = threading.Event()

    def slice_time() -> None:
        while not is_over.wait(STOPPED_S):
            for number in (signal.SIGCONT, signal.SIGSTOP):
                for engine in engines:
                    engine.signal(number)
                if number is signal.SIGCONT:
                    time.sleep(RUNNING_S)

    with ThreadPoolExecutor(1) as thread:
        slicing = thread.submit(slice_time)

        def stop() -> None:
            is_over.set()
            slicing.result()

        try:
            yield stop
        finally:
            stop()


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


@dataclass(frozen=True)
class EngineKind:
    """How servers of an engine are started.

    `command` is for a model's folder and a port. `variables` may put files into a folder, and skips the test where
    the engine is missing.
    """

    name: str
    command: Callable[[Path, int], list[str]]
    variables: Callable[[Path], Mapping[str, str]]


@contextmanager
def starting(
    kind: EngineKind,
    folder: Path,
    *,
    store_url: str | None = None,
    secret: str | None = None,
    model: Path = TINY_MODEL_FOLDER,
    port: int | None = None,
    options: tuple[str, ...] = (),
) -> Iterator[EngineServer]:
    """A server that need not be ready, so that several start at the same time; its log is in `folder`.

    It has the plugin if there is a store.
    """
    port = port or free_port()
    environment = {name: value for name, value in os.environ.items() if name not in _OWN_VARIABLES}
    environment |= {"HF_HUB_OFFLINE": "1", **kind.variables(folder)}
    if store_url:
        environment |= {"CALLGATE_STORE": store_url, "CALLGATE_SECRET": secret or ""}
    log = folder / f"{kind.name}-{port}.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*kind.command(model, port), *options],
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield EngineServer(kind.name, port, log, process)
    finally:
        # What it started may outlive it, and a paused process ends by no signal but the last.
        for number in (signal.SIGTERM, signal.SIGCONT, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(0 if number is signal.SIGTERM else 30)


@contextmanager
def once_ready(started: AbstractContextManager[EngineServer]) -> Iterator[EngineServer]:
    """Wait for a server; if anything fails, the end of its log is printed."""
    with started as server:
        try:
            server.wait()
            yield server
        except BaseException:
            print(server.said()[-4000:])
            raise


def running(kind: EngineKind, folder: Path, **options) -> AbstractContextManager[EngineServer]:
    """A server that is ready; the options are those of `starting`."""
    return once_ready(starting(kind, folder, **options))
