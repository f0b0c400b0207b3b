"""The lengths of tokens: keeps strings to the number of characters that a cursor has room for.

A character counts as soon as its first byte or its backslash is written, so what is begun can be finished.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from compiler.guard.bound import Bound, Room
from compiler.guard.string_bounds import Pattern
from compiler.guard.spelled import ESCAPABLE, ESCAPE, IN_STRING, SpelledTokens
from compiler.guard.token_class import TokenClass, bits_of
from compiler.guard.utf8 import num_characters
from compiler.token_index import Row, forbid

if TYPE_CHECKING:
    from compiler.guard.tagged_cursor import AnyCursor

_BACKSLASH = b"\\"
_LEADS = (b"", _BACKSLASH)
"""What may have been written of a character where the needs of all tokens are found at once."""
_BEGUN_ESCAPE = re.compile(rb"\\.*\Z", re.DOTALL)
_FEW = 8
_MANY = 4_096
"""What all tokens need takes 10 ms to find for a state of a pattern: a few of not too many are tried."""
_KEPT_NEEDS = 32
_KEPT_ROWS = 512


class TokenLengths:
    """How many characters each token adds to a string it stands in, up to the quote that closes it."""

    def __init__(self, tokens: Mapping[int, bytes], width: int) -> None:
        self._tokens = tokens = dict(sorted(tokens.items(), key=lambda item: -len(item[1])))
        self._width = width
        self._ids = np.fromiter(tokens, np.int64, len(tokens))
        self._words, self._bits = bits_of(self._ids)
        self._num_bytes = [*map(len, tokens.values())]
        self._num_opened = np.fromiter(map(_num_opened, tokens.values()), np.int32, len(tokens))
        self._most_bytes = max(self._num_bytes, default=0)
        self._added = {b"": self._by_id(_num_added), _BACKSLASH: self._by_id(_num_added_escaped)}
        self._spelled = cache(lambda lead: SpelledTokens(tokens, lead))
        self._needs = lru_cache(_KEPT_NEEDS)(self._find_needs)
        self._within = lru_cache(_KEPT_ROWS)(self._find_within)

    def prepare(self) -> None:
        """Find what patterns ask for now, within a second, rather than when it is first wanted."""
        for lead in _LEADS:
            self._spelled(lead)

    def opening_above(self, bounds: Iterable[Bound]) -> TokenClass:
        """Those that could open a string and write too much of it for one of the bounds."""
        num_free = min((bound.num_free(self._most_bytes) for bound in bounds), default=self._most_bytes)
        return TokenClass(self._ids[self._num_opened > num_free], self._width)

    def restrict(self, row: Row, cursor: "AnyCursor", opening: TokenClass) -> None:
        """Take out what makes a string too long, the one at the cursor or one that `opening` tokens begin."""
        room = cursor.in_json.room
        if room is not None:
            self._keep_within(row, cursor, room)
        if opening:
            self._try(opening.allowed(row), row, cursor)

    def _keep_within(self, row: Row, cursor: "AnyCursor", room: Room) -> None:
        """Leave what a string has room for: short tokens always, and of long ones those that fit.

        A few of these are tried. Where there are many, what all of the vocabulary need is looked up.
        """
        pattern, lead = room.pattern, cursor.in_json.escape or room.begun
        num_safe = room.num_left if pattern is None else room.num_left - pattern.farthest
        if num_safe >= self._most_bytes:
            return
        num_long = self._num_longer(num_safe)
        if lead in _LEADS and (pattern is None or num_long > _MANY):
            row &= self._within(pattern, room.state, lead, room.num_left)
            return
        allowed = self._ids[:num_long][row[self._words[:num_long]] & self._bits[:num_long] != 0].tolist()
        if lead in _LEADS and len(allowed) > _FEW:
            row &= self._within(pattern, room.state, lead, room.num_left)
        else:
            self._try(allowed, row, cursor)

    def _num_longer(self, num_bytes: int) -> int:
        """How many tokens have more bytes; they are the first ones."""
        return bisect_left(self._num_bytes, -num_bytes, key=lambda each: -each)

    def _try(self, token_ids: Iterable[int], row: Row, cursor: "AnyCursor") -> None:
        for token_id in token_ids:
            if cursor.advance(self._tokens[token_id]) is None:
                forbid(row, token_id)

    def _find_within(self, pattern: Pattern | None, state: int, lead: bytes, num_left: int) -> Row:
        """The row of those that there is room for."""
        return np.packbits(self._needs(pattern, state, lead) <= num_left, bitorder="little").view(np.int32)

    def _find_needs(self, pattern: Pattern | None, state: int, lead: bytes) -> NDArray[np.int32]:
        """The room that every token needs, the shortest way to an end included."""
        if pattern is None:
            return self._added[lead]
        needs = self._nothing()
        spelled = self._spelled(lead)
        needs[spelled.ids] = spelled.needs(pattern, state)
        return needs

    def _by_id(self, count: Callable[[bytes], int]) -> NDArray[np.int32]:
        """What every token adds; more than any bound for what is none."""
        by_id = self._nothing()
        by_id[self._ids] = np.fromiter(map(count, self._tokens.values()), np.int32, len(self._tokens))
        return by_id

    def _nothing(self) -> NDArray[np.int32]:
        return np.full(-(-self._width // 32) * 32, np.iinfo(np.int32).max, np.int32)


def _num_opened(token: bytes) -> int:
    """At least the characters that a token adds to a string that it opens."""
    opened = token.partition(b'"')[2]
    return len(opened) if b"\\" in opened else max(map(len, opened.split(b'"')))  # a quote may be escaped


def _num_added(token: bytes) -> int:
    """The characters that a token adds to a string."""
    if b'"' not in token and b"\\" not in token:
        return num_characters(token)
    match = IN_STRING.match(token)
    assert match is not None
    return num_characters(_BEGUN_ESCAPE.sub(b".", ESCAPE.sub(b".", match.group())))


def _num_added_escaped(token: bytes) -> int:
    """The same behind a backslash, which has been counted; no matter what where none may follow one."""
    return _num_added(_BACKSLASH + token) - 1 if token[:1] in ESCAPABLE else 0
