"""Values used lately, bounded by their size."""

from collections import OrderedDict
from typing import Generic, TypeVar

V = TypeVar("V")


class LruCache(Generic[V]):
    """Values under text keys; the one longest unused goes first where they exceed `max_bytes` together."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self.num_bytes = 0
        self._values: OrderedDict[str, tuple[V, int]] = OrderedDict()

    def get(self, key: str) -> V | None:
        """The value, if it is still there; it then counts as used."""
        if key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key][0]

    def keep(self, key: str, value: V, num_bytes: int) -> None:
        """Keep a value that takes `num_bytes` in the place of another; one too large is not kept."""
        if key in self._values:
            self.num_bytes -= self._values.pop(key)[1]
        if num_bytes > self._max_bytes:
            return
        self._values[key] = (value, num_bytes)
        self.num_bytes += num_bytes
        while self.num_bytes > self._max_bytes:
            _, (_, freed) = self._values.popitem(last=False)
            self.num_bytes -= freed
