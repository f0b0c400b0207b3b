"""A text that grows piece by piece, in memory that grows with the text.

A matcher keeps a cursor for every token, as it may roll back to any. If each held a text of its own, a text
of 30,000 tokens would be in memory 30,000 times. So a text consists of pieces, which it shares with the texts
that it grew from and with those that grow from it. As pieces are never changed, texts that begin alike and go
on differently do not see each other.
"""

from collections.abc import Sequence, Sized
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class GrowingText:
    """Some bytes, to which more can be appended; a value.

    >>> text = GrowingText() + b"ab" + b"c"
    >>> bytes(text), len(text), text == GrowingText() + b"abc"
    (b'abc', 3, True)
    """

    _pieces: tuple[bytes, ...] = ()
    """No piece is empty, and each is at least twice as long as the next one (see `num_lasting`)."""

    def __add__(self, more: bytes) -> "GrowingText":
        if not more:
            return self
        at = num_lasting(self._pieces, len(more))
        return GrowingText((*self._pieces[:at], b"".join((*self._pieces[at:], more))))

    def __bytes__(self) -> bytes:
        return b"".join(self._pieces)

    def __len__(self) -> int:
        return sum(map(len, self._pieces))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GrowingText):
            return NotImplemented
        return self._pieces == other._pieces or (len(self) == len(other) and bytes(self) == bytes(other))

    def __hash__(self) -> int:
        return hash(bytes(self))

    def startswith(self, prefix: bytes) -> bool:
        """Whether it begins with some bytes."""
        first = self._pieces[0] if self._pieces else b""
        return (first if len(prefix) <= len(first) else bytes(self)).startswith(prefix)

    def endswith(self, suffix: bytes, begin: int = 0) -> bool:
        """Whether it ends with some bytes, of which the first stands at `begin` at the earliest."""
        at = len(self) - len(suffix)
        return at >= begin and self.since(at) == suffix

    def since(self, begin: int) -> bytes:
        """The bytes from the index `begin` on."""
        at, end = len(self._pieces), len(self)
        while at and end > begin:
            at -= 1
            end -= len(self._pieces[at])
        return b"".join(self._pieces[at:])[max(0, begin - end) :]


def num_lasting(pieces: Sequence[Sized], num_added: int) -> int:
    """How many pieces stay as they are if one with `num_added` elements is appended.

    It is joined with the last ones, so that each piece stays at least twice as long as the next one. So there
    are few pieces: their number grows with the logarithm of the whole. Each time an element is copied, its
    piece becomes longer by half at least. So it is copied only few times, too.
    """
    at = len(pieces)
    while at and len(pieces[at - 1]) < 2 * num_added:
        at -= 1
        num_added += len(pieces[at])
    return at
