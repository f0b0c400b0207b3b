"""The guard: removes from a mask what repeats an element, makes a string too long, or leads to a dead end."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import thread_time

import xgrammar as xgr

from compiler.errors import MatchingTooSlow
from compiler.guard.candidate_tokens import Candidates, CandidateTokens, GuardedTokens
from compiler.guard.cursor import JsonCursor, OpenContainer
from compiler.guard.plan import GuardPlan
from compiler.guard.tagged_cursor import Cursor, marked_text, start_cursor
from compiler.matcher import allocate_bitmask
from compiler.token_index import Row, forbid

MAX_SEARCH_S = 1.0
"""Processor time for the search for dead ends before one mask; usual ones take a thousandth of that."""
AsRead = Callable[[bytes], bytes]
"""From a text to the text as the grammar reads it (see `marked_text`)."""


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
        dead_ends = self._dead_ends(matcher)
        for token_id, after in self._candidates.allowed(row, cursor):
            is_allowed = (
                after is not None
                and _reads(matcher, cursor, after, self._spellings[token_id])
                and not (self._has_dead_ends and dead_ends.is_after(token_id, cursor, after))
            )
            if not is_allowed:
                forbid(row, token_id)
        for token_id, text in self._candidates.completing_marked(row, cursor.json):
            if not _fits(matcher, text):
                forbid(row, token_id)

    def advance(self, matcher: xgr.GrammarMatcher, cursor: Cursor, token_id: int) -> Cursor | None:
        """The cursor after a token that `matcher` has just accepted.

        None if the guard forbids the token; the matcher is then rolled back.

        Raises:
            MatchingTooSlow: see `DeadEndSearch`; the matcher is rolled back.
        """
        token = self._spellings[token_id]
        after = cursor.advance(token)
        if after is not None and _has_mark(cursor, after):
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

    def _dead_ends(self, matcher: xgr.GrammarMatcher) -> "DeadEndSearch":
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


def accept_as_read(matcher: xgr.GrammarMatcher, text: bytes, as_read: AsRead) -> bool:
    """Let the matcher accept any text in one step, with its marks; False, and no change, if it does not.

    A grammar never reads a text with marks that it does not read without them. So the matcher gets the text
    without marks first, and no cursor reads a text that is not JSON.
    """
    if not matcher.accept_string(text):
        return False
    marked = as_read(text)
    if marked == text:
        return True
    matcher.rollback(1)
    return bool(matcher.accept_string(marked))


def _has_mark(before: Cursor, after: Cursor) -> bool:
    return after.json.num_marked > before.json.num_marked


def _fits(matcher: xgr.GrammarMatcher, text: bytes) -> bool:
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


def _reads(matcher: xgr.GrammarMatcher, before: Cursor, after: Cursor, token: bytes) -> bool:
    """Whether the grammar reads a token that its mask allows, with the marks that belong into it."""
    return not _has_mark(before, after) or _fits(matcher, marked_text(before, token))


def _accept(matcher: xgr.GrammarMatcher, before: Cursor, after: Cursor, token_id: int, token: bytes) -> bool:
    """Let the matcher accept a token, with its marks; False, and no change, if it does not."""
    if _has_mark(before, after):
        return bool(matcher.accept_string(marked_text(before, token)))
    return bool(matcher.accept_token(token_id))


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
                if not _reads(self._matcher, before, after, self._spellings[token_id]):
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
        """The text as the grammar reads it here (see `marked_text`)."""
        return marked_text(self.cursor, text)

    def read(self, text: bytes) -> "GuardState | None":
        """The state after bytes; None if an element repeats in them, or a string cannot keep to its bound."""
        cursor = self.cursor.advance(text)
        return None if cursor is None else GuardState(self.guard, cursor, self._mask_cache)
