"""How an answer is selected from several. Settings have these values too, and are read before any model."""

from dataclasses import dataclass
from typing import Literal

SelectionStrategy = Literal["accept", "particles", "draft"]
MAX_SELECTION = 16
"""Sequences from which one answer may be selected."""


@dataclass(frozen=True, slots=True)
class Selection:
    """How an answer is selected from at most `size` sequences; 1 leaves no choice.

    `accept` and `particles` are populations of the engine (`runtime.decoding.population`). `draft`, and
    `accept` where the engine has none, are requests one after another (`runtime.drafting`). At temperature 0,
    the engine's `accept` and `particles` search for the best output instead of drawing
    (`runtime.decoding.best_first`).
    """

    strategy: SelectionStrategy = "accept"
    size: int = 1

    @property
    def num_together(self) -> int:
        """How many sequences may draw at the same time; particles count so at temperature 0 too."""
        return self.size if self.strategy == "particles" else 1

    def repeats_drafts(self, *, is_greedy: bool) -> bool:
        """Whether all drafts would be the same, if they are requests: for `accept` at temperature 0.

        The draft of `draft` differs from the answer, which has the draft in its prompt.

        >>> Selection("accept", 8).repeats_drafts(is_greedy=True), DRAFT.repeats_drafts(is_greedy=True)
        (True, False)
        """
        return is_greedy and self.strategy == "accept"


DRAFT = Selection("draft", 2)
"""The model writes freely first; if that is not valid, once more under the mask."""
