"""Counts the memory of the grammars that a client's running answers hold.

An answer holds its grammar after that has left the cache, and a client may have a hundred answers that wait.
So what they hold is bounded for each client. A part that several answers share counts once.
"""

import weakref
from collections import Counter, deque
from collections.abc import Mapping

from compiler.errors import TooManyGrammars

MAX_HELD_BYTES = 1 << 30
"""What the running answers of one client may hold. A real tool takes 0.4 MB mostly, and 12 MB at most."""
RETRY_AFTER_S = 2.0

_Sizes = Mapping[str, int]
"""The bytes of each part of a grammar, by its key."""


class HeldGrammars:
    """The grammars that are held, for each client; owned by one event loop."""

    def __init__(self, max_bytes: int = MAX_HELD_BYTES) -> None:
        self._max_bytes = max_bytes
        self._num_holders: Counter[tuple[str, str]] = Counter()
        self._num_bytes: Counter[str] = Counter()
        self._released: deque[tuple[str, _Sizes]] = deque()
        """What was held by objects that are gone; any thread may add to it."""

    def num_bytes(self, client_id: str) -> int:
        """The memory of what a client holds."""
        self._forget_released()
        return self._num_bytes[client_id]

    def check(self, client_id: str, sizes: _Sizes) -> None:
        """Raise TooManyGrammars if a client holds grammars, and would hold too much with these parts too."""
        held = self.num_bytes(client_id)
        more = sum(size for key, size in sizes.items() if not self._num_holders[client_id, key])
        if held and more and held + more > self._max_bytes:
            raise TooManyGrammars(held + more, self._max_bytes, RETRY_AFTER_S)

    def hold(self, client_id: str, sizes: _Sizes, holder: object) -> None:
        """Count these parts until `holder` is gone."""
        for key, size in sizes.items():
            if not self._num_holders[client_id, key]:
                self._num_bytes[client_id] += size
            self._num_holders[client_id, key] += 1
        weakref.finalize(holder, self._released.append, (client_id, sizes)).atexit = False

    def _forget_released(self) -> None:
        while self._released:
            client_id, sizes = self._released.popleft()
            for key, size in sizes.items():
                self._num_holders[client_id, key] -= 1
                if not self._num_holders[client_id, key]:
                    del self._num_holders[client_id, key]
                    self._num_bytes[client_id] -= size
            if not self._num_bytes[client_id]:
                del self._num_bytes[client_id]
