"""A job that hangs or crashes when told to; imports little, so that its process starts at once."""

import signal
import time
from collections.abc import Iterator
from typing import Any

from soundness.workers import Job, allow


def job() -> Job:
    """The job, for `soundness.workers.run`."""
    return _steps


def _steps(task: Any) -> Iterator[Any]:
    yield task
    if task == "crash":
        signal.raise_signal(signal.SIGSEGV)
    if task == "hang":
        allow(0.2)
        while True:
            time.process_time()
    yield "the end"
