"""The lengths of tokens: keeps strings to the number of characters that a cursor has room for.

A character counts as soon as its first byte or its backslash is written, so what is begun can be finished.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from compiler.guard.cursor import ESCAPE, num_characters
from compiler.guard.token_class import TokenClass, forbid
from compiler.token_index import Row

if TYPE_CHECKING:
    from compiler.guard.tagged import Position

_IN_STRING = re.compile(rb'(?:[^"\\]|\\.)*\\?', re.DOTALL)
_BEGUN_ESCAPE = re.compile(rb"\\.*\Z", re.DOTALL)


class TokenLengths:
    """How many characters each token adds to a string it stands in, up to the quote that closes it."""

    def __init__(self, tokens: Mapping[int, bytes], width: int) -> None:
        self._tokens = tokens
        self._width = width
        self._ids = np.fromiter(tokens, np.int64, len(tokens))
        self._num_bytes = np.fromiter(map(len, tokens.values()), np.int32, len(tokens))
        self._num_opened = np.fromiter(map(_num_opened, tokens.values()), np.int32, len(tokens))
        added = np.fromiter(map(_num_added, tokens.values()), np.int32, len(tokens))
        self._num_added = np.full(-(-width // 32) * 32, np.iinfo(np.int32).max)
        self._num_added[self._ids] = added
        self._longest = int(added.max(initial=0))
        self._fitting: dict[int, Row] = {}

    def opening_above(self, room: int) -> TokenClass:
        """Those that could open a string and add more than `room` characters to it."""
        return TokenClass(self._ids[self._num_opened > room], self._width)

    def restrict(self, row: Row, cursor: "Position", opening: TokenClass) -> None:
        """Take out what makes a string too long, the one at the cursor or one that `opening` tokens begin."""
        room = cursor.room
        if room is not None and room < self._longest:
            if cursor.escape:
                self._try(TokenClass(self._ids[self._num_bytes > room], self._width), row, cursor)
            else:
                row &= self._within(room)
        if opening:
            self._try(opening, row, cursor)

    def _try(self, tokens: TokenClass, row: Row, cursor: "Position") -> None:
        for token_id in tokens.allowed(row):
            if cursor.advance(self._tokens[token_id]) is None:
                forbid(row, token_id)

    def _within(self, room: int) -> Row:
        """The row of those that add at most `room` characters."""
        if room not in self._fitting:
            self._fitting[room] = np.packbits(self._num_added <= room, bitorder="little").view(np.int32)
        return self._fitting[room]


def _num_opened(token: bytes) -> int:
    """At least the characters that a token adds to a string that it opens."""
    return max(map(len, token.split(b'"')[1:]), default=0) if b'"' in token else 0


def _num_added(token: bytes) -> int:
    """The characters that a token adds to a string."""
    if b'"' not in token and b"\\" not in token:
        return num_characters(token)
    match = _IN_STRING.match(token)
    assert match is not None
    return num_characters(_BEGUN_ESCAPE.sub(b".", ESCAPE.sub(b".", match.group())))
