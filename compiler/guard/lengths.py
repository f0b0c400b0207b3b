"""The lengths of tokens: keeps strings to the number of characters that a cursor has room for.

A character counts as soon as its first byte or its backslash is written, so what is begun can be finished.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from compiler.guard.cursor import ESCAPE, num_characters
from compiler.guard.token_class import TokenClass, forbid
from compiler.token_index import Row

if TYPE_CHECKING:
    from compiler.guard.tagged import Position

_IN_STRING = re.compile(rb'(?:[^"\\]|\\.)*\\?', re.DOTALL)
_BACKSLASH = b"\\"
_ESCAPABLE = frozenset({b'"', b"\\", b"/", b"b", b"f", b"n", b"r", b"t", b"u"})
_BEGUN_ESCAPE = re.compile(rb"\\.*\Z", re.DOTALL)


class TokenLengths:
    """How many characters each token adds to a string it stands in, up to the quote that closes it."""

    def __init__(self, tokens: Mapping[int, bytes], width: int) -> None:
        self._tokens = tokens
        self._width = width
        self._ids = np.fromiter(tokens, np.int64, len(tokens))
        self._num_bytes = np.fromiter(map(len, tokens.values()), np.int32, len(tokens))
        self._num_opened = np.fromiter(map(_num_opened, tokens.values()), np.int32, len(tokens))
        self._most_bytes = int(self._num_bytes.max(initial=0))
        self._added = {b"": self._by_id(_num_added), _BACKSLASH: self._by_id(_num_added_escaped)}
        self._fitting: dict[tuple[bytes, int], Row] = {}

    def opening_above(self, room: int) -> TokenClass:
        """Those that could open a string and add more than `room` characters to it."""
        return TokenClass(self._ids[self._num_opened > room], self._width)

    def restrict(self, row: Row, cursor: "Position", opening: TokenClass) -> None:
        """Take out what makes a string too long, the one at the cursor or one that `opening` tokens begin."""
        room = cursor.room
        if room is not None and room < self._most_bytes:
            if cursor.escape in self._added:
                row &= self._within(room, cursor.escape)
            else:  # few may follow
                is_allowed = np.unpackbits(row.view(np.uint8), bitorder="little")[self._ids]
                self._try(self._ids[is_allowed.astype(bool) & (self._num_bytes > room)], row, cursor)
        if opening:
            self._try(opening.allowed(row), row, cursor)

    def _try(self, token_ids: Iterable[int], row: Row, cursor: "Position") -> None:
        for token_id in map(int, token_ids):
            if cursor.advance(self._tokens[token_id]) is None:
                forbid(row, token_id)

    def _within(self, room: int, escape: bytes) -> Row:
        """The row of those that add at most `room` characters behind an escape that has begun."""
        if (escape, room) not in self._fitting:
            fitting = np.packbits(self._added[escape] <= room, bitorder="little").view(np.int32)
            self._fitting[escape, room] = fitting
        return self._fitting[escape, room]

    def _by_id(self, count: Callable[[bytes], int]) -> NDArray[np.int32]:
        """What every token adds, more than any bound for what is none."""
        by_id = np.full(-(-self._width // 32) * 32, np.iinfo(np.int32).max, np.int32)
        by_id[self._ids] = np.fromiter(map(count, self._tokens.values()), np.int32, len(self._tokens))
        return by_id


def _num_opened(token: bytes) -> int:
    """At least the characters that a token adds to a string that it opens."""
    opened = token.partition(b'"')[2]
    return len(opened) if b"\\" in opened else max(map(len, opened.split(b'"')))  # a quote may be escaped


def _num_added(token: bytes) -> int:
    """The characters that a token adds to a string."""
    if b'"' not in token and b"\\" not in token:
        return num_characters(token)
    match = _IN_STRING.match(token)
    assert match is not None
    return num_characters(_BEGUN_ESCAPE.sub(b".", ESCAPE.sub(b".", match.group())))


def _num_added_escaped(token: bytes) -> int:
    """The same behind a backslash, which has been counted; no matter what where none may follow one."""
    return _num_added(_BACKSLASH + token) - 1 if token[:1] in _ESCAPABLE else 0
