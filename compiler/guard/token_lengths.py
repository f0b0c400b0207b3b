"""The lengths of tokens: which tokens a string still has room for, the shortest way to its end included.

A character counts as soon as its first byte or its backslash is written, so a character that has begun can
always be completed.
"""

import operator
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache, cached_property, lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from compiler.guard.decoded_tokens import BACKSLASH, ESCAPABLE, IN_STRING, OPENED_STRING, QUOTE, DecodedTokens
from compiler.guard.json_characters import ESCAPE
from compiler.guard.string_automaton import StringAutomaton
from compiler.guard.string_bounds import LengthBound, RemainingLength
from compiler.guard.tagged_cursor import Cursor
from compiler.regular.utf8 import num_characters
from compiler.token_index import Row, TokenSet, bits_of, forbid

_LEADS = (b"", BACKSLASH)
"""The incomplete characters for which the needs of all tokens are computed at once: none, or a backslash."""
_SPECIAL = re.compile(rb'["\\]')
_INCOMPLETE_ESCAPE = re.compile(rb"\\.*\Z", re.DOTALL)
_MAX_LONG_TOKENS = 4_096
"""To find out what all tokens need from a pattern takes some 15 ms once. Up to this many long tokens, those
that the row allows are counted first."""
_MAX_TRIED = 8
"""If the row allows at most so many long tokens, each is tried."""
_MAX_CACHED_ROWS = 512

Number = TypeVar("Number", np.int32, np.bool_)


