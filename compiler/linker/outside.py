"""Positions outside of units and answers: in thoughts, in free text, in the fixed texts of a syntax."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from compiler.linker.position import Position
from compiler.token_index import SparseMask

if TYPE_CHECKING:
    from compiler.linker.dispatch_states import Junction
    from compiler.linker.dispatcher import Dispatcher
    from compiler.linker.free_text import FreeText
    from compiler.matcher import Bitmask


@dataclass(frozen=True, slots=True)
class Thought:
    """What an output may begin with: a marker token, text, and a marker token."""

    begin_id: int
    text: FreeText
    end_id: int


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
    text: FreeText
    state: int

    @property
    def is_complete(self) -> bool:
        """Whether the output may end here."""
        return self.text.may_stop

    def fill(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite a row with the tokens that may come next."""
        self.text.fill(self.state, bitmask[row])

    def accept(self, token_id: int, token: bytes) -> Position | None:
        """The position after a token, or None."""
        if token_id not in self.dispatcher.vocabulary.marker_ids:
            return self.read(token)
        if token_id != self.text.marker_id or self.text.exit is None:
            return None
        return self.dispatcher.at(self.text.exit, token)

    def read(self, written: bytes) -> Position | None:
        """The position after text."""
        state, rest = self.text.step(self.state, written)
        if rest is None:
            return InText(self.dispatcher, self.text, state)
        if self.text.exit is None or not self.text.allows(rest):
            return None
        return self.dispatcher.at(self.text.exit, self.text.pattern + rest)


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
