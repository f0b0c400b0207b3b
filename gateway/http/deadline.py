"""The deadline of a request. It counts from the arrival of the first byte, whatever the request waits for."""

import asyncio
import time
from contextlib import AbstractAsyncContextManager
from types import TracebackType

from runtime.errors import DeadlineExceeded

ARRIVED = "callgate.arrived"
"""Where a request's scope holds when it came, by the monotonic clock."""

GRACE_S = 1.0
"""How long after its deadline a runtime may take to say how a request ended; then nobody waits for it."""


class Deadline:
    """The earliest of some timeouts, in seconds after `since`, or from now on. None is no timeout."""

    def __init__(self, *timeouts: float | None, since: float | None) -> None:
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

    def enforced(self, grace_s: float = 0.0) -> AbstractAsyncContextManager[None]:
        """Cancel the block `grace_s` after the deadline; raises DeadlineExceeded.

        A block that need not wait can still finish after that.
        """
        return _EnforcedBlock(None if self._at is None else self._at + grace_s)


class _EnforcedBlock(AbstractAsyncContextManager[None]):
    """Ends at a time of the monotonic clock. Each event of an answer has one, and a generator costs more."""

    def __init__(self, at: float | None) -> None:
        self._limit = asyncio.timeout(None if at is None else at - time.monotonic())

    async def __aenter__(self) -> None:
        await self._limit.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._limit.__aexit__(kind, error, trace)
        except TimeoutError as timeout:
            raise DeadlineExceeded from timeout
        if isinstance(error, TimeoutError) and self._limit.expired():
            raise DeadlineExceeded from error
