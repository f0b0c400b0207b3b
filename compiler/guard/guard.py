"""The guard: takes out of a mask what would repeat a key or an item, or leave nothing else to write."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import xgrammar as xgr

from compiler.guard.candidate_tokens import Candidates, CandidateTokens, GuardedTokens
from compiler.guard.plan import GuardPlan
from compiler.guard.tagged_cursor import Cursor, start_cursor
from compiler.matcher import allocate_bitmask
from compiler.token_index import Row, forbid

if TYPE_CHECKING:
    from compiler.guard.cursor import JsonCursor, Scope
    from compiler.token_index import Row

from dataclasses import dataclass, field

from compiler.token_index import Row


class DeadEndSearch:
    """Finds dead ends ahead of one matcher by trying, and leaves the matcher as it was.

    `allowed` is the mask of the grammar where the matcher stands, at a cursor that has come as far.
    """

    def __init__(
        self, matcher: xgr.GrammarMatcher, suspects: CandidateTokens, allowed: Callable[[Cursor], Row]
    ) -> None:
        self._matcher = matcher
        self._suspects = suspects
        self._allowed = allowed
        self._is_dead_end: dict[object, bool] = {}
        """By place; those that were looked at."""

    def is_behind(self, token_id: int, after: Cursor) -> bool:
        """Whether a token leads into one, the cursor being `after` it then."""
        if not after.in_json.can_be_dead_end:
            return False
        if after.in_json.place not in self._is_dead_end and self._matcher.accept_token(token_id):
            self.is_at(after)
            self._matcher.rollback(1)
        return self._is_dead_end.get(after.in_json.place, False)

    def is_at(self, cursor: Cursor) -> bool:
        """Whether the matcher stands at one: a search in depth, without recursion, as texts are long."""
        ways = self._ways(cursor)
        if ways is None:
            self._is_dead_end[cursor.in_json.place] = False
            return False
        trail = [(cursor.in_json.place, ways)]
        while trail:
            place, ways = trail[-1]
            for token_id, after in ways:
                if after is None or self._is_known(after):
                    continue
                onward = self._enter(token_id, after)
                if onward is None:  # a way out, for all of the trail
                    self._is_dead_end.update((place, False) for place, _ in trail)
                    self._matcher.rollback(len(trail) - 1)
                    return False
                trail.append((after.in_json.place, onward))
                break
            else:  # every way on from there repeats
                self._is_dead_end[place] = True
                trail.pop()
                if trail:
                    self._matcher.rollback(1)
        return True

    def _is_known(self, cursor: Cursor) -> bool:
        return cursor.in_json.can_be_dead_end and self._is_dead_end.get(cursor.in_json.place, False)

    def _enter(self, token_id: int, after: Cursor) -> Candidates | None:
        """Take a token, for its ways to be tried; None, and not taken, if there is no dead end behind it."""
        is_open = after.in_json.can_be_dead_end and after.in_json.place not in self._is_dead_end
        if not is_open or not self._matcher.accept_token(token_id):
            return None
        ways = self._ways(after)
        if ways is None:
            self._matcher.rollback(1)
        return ways

    def _ways(self, cursor: Cursor) -> Candidates | None:
        """The suspects that may follow where the matcher stands; None if something harmless may."""
        row = self._allowed(cursor)
        return self._suspects.among(row, cursor) if self._suspects.are_all(row, cursor) else None


class Guard:
    """The guard of one grammar over one vocabulary; immutable, shared by its matchers.

    Only suspects are looked at, all other tokens are harmless. The mask is never emptied: a suspect is taken
    out if it repeats, or if it leads into a dead end, which is found out by trying; and the lowering admits
    no array or object in which there must be more items or keys than there are distinct ones.
    """

    def __init__(self, plan: GuardPlan, tokens: GuardedTokens) -> None:
        self.start = start_cursor(plan)
        """Before the text."""
        self._tokens = tokens
        self._spellings = tokens.vocabulary.tokens
        self._suspects = CandidateTokens(tokens, has_items=any(place.is_distinct for place in plan.places))
        self._has_dead_ends = plan.can_run_out
        self._keeps_apart = plan.keeps_apart
        self._opening = tokens.lengths.opening_above(plan.bounds) if plan.bounds else None
        self._last_word = tokens.index.last_word

    def limit(self, row: Row, cursor: Cursor) -> None:
        """Take out of a row what makes a string too long."""
        if self._opening is not None:
            self._tokens.lengths.restrict(row, cursor, self._opening)

    def keep_apart(self, row: Row, matcher: xgr.GrammarMatcher, cursor: Cursor) -> None:
        """Take out of a row what comes to repeat something at a cursor, where `matcher` stands, too."""
        if not self._keeps_apart:
            return
        dead_ends = self._dead_ends(matcher)
        for token_id, after in self._suspects.among(row, cursor):
            if after is None or (self._has_dead_ends and dead_ends.is_behind(token_id, after)):
                forbid(row, token_id)

    def follow(self, matcher: xgr.GrammarMatcher, cursor: Cursor, token_id: int) -> Cursor | None:
        """The cursor after a token that `matcher` has just accepted; None if the guard does not allow it."""
        after = cursor.advance(self._spellings[token_id])
        if after is None or not self._has_dead_ends or not after.in_json.can_be_dead_end:
            return after
        return None if self._dead_ends(matcher).is_at(after) else after

    def _dead_ends(self, matcher: xgr.GrammarMatcher) -> DeadEndSearch:
        return DeadEndSearch(matcher, self._suspects, partial(self._allowed, matcher))

    def _allowed(self, matcher: xgr.GrammarMatcher, cursor: Cursor) -> Row:
        """What the grammar and the bounds of lengths allow where a matcher and a cursor stand."""
        bitmask = allocate_bitmask(1, len(self._spellings))
        matcher.fill_next_token_bitmask(bitmask)
        row: Row = bitmask[0]
        row[-1] &= self._last_word
        self.limit(row, cursor)
        return row


class MaskCache:
    """The last mask of one matcher inside a plain string, by the string's scope; lengths are no matter here.

    Every value has a scope object of its own, so that a rollback cannot lead to another string under it.
    """

    def __init__(self) -> None:
        self._scope: Scope | None = None
        self._row: Row | None = None

    def fill(self, row: "Row", cursor: "JsonCursor") -> bool:
        """Overwrite the row if its mask is the one kept; whether it is."""
        if not cursor.is_settled or self._row is None or cursor.scope is not self._scope:
            return False
        row[:] = self._row
        return True

    def keep(self, row: "Row", cursor: "JsonCursor") -> None:
        """Keep the row if it is a plain string's."""
        if cursor.is_settled and cursor.is_in_plain_string:
            self._scope, self._row = cursor.scope, row.copy()


