"""The guard: takes out of a mask what would repeat a key or an item, or leave nothing else to write."""

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

import xgrammar as xgr

from compiler.guard.plan import Plan
from compiler.guard.tagged import AnyCursor, start_of
from compiler.guard.target import Target
from compiler.guard.token_class import TokenClass
from compiler.guard.tokens import GuardedTokens
from compiler.matcher import allocate_bitmask
from compiler.token_index import Row, forbid

if TYPE_CHECKING:
    from compiler.vocabulary import Vocabulary

_SEPARATORS = (b",", b":")


_Known = dict[object, bool]
"""Whether there is no way on, by place."""


class Guard:
    """The guard of one grammar over one vocabulary; immutable, shared by its matchers.

    A token is a suspect if it may complete a key or an item, or write on one that is like one seen before.
    All others are harmless. The mask is never emptied: a token is taken out if it repeats, or if after it
    every way repeats, which is found out by trying; and the lowering admits no array or object in which
    there must be more items or keys than there are distinct ones.
    """

    def __init__(self, plan: Plan, tokens: GuardedTokens) -> None:
        self.start = start_of(plan)
        """Before the text."""
        self._tokens = tokens
        self._spellings = tokens.vocabulary.tokens
        self._is_tight = plan.is_tight
        self._has_items = any(place.is_distinct for place in plan.places)
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
        known: _Known = {}
        for token_id, after in self._suspects(row, cursor):
            if after is None or (self._is_at_risk(after) and self._dooms(matcher, token_id, after, known)):
                forbid(row, token_id)

    def follow(self, matcher: xgr.GrammarMatcher, cursor: AnyCursor, token_id: int) -> AnyCursor | None:
        """The cursor after a token that `matcher` has just accepted; None if the guard does not allow it."""
        after = cursor.advance(self._spellings[token_id])
        if after is None or (self._is_at_risk(after) and self._is_doomed(matcher, after, {})):
            return None
        return after

    def _is_at_risk(self, cursor: AnyCursor) -> bool:
        return self._is_tight and cursor.is_at_risk

    def _dooms(self, matcher: xgr.GrammarMatcher, token_id: int, after: AnyCursor, known: _Known) -> bool:
        """Whether every way to go on behind a token comes to repeat; the matcher is left as it was."""
        place = after.place
        if place not in known and matcher.accept_token(token_id):
            known[place] = self._is_doomed(matcher, after, known)
            matcher.rollback(1)
        return known.get(place, False)

    def _is_doomed(self, matcher: xgr.GrammarMatcher, cursor: AnyCursor, known: _Known) -> bool:
        """The same for where the matcher stands: a search in depth, without recursion, as texts are long."""
        ways = self._ways(matcher, cursor)
        if ways is None:
            return False
        trail = [(cursor.place, ways)]
        while trail:
            token_id, after = next(trail[-1][1], (-1, None))
            if token_id < 0:  # every way on from there repeats
                place, _ = trail.pop()
                known[place] = True
                if trail:
                    matcher.rollback(1)
                continue
            if after is None or (after.is_at_risk and known.get(after.place, False)):
                continue
            ways = None
            if after.is_at_risk and after.place not in known and matcher.accept_token(token_id):
                ways = self._ways(matcher, after)
                if ways is None:
                    matcher.rollback(1)
            if ways is None:  # a way out, for all of the trail
                matcher.rollback(len(trail) - 1)
                known.update((place, False) for place, _ in trail)
                return False
            trail.append((after.place, ways))
        return True

    def _ways(
        self, matcher: xgr.GrammarMatcher, cursor: AnyCursor
    ) -> Iterator[tuple[int, AnyCursor | None]] | None:
        """The suspects that may follow, each with the cursor after it; None if something harmless may."""
        bitmask = allocate_bitmask(1, len(self._spellings))
        matcher.fill_next_token_bitmask(bitmask)
        row = bitmask[0]
        row[-1] &= self._last_word
        self.limit(row, cursor)
        harmless = row.copy()
        targets = list(cursor.targets())
        for tokens in self._classes(cursor, targets):
            tokens.remove(harmless)
        for token_id in self._along(targets, cursor):
            forbid(harmless, token_id)
        return None if harmless.any() else self._suspects(row, cursor)

    def _suspects(self, row: Row, cursor: AnyCursor) -> Iterator[tuple[int, AnyCursor | None]]:
        """Tokens that a row allows, each with the cursor after it, None if it repeats."""
        if cursor.is_over:
            return
        targets = list(cursor.targets())
        ids = chain.from_iterable(tokens.allowed(row) for tokens in self._classes(cursor, targets))
        along = (i for i in self._along(targets, cursor) if row[i >> 5] >> (i & 31) & 1)
        for token_id in dict.fromkeys(chain(ids, along)):
            yield token_id, cursor.advance(self._spellings[token_id])

    def _classes(self, cursor: AnyCursor, targets: list[Target]) -> Iterator[TokenClass]:
        """The tokens that may repeat something or put the rest at risk, but for those `_along` a target."""
        tokens = self._tokens
        if cursor.is_tight:
            if not cursor.in_string:
                yield tokens.structural
            else:
                yield tokens.quoted if targets else tokens.crossing
                if targets:
                    yield tokens.escaping
            return
        if not cursor.in_string:
            yield tokens.keys_outside
            if self._has_items:
                yield tokens.items_outside
            if cursor.expects and targets:
                yield tokens.escaped
            return
        yield tokens.keys_inside
        if self._has_items:
            yield tokens.items_inside
        if targets:
            yield tokens.quoted if cursor.escape else tokens.escaped

    def _along(self, targets: list[Target], cursor: AnyCursor) -> Iterator[int]:
        """The tokens that write on a target: to its end and beyond, or some of it if that can be used up."""
        in_string, index = cursor.in_string, self._tokens.index
        for target in targets:
            if target.is_tight:
                yield from self._spelled(target.text, in_string=in_string)
                continue
            for lead in _leads(in_string=in_string, is_begun=target.is_begun):
                for at in range(*index.narrow(lead + target.text)):
                    yield from index.ids[at]

    def _spelled(self, text: bytes, *, in_string: bool) -> Iterator[int]:
        """Ids of the tokens that spell a beginning of a canonical text, blanks after separators or not."""
        index = self._tokens.index
        leads = _leads(in_string=in_string, is_begun=True)
        pending = [(lead, 0, in_string, 0, len(index.spellings)) for lead in leads]
        while pending:
            written, at, inside, low, high = pending.pop()
            low, high = index.narrow(written, low, high)
            if low == high:
                continue
            if written and index.spellings[low] == written:
                yield from index.ids[low]
            if at == len(text):
                continue
            char = text[at : at + 1]
            if char == b'"' and not (inside and _is_escaped(text, at)):
                inside = not inside
            pending.append((written + char, at + 1, inside, low, high))
            if not inside and char in _SEPARATORS:
                pending.append((written + char + b" ", at + 1, inside, low, high))


def _leads(*, in_string: bool, is_begun: bool) -> tuple[bytes, ...]:
    """What may stand before the rest of a key or an item; what is yet to begin is looked at apart."""
    if in_string:
        return (b"",)
    return (b"", b" ") if is_begun else ()


def _is_escaped(text: bytes, at: int) -> bool:
    """Whether an odd number of backslashes stands before a character of a string."""
    return (at - len(text[:at].rstrip(b"\\"))) % 2 == 1


def guard_of(plan: Plan | None, vocabulary: "Vocabulary") -> Guard | None:
    """The guard of a grammar with that plan; None if it needs none."""
    return None if plan is None else Guard(plan, vocabulary.guarded)
