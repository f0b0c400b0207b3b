"""The dispatcher: what leads from free text and tool names into units, and from call to call.

A position is where one sequence is: in free text, in fixed text, in a unit, or stopped. Positions are
values, but for the unit's, whose matcher advances in place and is undone step by step.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import xgrammar as xgr

from compiler.exits import Exits
from compiler.free_text import FreeText
from compiler.junction import Entry, Junction
from compiler.matcher import Bitmask
from compiler.token_index import SparseMask
from compiler.unit import ARGUMENTS_START, Unit
from compiler.vocabulary import Vocabulary


class Position(Protocol):
    """Where a sequence is."""

    @property
    def is_complete(self) -> bool:
        """Whether the output may end here."""

    def fill(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite a row with the tokens that may come next."""

    def accept(self, token_id: int, token: bytes) -> "Position | None":
        """The position after a token that is no stop token, or None."""

    def undo(self) -> None:
        """Take back the last token accepted from here."""


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """The fixed part of a linked grammar; shared by its matchers.

    `text` None: the output begins with a call; `start` None: there are no calls.
    """

    vocabulary: Vocabulary = field(repr=False)
    units: Mapping[str, Unit] = field(repr=False)
    text: FreeText | None
    start: Junction | None
    exits: Exits | None

    def begin(self) -> Position:
        """Where every output begins."""
        if self.text is not None:
            return _InText(self, self.text, 0)
        assert self.start is not None, "an output begins with text or with a call"
        return _InFixedText(self, self.start, b"")

    def at(self, junction: Junction, text: bytes) -> Position | None:
        """Where `text`, read from a junction on, leads."""
        where = junction.step(text)
        if isinstance(where, Entry):
            return self._enter(where, junction)
        return None if where is None else _InFixedText(self, junction, where)

    def _enter(self, entry: Entry, junction: Junction) -> Position | None:
        taken = consumed(self.units, entry.name, entry.rest)
        if taken is None:
            return None
        matcher = xgr.GrammarMatcher(self.units[entry.name].compiled)
        if taken:
            matcher.accept_string(entry.rest[:taken])
        if matcher.is_completed():
            return self.at(junction.follow, entry.rest[taken:])
        return _InUnit(self, junction.follow, matcher)


def consumed(units: Mapping[str, Unit], name: str, rest: bytes) -> int | None:
    """How much of `rest` the unit of `name` takes (see `Unit.consumed`); a unit is loaded only if it must."""
    if not rest:
        return 0
    return units[name].consumed(rest) if rest.startswith(ARGUMENTS_START) else None


@dataclass(frozen=True, slots=True)
class _InText:
    dispatcher: Dispatcher = field(repr=False)
    text: FreeText
    state: int
    is_complete = True

    def fill(self, bitmask: Bitmask, row: int) -> None:
        self.text.fill(self.state, bitmask[row])

    def accept(self, token_id: int, token: bytes) -> Position | None:
        start = self.dispatcher.start
        if token_id in self.dispatcher.vocabulary.marker_ids:
            is_trigger = token_id == self.text.marker_id and start is not None
            return self.dispatcher.at(start, token) if is_trigger and start else None
        state, rest = self.text.step(self.state, token)
        if rest is None:
            return _InText(self.dispatcher, self.text, state)
        if start is None or not self.text.allows(rest):
            return None
        return self.dispatcher.at(start, self.text.pattern + rest)

    def undo(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class _InFixedText:
    dispatcher: Dispatcher = field(repr=False)
    junction: Junction
    read: bytes

    @property
    def is_complete(self) -> bool:
        return self.junction.is_closed(self.read)

    def fill(self, bitmask: Bitmask, row: int) -> None:
        self.junction.mask(self.read).fill(bitmask[row])

    def accept(self, token_id: int, token: bytes) -> Position | None:  # noqa: ARG002 - the protocol's
        return self.dispatcher.at(self.junction, self.read + token)

    def undo(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class _InUnit:
    dispatcher: Dispatcher = field(repr=False)
    follow: Junction
    matcher: xgr.GrammarMatcher
    is_complete = False

    def fill(self, bitmask: Bitmask, row: int) -> None:
        self.matcher.fill_next_token_bitmask(bitmask, row)
        bitmask[row, -1] &= self.dispatcher.vocabulary.index.last_word
        if self.dispatcher.exits is not None:
            self.dispatcher.exits.add(self.matcher, bitmask[row])

    def accept(self, token_id: int, token: bytes) -> Position | None:  # noqa: ARG002 - the protocol's
        if self.matcher.accept_token(token_id):
            return self.dispatcher.at(self.follow, b"") if self.matcher.is_completed() else self
        rest = self.dispatcher.exits.leave(self.matcher, token_id) if self.dispatcher.exits else None
        return None if rest is None else self.dispatcher.at(self.follow, rest)

    def undo(self) -> None:
        self.matcher.rollback(1)


@dataclass(frozen=True, slots=True)
class Stopped:
    """After a stop token: nothing follows, and a mask that is asked for nonetheless allows stopping."""

    dispatcher: Dispatcher = field(repr=False)
    is_complete = True

    def fill(self, bitmask: Bitmask, row: int) -> None:
        """Allow the stop tokens."""
        SparseMask.of_ids(self.dispatcher.vocabulary.stop_ids).fill(bitmask[row])

    def accept(self, token_id: int, token: bytes) -> Position | None:
        """Nothing follows."""

    def undo(self) -> None:
        """Nothing was accepted from here."""
