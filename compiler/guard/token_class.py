"""Sets of tokens that are taken out of masks, or looked at in them."""

import numpy as np
from numpy.typing import NDArray

from compiler.token_index import Row


class TokenClass:
    """Some token ids, and which of them a mask allows."""

    def __init__(self, ids: NDArray[np.int64], width: int) -> None:
        self._ids = ids
        self._words, self._bits = bits_of(ids)
        self._others = np.full(-(-width // 32), -1, dtype=np.int32)
        np.bitwise_and.at(self._others, self._words, ~self._bits)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._ids)

    def remove(self, row: Row) -> None:
        """Take them out of a row."""
        row &= self._others

    def allowed(self, row: Row) -> list[int]:
        """Those that a row allows."""
        found: list[int] = self._ids[(row[self._words] & self._bits) != 0].tolist()
        return found


def bits_of(ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The word of a row in which each id has its bit, and that bit."""
    return ids >> 5, np.left_shift(1, ids & 31).astype(np.uint32).view(np.int32)
