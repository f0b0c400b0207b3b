"""The recogniser: reads a text along a grammar and its guard, and knows a short way to complete it."""

import math

from compiler.guard.tagged_cursor import AnyCursor, start_of
from compiler.recogniser.completion import completion
from compiler.recogniser.network import Network
from compiler.recogniser.parser_state import Reading, read

_GUARDED_GROWTH = 3
"""By how much distinct keys make a completion longer at most: each has a comma beside its own two quotes, and
three characters more tell it from a hundred thousand others."""


class Recogniser:
    """Reads one text as bytes of UTF-8, which may end inside a character."""

    def __init__(self, reading: Reading, cursor: AnyCursor | None) -> None:
        self._reading = reading
        self._cursor = cursor

    @classmethod
    def of(cls, network: Network) -> "Recogniser":
        """A recogniser at the start."""
        plan = network.grammar.plan
        return cls(read(network), None if plan is None else start_of(plan))

    @property
    def is_complete(self) -> bool:
        """Whether the text may end here."""
        return self._reading.is_complete

    def bound(self, growth: int) -> float:
        """At least the bytes of `completion` once the grammar's own has grown by `growth` more."""
        longest = self._reading.longest + growth
        if self._cursor is None or not self._cursor.plan.keeps_apart:
            return longest
        return math.inf if self._cursor.plan.can_run_out else _GUARDED_GROWTH * (longest + 1)

    def fork(self) -> "Recogniser":
        """Another one at the same place."""
        return Recogniser(self._reading, self._cursor)

    def advance(self, text: bytes) -> bool:
        """Read on; False, and no change, if the text does not fit."""
        reading = self._reading.advance(text)
        if reading is None:
            return False
        if self._cursor is not None:
            cursor = self._cursor.advance(text)
            if cursor is None:
                return False
            self._cursor = cursor
        self._reading = reading
        return True

    def completion(self) -> bytes:
        """The shortest text that completes this one, the rest of a character included.

        Under a guard it can be a little longer than the shortest.
        """
        if self._cursor is None:
            return self._reading.completion()
        return completion(self._reading, self._cursor)
