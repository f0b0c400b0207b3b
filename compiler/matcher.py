"""The matcher protocol: where in a grammar one sequence is, and what may follow."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

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

    def forced_text(self) -> bytes:
        """What every continuation begins with, as far as that is easily known; empty where there is a choice.

        Where the output may end there is one.
        """

    def is_completed(self) -> bool:
        """Whether what was accepted is a whole sentence, a stop token aside."""

    def is_terminated(self) -> bool:
        """Whether a stop token was accepted after a whole sentence: nothing may follow."""
