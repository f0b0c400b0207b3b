"""Threads that several clients share: one client, which a `share` stands for, has at most half of them.

threads = FairThreads(4, "render")
future = threads.submit("a client's share", render)
"""

import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


class FairThreads:
    """Within a share, work is done in the order of arrival. Shares that wait take turns."""

    def __init__(self, num_threads: int, name: str) -> None:
        self._threads = ThreadPoolExecutor(num_threads, thread_name_prefix=name)
        self._most = max(1, num_threads // 2)
        self._lock = threading.Lock()
        self._waiting: dict[str, deque[tuple[Future[Any], Callable[[], Any]]]] = {}
        self._running: Counter[str] = Counter()

    def num_of(self, share: str) -> int:
        """How many pieces of work of a share are running or waiting."""
        with self._lock:
            return len(self._waiting.get(share, ())) + self._running[share]

    def submit(self, share: str, work: Callable[[], T]) -> Future[T]:
        """Run `work` in a thread. It counts for its share until it ends, even if the future is cancelled."""
        future: Future[T] = Future()
        job = (future, work)
        with self._lock:
            self._waiting.setdefault(share, deque()).append(job)
        future.add_done_callback(partial(self._forget, share, job))
        self._threads.submit(self._serve)
        return future

    def shutdown(self) -> None:
        """Accept no more work."""
        self._threads.shutdown(wait=False)

    def _forget(self, share: str, job: tuple[Future[Any], Callable[[], Any]], future: Future[Any]) -> None:
        """Drop work that was cancelled before it began."""
        if future.cancelled():
            with self._lock:
                if job in self._waiting.get(share, ()):
                    self._waiting[share].remove(job)
                    if not self._waiting[share]:
                        del self._waiting[share]

    def _serve(self) -> None:
        """Run waiting work, until no waiting share may have another thread."""
        while (job := self._next()) is not None:
            share, (future, work) = job
            try:
                _do(future, work)
            finally:
                with self._lock:
                    self._running[share] -= 1
                    self._running += Counter()  # forgets shares that have no thread

    def _next(self) -> tuple[str, tuple[Future[Any], Callable[[], Any]]] | None:
        with self._lock:
            able = [share for share in self._waiting if self._running[share] < self._most]
            if not able:
                return None
            share = min(able, key=self._running.__getitem__)  # the first of equals
            jobs = self._waiting.pop(share)
            job = jobs.popleft()
            if jobs:
                self._waiting[share] = jobs  # after the others
            self._running[share] += 1
            return share, job


def _do(future: Future[T], work: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
        future.set_exception(error)
    else:
        future.set_result(result)
