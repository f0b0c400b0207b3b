"""Dead ends: points from which every continuation repeats an element.

A guard finds out by trying whether a token leads there.
"""

from collections.abc import Callable, Iterator, Sequence
from time import thread_time

import xgrammar as xgr

from compiler.errors import MatchingTooSlow
from compiler.guard.candidate_tokens import Candidates, CandidateTokens
from compiler.guard.key_marks import accept_token, reads_token
from compiler.guard.tagged_cursor import Cursor
from compiler.token_index import Row

MAX_SEARCH_S = 1.0
"""Processor time for the search for dead ends before one mask; usual ones take a thousandth of that."""


class DeadEndSearch:
    """Finds dead ends from where a matcher is, by trying tokens on it; it leaves the matcher as it was.

    A dead end is a point from which every continuation repeats an element. Where any string may be an
    element, another one can always be written. A small choice of elements can *run out*: under `{"enum":
    ["a", "ab", "b"]}`, nothing in `["a", "ab", "a` is repeated yet, but the open string can only become `a`
    or `ab`. The token that leads there must leave the mask, or the next mask would be empty. The lowering
    finds out what can run out and marks it in the plan (`PathState.can_run_out`); a dead end can only be
    inside such a container.

    `allowed` gives the grammar's mask where the matcher is, for a cursor at the same point. A search takes at
    most `MAX_SEARCH_S`: the methods raise MatchingTooSlow if that is not enough.
    """

    def __init__(
        self,
        matcher: xgr.GrammarMatcher,
        candidates: CandidateTokens,
        allowed: Callable[[Cursor], Row],
        spellings: Sequence[bytes],
    ) -> None:
        self._matcher = matcher
        self._candidates = candidates
        self._allowed = allowed
        self._spellings = spellings
        self._is_dead_end: dict[object, bool] = {}
        """By `JsonCursor.repetition_state`: the points that have been searched."""
        self._ends_at = thread_time() + MAX_SEARCH_S

    def is_after(self, token_id: int, before: Cursor, after: Cursor) -> bool:
        """Whether a token leads to a dead end; the cursor is `before` it and `after` it."""
        if not after.json.can_be_dead_end:
            return False
        state = after.json.repetition_state
        token = self._spellings[token_id]
        if state not in self._is_dead_end and accept_token(self._matcher, token_id, token, before, after):
            try:
                self.is_at(after)
            finally:
                self._matcher.rollback(1)
        return self._is_dead_end.get(state, False)

    def is_at(self, cursor: Cursor) -> bool:
        """Whether the matcher is at a dead end: a depth-first search, without recursion as texts are long."""
        candidates = self._candidates_if_only(cursor)
        if candidates is None:
            self._is_dead_end[cursor.json.repetition_state] = False
            return False
        path = [(cursor, self._steps(cursor, candidates))]
        while path:
            if thread_time() > self._ends_at:
                self._matcher.rollback(len(path) - 1)
                raise MatchingTooSlow(MAX_SEARCH_S)
            before, steps = path[-1]
            step = next(steps, None)
            if step is None:  # every continuation from there repeats an element
                self._is_dead_end[before.json.repetition_state] = True
                path.pop()
                if path:
                    self._matcher.rollback(1)
                continue
            token_id, after = step
            candidates = self._follow(token_id, before, after)
            if candidates is None:  # there is a way out, from every point of the path
                self._is_dead_end.update((passed.json.repetition_state, False) for passed, _ in path)
                self._matcher.rollback(len(path) - 1)
                return False
            path.append((after, self._steps(after, candidates)))
        return True

    def _steps(self, before: Cursor, candidates: Candidates) -> Iterator[tuple[int, Cursor]]:
        """The candidates that the grammar reads, and that are not known to lead to a dead end."""
        for token_id, after in candidates:
            if after is None or self._is_known_dead_end(after):
                continue
            if reads_token(self._matcher, self._spellings[token_id], before, after):
                yield token_id, after

    def _is_known_dead_end(self, cursor: Cursor) -> bool:
        return cursor.json.can_be_dead_end and self._is_dead_end.get(cursor.json.repetition_state, False)

    def _follow(self, token_id: int, before: Cursor, after: Cursor) -> Candidates | None:
        """Accept a token and return the candidates after it; None, and no change, if no dead end follows."""
        json, token = after.json, self._spellings[token_id]
        is_open = json.can_be_dead_end and json.repetition_state not in self._is_dead_end
        if not is_open or not accept_token(self._matcher, token_id, token, before, after):
            return None
        candidates = self._candidates_if_only(after)
        if candidates is None:
            self._matcher.rollback(1)
        return candidates

    def _candidates_if_only(self, cursor: Cursor) -> Candidates | None:
        """The candidates that may follow where the matcher is; None if any other token may follow."""
        row = self._allowed(cursor)
        if not self._candidates.are_all_allowed(row, cursor):
            return None
        return self._candidates.allowed(row, cursor)
