"""The guard: takes out of a mask what would repeat a key or an item, or leave nothing else to write."""

from functools import partial
from typing import TYPE_CHECKING

import xgrammar as xgr

from compiler.guard.dead_ends import DeadEnds
from compiler.guard.plan import Plan
from compiler.guard.candidate_tokens import Suspects
from compiler.guard.tagged_cursor import AnyCursor, start_of
from compiler.guard.tokens import GuardedTokens
from compiler.matcher import allocate_bitmask
from compiler.token_index import Row, forbid

if TYPE_CHECKING:
    from compiler.vocabulary import Vocabulary


class Guard:
    """The guard of one grammar over one vocabulary; immutable, shared by its matchers.

    Only suspects are looked at, all other tokens are harmless. The mask is never emptied: a suspect is taken
    out if it repeats, or if it leads into a dead end, which is found out by trying; and the lowering admits
    no array or object in which there must be more items or keys than there are distinct ones.
    """

    def __init__(self, plan: Plan, tokens: GuardedTokens) -> None:
        self.start = start_of(plan)
        """Before the text."""
        self._tokens = tokens
        self._spellings = tokens.vocabulary.tokens
        self._suspects = Suspects(tokens, has_items=any(place.is_distinct for place in plan.places))
        self._has_dead_ends = plan.can_run_out
        self._keeps_apart = plan.keeps_apart
        self._opening = tokens.lengths.opening_above(plan.bounds) if plan.bounds else None
        self._last_word = tokens.index.last_word

    def limit(self, row: Row, cursor: AnyCursor) -> None:
        """Take out of a row what makes a string too long."""
        if self._opening is not None:
            self._tokens.lengths.restrict(row, cursor, self._opening)

    def keep_apart(self, row: Row, matcher: xgr.GrammarMatcher, cursor: AnyCursor) -> None:
        """Take out of a row what comes to repeat something at a cursor, where `matcher` stands, too."""
        if not self._keeps_apart:
            return
        dead_ends = self._dead_ends(matcher)
        for token_id, after in self._suspects.among(row, cursor):
            if after is None or (self._has_dead_ends and dead_ends.is_behind(token_id, after)):
                forbid(row, token_id)

    def follow(self, matcher: xgr.GrammarMatcher, cursor: AnyCursor, token_id: int) -> AnyCursor | None:
        """The cursor after a token that `matcher` has just accepted; None if the guard does not allow it."""
        after = cursor.advance(self._spellings[token_id])
        if after is None or not self._has_dead_ends or not after.in_json.can_be_dead_end:
            return after
        return None if self._dead_ends(matcher).is_at(after) else after

    def _dead_ends(self, matcher: xgr.GrammarMatcher) -> DeadEnds:
        return DeadEnds(matcher, self._suspects, partial(self._allowed, matcher))

    def _allowed(self, matcher: xgr.GrammarMatcher, cursor: AnyCursor) -> Row:
        """What the grammar and the bounds of lengths allow where a matcher and a cursor stand."""
        bitmask = allocate_bitmask(1, len(self._spellings))
        matcher.fill_next_token_bitmask(bitmask)
        row: Row = bitmask[0]
        row[-1] &= self._last_word
        self.limit(row, cursor)
        return row


def guard_of(plan: Plan | None, vocabulary: "Vocabulary") -> Guard | None:
    """The guard of a grammar with that plan; None if it needs none."""
    return None if plan is None else Guard(plan, vocabulary.guarded)
