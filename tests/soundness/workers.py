"""Worker processes for code that may hang or crash: native code ignores exceptions, but a process can be ended."""

import multiprocessing
import os
import queue
import resource
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

Job = Callable[[Any], Iterator[Any]]
"""Takes a task, yields its findings."""

MAX_BYTES = 6 * 2**30


@dataclass(frozen=True, slots=True)
class Finished:
    """What a job yielded before it ended; `end` is "done", "over time" or "crashed"."""

    findings: list[Any]
    end: str


@dataclass(frozen=True, slots=True)
class _Failed:
    """The job itself raised."""

    error: str


def allow(seconds: float) -> None:
    """End this process once it has used so much more processor time; 0 lifts the limit."""
    signal.setitimer(signal.ITIMER_PROF, seconds)


def run(set_up: Callable[[], Job], tasks: Iterable[Any], *, workers: int) -> Iterator[Finished]:
    """Run a job over tasks in order; `set_up` makes it once in each worker process, or in this one without any."""
    if not workers:
        job = set_up()
        yield from (Finished(list(job(task)), "done") for task in tasks)
        return
    idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    everyone = [Worker(set_up) for _ in range(workers)]
    for worker in everyone:
        idle.put(worker)

    def finished(task: Any) -> Finished:
        worker = idle.get()
        try:
            return worker.finish(task)
        finally:
            idle.put(worker)

    with ThreadPoolExecutor(workers) as pool:
        try:
            yield from pool.map(finished, tasks)
        finally:
            pool.shutdown(cancel_futures=True)
            for worker in everyone:
                worker.stop()


class Worker:
    """One process, started anew when a task has ended it."""

    def __init__(self, set_up: Callable[[], Job], *, max_bytes: int = MAX_BYTES) -> None:
        self._set_up = set_up
        self._max_bytes = max_bytes
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, self._set_up, self._max_bytes), daemon=True
        )
        self._process.start()
        theirs.close()

    def finish(self, task: Any) -> Finished:
        """Run the job over one task."""
        findings = []
        try:
            self._pipe.send(task)
            while True:
                match self._pipe.recv():
                    case None:
                        return Finished(findings, "done")
                    case _Failed(error):
                        raise AssertionError(f"{error} on {str(task)[:500]}")
                    case finding:
                        findings.append(finding)
        except (EOFError, ConnectionError):
            self._process.join()
            end = "over time" if self._process.exitcode == -signal.SIGPROF else "crashed"
            self._start()
            return Finished(findings, end)

    def stop(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.join(10)
        self._process.kill()


def _serve(pipe: Any, set_up: Callable[[], Job], max_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (max_bytes, max_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # xgrammar warns there of every keyword it leaves out
    job = set_up()
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        try:
            for finding in job(task):
                pipe.send(finding)
        except Exception as error:  # noqa: BLE001 - it is raised again in the parent
            pipe.send(_Failed(repr(error)))
        else:
            pipe.send(None)
        allow(0)
