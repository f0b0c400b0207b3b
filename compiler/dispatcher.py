"""The dispatcher: what leads from free text and tool names into units, and from call to call.

A position is where one sequence is: in free text, in fixed text, in a unit, or stopped. Positions are
values, but for the unit's, whose matcher advances in place and is undone step by step.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import xgrammar as xgr

from compiler.answer import Answer
from compiler.exits import Exits
from compiler.free_text import FreeText
from compiler.guard.guard import Guard
from compiler.guard.kept import KeptMask
from compiler.guard.tagged import Position as Cursor
from compiler.jump_forward import forced_text
from compiler.junction import Entry, Junction
from compiler.matcher import Bitmask
from compiler.region import Region
from compiler.single import SingleMatcher
from compiler.token_index import SparseMask
from compiler.unit import Unit
from compiler.vocabulary import Vocabulary


class Position(ABC):
    """Where a sequence is."""

    __slots__ = ()

    @property
    @abstractmethod
    def is_complete(self) -> bool:
        """Whether the output may end here."""

    @abstractmethod
    def fill(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite a row with the tokens that may come next."""

    @abstractmethod
    def accept(self, token_id: int, token: bytes) -> "Position | None":
        """The position after a token that is no stop token, or None."""

    def forced_text(self) -> bytes:
        """What every continuation begins with."""
        return b""

    def undo(self) -> None:  # noqa: B027 - most positions are values
        """Take back the last token accepted from here."""


@dataclass(frozen=True, slots=True)
class Thought:
    """What an output may begin with: a marker token, text, and a marker token."""

    begin_id: int
    text: FreeText
    end_id: int


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """The fixed part of a linked grammar; shared by its matchers.

    `start` is where an output begins: text, the header of a call or message, or an answer. `exits` None: no
    calls.
    """

    vocabulary: Vocabulary = field(repr=False)
    units: Mapping[str, Unit] = field(repr=False)
    start: Region | Junction | Answer
    exits: Exits | None
    thought: Thought | None = None

    def begin(self, *, is_thinking: bool = False) -> Position:
        """Where an output begins; `is_thinking`: the prompt has begun a thought."""
        if self.thought is None:
            return self.begin_answer()
        if is_thinking:
            return InThought(self, self.thought, 0)
        return BeforeThought(self, self.thought, self.begin_answer())

    def begin_answer(self) -> Position:
        """Where what is not thought begins."""
        if isinstance(self.start, Region):
            return InText(self, self.start, 0)
        if isinstance(self.start, Junction):
            return InFixedText(self, self.start, b"")
        answer = _answering(self.start, b"")
        assert answer is not None, "a format has a text"
        return answer

    def at(self, junction: Junction, text: bytes) -> Position | None:
        """Where `text`, read from a junction on, leads."""
        where = junction.step(text)
        if isinstance(where, Entry):
            return self._enter(where, junction)
        return None if where is None else InFixedText(self, junction, where)

    def forced_at(self, junction: Junction, text: bytes) -> bytes:
        """What every output goes on with after `text`, read from a junction on; as far as into a unit."""
        forced, target = junction.forced(text)
        return forced + self.units[target].forced_start if isinstance(target, str) else forced

    def _enter(self, entry: Entry, junction: Junction) -> Position | None:
        if isinstance(entry.target, Region):
            return InText(self, entry.target, 0).read(entry.rest)
        if isinstance(entry.target, Answer):
            return _answering(entry.target, entry.rest)
        taken = consumed(self.units, entry.target, entry.rest)
        if taken is None:
            return None
        unit = self.units[entry.target]
        matcher = xgr.GrammarMatcher(unit.compiled)
        if taken:
            matcher.accept_string(entry.rest[:taken])
        if matcher.is_completed():
            return self.at(junction.follow, entry.rest[taken:])
        start = entry.rest[:taken]
        cursor = None if unit.guard is None else unit.guard.start.advance(start)
        assert cursor is not None or unit.guard is None, "what the unit consumes repeats nothing"
        return InUnit(self, junction.follow, matcher, unit, start, cursor)


def _answering(answer: Answer, begin: bytes) -> Position | None:
    matcher = answer.begin(begin)
    return None if matcher is None else InAnswer(answer, begin, matcher, 0)


def consumed(units: Mapping[str, Unit], name: str, rest: bytes) -> int | None:
    """How much of `rest` the unit of `name` takes (see `Unit.consumed`); a unit is loaded only if it must."""
    return units[name].consumed(rest) if rest else 0