class TokenLengths:
    """How many characters each token adds to a string, up to the quote that closes it."""

    def __init__(self, tokens: Mapping[int, bytes], width: int) -> None:
        self._tokens = tokens = dict(sorted(tokens.items(), key=lambda item: -len(item[1])))
        self._width = width
        self._ids = np.fromiter(tokens, np.int64, len(tokens))
        self._words, self._bits = bits_of(self._ids)
        self._num_bytes = [*map(len, tokens.values())]
        self._max_bytes = max(self._num_bytes, default=0)
        # Where tokens with a quote or a backslash are; all others only add their characters to a string.
        self._special = {at: token for at, token in enumerate(tokens.values()) if _SPECIAL.search(token)}
        self._num_opened = self._replaced(np.zeros(len(tokens), np.int32), _num_opened)
        num_added = np.fromiter(map(num_characters, tokens.values()), np.int32, len(tokens))
        escaped = {at: token for at, token in enumerate(tokens.values()) if token[:1] in ESCAPABLE}
        num_escaped = np.zeros(len(tokens), np.int32)  # 0 where the grammar forbids the token
        num_escaped[list(escaped)] = [*map(_num_added_escaped, escaped.values())]
        self._num_added = {
            b"": self._by_id(self._replaced(num_added, _num_added)),
            BACKSLASH: self._by_id(num_escaped),
        }
        self._decoded = cache(lambda lead: DecodedTokens(tokens, lead, width))
        self._fitting_row = lru_cache(_MAX_CACHED_ROWS)(self._find_fitting_row)

    def prepare(self) -> None:
        """Decode all tokens now, within a second, instead of when a pattern first asks for it."""
        for lead in (*_LEADS, QUOTE):
            self._decoded(lead)
        _ = self._open_later, self._open_another

    def opening_too_much(self, bounds: Collection[LengthBound]) -> TokenSet:
        """The tokens that might open a string and write more of it than one of the bounds allows.

        Of strings whose pattern a guard enforces, `_keep_opening` sees to tokens that open one at once.
        """
        counted = [bound for bound in bounds if not bound.enforces_pattern]
        unchecked = (bound.num_unchecked(self._max_bytes) for bound in counted)
        may_open = self._num_opened > min(unchecked, default=self._max_bytes)
        if len(counted) < len(bounds):
            may_open |= self._open_later
        return TokenSet(self._ids[may_open], self._width)

    @cached_property
    def _open_later(self) -> NDArray[np.bool_]:
        return self._replaced(np.zeros(len(self._tokens), bool), _opens_later)

    @cached_property
    def _open_another(self) -> frozenset[int]:
        """The tokens that begin inside a string and may write of a string that they open after it."""
        opens_another = self._replaced(np.zeros(len(self._tokens), bool), _opens_another)
        return frozenset(self._ids[opens_another].tolist())

    def forbid_too_long(self, row: Row, cursor: Cursor, opening: TokenSet) -> None:
        """Remove from a row what would make a string too long.

        That is the string at the cursor, or one that a token of `opening` opens.
        """
        remaining = cursor.json.remaining
        if remaining is not None:
            self._keep_fitting(row, cursor, remaining)
        else:
            self._keep_opening(row, cursor.json.bound_of_value)
        if opening:
            inside = cursor.json.in_string and not cursor.json.escape
            ids = opening.allowed(row)
            self._try(self._open_another.intersection(ids) if inside else ids, row, cursor)

    def _keep_opening(self, row: Row, bound: LengthBound | None) -> None:
        """Keep in a row what may open the string whose whole pattern the guard enforces."""
        if bound is not None and bound.enforces_pattern:
            row &= self._row(bound.start, QUOTE)

    def _keep_fitting(self, row: Row, cursor: Cursor, remaining: RemainingLength) -> None:
        """Keep in a row the tokens that the string at the cursor has room for.

        Short tokens always fit. If the row allows few long ones, each is tried; if it allows many, the needs
        of the whole vocabulary are looked up.
        """
        if remaining.num_safe >= self._max_bytes:
            return
        lead, num_long = cursor.json.escape or remaining.partial, self._num_longer(remaining.num_safe)
        if lead in _LEADS and (remaining.automaton is None or num_long > _MAX_LONG_TOKENS):
            row &= self._row(remaining, lead)
            return
        allowed = self._ids[:num_long][row[self._words[:num_long]] & self._bits[:num_long] != 0].tolist()
        if lead in _LEADS and len(allowed) > _MAX_TRIED:
            row &= self._row(remaining, lead)
        else:
            self._try(allowed, row, cursor)

    def _num_longer(self, num_bytes: int) -> int:
        """How many tokens have more bytes; they are the first ones."""
        return bisect_left(self._num_bytes, -num_bytes, key=operator.neg)

    def _try(self, token_ids: Iterable[int], row: Row, cursor: Cursor) -> None:
        for token_id in token_ids:
            if cursor.advance(self._tokens[token_id]) is None:
                forbid(row, token_id)

    def _row(self, remaining: RemainingLength, lead: bytes) -> Row:
        """The row of the tokens that a string has room for after `lead`; none needs more than `most`."""
        automaton = remaining.automaton
        most = self._max_bytes + (0 if automaton is None else automaton.max_distance)
        return self._fitting_row(automaton, remaining.state, lead, min(remaining.num_left, most))

    def _find_fitting_row(
        self, automaton: StringAutomaton | None, state: int, lead: bytes, num_left: int
    ) -> Row:
        """The row of the tokens that need at most `num_left` characters."""
        if automaton is not None:
            return self._decoded(lead).groups(automaton).fitting_row(state, num_left)
        return np.packbits(self._num_added[lead] <= num_left, bitorder="little").view(np.int32)

    def _replaced(self, counts: NDArray[Number], count: Callable[[bytes], int]) -> NDArray[Number]:
        """Replace the counts of special tokens by what `count` says."""
        counts[list(self._special)] = [*map(count, self._special.values())]
        return counts

    def _by_id(self, counts: NDArray[np.int32]) -> NDArray[np.int32]:
        """Counts by token id; for ids of no text more than any bound."""
        by_id = np.full(-(-self._width // 32) * 32, np.iinfo(np.int32).max, np.int32)
        by_id[self._ids] = counts
        return by_id


def _num_opened(token: bytes) -> int:
    """At least the characters that a token adds to a string that it opens."""
    opened = token.partition(b'"')[2]
    return len(opened) if b"\\" in opened else max(map(len, opened.split(b'"')))  # a quote may be escaped


def _opens_later(token: bytes) -> bool:
    """Whether a token may write of a string that it opens after something else."""
    opened = OPENED_STRING.match(token)
    return QUOTE in (token if opened is None else opened.group(1))[:-1]


def _opens_another(token: bytes) -> bool:
    """Whether a token that begins inside a string may write of a string that it opens after it."""
    inside = IN_STRING.match(token)
    assert inside is not None
    return QUOTE in token[inside.end() + 1 : -1]


def _num_added(token: bytes) -> int:
    """The characters that a token adds to a string."""
    match = IN_STRING.match(token)
    assert match is not None
    return num_characters(_INCOMPLETE_ESCAPE.sub(b".", ESCAPE.sub(b".", match.group())))


def _num_added_escaped(token: bytes) -> int:
    """The characters that a token adds after a backslash, which has been counted."""
    return _num_added(BACKSLASH + token) - 1
