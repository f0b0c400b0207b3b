"""The bounds of strings: how many characters a string may still have, and whether it can end within them.

A bare `maxLength` needs a count only. Beside a `pattern`, a bound carries the automaton of the pattern
(`string_automaton`), which knows how many characters each of its states is away from an end.
"""

from typing import NamedTuple

from compiler.guard.string_automaton import StringAutomaton
from compiler.regular.utf8 import decode_prefix, num_characters

UNBOUNDED = 1 << 29
"""The bound of a string that may have any length; more characters than fit in any output."""


class LengthBound(NamedTuple):
    """The most code points of a string, and the automaton of its pattern if that restricts where it ends.

    `max_length` is `UNBOUNDED` if the guard only enforces the pattern.
    """

    max_length: int
    automaton: StringAutomaton | None = None

    @property
    def enforces_pattern(self) -> bool:
        """Whether the guard enforces the whole pattern."""
        return self.automaton is not None and self.automaton.enforces_pattern

    @property
    def start(self) -> "RemainingLength":
        """What remains at the beginning of the string."""
        return RemainingLength(self.max_length, self.automaton)

    def num_unchecked(self, limit: int) -> int:
        """The largest number of first characters that need no check, whichever they are; at most `limit`.

        Without an automaton, the last allowed character needs one: a full string may repeat another item.
        """
        if self.automaton is None:
            return min(limit, self.max_length - 1)
        if self.automaton.enforces_pattern:
            return -1
        return self.automaton.num_unchecked(self.max_length, limit)


class RemainingLength(NamedTuple):
    """How many more characters a string may have, and its state in the automaton of its pattern.

    A character counts as soon as it has begun; `partial` holds the bytes of one that is not complete yet.
    """

    num_left: int
    automaton: StringAutomaton | None = None
    state: int = 0
    partial: bytes = b""

    def after(self, text: bytes, *, begins_escape: bool) -> "RemainingLength":
        """What remains after more UTF-8, and after a backslash that follows if that `begins_escape`."""
        num_left = self.num_left - num_characters(text) - begins_escape
        if self.automaton is None or not text:
            return RemainingLength(num_left, self.automaton, self.state, self.partial)
        chars, partial = decode_prefix(self.partial + text)
        return RemainingLength(
            num_left, self.automaton, self.automaton.after(self.state, map(ord, chars)), partial
        )

    def after_escape(self, char: str) -> "RemainingLength":
        """What remains once an escape is complete; its backslash has been counted already."""
        if self.automaton is None:
            return self
        return self._replace(state=self.automaton.after(self.state, [ord(char)]))

    @property
    def num_safe(self) -> int:
        """How many more characters fit, whichever they are; -1 where the guard enforces the whole pattern."""
        if self.automaton is None:
            return self.num_left
        return -1 if self.automaton.enforces_pattern else self.num_left - self.automaton.max_distance

    @property
    def is_end(self) -> bool:
        """Whether the closing quote may follow; also True where rules decide, and not the guard."""
        return self.automaton is None or self.automaton.may_end(self.state)

    def can_end(self, escape: bytes) -> bool:
        """Whether the string can still end within its bound; `escape` is an incomplete escape, or nothing."""
        if self.automaton is None:
            return self.num_left >= 0
        return self.num_left >= self.automaton.distance_within(self.state, escape or self.partial)
