"""A matcher for outputs that nothing constrains."""

from collections.abc import Iterable

import numpy as np

from compiler.matcher import Bitmask
from compiler.output_parts import OutputPart


class Unmasked:
    """A matcher that allows everything, markers too: the engine's path without a grammar."""

    def __init__(self, stop_ids: Iterable[int]) -> None:
        self._stop_ids = frozenset(stop_ids)
        self._written: list[int] = []

    def fill_bitmask(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite `bitmask[row]` with every token."""
        bitmask[row] = np.int32(-1)

    def accept(self, token_id: int) -> bool:
        """Take any token."""
        self._written.append(token_id)
        return True

    def rollback(self, num_tokens: int) -> None:
        """Undo the last tokens."""
        del self._written[len(self._written) - num_tokens :]

    def forced_text(self) -> bytes:
        """Nothing is forced."""
        return b""

    def parts(self) -> tuple[OutputPart, ...]:
        """Nothing is told apart: the study reads whole texts."""
        return ()

    def pending_parts(self) -> tuple[OutputPart, ...]:
        """Nothing is told apart."""
        return ()

    def is_in_thought(self) -> bool:
        """Nothing is told apart."""
        return False

    def is_completed(self) -> bool:
        """A stop token may come at any time."""
        return True

    def is_terminated(self) -> bool:
        """Whether it has come."""
        return bool(self._written) and self._written[-1] in self._stop_ids
