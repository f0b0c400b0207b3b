"""Pools that do compile jobs: worker processes, which only their own schema can hurt, or plain threads.

`WorkerPool.run` hands a job to a free worker. If the worker ends before it answers, because its time is up or
because of a fault, the job is refused, and the next job gets another worker.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType

from compiler.errors import (
    CompilerError,
    CompilerOverloaded,
    LimitReached,
    TakesLonger,
    WorkersUnavailable,
)
from compiler.isolation.compile_job import CompileJob, read_answer
from compiler.isolation.limits import CompileLimits
from compiler.isolation.priming import prime
from compiler.isolation.zygote import LENGTH_BYTES, Zygote, framed, job_frame
from compiler.prepared_vocabulary import PreparedVocabulary


class ThreadPool:
    """Threads of this process, for libraries and tests; nothing bounds time or memory."""

    num_workers = 2

    def __init__(self, limits: CompileLimits | None = None) -> None:
        self.limits = limits or CompileLimits()
        self._threads = ThreadPoolExecutor(self.num_workers, "compile")

    def launch(self) -> None:
        """Threads need no preparation."""

    def learn(self, prepared: PreparedVocabulary) -> None:
        """Threads need no preparation."""

    async def start(self, prepared: PreparedVocabulary) -> None:
        """Threads need no preparation."""

    async def run(
        self,
        job: CompileJob,
        prepared: PreparedVocabulary,
        *,
        is_long: bool = True,  # noqa: ARG002 - a thread cannot be interrupted
        client_id: str = "",  # noqa: ARG002 - and is not cut off from others
    ) -> bytes:
        """Do a job in a thread, however long it takes; raises UnsupportedSchema."""
        job.check(self.limits)
        loop = asyncio.get_running_loop()
        return read_answer(await loop.run_in_executor(self._threads, job.answer, prepared, self.limits))

    async def close(self) -> None:
        """Let running jobs end; cancel those that wait."""
        self._threads.shutdown(wait=False, cancel_futures=True)


_START_S = 120.0
_RETRY_AFTER_S = 5.0
_MAX_READY_BYTES = 1000
_log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Worker:
    """The channel to one worker, the digests of the vocabularies it knows, and the client it works for."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    known: frozenset[str]
    client_id: str | None = None

    async def ask(self, content: bytes, max_bytes: int) -> bytes:
        """The worker's answer; raises EOFError or OSError if the worker ends instead."""
        self.writer.write(framed(content))
        await self.writer.drain()
        return await self.answer(max_bytes)

    async def answer(self, max_bytes: int) -> bytes:
        """The next frame from the worker, of at most `max_bytes`."""
        num_bytes = int.from_bytes(await self.reader.readexactly(LENGTH_BYTES))
        if num_bytes > max_bytes:
            raise EOFError
        return await self.reader.readexactly(num_bytes)

    @property
    def is_alive(self) -> bool:
        return not self.reader.at_eof()

    def close(self) -> None:
        self.writer.transport.abort()


