"""Dead ends: points from which every continuation repeats an element.

A guard finds out by trying whether a token leads there.
"""

from collections.abc import Callable, Sequence
from time import thread_time

import xgrammar as xgr

from compiler.errors import MatchingTooSlow
from compiler.guard.candidate_tokens import Candidates, CandidateTokens
from compiler.guard.tagged_cursor import Cursor, marked_text
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
        if state not in self._is_dead_end and _accept(self._matcher, before, after, token_id, token):
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
        path = [(cursor, candidates)]
        while path:
            if thread_time() > self._ends_at:
                self._matcher.rollback(len(path) - 1)
                raise MatchingTooSlow(MAX_SEARCH_S)
            before, candidates = path[-1]
            for token_id, after in candidates:
                if after is None or self._is_known_dead_end(after):
                    continue
                if not reads(self._matcher, before, after, self._spellings[token_id]):
                    continue
                inner = self._accept(token_id, before, after)
                if inner is None:  # there is a way out, from every point of the path
                    self._is_dead_end.update((passed.json.repetition_state, False) for passed, _ in path)
                    self._matcher.rollback(len(path) - 1)
                    return False
                path.append((after, inner))
                break
            else:  # every continuation from there repeats an element
                self._is_dead_end[before.json.repetition_state] = True
                path.pop()
                if path:
                    self._matcher.rollback(1)
        return True

    def _is_known_dead_end(self, cursor: Cursor) -> bool:
        return cursor.json.can_be_dead_end and self._is_dead_end.get(cursor.json.repetition_state, False)

    def _accept(self, token_id: int, before: Cursor, after: Cursor) -> Candidates | None:
        """Accept a token and return the candidates after it; None, and no change, if no dead end follows."""
        json, token = after.json, self._spellings[token_id]
        is_open = json.can_be_dead_end and json.repetition_state not in self._is_dead_end
        if not is_open or not _accept(self._matcher, before, after, token_id, token):
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


def has_mark(before: Cursor, after: Cursor) -> bool:
    """Whether a mark belongs into the text from one cursor to another."""
    return after.json.num_marked > before.json.num_marked


def fits(matcher: xgr.GrammarMatcher, text: bytes) -> bool:
    """Whether the grammar reads a text with marks here, or what of it completes the grammar; no change."""
    if matcher.accept_string(text):
        matcher.rollback(1)
        return True
    if b"}" not in text:  # the object stays open
        return False
    num_read = 0
    while not matcher.is_completed() and matcher.accept_string(text[num_read : num_read + 1]):
        num_read += 1
    is_completed = bool(matcher.is_completed())
    matcher.rollback(num_read)
    return is_completed


def reads(matcher: xgr.GrammarMatcher, before: Cursor, after: Cursor, token: bytes) -> bool:
    """Whether the grammar reads a token that its mask allows, with the marks that belong into it."""
    return not has_mark(before, after) or fits(matcher, marked_text(before, token))


def _accept(matcher: xgr.GrammarMatcher, before: Cursor, after: Cursor, token_id: int, token: bytes) -> bool:
    """Let the matcher accept a token, with its marks; False, and no change, if it does not."""
    if has_mark(before, after):
        return bool(matcher.accept_string(marked_text(before, token)))
    return bool(matcher.accept_token(token_id))
