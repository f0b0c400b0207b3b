"""The bound of a string whose length a guard keeps, and the room that is left of it."""

from typing import NamedTuple

from compiler.guard.string_bounds import Pattern
from compiler.guard.utf8 import num_characters, split


class Bound(NamedTuple):
    """The code points that a string has at most, and its pattern if texts may not end wherever they stand."""

    longest: int
    pattern: Pattern | None = None

    @property
    def room(self) -> "Room":
        """What a string has at its beginning."""
        return Room(self.longest, self.pattern)

    def num_free(self, most: int) -> int:
        """How many characters can be written of it whatever they are, `most` at most."""
        return min(most, self.longest) if self.pattern is None else self.pattern.num_free(self.longest, most)


class Room(NamedTuple):
    """How many more characters a string may have, and where in its pattern it stands.

    A character counts as soon as it has begun; `begun` are its bytes in UTF-8 until it is whole.
    """

    num_left: int
    pattern: Pattern | None = None
    state: int = 0
    begun: bytes = b""

    def read(self, text: bytes, *, is_escaped: bool) -> "Room":
        """Behind more UTF-8, and a backslash if what follows `is_escaped`."""
        num_left = self.num_left - num_characters(text) - is_escaped
        if self.pattern is None or not text:
            return Room(num_left, self.pattern, self.state, self.begun)
        whole, begun = split(self.begun + text)
        return Room(num_left, self.pattern, self.pattern.after(self.state, map(ord, whole)), begun)

    def complete(self, char: str) -> "Room":
        """Behind a character that was escaped."""
        return (
            self if self.pattern is None else self._replace(state=self.pattern.after(self.state, [ord(char)]))
        )

    def suffices(self, escape: bytes = b"") -> bool:
        """Whether the text can still be ended, behind an escape if one has begun."""
        if self.pattern is None:
            return self.num_left >= 0
        return self.num_left >= self.pattern.left(self.state, escape or self.begun)
