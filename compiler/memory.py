"""A memory bounded in bytes that forgets what was not used for longest."""

from collections import OrderedDict
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Memory(Generic[Value]):
    """Values by key, each with its size; never holds more than `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.num_bytes = 0
        self._values: OrderedDict[str, tuple[Value, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: str) -> Value | None:
        """The value, now the most recently used; None where it is absent."""
        if key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key][0]

    def put(self, key: str, value: Value, num_bytes: int) -> None:
        """Keep a value, at the cost of the least recently used ones; not at all if it alone is too large."""
        if key in self._values:
            self.num_bytes -= self._values.pop(key)[1]
        if num_bytes > self.max_bytes:
            return
        self._values[key] = (value, num_bytes)
        self.num_bytes += num_bytes
        while self.num_bytes > self.max_bytes:
            _, (_, freed) = self._values.popitem(last=False)
            self.num_bytes -= freed
