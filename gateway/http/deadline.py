"""The deadline of a request. It counts from the arrival of the first byte, whatever the request waits for."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from runtime.errors import DeadlineExceeded

ARRIVED = "callgate.arrived"
"""Where a request's scope holds when it came, by the monotonic clock."""

GRACE_S = 1.0
"""How long after its deadline a runtime may take to say how a request ended; then nobody waits for it."""


class Deadline:
    """The earliest of some timeouts, in seconds after `since`, by default now; None is no timeout."""

    def __init__(self, *timeouts: float | None, since: float | None = None) -> None:
        shortest = min((timeout for timeout in timeouts if timeout is not None), default=None)
        start = time.monotonic() if since is None else since
        self._at = None if shortest is None else start + shortest

    def remaining_s(self) -> float | None:
        """The seconds that are left; None without a deadline.

        Raises:
            DeadlineExceeded: no time is left.
        """
        if self._at is None:
            return None
        remaining = self._at - time.monotonic()
        if remaining <= 0:
            raise DeadlineExceeded
        return remaining

    @asynccontextmanager
    async def enforced(self, grace_s: float = 0.0) -> AsyncIterator[None]:
        """Cancel the block `grace_s` after the deadline; raises DeadlineExceeded.

        A block that need not wait can still finish after that.
        """
        limit = asyncio.timeout(None if self._at is None else self._at + grace_s - time.monotonic())
        try:
            async with limit:
                yield
        except TimeoutError as error:
            if limit.expired():
                raise DeadlineExceeded from error
            raise
