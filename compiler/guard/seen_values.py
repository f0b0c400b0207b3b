"""The values that a container holds already, in memory that grows with the text.

A matcher keeps a cursor for every token, as it may roll back to any. So the values at one point of a text are
in sorted runs, which they share with the values at other points. Runs are never changed: what is tried, and
what is written after a rollback, leaves all other points as they are.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from compiler.guard.growing_text import num_lasting


@dataclass(frozen=True, slots=True, eq=False)
class SeenValues:
    """Distinct values, and those of them that begin alike; a value itself.

    >>> seen = SeenValues().adding(b'"a"').adding(b'"ab"')
    >>> b'"a"' in seen, b'"b"' in seen, list(seen.beginning_with(b'"ab'))
    (True, False, [b'"ab"'])
    """

    _runs: tuple[tuple[bytes, ...], ...] = ()
    """Each is sorted, and at least twice as long as the next one (see `num_lasting`)."""
    _hash: int = 0
    """The hashes of all values, in no order."""

    def __contains__(self, value: bytes) -> bool:
        for run in self._runs:
            at = bisect_left(run, value)
            if at < len(run) and run[at] == value:
                return True
        return False

    def __eq__(self, other: object) -> bool:
        """Whether others are the same values, in whichever order they were added."""
        if not isinstance(other, SeenValues):
            return NotImplemented
        return self._runs is other._runs or (self._hash == other._hash and self._sorted() == other._sorted())

    def __hash__(self) -> int:
        return self._hash

    @property
    def size(self) -> int:
        """The number of values."""
        return sum(map(len, self._runs))

    def adding(self, value: bytes) -> "SeenValues":
        """The values with another one."""
        at = num_lasting(self._runs, 1)
        run = sorted(chain(*self._runs[at:], (value,)))
        return SeenValues((*self._runs[:at], tuple(run)), self._hash ^ hash(value))

    def beginning_with(self, prefix: bytes) -> Iterator[bytes]:
        """The values that begin with some bytes."""
        for run in self._runs:
            for at in range(bisect_left(run, prefix), len(run)):
                if not run[at].startswith(prefix):
                    break
                yield run[at]

    def _sorted(self) -> list[bytes]:
        return sorted(chain(*self._runs))
