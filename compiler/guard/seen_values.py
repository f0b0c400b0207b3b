"""The values that a container holds already, in memory that grows with the text.

A matcher keeps a cursor for every token, as it may roll back to any. So the positions of one text share a
journal: every position sees what stands before its own entry. A position that was rolled back to and goes on
differently copies the journal up to there, once.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import NamedTuple


class _Journal:
    """Distinct values in the order in which they were added, and sorted for look-ups by prefix."""

    __slots__ = ("order", "places", "sorted")

    def __init__(self, values: list[bytes]) -> None:
        self.order = values
        self.places = {value: place for place, value in enumerate(values)}
        self.sorted = sorted(values)

    def having(self, value: bytes, place: int) -> "_Journal":
        """A journal with the same values before `place`, and `value` there; this one where possible."""
        if place == len(self.order):
            self.places[value] = place
            self.order.append(value)
            insort(self.sorted, value)
        elif self.order[place] != value:
            return _Journal([*self.order[:place], value])
        return self


class SeenValues(NamedTuple):
    """Distinct values, and those of them that begin alike; a value itself.

    >>> seen = SeenValues().adding(b'"a"').adding(b'"ab"')
    >>> b'"a"' in seen, b'"b"' in seen, list(seen.beginning_with(b'"ab'))
    (True, False, [b'"ab"'])
    """

    journal: _Journal | None = None
    """Holds all values but the last one, and perhaps what other positions have added to these."""
    num_before: int = 0
    """The number of values but the last one."""
    last: bytes | None = None
    """It is not in the journal yet: a guard tries many tokens, and accepts one."""

    def __contains__(self, value: object) -> bool:
        """Whether the value is among these."""
        return self.last is not None and (value == self.last or self._is_before(value))

    def _is_before(self, value: object) -> bool:
        return self.journal is not None and self.journal.places.get(value, self.num_before) < self.num_before  # type: ignore[call-overload]

    @property
    def size(self) -> int:
        """The number of values."""
        return self.num_before + (self.last is not None)

    def adding(self, value: bytes) -> "SeenValues":
        """The values with another one."""
        if self.last is None:
            return SeenValues(None, 0, value)
        if self.journal is None:
            return SeenValues(_Journal([self.last]), 1, value)
        return SeenValues(self.journal.having(self.last, self.num_before), self.num_before + 1, value)

    def beginning_with(self, prefix: bytes) -> Iterator[bytes]:
        """The values that begin with some bytes."""
        if self.last is not None and self.last.startswith(prefix):
            yield self.last
        if self.journal is None:
            return
        sorted_values = self.journal.sorted
        for at in range(bisect_left(sorted_values, prefix), len(sorted_values)):
            if not sorted_values[at].startswith(prefix):
                return
            if self.journal.places[sorted_values[at]] < self.num_before:
                yield sorted_values[at]