@dataclass(frozen=True, slots=True)
class BeforeThought(Position):
    """At the start of an output, line breaks aside, where a thought may begin or the answer."""

    dispatcher: Dispatcher = field(repr=False)
    thought: Thought
    answer: Position

    @property
    def is_complete(self) -> bool:
        """Whether the output may end here."""
        return self.answer.is_complete

    def fill(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite a row with the tokens that may come next."""
        self.answer.fill(bitmask, row)
        SparseMask.of_ids([self.thought.begin_id]).add(bitmask[row])

    def accept(self, token_id: int, token: bytes) -> Position | None:
        """The position after a token, or None."""
        if token_id == self.thought.begin_id:
            return InThought(self.dispatcher, self.thought, 0)
        answer = self.answer.accept(token_id, token)
        if isinstance(answer, InText) and not token.strip(b"\n"):
            return BeforeThought(self.dispatcher, self.thought, answer)
        return answer

    def undo(self) -> None:
        """Take back the last token accepted from here."""
        self.answer.undo()


@dataclass(frozen=True, slots=True)
class InThought(Position):
    """In a thought, `state` bytes into the text that would end it."""

    dispatcher: Dispatcher = field(repr=False)
    thought: Thought
    state: int
    is_complete = False

    def fill(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite a row with the tokens that may come next."""
        self.thought.text.fill(self.state, bitmask[row])

    def accept(self, token_id: int, token: bytes) -> Position | None:
        """The position after a token, or None."""
        if token_id == self.thought.end_id:
            return self.dispatcher.begin_answer()
        if token_id in self.dispatcher.vocabulary.marker_ids:
            return None
        state, rest = self.thought.text.step(self.state, token)
        return InThought(self.dispatcher, self.thought, state) if rest is None else None


@dataclass(frozen=True, slots=True)
class InText(Position):
    """In free text, `state` bytes into what ends it."""

    dispatcher: Dispatcher = field(repr=False)
    region: Region
    state: int

    @property
    def is_complete(self) -> bool:
        """Whether the output may end here."""
        return self.region.text.may_stop

    def fill(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite a row with the tokens that may come next."""
        self.region.text.fill(self.state, bitmask[row])

    def accept(self, token_id: int, token: bytes) -> Position | None:
        """The position after a token, or None."""
        if token_id not in self.dispatcher.vocabulary.marker_ids:
            return self.read(token)
        leads_on = token_id == self.region.text.marker_id and self.region.exit is not None
        return self.dispatcher.at(self.region.exit, token) if leads_on and self.region.exit else None

    def read(self, text: bytes) -> Position | None:
        """The position after text."""
        state, rest = self.region.text.step(self.state, text)
        if rest is None:
            return InText(self.dispatcher, self.region, state)
        if self.region.exit is None or not self.region.text.allows(rest):
            return None
        return self.dispatcher.at(self.region.exit, self.region.text.pattern + rest)


@dataclass(frozen=True, slots=True)
class InFixedText(Position):
    """In a header or in the closing: `read` of what follows `junction`."""

    dispatcher: Dispatcher = field(repr=False)
    junction: Junction
    read: bytes

    @property
    def is_complete(self) -> bool:
        """Whether the output may end here."""
        return self.junction.is_closed(self.read)

    def fill(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite a row with the tokens that may come next."""
        self.junction.mask(self.read).fill(bitmask[row])

    def accept(self, token_id: int, token: bytes) -> Position | None:  # noqa: ARG002 - the protocol's
        """The position after a token, or None."""
        return self.dispatcher.at(self.junction, self.read + token)

    def forced_text(self) -> bytes:
        """What every continuation begins with."""
        return self.dispatcher.forced_at(self.junction, self.read)


@dataclass(frozen=True, slots=True)
class InUnit(Position):
    """In a tool's arguments or the end of its call; `follow` is what comes behind.

    `start` is what the token wrote of the unit that led into it.
    """

    dispatcher: Dispatcher = field(repr=False)
    follow: Junction
    matcher: xgr.GrammarMatcher
    unit: Unit
    start: bytes
    cursor: Cursor | None
    kept: KeptMask = field(default_factory=KeptMask, repr=False)
    is_complete = False

    def fill(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite a row with the tokens that may come next."""
        guard, cursor, words = self.unit.guard, self.cursor, bitmask[row]
        if guard is None or cursor is None:
            self._fill(bitmask, row)
            return
        if not self.kept.fill(words, cursor):
            self._fill(bitmask, row)
            guard.keep_apart(words, self.matcher, cursor)
            self.kept.keep(words, cursor)
        guard.limit(words, cursor)

    def _fill(self, bitmask: Bitmask, row: int) -> None:
        """What the unit's grammar allows, and what leaves it."""
        self.matcher.fill_next_token_bitmask(bitmask, row)
        bitmask[row, -1] &= self.dispatcher.vocabulary.index.last_word
        if self.dispatcher.exits is not None:
            self.dispatcher.exits.add(self.matcher, bitmask[row])

    def accept(self, token_id: int, token: bytes) -> Position | None:
        """The position after a token, or None."""
        if self.matcher.accept_token(token_id):
            here = self if self.unit.guard is None else self._guarded(self.unit.guard, token_id)
            return self.dispatcher.at(self.follow, b"") if here and self.matcher.is_completed() else here
        rest = self.dispatcher.exits.leave(self.matcher, token_id) if self.dispatcher.exits else None
        if rest is None:
            return None
        if self.cursor is not None and self.cursor.advance(token) is None:
            self.matcher.rollback(1)
            return None
        return self.dispatcher.at(self.follow, rest)

    def _guarded(self, guard: Guard, token_id: int) -> "InUnit | None":
        """Here, with the cursor moved on; None, and the matcher as it was, if the guard refuses."""
        assert self.cursor is not None, "a guard follows a cursor"
        cursor = guard.follow(self.matcher, self.cursor, token_id)
        if cursor is None:
            self.matcher.rollback(1)
            return None
        return replace(self, cursor=cursor)

    def forced_text(self) -> bytes:
        """What every continuation begins with."""
        text = forced_text(self.matcher)
        if not text or not self.matcher.accept_string(text):
            return b""
        is_over = self.matcher.is_completed()
        self.matcher.rollback(1)
        return text + self.dispatcher.forced_at(self.follow, b"") if is_over else text

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


@dataclass(frozen=True, slots=True)
class Stopped(Position):
    """After a stop token: nothing follows, and a mask that is asked for nonetheless allows stopping."""

    dispatcher: Dispatcher = field(repr=False)
    is_complete = True

    def fill(self, bitmask: Bitmask, row: int) -> None:
        """Allow the stop tokens."""
        SparseMask.of_ids(self.dispatcher.vocabulary.stop_ids).fill(bitmask[row])

    def accept(self, token_id: int, token: bytes) -> Position | None:
        """Nothing follows."""
