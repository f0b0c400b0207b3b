"""Worker processes that compile, seen from the gateway: a schema can take down or hold up nothing else.

`WorkerPool.run` hands a job to a worker that is free. One that ends meanwhile, because its time is up or by a
fault, is that job's refusal, and the next job gets another.
"""

import asyncio
import logging
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from compiler.errors import LimitReached, WorkersUnavailable
from compiler.isolation.compile_job import CompileJob, out_of_time, read_answer
from compiler.isolation.limits import CompileLimits
from compiler.isolation.priming import priming
from compiler.isolation.zygote import LENGTH_BYTES, Zygote
from compiler.vocabulary import Vocabulary


class ThreadPool:
    """Does jobs in `num_workers` threads; time and memory are not bounded."""

    def __init__(self, num_workers: int = 2, limits: CompileLimits | None = None) -> None:
        self.num_workers = num_workers
        self.limits = limits or CompileLimits()
        self._threads = ThreadPoolExecutor(num_workers, "compile")

    def launch(self) -> None:
        """Nothing has to be begun."""

    def start(self, vocabulary: Vocabulary) -> None:
        """Nothing has to be started."""

    async def run(self, job: CompileJob, vocabulary: Vocabulary) -> bytes:
        """The result of a job; raises UnsupportedSchema."""
        job.check(self.limits)
        loop = asyncio.get_running_loop()
        return read_answer(await loop.run_in_executor(self._threads, job.answer, vocabulary, self.limits))

    async def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)


_START_S = 60.0
_GRACE_S = 1.0
_log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Worker:
    """One worker's channel, and the vocabularies it knows."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    known: frozenset[str]

    async def ask(self, frame: bytes, max_bytes: int) -> bytes:
        """Its answer; raises EOFError or OSError where it ends instead."""
        self.writer.write(len(frame).to_bytes(LENGTH_BYTES) + frame)
        await self.writer.drain()
        return await self.answer(max_bytes)

    async def answer(self, max_bytes: int) -> bytes:
        """What it says next."""
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
    """Up to `num_workers` processes that compile; owned by one event loop."""

    def __init__(self, num_workers: int = 4, limits: CompileLimits | None = None) -> None:
        self.num_workers = num_workers
        self.limits = limits or CompileLimits()
        self._free = asyncio.Semaphore(num_workers)
        self._idle: list[_Worker] = []
        self._forking = asyncio.Lock()
        self._zygote: Zygote | None = None
        self._starting: asyncio.Task[None] | None = None
        self._is_closed = False

    def launch(self) -> None:
        """Have the zygote import the compiler, which takes seconds, while a model is loaded, say."""
        if self._zygote is None:
            with suppress(OSError):  # `run` tries again, and says what is wrong
                self._zygote = Zygote(self.limits)

    def start(self, vocabulary: Vocabulary) -> None:
        """Get a worker ready in the background, and prime this process, which compiles again what passed."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._warm(vocabulary))

    async def run(self, job: CompileJob, vocabulary: Vocabulary) -> bytes:
        """The result of a job.

        Raises:
            UnsupportedSchema: the schema is refused; `LimitReached` where it cost the worker.
            WorkersUnavailable: no worker can be started.
        """
        job.check(self.limits)
        frame = vocabulary.digest.encode() + b"\n" + job.to_bytes()
        async with self._free:
            worker = await self._take(vocabulary)
            start = time.monotonic()
            is_whole = False
            try:
                async with asyncio.timeout(self.limits.wall_seconds + _GRACE_S):
                    answer = await worker.ask(frame, self.limits.stored_bytes + 1)
                is_whole = True
            except (EOFError, OSError):  # TimeoutError is an OSError
                raise self._lost(time.monotonic() - start) from None
            finally:
                if is_whole and not self._is_closed:
                    self._idle.append(worker)
                else:
                    worker.close()
        return read_answer(answer)

    async def close(self) -> None:
        """Stop; jobs that still run end with their limits."""
        self._is_closed = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        while self._idle:
            self._idle.pop().close()
        async with self._forking:
            await self._end_zygote()

    def _lost(self, seconds: float) -> LimitReached:
        if seconds >= self.limits.seconds:
            _log.warning("a schema was refused: compiling it took longer than %g s", self.limits.seconds)
            return out_of_time(self.limits)
        _log.warning("a schema was refused: the worker that compiled it ended after %.1f s", seconds)
        reason = (
            "compiling it ended the compiler: it takes too much memory, or meets a fault of the compiler's"
        )
        return LimitReached("", "", reason, "Combine fewer alternatives, or lower counts and bounds.")

    async def _warm(self, vocabulary: Vocabulary) -> None:
        """Workers for all as soon as can be; once all is primed, which takes seconds, one in their place."""
        try:
            for _ in range(self.num_workers):  # the zygote forks none while it takes a step of priming
                self._idle.append(await self._fork(vocabulary))
            await asyncio.to_thread(self._prepare, vocabulary)
            primed = await self._fork(vocabulary)
        except WorkersUnavailable as error:
            _log.warning("%s", error)
            return
        while self._idle:
            self._idle.pop().close()
        self._idle.append(primed)

    def _prepare(self, vocabulary: Vocabulary) -> None:
        """In a thread, which cannot be cancelled: a process that ends waits for one step of it, no longer."""
        for _ in priming(vocabulary):
            if self._is_closed:
                return
        assert vocabulary.index is not None

    async def _take(self, vocabulary: Vocabulary) -> _Worker:
        while self._idle:
            worker = self._idle.pop()
            if worker.is_alive and vocabulary.digest in worker.known:
                return worker
            worker.close()
        return await self._fork(vocabulary)

    async def _fork(self, vocabulary: Vocabulary) -> _Worker:
        """A new worker; of a new zygote where the old one is gone."""
        reason: Exception | None = None
        for _ in range(2):
            async with self._forking:
                try:
                    async with asyncio.timeout(_START_S):
                        return await self._hatch(vocabulary)
                except (EOFError, OSError) as error:
                    reason = error
                    await self._end_zygote()
        raise WorkersUnavailable(f"its process ended at the start ({reason!r})")

    async def _hatch(self, vocabulary: Vocabulary) -> _Worker:
        if self._zygote is None:
            self._zygote = Zygote(self.limits)
        ours, theirs = socket.socketpair()
        ours.settimeout(0)
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        try:
            with theirs:
                await asyncio.to_thread(self._zygote.fork, theirs, vocabulary)
            worker = _Worker(reader, writer, self._zygote.known)
            await worker.answer(0)
        except BaseException:
            writer.transport.abort()
            raise
        return worker

    async def _end_zygote(self) -> None:
        if self._zygote is not None:
            zygote, self._zygote = self._zygote, None
            await asyncio.to_thread(zygote.close)
