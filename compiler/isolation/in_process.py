"""Compiling in threads of this process: no isolation, and nothing to start. For libraries and tests."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from compiler.isolation.job import Job, read_answer
from compiler.isolation.limits import CompileLimits
from compiler.vocabulary import Vocabulary


class InProcess:
    """Does jobs in `num_workers` threads; time and memory are not bounded."""

    def __init__(self, num_workers: int = 2, limits: CompileLimits | None = None) -> None:
        self.num_workers = num_workers
        self.limits = limits or CompileLimits()
        self._threads = ThreadPoolExecutor(num_workers, "compile")

    def launch(self) -> None:
        """Nothing has to be begun."""

    def start(self, vocabulary: Vocabulary) -> None:
        """Nothing has to be started."""

    async def run(self, job: Job, vocabulary: Vocabulary) -> bytes:
        """The result of a job; raises UnsupportedSchema."""
        job.check(self.limits)
        loop = asyncio.get_running_loop()
        return read_answer(await loop.run_in_executor(self._threads, job.answer, vocabulary, self.limits))

    async def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)
