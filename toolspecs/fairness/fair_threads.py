"""Threads that several clients share: one client has at most half of them.

threads = FairThreads(4, "render")
future = threads.submit(client_id, render)
"""

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import Any, NamedTuple, TypeVar

from toolspecs.errors import ThreadsStopped

T = TypeVar("T")


class _Job(NamedTuple):
    """Work, and the future that gets its result."""

    future: Future[Any]
    work: Callable[[], Any]


class FairThreads:
    """The work of a client is done in the order of arrival. Clients that wait take turns."""

    def __init__(self, num_threads: int, name: str) -> None:
        self._threads = ThreadPoolExecutor(num_threads, thread_name_prefix=name)
        self._most = max(1, num_threads // 2)
        self._lock = threading.Lock()
        self._numbers = count()
        self._waiting: dict[str, dict[int, _Job]] = {}
        """The jobs of each client by number, the first to be done first."""
        self._running: Counter[str] = Counter()
        self._is_stopped = False

    def num_of(self, client_id: str) -> int:
        """How many pieces of work of a client are running or waiting."""
        with self._lock:
            return len(self._waiting.get(client_id, ())) + self._running[client_id]

    def submit(self, client_id: str, work: Callable[[], T]) -> Future[T]:
        """Run `work` in a thread. It counts for its client until it ends, even if the future is cancelled.

        Raises:
            ThreadsStopped: after `shutdown`.
        """
        future: Future[T] = Future()
        number = next(self._numbers)
        with self._lock:
            if self._is_stopped:
                raise ThreadsStopped
            self._waiting.setdefault(client_id, {})[number] = _Job(future, work)
            self._threads.submit(self._serve)
        # By number: a future that refers to its job keeps the work's arguments until garbage is collected.
        future.add_done_callback(partial(self._forget, client_id, number))
        return future

    def shutdown(self) -> None:
        """Accept no more work; what waits is still done."""
        with self._lock:
            self._is_stopped = True
        self._threads.shutdown(wait=False)

    def _forget(self, client_id: str, number: int, future: Future[Any]) -> None:
        """Drop work that was cancelled before it began."""
        if future.cancelled():
            with self._lock:
                jobs = self._waiting.get(client_id, {})
                if jobs.pop(number, None) is not None and not jobs:
                    del self._waiting[client_id]

    def _serve(self) -> None:
        """Run waiting work, until no waiting client may have another thread."""
        while (job := self._next()) is not None:
            client_id, (future, work) = job
            try:
                _do(future, work)
            finally:
                del job, future, work
                with self._lock:
                    self._running[client_id] -= 1
                    self._running += Counter()  # forgets clients that have no thread

    def _next(self) -> tuple[str, _Job] | None:
        with self._lock:
            able = [client_id for client_id in self._waiting if self._running[client_id] < self._most]
            if not able:
                return None
            client_id = min(able, key=self._running.__getitem__)  # the first of equals
            jobs = self._waiting.pop(client_id)
            job = jobs.pop(next(iter(jobs)))
            if jobs:
                self._waiting[client_id] = jobs  # after the others
            self._running[client_id] += 1
            return client_id, job


def _do(future: Future[T], work: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
        future.set_exception(error)
        del future, work  # the error refers to this call
    else:
        future.set_result(result)