@dataclass(frozen=True, slots=True)
class GuardState:
    """A value, but for the mask that it and those after it keep."""

    guard: Guard
    cursor: Cursor
    kept: MaskCache = field(default_factory=MaskCache, repr=False)

    @classmethod
    def begin(cls, guard: Guard) -> "GuardState":
        """At the start of a text."""
        return cls(guard, guard.start)

    def fill(self, row: Row, matcher: xgr.GrammarMatcher, fill: Callable[[], None]) -> None:
        """Overwrite the row with what `fill`, which asks the matcher, puts there, and the guard leaves."""
        if not self.kept.fill(row, self.cursor.in_json):
            fill()
            self.guard.keep_apart(row, matcher, self.cursor)
            self.kept.keep(row, self.cursor.in_json)
        self.guard.limit(row, self.cursor)

    def follow(self, matcher: xgr.GrammarMatcher, token_id: int) -> "GuardState | None":
        """The place after a token that the matcher has accepted; None, and undone, if the guard refuses."""
        cursor = self.guard.follow(matcher, self.cursor, token_id)
        if cursor is None:
            matcher.rollback(1)
            return None
        return GuardState(self.guard, cursor, self.kept)

    def read(self, text: bytes) -> "GuardState | None":
        """The place after bytes; None if they repeat what must differ."""
        cursor = self.cursor.advance(text)
        return None if cursor is None else GuardState(self.guard, cursor, self.kept)
