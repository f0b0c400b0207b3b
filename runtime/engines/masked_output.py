"""A masked output: the position of one engine output in its grammar, and which tokens may come next.

Engines' bitmasks are as wide as their logits. A vocabulary may be narrower; columns beyond it are forbidden.
"""

import logging
import os
from collections.abc import Iterable, Sequence
from typing import Self

import numpy as np
import xgrammar as xgr

from compiler.matcher import Bitmask, allocate_bitmask
from compiler.prepared_vocabulary import PreparedVocabulary
from compiler.recipe import OwnGrammar
from compiler.token_index import Row, SparseMask
from runtime.engines.request_mark import RequestMark

_MIN_ROWS_FOR_THREADS = 16
_MAX_THREADS = 8
_CPUS_A_THREAD = 4
"""A step waits for the slowest thread; on a busy machine, threads cost more than they save."""
_FAILED = "a mask could not be filled; its output ends with an error"
_NOT_FOLLOWED = "a grammar could not be followed; its output ends with an error"

logger = logging.getLogger(__name__)


class OutputRefused(ValueError):
    """This engine cannot follow the grammar of an output; the message says why."""


class MaskedOutput:
    """One output; not thread-safe. `num_columns` is the width of the engine's logits.

    `mark` says how the output begins: its `written_ids` are accepted before the engine's first token. No row
    allows its `left_out_ids` beside other tokens. A later failure ends this output with an error; it never
    leaves a row unmasked.

    Raises:
        OutputRefused: the logits have no column for some tokens of the vocabulary, or the grammar does not
        allow `written_ids`.
    """

    def __init__(
        self, grammar: OwnGrammar, mark: RequestMark, prepared: PreparedVocabulary, num_columns: int
    ) -> None:
        width = prepared.vocabulary.width
        if num_columns < width:
            raise OutputRefused(
                f"the engine's logits have {num_columns} columns, and the grammar's vocabulary {width} tokens"
            )
        self._grammar = grammar
        self._mark = mark
        self._num_words = -(-width // 32)
        self._last_word = prepared.index.last_word
        self._stop_ids = prepared.vocabulary.stop_ids
        self._left_out = SparseMask.of_ids(mark.left_out_ids)
        self.reset()

    @property
    def is_terminated(self) -> bool:
        """Whether the stop token was accepted, after which nothing may follow."""
        return self.matcher.is_terminated()

    def reset(self) -> None:
        """Return to the end of the prompt."""
        self.matcher = self._grammar.matcher(is_thinking=self._mark.is_thinking)
        self._has_failed = False
        self._drafted: list[int] = []
        if not self.accept(self._mark.written_ids):
            raise OutputRefused("the output that the prompt ends with is not of its grammar")

    def accept(self, token_ids: Sequence[int]) -> bool:
        """Advance by tokens; False if one is not allowed: the output must then end with an error.

        If the matcher fails, no token is accepted any more, but for those of a draft up to the next rollback:
        an engine that fills the rows of a draft stops if one of these is refused.
        """
        num_tokens = len(token_ids)
        is_drafted = num_tokens > 0 and list(token_ids) == self._drafted[:num_tokens]
        self._drafted = self._drafted[num_tokens:] if is_drafted else []
        if self._has_failed:
            return is_drafted
        try:
            return all(map(self.matcher.accept, token_ids))
        except Exception:  # one output fails, and not the engine with all others
            logger.exception(_NOT_FOLLOWED)
            self._has_failed = True
            return False

    def accepted_prefix(self, token_ids: Sequence[int]) -> list[int]:
        """The tokens up to the first that is not allowed; the output does not advance."""
        if self._has_failed:
            return []
        num_accepted = 0
        for token_id in token_ids:
            if not self.accept([token_id]):
                break
            num_accepted += 1
        self.rollback(num_accepted)
        self._drafted = [] if self._has_failed else list(token_ids[:num_accepted])
        return list(self._drafted)

    def rollback(self, num_tokens: int) -> None:
        """Undo the last accepted tokens; once the matcher has failed, there is nothing to go back to."""
        self._drafted = []
        if not self._has_failed:
            self.matcher.rollback(num_tokens)

    def fill(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite a row of the engine's bitmask, int32 [rows, at least ceil(num_columns / 32)].

        If the matcher fails, the row allows only stop tokens, and no token is accepted any more. The matcher
        is not asked again: where a mask took too long, a thread still uses it.
        """
        if self._has_failed:
            self._fail(bitmask, row)
            return
        try:
            if bitmask.shape[1] == self._num_words:
                self._fill(bitmask, row)
            else:
                own = allocate_bitmask(1, 32 * self._num_words)
                self._fill(own, 0)
                bitmask[row, : self._num_words] = own[0]
                bitmask[row, self._num_words :] = np.int32(0)
        except Exception:  # one output fails, and not the engine with all others
            logger.exception(_FAILED)
            self._fail(bitmask, row)

    def complete_mask(self, bitmask: Bitmask, row: int) -> None:
        """Finish a row that xgrammar has filled for `inner_matcher`."""
        try:
            self.matcher.complete_mask(bitmask, row)
            self._finish(bitmask[row])
        except Exception:
            logger.exception(_FAILED)
            self._fail(bitmask, row)

    def inner_matcher(self, bitmask: Bitmask) -> xgr.GrammarMatcher | None:
        """The matcher of xgrammar, if it can fill a row of this bitmask for `complete_mask` to complete."""
        if self._has_failed or bitmask.shape[1] != self._num_words:
            return None
        return self.matcher.inner_matcher()

    def _fill(self, bitmask: Bitmask, row: int) -> None:
        self.matcher.fill_bitmask(bitmask, row)
        self._finish(bitmask[row])

    def _finish(self, row: Row) -> None:
        row[-1] &= self._last_word
        self._left_out.leave_out(row)

    def _fail(self, bitmask: Bitmask, row: int) -> None:
        self._has_failed = True
        SparseMask.of_ids(self._stop_ids).fill(bitmask[row])


class BatchFill:
    """Fills the rows of many outputs of one engine step.

    Rows whose position is inside one of xgrammar's matchers are filled in one call, by several threads. Other
    rows, at the boundaries of calls and under a guard, are filled one by one.
    """

    def __init__(self, num_threads: int) -> None:
        self._one_thread = xgr.BatchGrammarMatcher(max_threads=1)
        self._threads = xgr.BatchGrammarMatcher(max_threads=num_threads)

    @classmethod
    def for_this_machine(cls) -> Self:
        """With several threads if the process may use eight processors or more."""
        return cls(max(1, min(len(os.sched_getaffinity(0)) // _CPUS_A_THREAD, _MAX_THREADS)))

    def fill(self, outputs: Iterable[tuple[MaskedOutput, int]], bitmask: Bitmask) -> None:
        """Fill the rows of outputs, each given with its row; see `MaskedOutput.fill`."""
        inner: list[tuple[MaskedOutput, int]] = []
        matchers: list[xgr.GrammarMatcher] = []
        for output, row in outputs:
            matcher = output.inner_matcher(bitmask)
            if matcher is None:
                output.fill(bitmask, row)
            else:
                inner.append((output, row))
                matchers.append(matcher)
        if not inner:
            return
        batch = self._threads if len(inner) >= _MIN_ROWS_FOR_THREADS else self._one_thread
        try:
            batch.batch_fill_next_token_bitmask(matchers, bitmask, [row for _, row in inner])
        except Exception:  # it does not say which row it is
            logger.exception("a batch of masks could not be filled; they are filled one by one")
            for output, row in inner:
                output.fill(bitmask, row)
        else:
            for output, row in inner:
                output.complete_mask(bitmask, row)
