"""The position: where one sequence is, as the dispatcher's ways lead it.

Position
├── BeforeThought, InThought    a model that thinks first (`compiler.linker.outside`)
├── InText, InFixedText         free text; headers and the closing (`compiler.linker.outside`)
├── AtFork                      calls or an answer, not yet told which (`compiler.linker.fork`)
├── InUnit, InAnswer            what a grammar describes (`compiler.linker.inside`)
└── Stopped                     after a stop token

Positions are values, but for the matchers in units and answers, which advance in place and are undone step by
step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from compiler.token_index import SparseMask

if TYPE_CHECKING:
    from compiler.matcher import Bitmask
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
    def accept(self, token_id: int, token: bytes) -> Position | None:
        """The position after a token that is no stop token, or None."""

    def forced_text(self) -> bytes:
        """What every continuation begins with."""
        return b""

    def undo(self) -> None:  # noqa: B027 - most positions are values
        """Take back the last token accepted from here."""


@dataclass(frozen=True, slots=True)
class Stopped(Position):
    """After a stop token: nothing follows, and a mask that is asked for nonetheless allows stopping."""

    vocabulary: Vocabulary = field(repr=False)
    is_complete = True

    def fill(self, bitmask: Bitmask, row: int) -> None:
        """Allow the stop tokens."""
        SparseMask.of_ids(self.vocabulary.stop_ids).fill(bitmask[row])

    def accept(self, token_id: int, token: bytes) -> Position | None:
        """Nothing follows."""
