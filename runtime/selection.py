"""How an answer is selected from several. Settings say it too, which are read before any model."""

from dataclasses import dataclass
from typing import Literal

SelectionStrategy = Literal["accept", "particles"]
MAX_SELECTION = 16
"""Sequences from which one answer may be selected."""


@dataclass(frozen=True, slots=True)
class Selection:
    """How an answer is selected from at most `size` sequences (`runtime.population`); 1 leaves no choice."""

    strategy: SelectionStrategy = "accept"
    size: int = 1

    @property
    def num_together(self) -> int:
        """How many sequences draw at the same time."""
        return self.size if self.strategy == "particles" else 1
