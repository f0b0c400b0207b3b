"""The matcher of one grammar by itself."""

import xgrammar as xgr

from compiler.matcher import Bitmask


class SingleMatcher:
    """xgrammar's matcher behind the matcher protocol."""

    def __init__(self, compiled: xgr.CompiledGrammar) -> None:
        self._matcher = xgr.GrammarMatcher(compiled)

    def fill_bitmask(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite `bitmask[row]` with the tokens that may come next."""
        self._matcher.fill_next_token_bitmask(bitmask, row)

    def accept(self, token_id: int) -> bool:
        """Advance by a token; False, and no change, if the grammar does not allow it."""
        return bool(not self._matcher.is_terminated() and self._matcher.accept_token(token_id))

    def rollback(self, num_tokens: int) -> None:
        """Undo the last accepted tokens."""
        if num_tokens:
            self._matcher.rollback(num_tokens)

    def is_completed(self) -> bool:
        """Whether what was accepted is a whole sentence."""
        return bool(self._matcher.is_completed())

    def is_terminated(self) -> bool:
        """Whether a stop token was accepted after a whole sentence."""
        return bool(self._matcher.is_terminated())
