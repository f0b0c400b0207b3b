"""The matcher protocol: follows one sequence through a grammar, and tells which tokens may follow."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from compiler.output_parts import OutputPart

Bitmask = NDArray[np.int32]
"""int32 [rows, ceil(width / 32)]: bit `i % 32` of word `i // 32` is set if token `i` is allowed."""


def allocate_bitmask(rows: int, width: int) -> Bitmask:
    """A bitmask for `rows` sequences over `width` token ids, everything allowed."""
    return np.full((rows, -(-width // 32)), -1, dtype=np.int32)


class Matcher(Protocol):
    """One per sequence; not thread-safe."""

    def fill_bitmask(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite `bitmask[row]` with the tokens that may come next. Never leaves it empty."""

    def accept(self, token_id: int) -> bool:
        """Advance by a token; False, and no change, if the grammar does not allow it."""

    def rollback(self, num_tokens: int) -> None:
        """Undo the last `num_tokens` accepted tokens."""

    def fork(self) -> "Matcher":
        """A second matcher at the same point, which cannot be rolled back to before that point."""

    def forced_text(self) -> bytes:
        """What every continuation begins with, as far as quickly found; empty where the output may end."""

    def parts(self) -> tuple[OutputPart, ...]:
        """What the last accepted token settled: prose, thoughts and calls told apart."""

    def pending_parts(self) -> tuple[OutputPart, ...]:
        """What is not settled yet, as it is if the output ends here."""

    def is_in_thought(self) -> bool:
        """Whether the next token is one of a thought."""

    def is_in_free_text(self) -> bool:
        """Whether the next token is one of free text or of a thought: only their end is constrained."""

    def is_completed(self) -> bool:
        """Whether what was accepted is a whole sentence, except for the stop token."""

    def is_terminated(self) -> bool:
        """Whether a stop token was accepted after a whole sentence: nothing may follow."""
