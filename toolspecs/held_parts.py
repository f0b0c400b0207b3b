"""Counts the memory that the running requests of each client hold.

A request holds its grammar, its tools and its messages until it is answered, also if they have left a cache.
A client may have a hundred requests that wait. So what they hold together is bounded. A part that several
requests share counts once.

    held.check("alice", {"tools": 3_000_000})        # may she hold so much more?
    held.hold("alice", {"tools": 3_000_000}, holder)  # it counts until `holder` is gone
"""

import weakref
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Sizes = Mapping[Any, int]
"""The bytes of each part, by a key that identifies the part while it is held."""


@dataclass(slots=True)
class _HeldPart:
    """A part that a client holds: the size that was added for it, and how many objects hold it."""

    num_bytes: int
    num_holders: int = 0


class HeldParts:
    """The parts that are held, for each client, at most `max_bytes`; owned by one event loop.

    `too_much` makes the error of a client that would hold too much, from the bytes that it would hold and
    from `max_bytes`.
    """

    def __init__(self, max_bytes: int, too_much: Callable[[int, int], Exception]) -> None:
        self._max_bytes = max_bytes
        self._too_much = too_much
        self._parts: dict[tuple[str, Hashable], _HeldPart] = {}
        self._num_bytes: Counter[str] = Counter()
        self._released: deque[tuple[str, Iterable[Hashable]]] = deque()
        """What was held by objects that are gone; any thread may add to it."""

    def num_bytes(self, client_id: str) -> int:
        """The memory of what a client holds."""
        self._forget_released()
        return self._num_bytes[client_id]

    def has_others(self, client_id: str) -> bool:
        """Whether other clients hold something."""
        self._forget_released()
        return len(self._num_bytes) > (client_id in self._num_bytes)

    def check(self, client_id: str, sizes: Sizes) -> None:
        """Raise the error if a client holds something, and would hold too much with these parts too."""
        held = self.num_bytes(client_id)
        more = sum(size for key, size in sizes.items() if (client_id, key) not in self._parts)
        if held and more and held + more > self._max_bytes:
            raise self._too_much(held + more, self._max_bytes)

    def hold(self, client_id: str, sizes: Sizes, holder: object) -> None:
        """Count these parts until `holder` is gone."""
        for key, size in sizes.items():
            if (client_id, key) not in self._parts:
                self._parts[client_id, key] = _HeldPart(size)
                self._num_bytes[client_id] += size
            self._parts[client_id, key].num_holders += 1
        weakref.finalize(holder, self._released.append, (client_id, tuple(sizes))).atexit = False

    def _forget_released(self) -> None:
        while self._released:
            client_id, keys = self._released.popleft()
            for key in keys:
                part = self._parts[client_id, key]
                part.num_holders -= 1
                if not part.num_holders:
                    del self._parts[client_id, key]
                    self._num_bytes[client_id] -= part.num_bytes
            if not self._num_bytes[client_id]:
                del self._num_bytes[client_id]
