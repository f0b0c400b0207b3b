"""The matcher of a linked grammar, and the positions that it goes through.

Position
├── BeforeThought, InThought    a model that thinks first
├── InText, InFixedText         free text; headers and the closing
├── AtCallOrAnswer              the beginning of a call or of an answer: both are still possible
├── InUnit, InAnswer            what a grammar describes
└── Stopped                     after a stop token

Those in units and answers are in `inner_positions`, `Stopped` is here, and the others are in
`outer_positions`. Positions are values, except for the matchers in units and answers: these advance in place,
and are undone step by step.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field

import xgrammar as xgr

from compiler.closing.closer import Closable
from compiler.grammar.grammar import EMPTY, Expr
from compiler.matcher import Bitmask
from compiler.output_parts import OutputPart
from compiler.recogniser.rest_rules import RestRules
from compiler.recogniser.search_budget import SearchBudget
from compiler.token_index import SparseMask
from compiler.vocabulary import Vocabulary


class LinkedMatcher:
    """A `compiler.matcher.Matcher`; one per sequence, not thread-safe.

    It keeps the positions that it has left, so that a rollback crosses from one unit into another.
    """

    def __init__(self, vocabulary: Vocabulary, start: "Position") -> None:
        self._vocabulary = vocabulary
        self._tokens = vocabulary.tokens
        self._stop_ids = frozenset(vocabulary.stop_ids)
        self._position = start
        self._passed: list[Position] = []

    def fill_bitmask(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite `bitmask[row]` with the tokens that may come next."""
        self._position.fill(bitmask, row)

    def inner_matcher(self) -> xgr.GrammarMatcher | None:
        """The matcher of xgrammar, where `complete_mask` completes its mask; None elsewhere."""
        return self._position.inner_matcher

    def complete_mask(self, bitmask: Bitmask, row: int) -> None:
        """Turn the mask that `inner_matcher` has filled into the one that `fill_bitmask` fills."""
        self._position.complete_mask(bitmask, row)

    def accept(self, token_id: int) -> bool:
        """Advance by a token; False, and no change, if the grammar does not allow it."""
        position = self._next(token_id)
        if position is None:
            return False
        self._passed.append(self._position)
        self._position = position
        return True

    def rollback(self, num_tokens: int) -> None:
        """Undo the last `num_tokens` accepted tokens.

        Raises:
            ValueError: fewer were accepted.
        """
        if not 0 <= num_tokens <= len(self._passed):
            raise ValueError(f"cannot take back {num_tokens} of {len(self._passed)} accepted tokens")
        for _ in range(num_tokens):
            self._position = self._passed.pop()
            self._position.undo()

    def fork(self) -> "LinkedMatcher":
        """A second matcher at the same point, which cannot be rolled back to before that point."""
        return LinkedMatcher(self._vocabulary, self._position.fork())

    def forced_text(self) -> bytes:
        """What every continuation begins with."""
        return self._position.forced_text()

    def parts(self) -> tuple[OutputPart, ...]:
        """What the last accepted token settled."""
        return self._position.parts

    def pending_parts(self) -> tuple[OutputPart, ...]:
        """What is not settled yet, as it is if the output ends here."""
        return self._position.pending_parts()

    def is_in_thought(self) -> bool:
        """Whether the next token is one of a thought."""
        return self._position.is_thought

    def is_in_free_text(self) -> bool:
        """Whether the next token is one of free text or of a thought."""
        return self._position.is_free

    def is_completed(self) -> bool:
        """Whether what was accepted is a whole output, except for the stop token."""
        return self._position.is_complete

    def is_terminated(self) -> bool:
        """Whether a stop token was accepted."""
        return isinstance(self._position, Stopped)

    def _next(self, token_id: int) -> "Position | None":
        if not 0 <= token_id < len(self._tokens) or self.is_terminated():
            return None
        if token_id in self._stop_ids:
            is_end = self._position.is_complete
            return Stopped(self._vocabulary, parts=self._position.pending_parts()) if is_end else None
        token = self._tokens[token_id]
        return self._position.accept(token_id, token) if token else None


@dataclass(frozen=True, slots=True)
class Position(ABC):
    """Where a sequence is; `parts` are what the token that led here settled.

    A matcher goes from position to position by `accept`, a closer by `after`. They differ inside of units and
    answers: there a matcher's positions share one of xgrammar's matchers, which does not tell how the text
    can end, and a closer's positions parse the text themselves.
    """

    parts: tuple[OutputPart, ...] = field(default=(), kw_only=True, repr=False)

    @property
    @abstractmethod
    def is_complete(self) -> bool:
        """Whether the output may end here."""

    @abstractmethod
    def fill(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite a row with the tokens that may come next."""

    @property
    def inner_matcher(self) -> xgr.GrammarMatcher | None:
        """The matcher of xgrammar, where `complete_mask` completes its mask; None elsewhere."""
        return None

    def complete_mask(self, bitmask: Bitmask, row: int) -> None:  # noqa: B027 - few positions have a matcher
        """Turn the mask that `inner_matcher` has filled into the one that `fill` fills."""

    @abstractmethod
    def accept(self, token_id: int, token: bytes) -> "Position | None":
        """The position after a token that is no stop token; None if the token is not allowed."""

    def must_compile(self, token: bytes) -> bool:  # noqa: ARG002 - few tokens begin a call
        """See `Closable.must_compile`."""
        return False

    def fork(self) -> "Position":
        """This position, for another matcher to go on from."""
        return self

    @property
    def is_thought(self) -> bool:
        """Whether the next token is one of a thought."""
        return False

    @property
    def is_free(self) -> bool:
        """Whether the next token is one of free text or of a thought."""
        return False

    def pending_parts(self) -> tuple[OutputPart, ...]:
        """What is not settled yet, as it is if the output ends here."""
        return ()

    @abstractmethod
    def completions(self, budget: SearchBudget) -> Iterator[bytes]:
        """See `Closable.completions`."""

    def max_completion_bytes(self) -> float:
        """At least as many bytes as the shortest completion has; infinite where that is not easily known."""
        return math.inf

    def min_completion_bytes(self) -> int:
        """At most as many bytes as the shortest completion has; 0 where that is not easily known."""
        return 0

    @abstractmethod
    def rest(self, rules: RestRules) -> Expr | None:
        """What may follow if no guard forbids it; None inside a character."""

    def after(self, token_id: int, token: bytes) -> Closable | None:
        """Where a closer is after a token; None if the token is not allowed. Nothing is changed."""
        return self.accept(token_id, token)

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

    def accept(self, token_id: int, token: bytes) -> "Position | None":
        """Nothing follows."""

    def completions(self, budget: SearchBudget) -> Iterator[bytes]:  # noqa: ARG002 - the protocol's
        """Nothing is missing."""
        yield b""

    def rest(self, rules: RestRules) -> Expr | None:  # noqa: ARG002 - the protocol's
        """Nothing follows."""
        return EMPTY
