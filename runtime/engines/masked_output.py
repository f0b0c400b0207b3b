"""A masked output: where one output of an engine is in its grammar, and which tokens may come next.

Engines keep bitmasks as wide as their logits. A vocabulary may be narrower: what is beyond it is forbidden.
"""

import logging
from collections.abc import Sequence

import numpy as np

from compiler.constraint import Constraint
from compiler.matcher import Bitmask, allocate_bitmask
from compiler.prepared_vocabulary import PreparedVocabulary
from compiler.token_index import SparseMask
from runtime.engines.mark import Mark

logger = logging.getLogger(__name__)


class OutputRefused(ValueError):
    """This engine cannot keep to the grammar of an output; the message says why."""


class MaskedOutput:
    """One output; not thread-safe. `num_columns` is the width of the engine's logits.

    `mark` says how the output begins: its `written_ids` are accepted before the engine's first token.
    Whatever fails later ends this output with an error, and never leaves a row unmasked.

    Raises:
        OutputRefused: the logits have no column for some tokens of the vocabulary, or what the prompt ends
            with is not of the grammar.
    """

    def __init__(
        self, constraint: Constraint, mark: Mark, prepared: PreparedVocabulary, num_columns: int
    ) -> None:
        width = prepared.vocabulary.width
        if num_columns < width:
            raise OutputRefused(
                f"the engine's logits have {num_columns} columns, and the grammar's vocabulary {width} tokens"
            )
        self._constraint = constraint
        self._mark = mark
        self._num_words = -(-width // 32)
        self._last_word = prepared.index.last_word
        self._stop_ids = prepared.vocabulary.stop_ids
        self.reset()

    def reset(self) -> None:
        """Go back to where the prompt ends."""
        self._matcher = self._constraint.matcher(is_thinking=self._mark.is_thinking)
        self._has_failed = False
        if not self.accept(self._mark.written_ids):
            raise OutputRefused("the output that the prompt ends with is not of its grammar")

    def accept(self, token_ids: Sequence[int]) -> bool:
        """Advance by tokens; False if one is not allowed, and the output must end with an error."""
        if self._has_failed:
            return False
        return all(map(self._matcher.accept, token_ids))

    def accepted_prefix(self, token_ids: Sequence[int]) -> list[int]:
        """The tokens up to the first that is not allowed; the output stays where it is."""
        if self._has_failed:
            return []
        num_accepted = 0
        for token_id in token_ids:
            if not self._matcher.accept(token_id):
                break
            num_accepted += 1
        self._matcher.rollback(num_accepted)
        return list(token_ids[:num_accepted])

    def rollback(self, num_tokens: int) -> None:
        """Undo the last accepted tokens."""
        self._matcher.rollback(num_tokens)

    def fill(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite a row of the engine's bitmask, int32 [rows, at least ceil(num_columns / 32)].

        If the matcher fails, the row allows only to stop, and no token is accepted any more.
        """
        try:
            self._fill(bitmask, row)
        except Exception:  # one output fails, and not the engine with all others
            logger.exception("a mask could not be filled; its output ends with an error")
            self._has_failed = True
            SparseMask.of_ids(self._stop_ids).fill(bitmask[row])

    def _fill(self, bitmask: Bitmask, row: int) -> None:
        if bitmask.shape[1] == self._num_words:
            self._matcher.fill_bitmask(bitmask, row)
            bitmask[row, -1] &= self._last_word
            return
        own = allocate_bitmask(1, 32 * self._num_words)
        self._matcher.fill_bitmask(own, 0)
        own[0, -1] &= self._last_word
        bitmask[row, : self._num_words] = own[0]
        bitmask[row, self._num_words :] = np.int32(0)
