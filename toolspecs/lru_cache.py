"""A least-recently-used cache that is bounded by the size of its values."""

from collections import OrderedDict
from typing import Generic, TypeVar

ValueT = TypeVar("ValueT")


class LruCache(Generic[ValueT]):
    """Values under text keys. Where they exceed `max_bytes` together, the least recently used goes first.

    >>> cache: LruCache[str] = LruCache(max_bytes=10)
    >>> cache.put("a", "A", num_bytes=6)
    >>> cache.put("b", "B", num_bytes=6)
    >>> cache.get("a"), cache.get("b")
    (None, 'B')
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self.num_bytes = 0
        self._values: OrderedDict[str, tuple[ValueT, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: str) -> ValueT | None:
        """The value, or None; getting a value counts as using it."""
        if key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key][0]

    def peek(self, key: str) -> ValueT | None:
        """The value, or None; this does not count as using it."""
        return self._values[key][0] if key in self._values else None

    def put(self, key: str, value: ValueT, num_bytes: int) -> None:
        """Add or replace a value that takes `num_bytes`; a value larger than the cache is left out."""
        self.drop(key)
        if num_bytes > self._max_bytes:
            return
        self._values[key] = (value, num_bytes)
        self.num_bytes += num_bytes
        while self.num_bytes > self._max_bytes:
            _, (_, freed) = self._values.popitem(last=False)
            self.num_bytes -= freed

    def drop(self, key: str) -> None:
        """Remove a value, if it is there."""
        if key in self._values:
            self.num_bytes -= self._values.pop(key)[1]
