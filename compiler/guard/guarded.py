"""A guard at one place of a text, beside the matcher that has come as far."""

from collections.abc import Callable
from dataclasses import dataclass, field

import xgrammar as xgr

from compiler.guard.guard import Guard
from compiler.guard.kept import KeptMask
from compiler.guard.tagged_cursor import AnyCursor
from compiler.token_index import Row


@dataclass(frozen=True, slots=True)
class Guarded:
    """A value, but for the mask that it and those after it keep."""

    guard: Guard
    cursor: AnyCursor
    kept: KeptMask = field(default_factory=KeptMask, repr=False)

    @classmethod
    def begin(cls, guard: Guard) -> "Guarded":
        """At the start of a text."""
        return cls(guard, guard.start)

    def fill(self, row: Row, matcher: xgr.GrammarMatcher, fill: Callable[[], None]) -> None:
        """Overwrite the row with what `fill`, which asks the matcher, puts there, and the guard leaves."""
        if not self.kept.fill(row, self.cursor.in_json):
            fill()
            self.guard.keep_apart(row, matcher, self.cursor)
            self.kept.keep(row, self.cursor.in_json)
        self.guard.limit(row, self.cursor)

    def follow(self, matcher: xgr.GrammarMatcher, token_id: int) -> "Guarded | None":
        """The place after a token that the matcher has accepted; None, and undone, if the guard refuses."""
        cursor = self.guard.follow(matcher, self.cursor, token_id)
        if cursor is None:
            matcher.rollback(1)
            return None
        return Guarded(self.guard, cursor, self.kept)

    def read(self, text: bytes) -> "Guarded | None":
        """The place after bytes; None if they repeat what must differ."""
        cursor = self.cursor.advance(text)
        return None if cursor is None else Guarded(self.guard, cursor, self.kept)
