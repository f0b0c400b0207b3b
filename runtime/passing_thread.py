"""A thread for one piece of work, gone when that is done.

Every thread that computes with torch on a CPU gets helpers of its own, for as long as it lives. While there
are more of all these than cores, OpenMP's runtime (libgomp) lets none of them wait actively: between two
operations of the engine its helpers fall asleep, and on two cores a decode step takes a fifth longer.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def in_passing_thread(work: Callable[[], T]) -> T:
    """What `work` returns or raises; a caller that is interrupted does not wait for it."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 the caller raises it
            future.set_exception(error)

    thread = threading.Thread(target=run, name="callgate-load", daemon=True)
    thread.start()
    result = future.result()
    thread.join()
    return result
