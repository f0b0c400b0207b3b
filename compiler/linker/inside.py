"""Positions inside of units and answers, where a grammar says what may follow."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from compiler.linker.position import Position
from compiler.units.jump_forward import forced_text

if TYPE_CHECKING:
    import xgrammar as xgr

    from compiler.guard.guarded import Guarded
    from compiler.linker.answer import Answer
    from compiler.linker.boundary_tokens import Exits
    from compiler.linker.dispatcher import Dispatcher
    from compiler.matcher import Bitmask
    from compiler.units.single import SingleMatcher
    from compiler.units.unit import Unit


@dataclass(frozen=True, slots=True)
class InUnit(Position):
    """In a tool's arguments or the end of its call; `exits` lead on from there.

    `start` is what the token wrote of the unit that led into it.
    """

    dispatcher: Dispatcher = field(repr=False)
    exits: Exits
    matcher: xgr.GrammarMatcher
    unit: Unit
    start: bytes
    guarded: Guarded | None
    is_complete = False

    def fill(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite a row with the tokens that may come next."""
        if self.guarded is None:
            self._fill(bitmask, row)
        else:
            self.guarded.fill(bitmask[row], self.matcher, lambda: self._fill(bitmask, row))

    def _fill(self, bitmask: Bitmask, row: int) -> None:
        """What the unit's grammar allows, and what leaves it."""
        self.matcher.fill_next_token_bitmask(bitmask, row)
        bitmask[row, -1] &= self.dispatcher.vocabulary.index.last_word
        self.exits.add(self.matcher, bitmask[row])

    def accept(self, token_id: int, token: bytes) -> Position | None:
        """The position after a token, or None."""
        if self.matcher.accept_token(token_id):
            here = self if self.guarded is None else self._after(self.guarded.follow(self.matcher, token_id))
            is_over = here is not None and self.matcher.is_completed()
            return self.dispatcher.at(self.exits.follow, b"") if is_over else here
        rest = self.exits.leave(self.matcher, token_id)
        if rest is None:
            return None
        if self.guarded is not None and self.guarded.read(token) is None:
            self.matcher.rollback(1)
            return None
        return self.dispatcher.at(self.exits.follow, rest)

    def _after(self, guarded: Guarded | None) -> InUnit | None:
        return None if guarded is None else replace(self, guarded=guarded)

    def forced_text(self) -> bytes:
        """What every continuation begins with."""
        text = forced_text(self.matcher)
        if not text or not self.matcher.accept_string(text):
            return b""
        is_over = self.matcher.is_completed()
        self.matcher.rollback(1)
        return text + self.dispatcher.forced_at(self.exits.follow, b"") if is_over else text

    def undo(self) -> None:
        """Take back the last token accepted from here."""
        self.matcher.rollback(1)


@dataclass(frozen=True, slots=True)
class InAnswer(Position):
    """In an answer, `depth` tokens after `start`, which the token wrote of it that led here."""

    answer: Answer
    start: bytes
    matcher: SingleMatcher
    depth: int

    @property
    def is_complete(self) -> bool:
        """Whether the output may end here."""
        return self.matcher.is_completed()

    def fill(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite a row with the tokens that may come next."""
        self.matcher.fill_bitmask(bitmask, row)

    def accept(self, token_id: int, token: bytes) -> Position | None:  # noqa: ARG002 - the protocol's
        """The position after a token, or None."""
        return replace(self, depth=self.depth + 1) if self.matcher.accept(token_id) else None

    def forced_text(self) -> bytes:
        """What every continuation begins with."""
        return self.matcher.forced_text()

    def undo(self) -> None:
        """Take back the last token accepted from here."""
        self.matcher.rollback(self.matcher.num_accepted - self.depth)


def begun(answer: Answer, text: bytes) -> InAnswer | None:
    """The position in an answer that begins with `text`; None if none does."""
    matcher = answer.begin(text)
    return None if matcher is None else InAnswer(answer, text, matcher, 0)
