"""The matcher of one grammar by itself."""

import xgrammar as xgr

from compiler.guard.guard import Guard
from compiler.guard.guarded import Guarded
from compiler.matcher import Bitmask
from compiler.units.jump_forward import forced_text


class SingleMatcher:
    """xgrammar's matcher, and the grammar's guard if it has one, behind the matcher protocol."""

    def __init__(self, compiled: xgr.CompiledGrammar, guard: Guard | None) -> None:
        self._matcher = xgr.GrammarMatcher(compiled)
        self._guarded = [] if guard is None else [Guarded.begin(guard)]
        self.num_accepted = 0

    def read(self, text: bytes) -> bool:
        """Read bytes before the first token, never taken back; False if no sentence begins so."""
        if not text:
            return True
        if not self._matcher.accept_string(text):
            return False
        if self._guarded:
            guarded = self._guarded[-1].read(text)
            if guarded is None:
                return False
            self._guarded.append(guarded)
        return True

    def fill_bitmask(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite `bitmask[row]` with the tokens that may come next."""
        matcher = self._matcher
        if not self._guarded:
            matcher.fill_next_token_bitmask(bitmask, row)
            return
        words = bitmask[row]
        self._guarded[-1].fill(words, matcher, lambda: matcher.fill_next_token_bitmask(bitmask, row))

    def accept(self, token_id: int) -> bool:
        """Advance by a token; False, and no change, if the grammar or the guard does not allow it."""
        if self._matcher.is_terminated() or not self._matcher.accept_token(token_id):
            return False
        if self._guarded:
            guarded = self._guarded[-1].follow(self._matcher, token_id)
            if guarded is None:
                return False
            self._guarded.append(guarded)
        self.num_accepted += 1
        return True

    def rollback(self, num_tokens: int) -> None:
        """Undo the last accepted tokens."""
        if num_tokens:
            self.num_accepted -= num_tokens
            self._matcher.rollback(num_tokens)
            del self._guarded[-num_tokens:]

    def forced_text(self) -> bytes:
        """What every continuation begins with; a guard only removes some."""
        if self._matcher.is_terminated():
            return b""
        return forced_text(self._matcher)

    def is_completed(self) -> bool:
        """Whether what was accepted is a whole sentence."""
        return bool(self._matcher.is_completed())

    def is_terminated(self) -> bool:
        """Whether a stop token was accepted after a whole sentence."""
        return bool(self._matcher.is_terminated())
