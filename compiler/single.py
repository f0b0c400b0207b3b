"""The matcher of one grammar by itself."""

import xgrammar as xgr

from compiler.guard.guard import Guard
from compiler.guard.kept import KeptMask
from compiler.jump_forward import forced_text
from compiler.matcher import Bitmask


class SingleMatcher:
    """xgrammar's matcher, and the grammar's guard if it has one, behind the matcher protocol."""

    def __init__(self, compiled: xgr.CompiledGrammar, guard: Guard | None) -> None:
        self._matcher = xgr.GrammarMatcher(compiled)
        self._guard = guard
        self._cursors = [] if guard is None else [guard.start]
        self._kept = KeptMask()
        self.num_accepted = 0

    def read(self, text: bytes) -> bool:
        """Read bytes before the first token, never taken back; False if no sentence begins so."""
        if not text:
            return True
        if not self._matcher.accept_string(text):
            return False
        if self._guard is not None:
            cursor = self._cursors[-1].advance(text)
            if cursor is None:
                return False
            self._cursors.append(cursor)
        return True

    def fill_bitmask(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite `bitmask[row]` with the tokens that may come next."""
        if self._guard is None:
            self._matcher.fill_next_token_bitmask(bitmask, row)
            return
        cursor, words = self._cursors[-1], bitmask[row]
        if not self._kept.fill(words, cursor):
            self._matcher.fill_next_token_bitmask(bitmask, row)
            self._guard.keep_apart(words, self._matcher, cursor)
            self._kept.keep(words, cursor)
        self._guard.limit(words, cursor)

    def accept(self, token_id: int) -> bool:
        """Advance by a token; False, and no change, if the grammar or the guard does not allow it."""
        if self._matcher.is_terminated() or not self._matcher.accept_token(token_id):
            return False
        if self._guard is not None:
            cursor = self._guard.follow(self._matcher, self._cursors[-1], token_id)
            if cursor is None:
                self._matcher.rollback(1)
                return False
            self._cursors.append(cursor)
        self.num_accepted += 1
        return True

    def rollback(self, num_tokens: int) -> None:
        """Undo the last accepted tokens."""
        if num_tokens:
            self.num_accepted -= num_tokens
            self._matcher.rollback(num_tokens)
            del self._cursors[-num_tokens:]

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
