"""The guard: removes from a mask what repeats an element, makes a string too long, or leads to a dead end."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import xgrammar as xgr

from compiler.errors import MatchingTooSlow
from compiler.guard.candidate_tokens import CandidateTokens
from compiler.guard.cursor import JsonCursor
from compiler.guard.dead_ends import DeadEndSearch
from compiler.guard.guarded_tokens import GuardedTokens
from compiler.guard.key_marks import has_mark, marked_text, reads_marked, reads_token
from compiler.guard.plan import GuardPlan
from compiler.guard.tagged_cursor import Cursor, start_cursor
from compiler.matcher import allocate_bitmask
from compiler.token_index import Row, forbid

if TYPE_CHECKING:
    from compiler.guard.open_containers import OpenContainer


class Guard:
    """The guard of one grammar for one vocabulary; immutable, shared by its matchers.

    It looks at candidate tokens only. It never empties a mask: it removes a candidate if that repeats an
    element or leads to a dead end, which it finds out by trying. The lowering refuses an array or an object
    that must have more items or keys than there are distinct ones.
    """

    def __init__(self, plan: GuardPlan, tokens: GuardedTokens) -> None:
        self.start = start_cursor(plan)
        """The cursor before the text."""
        self._tokens = tokens
        self._spellings = tokens.vocabulary.tokens
        self._candidates = CandidateTokens(tokens, has_items=plan.has_distinct_items)
        self._has_dead_ends = plan.can_run_out
        self._forbids_repeats = plan.forbids_repeats
        self._opening = tokens.lengths.opening_too_much(plan.bounds) if plan.bounds else None
        self._last_word = tokens.index.last_word

    def forbid_too_long(self, row: Row, cursor: Cursor) -> None:
        """Remove from a row what makes a string too long."""
        if self._opening is not None:
            self._tokens.lengths.forbid_too_long(row, cursor, self._opening)

    def forbid_repeats(self, row: Row, matcher: xgr.GrammarMatcher, cursor: Cursor) -> None:
        """Remove from a row what repeats an element, at once or later; `cursor` is where `matcher` is."""
        if not self._forbids_repeats:
            return
        dead_ends = self._dead_ends(matcher) if self._has_dead_ends else None
        for token_id, after in self._candidates.allowed(row, cursor):
            is_allowed = (
                after is not None
                and reads_token(matcher, self._spellings[token_id], cursor, after)
                and (dead_ends is None or not dead_ends.is_after(token_id, cursor, after))
            )
            if not is_allowed:
                forbid(row, token_id)
        for token_id, text in self._candidates.completing_marked(row, cursor.json):
            if not reads_marked(matcher, text):
                forbid(row, token_id)

    def advance(self, matcher: xgr.GrammarMatcher, cursor: Cursor, token_id: int) -> Cursor | None:
        """The cursor after a token that `matcher` has just accepted.

        None if the guard forbids the token; the matcher is then rolled back.

        Raises:
            MatchingTooSlow: see `DeadEndSearch`; the matcher is rolled back.
        """
        token = self._spellings[token_id]
        after = cursor.advance(token)
        if after is not None and has_mark(cursor, after):
            matcher.rollback(1)
            if not matcher.accept_string(marked_text(cursor, token)):
                return None
        try:
            is_forbidden = after is None or (
                self._has_dead_ends and after.json.can_be_dead_end and self._dead_ends(matcher).is_at(after)
            )
        except MatchingTooSlow:
            matcher.rollback(1)
            raise
        if is_forbidden:
            matcher.rollback(1)
        return None if is_forbidden else after

    def _dead_ends(self, matcher: xgr.GrammarMatcher) -> DeadEndSearch:
        allowed = partial(self._allowed, matcher)
        return DeadEndSearch(matcher, self._candidates, allowed, self._spellings)

    def _allowed(self, matcher: xgr.GrammarMatcher, cursor: Cursor) -> Row:
        """The mask of the grammar and the bounds of strings, repeated elements left in."""
        bitmask = allocate_bitmask(1, len(self._spellings))
        matcher.fill_next_token_bitmask(bitmask)
        row: Row = bitmask[0]
        row[-1] &= self._last_word
        self.forbid_too_long(row, cursor)
        return row


class MaskCache:
    """The last mask of one matcher inside a plain string: the same tokens may follow any of its characters.

    The mask is stored before `Guard.forbid_too_long`. Its key is the object of the open container: every
    string has another one, so after a rollback the mask of another string is never found.
    """

    def __init__(self) -> None:
        self._container: OpenContainer | None = None
        self._row: Row | None = None

    def fill(self, row: Row, cursor: JsonCursor) -> bool:
        """Overwrite the row with the stored mask if it is the cursor's; whether it was."""
        if self._row is None or not cursor.is_after_character or cursor.container is not self._container:
            return False
        row[:] = self._row
        return True

    def store(self, row: Row, cursor: JsonCursor) -> None:
        """Store the row if the cursor is in a plain string."""
        if cursor.is_after_character and cursor.is_in_plain_string:
            self._container, self._row = cursor.container, row.copy()


@dataclass(frozen=True, slots=True)
class GuardState:
    """A guard at one point of a text, beside a matcher at the same point.

    A state is a value, but all states of one text share a mask cache.
    """

    guard: Guard
    cursor: Cursor
    _mask_cache: MaskCache = field(default_factory=MaskCache, repr=False)

    @classmethod
    def begin(cls, guard: Guard) -> "GuardState":
        """The state before a text."""
        return cls(guard, guard.start)

    def fill(self, row: Row, matcher: xgr.GrammarMatcher, fill: Callable[[], None]) -> None:
        """Overwrite the row with the mask that `fill` gets from the matcher, less what the guard forbids."""
        if not self._mask_cache.fill(row, self.cursor.json):
            fill()
            self.guard.forbid_repeats(row, matcher, self.cursor)
            self._mask_cache.store(row, self.cursor.json)
        self.guard.forbid_too_long(row, self.cursor)

    def advance(self, matcher: xgr.GrammarMatcher, token_id: int) -> "GuardState | None":
        """The state after a token that the matcher has accepted.

        None if the guard forbids the token; the matcher is then rolled back.
        """
        cursor = self.guard.advance(matcher, self.cursor, token_id)
        return None if cursor is None else GuardState(self.guard, cursor, self._mask_cache)

    def fork(self) -> "GuardState":
        """This state, beside another matcher."""
        return GuardState(self.guard, self.cursor)

    def marked(self, text: bytes) -> bytes:
        """A text that follows here, with its key marks."""
        return marked_text(self.cursor, text)

    def read(self, text: bytes) -> "GuardState | None":
        """The state after bytes; None if an element repeats in them, or a string cannot keep to its bound."""
        cursor = self.cursor.advance(text)
        return None if cursor is None else GuardState(self.guard, cursor, self._mask_cache)
