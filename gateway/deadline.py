"""The deadline of a request."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from runtime.errors import DeadlineExceeded


class Deadline:
    """The shortest of some timeouts, in seconds from now; None is no timeout."""

    def __init__(self, *timeouts: float | None) -> None:
        shortest = min((timeout for timeout in timeouts if timeout is not None), default=None)
        self._at = None if shortest is None else time.monotonic() + shortest

    def remaining_s(self) -> float | None:
        """Seconds that are left; None without a deadline.

        Raises:
            DeadlineExceeded: there are none.
        """
        if self._at is None:
            return None
        remaining = self._at - time.monotonic()
        if remaining <= 0:
            raise DeadlineExceeded
        return remaining

    @asynccontextmanager
    async def upheld(self) -> AsyncIterator[None]:
        """Cancel what is done here once the deadline has passed; raises DeadlineExceeded."""
        limit = asyncio.timeout(self.remaining_s())
        try:
            async with limit:
                yield
        except TimeoutError as error:
            if limit.expired():
                raise DeadlineExceeded from error
            raise
