"""The fork: an output is calls, or an answer in a response's format, and begins to show which."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from compiler.linker.inside import InAnswer, begun
from compiler.linker.position import Position

if TYPE_CHECKING:
    from compiler.linker.answer import Answer
    from compiler.linker.dispatch_states import Junction
    from compiler.linker.dispatcher import Dispatcher
    from compiler.matcher import Bitmask


@dataclass(frozen=True, slots=True)
class Fork:
    """Where an output begins; no answer begins with what a reader knows a call by."""

    calls: Junction
    answer: Answer


@dataclass(frozen=True, slots=True)
class AtFork(Position):
    """Both calls and answers begin with `read`; `answer` stands behind it."""

    dispatcher: Dispatcher = field(repr=False)
    fork: Fork
    read: bytes
    answer: InAnswer

    @property
    def is_complete(self) -> bool:
        """Whether the output may end here."""
        return self.answer.is_complete

    def fill(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite a row with the tokens that may come next."""
        self.answer.fill(bitmask, row)
        self.fork.calls.mask(self.read).add(bitmask[row])

    def accept(self, token_id: int, token: bytes) -> Position | None:
        """The position after a token, or None."""
        read = self.read + token
        calls = self.dispatcher.at(self.fork.calls, read)
        answer = self._answer_after(token_id, read)
        if calls is None or answer is None:
            return calls or answer
        return AtFork(self.dispatcher, self.fork, read, answer)

    def _answer_after(self, token_id: int, read: bytes) -> InAnswer | None:
        """Begun anew, so that a fork is a value."""
        if not self.answer.matcher.accept(token_id):
            return None
        self.answer.matcher.rollback(1)
        return begun(self.fork.answer, read)
