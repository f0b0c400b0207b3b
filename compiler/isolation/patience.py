"""Patience: what compiling may cost one request, however many schemas it brings."""

import asyncio
import time

from compiler.errors import LimitReached, NotReached, NotTried
from compiler.isolation.limits import CompileLimits

MAX_LIMITS_REACHED = 3
_NUM_LOADS = 16


class Patience:
    """One request's: all workers but one at once, few hopeless schemas, and so much time for all together.

    Time starts now. What is compiled when it ends is finished, since each schema has limits of its own.
    """

    def __init__(self, limits: CompileLimits, num_workers: int) -> None:
        self.turns = asyncio.Semaphore(max(1, num_workers - 1))
        self.loads = asyncio.Semaphore(_NUM_LOADS)
        self.seconds = limits.request_seconds
        self._num_limits_reached = 0
        self._end = time.monotonic() + self.seconds

    @property
    def is_over(self) -> bool:
        """Whether the time is."""
        return time.monotonic() >= self._end

    def check(self) -> None:
        """Raise `NotTried` or `NotReached` instead of beginning with another schema."""
        if self._num_limits_reached >= MAX_LIMITS_REACHED:
            reason = f"not tried: {MAX_LIMITS_REACHED} others took too much time or memory"
            raise NotTried("", "", reason, "Submit it without them.")
        if self.is_over:
            reason = f"not reached: compiling what was asked for takes longer than {self.seconds:g} seconds"
            raise NotReached("", "", reason, "Send it again: what was compiled is kept. Or send fewer tools.")

    def count(self, _limit: LimitReached) -> None:
        """A schema was hopeless."""
        self._num_limits_reached += 1
