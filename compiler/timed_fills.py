"""Fills of masks that may take long: they have half a second, and their thread is left behind after that.

A client's own grammar can be so ambiguous that a single mask takes many seconds: forty `x?` in a row, with
`x ::= [a-z ]{1,50} [a-z]`, admit a few letters in thousands of ways, and xgrammar tries most tokens of the
vocabulary after each of these. Nothing can interrupt that. So another thread fills such a mask while the
caller waits, which costs a fifth of a millisecond. xgrammar needs no lock of the interpreter meanwhile.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import xgrammar as xgr

from compiler.errors import MatchingTooSlow
from compiler.matcher import Bitmask

MAX_FILL_S = 0.5
"""Processor time for one mask; the masks of a usual grammar take a thousandth of this."""
MAX_LEFT_BEHIND = 32
"""The most threads that still fill a mask for which nobody waits any more."""
MAX_LEFT_BEHIND_OF_CLIENT = 8
"""The most of one client, so that the grammars of others have threads too."""
_LOWEST_PRIORITY = 19
_LOOK_S = 0.02
_CLOCK_FACTOR = 4
"""Where a thread's processor time cannot be read, so many times as long by the clock is allowed."""


class TimedFills:
    """Fills masks in threads of their own, and leaves behind a thread that takes too long; thread-safe."""

    def __init__(self) -> None:
        self._left_behind: list[_Fill] = []
        self._lock = threading.Lock()
        self._own = threading.local()

    def processor_s(self) -> float:
        """The processor time of the calling thread, and of the threads that it has waited for."""
        return time.thread_time() + float(getattr(self._own, "waited_s", 0.0))

    def begin_for(self, client_id: str) -> None:
        """The calling thread fills masks of a client from now on; an empty id is unknown."""
        self._own.client_id = client_id

    @property
    def client_id(self) -> str:
        """The client for which the calling thread fills masks."""
        return str(getattr(self._own, "client_id", ""))

    def fill(self, matcher: xgr.GrammarMatcher, bitmask: Bitmask, row: int, owner: object = None) -> None:
        """Overwrite a row with the mask of a matcher.

        The more threads of the same client are left behind, the less time there is. The `owner` lives as long
        as a thread uses the matcher: so the matcher's memory is counted as long as it is held.

        Raises:
            MatchingTooSlow: it takes too long. The matcher must not be used any more: a thread still uses it.
        """
        client_id = self.client_id
        with self._lock:
            self._left_behind = [fill for fill in self._left_behind if fill.is_alive()]
            num_left = len(self._left_behind)
            num_own = sum(fill.client_id == client_id for fill in self._left_behind)
        seconds = MAX_FILL_S / (1 + num_own)
        if num_left >= MAX_LEFT_BEHIND or (client_id and num_own >= MAX_LEFT_BEHIND_OF_CLIENT):
            raise MatchingTooSlow(seconds)
        own = np.empty_like(bitmask[row : row + 1])
        fill = _Fill(lambda: matcher.fill_next_token_bitmask(own, 0), client_id, owner)
        fill.start()
        if not fill.ends_within(seconds):
            fill.leave_behind()
            with self._lock:
                self._left_behind.append(fill)
            self._add_waited(seconds)
            raise MatchingTooSlow(seconds)
        self._add_waited(fill.processor_s)
        if fill.error is not None:
            raise fill.error
        bitmask[row] = own[0]

    def _add_waited(self, seconds: float) -> None:
        self._own.waited_s = getattr(self._own, "waited_s", 0.0) + seconds


class _Fill(threading.Thread):
    """The thread of one fill; it does not keep the process from ending."""

    def __init__(self, work: Callable[[], object], client_id: str, owner: object) -> None:
        super().__init__(name="callgate-fill", daemon=True)
        self.client_id = client_id
        self._work: Callable[[], object] | None = work
        self._owner = owner
        self.error: Exception | None = None
        self.processor_s = 0.0

    def run(self) -> None:
        """Fill the mask."""
        assert self._work is not None, "a thread runs once"
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - the caller raises it
            self.error = error
        self._work = self._owner = None
        self.processor_s = time.thread_time()

    def ends_within(self, seconds: float) -> bool:
        """Wait for its end; False if it takes more processor time."""
        began = time.monotonic()
        self.join(seconds)
        while self.is_alive():
            taken_s = self._taken_s()
            if taken_s is None:
                taken_s = (time.monotonic() - began) / _CLOCK_FACTOR
            if taken_s >= seconds:
                return False
            self.join(max(_LOOK_S, seconds - taken_s))
        return True

    def _taken_s(self) -> float | None:
        """The processor time that it has taken; None where the system does not tell."""
        try:
            numbers = Path(f"/proc/self/task/{self.native_id}/schedstat").read_text("ascii")
            return int(numbers.split()[0]) / 1e9
        except (OSError, ValueError, IndexError):
            return None

    def leave_behind(self) -> None:
        """Let other threads go first from now on, where the system can do this for one thread."""
        if sys.platform == "linux" and self.native_id is not None:
            with suppress(OSError):  # it has just ended
                os.setpriority(os.PRIO_PROCESS, self.native_id, _LOWEST_PRIORITY)