class WorkerPool:
    """Up to `num_workers` worker processes; owned by one event loop.

    They have the environment variables of `environment` and no others.
    """

    def __init__(
        self,
        num_workers: int = 4,
        limits: CompileLimits | None = None,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.num_workers = num_workers
        self.limits = limits or CompileLimits()
        self._environment = environment
        self._has_logged = False
        self._free = asyncio.Semaphore(num_workers)
        self._idle: list[_Worker] = []
        self._num_busy = 0
        self._forking = asyncio.Lock()
        self._zygote: Zygote | None = None
        self._ended: list[Zygote] = []
        self._is_closed = False

    def launch(self) -> None:
        """Start the zygote, which takes seconds to import the compiler; models can be loaded meanwhile."""
        if self._zygote is None:
            with suppress(OSError):  # `run` tries again and reports the error
                self._zygote = Zygote(self.limits, self._environment)

    def learn(self, prepared: PreparedVocabulary) -> None:
        """Let the zygote prime itself for a vocabulary while this process does something else."""
        self.launch()
        if self._zygote is not None:
            with suppress(OSError):  # the same
                self._zygote.learn(prepared.vocabulary)

    async def start(self, prepared: PreparedVocabulary) -> None:
        """Fork workers, and prime this process, which compiles stored grammars itself.

        Then the first grammars compile as fast as later ones.
        """
        priming = asyncio.to_thread(prime, prepared, lambda: self._is_closed)
        try:
            await asyncio.gather(priming, self._fork_all(prepared))
        except WorkersUnavailable as error:
            if not self._is_closed:
                _log.warning("%s", error)

    async def run(
        self, job: CompileJob, prepared: PreparedVocabulary, *, is_long: bool = True, client_id: str = ""
    ) -> bytes:
        """Do a job in a worker. A worker that does a long job does no other, since its priority is low.

        A worker works for one client only. If a client took a worker over by a
        fault of the compiler, it could otherwise forge the grammars of others.

        Raises:
            UnsupportedSchema: the schema is refused; `LimitReached` if the worker ended because of it.
            TakesLonger: the job is not `is_long`, and takes longer than a first try may.
            CompilerOverloaded: the worker got too little processor time.
            WorkersUnavailable: no worker can be started.
        """
        await asyncio.to_thread(job.check, self.limits)  # a tool of 240,000 values takes 0.1 s
        is_long = is_long or self.limits.first_seconds >= self.limits.seconds
        request = job_frame(job, prepared.vocabulary, is_long=is_long)
        async with self._free:
            self._num_busy += 1
            try:
                return read_answer(await self._answer(request, prepared, client_id, is_long=is_long))
            finally:
                self._num_busy -= 1

    async def _answer(
        self, request: bytes, prepared: PreparedVocabulary, client_id: str, *, is_long: bool
    ) -> bytes:
        worker = await self._idle_or_new(prepared, client_id)
        start = time.monotonic()
        has_answered = False
        try:
            async with asyncio.timeout(self.limits.wall_seconds(is_long=is_long)):
                answer = await worker.ask(request, self.limits.stored_bytes + 1)
            has_answered = True
        except TimeoutError:
            raise self._too_slow(is_long=is_long) from None
        except (EOFError, OSError):
            raise self._lost(time.monotonic() - start, is_long=is_long) from None
        finally:
            if has_answered and not is_long and not self._is_closed:
                self._idle.append(worker)
            else:
                worker.close()
        return answer

    async def close(self) -> None:
        """Stop. Jobs that still run end at their limits."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()
        async with self._forking:
            await self._end_zygote()

    def _too_slow(self, *, is_long: bool) -> CompilerError:
        """The error of a job that got too little processor time: nothing is known about the schema."""
        if not is_long:
            return TakesLonger()
        _log.warning("a schema was not compiled: the machine has too little processor time for it")
        return CompilerOverloaded("there is too little processor time", _RETRY_AFTER_S)

    def _lost(self, seconds: float, *, is_long: bool) -> CompilerError:
        """The error of a job whose worker ended after so many seconds.

        A first try is followed by another: where memory runs out, the system ends workers before all else,
        whatever they compile.
        """
        if not is_long:
            return TakesLonger()
        if seconds >= self.limits.seconds:
            _log.warning("a schema was refused: compiling it took longer than %g s", self.limits.seconds)
            reason = f"compiling it takes longer than {self.limits.seconds:g} seconds"
            return LimitReached(
                "", "", reason, "Combine fewer alternatives, or lower counts, bounds and patterns."
            )
        _log.warning("a schema was refused: the worker that compiled it ended after %.1f s", seconds)
        reason = (
            "its compile worker ended: compiling it takes too much memory, or meets a fault of the compiler"
        )
        return LimitReached("", "", reason, "Combine fewer alternatives, or lower counts and bounds.")

    async def _fork_all(self, prepared: PreparedVocabulary) -> None:
        while self._idle:  # they were forked before the zygote knew this vocabulary
            self._idle.pop().close()
        for _ in range(self.num_workers):
            worker = await self._fork(prepared)
            if self._is_closed:
                worker.close()
                return
            self._idle.append(worker)

    async def _idle_or_new(self, prepared: PreparedVocabulary, client_id: str) -> _Worker:
        """An idle worker that has worked for this client only, or a new one in place of other idle ones."""
        for worker in [idle for idle in reversed(self._idle) if idle.client_id in {None, client_id}]:
            self._idle.remove(worker)
            if worker.is_alive and prepared.vocabulary.digest in worker.known:
                worker.client_id = client_id
                return worker
            worker.close()
        while self._idle and len(self._idle) + self._num_busy > self.num_workers:
            self._idle.pop(0).close()
        worker = await self._fork(prepared)
        worker.client_id = client_id
        return worker

    async def _fork(self, prepared: PreparedVocabulary) -> _Worker:
        """Fork a worker, from a new zygote if the old one is gone."""
        reason: Exception | None = None
        for _ in range(2):
            async with self._forking:
                if self._is_closed:
                    break
                try:
                    async with asyncio.timeout(_START_S):
                        return await self._try_fork(prepared)
                except (EOFError, OSError) as error:
                    reason = error
                    await self._end_zygote()
        raise WorkersUnavailable(f"the process ended while it started ({reason!r})")

    async def _try_fork(self, prepared: PreparedVocabulary) -> _Worker:
        self._ended = [zygote for zygote in self._ended if zygote.collect_workers()]
        if self._zygote is None:
            self._zygote = Zygote(self.limits, self._environment)
        own_end, worker_end = socket.socketpair()
        own_end.settimeout(0)
        reader, writer = await asyncio.open_unix_connection(sock=own_end)
        try:
            with worker_end:
                await asyncio.to_thread(self._zygote.fork, worker_end, prepared.vocabulary)
            worker = _Worker(reader, writer, self._zygote.known)
            self._log_confinement((await worker.answer(_MAX_READY_BYTES)).decode())
        except BaseException:
            writer.transport.abort()
            raise
        return worker

    def _log_confinement(self, missing: str) -> None:
        """Log once what workers are not cut off from."""
        if self._has_logged:
            return
        self._has_logged = True
        if missing:
            _log.warning("compile workers are not cut off from %s", missing)
        else:
            _log.info("compile workers are cut off from the network, files and other processes")

    async def _end_zygote(self) -> None:
        if self._zygote is not None:
            zygote, self._zygote = self._zygote, None
            await asyncio.to_thread(zygote.close)
            self._ended.append(zygote)
