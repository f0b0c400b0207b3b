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

from compiler.guard.string_bounds import LengthBound, RemainingLength, StringAutomaton
from compiler.regular.utf8 import num_characters
from compiler.token_index import Row, TokenSet, bits_of, forbid

if TYPE_CHECKING:
    from compiler.guard.tagged_cursor import Cursor

import json
from typing import NamedTuple

from compiler.regular import charset
from compiler.regular.utf8 import split

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

    def opening_above(self, bounds: Iterable[LengthBound]) -> TokenSet:
        """Those that could open a string and write too much of it for one of the bounds."""
        num_free = min((bound.num_free(self._most_bytes) for bound in bounds), default=self._most_bytes)
        return TokenSet(self._ids[self._num_opened > num_free], self._width)

    def restrict(self, row: Row, cursor: "Cursor", opening: TokenSet) -> None:
        """Take out what makes a string too long, the one at the cursor or one that `opening` tokens begin."""
        room = cursor.in_json.room
        if room is not None:
            self._keep_within(row, cursor, room)
        if opening:
            self._try(opening.allowed(row), row, cursor)

    def _keep_within(self, row: Row, cursor: "Cursor", room: RemainingLength) -> None:
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

    def _try(self, token_ids: Iterable[int], row: Row, cursor: "Cursor") -> None:
        for token_id in token_ids:
            if cursor.advance(self._tokens[token_id]) is None:
                forbid(row, token_id)

    def _find_within(self, pattern: StringAutomaton | None, state: int, lead: bytes, num_left: int) -> Row:
        """The row of those that there is room for."""
        return np.packbits(self._needs(pattern, state, lead) <= num_left, bitorder="little").view(np.int32)

    def _find_needs(self, pattern: StringAutomaton | None, state: int, lead: bytes) -> NDArray[np.int32]:
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


ESCAPE = re.compile(rb"\\(?:[^u]|u(?:[dD][89abAB]..\\u....|(?![dD][89abAB])....))", re.DOTALL)
"""A whole escape of one character."""
ESCAPABLE = frozenset({b'"', b"\\", b"/", b"b", b"f", b"n", b"r", b"t", b"u"})
"""What may stand behind a backslash."""
IN_STRING = re.compile(rb'(?:[^"\\]|\\.)*\\?', re.DOTALL)
"""What a token adds to a string that it stands in, if no escape has begun before it."""
_WHOLE = re.compile(rb"(?:[^\\]|" + ESCAPE.pattern + rb")*", re.DOTALL)


class _Spelled(NamedTuple):
    chars: str
    begun: bytes = b""
    """The bytes of a character that is not whole."""
    is_closed: bool = False


class SpelledTokens:
    """Tokens that stand in a string behind `lead`, which is a backslash that escapes them, or nothing.

    By number of characters, those with most first, so that column `i` holds the characters at `i` of all that
    have so many.
    """

    def __init__(self, tokens: Mapping[int, bytes], lead: bytes) -> None:
        behind = {token_id: token for token_id, token in tokens.items() if not lead or token[:1] in ESCAPABLE}
        read = [(token_id, text) for token_id, token in behind.items() if (text := _spelled(lead + token))]
        read.sort(key=lambda item: -len(item[1].chars))
        texts = [text for _, text in read]
        self.ids = np.array([token_id for token_id, _ in read], np.int64)
        num_chars = np.array([len(text.chars) for text in texts], np.int32)
        self._closed = np.array([text.is_closed for text in texts], bool)
        self._num_added = num_chars + np.array([bool(text.begun) for text in texts], np.int32) - bool(lead)
        joined = "".join(text.chars for text in texts).encode("utf-32-le")
        self._codes, numbers = _numbered(np.frombuffer(joined, np.uint32))
        first = np.cumsum(num_chars, dtype=np.int64) - num_chars
        self._columns = [
            numbers[first[: np.searchsorted(-num_chars, -at)] + at] for at in range(num_chars.max(initial=0))
        ]
        begun: dict[bytes, list[int]] = {}
        for place, text in enumerate(texts):
            if text.begun:
                begun.setdefault(text.begun, []).append(place)
        self._begun = {text: np.array(places) for text, places in begun.items()}

    def needs(self, pattern: StringAutomaton, state: int) -> NDArray[np.int32]:
        """The characters that each of `ids` adds, and the fewest with which a text may end then.

        What `lead` has begun is counted already; `state` is the one before it.
        """
        kinds, table = pattern.kinds_of(self._codes), pattern.table
        states = np.full(len(self.ids), state, np.int32)
        for column in self._columns:
            states[: len(column)] = table[states[: len(column)], kinds[column]]
        left = np.array(pattern.distance, np.int32)[states]
        left[self._closed] = 0
        for begun, places in self._begun.items():
            left[places] = [pattern.left(int(behind), begun) for behind in states[places]]
        needs: NDArray[np.int32] = self._num_added + left
        return needs


def _numbered(codes: NDArray[np.uint32]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The code points that there are, and the place of each of `codes` among them."""
    is_there = np.zeros(charset.LAST + 1, bool)
    is_there[codes] = True
    return np.flatnonzero(is_there), (np.cumsum(is_there, dtype=np.int32) - 1)[codes]


def _spelled(text: bytes) -> _Spelled | None:
    """The characters up to the closing quote; None if it can stand in no string."""
    if b"\\" not in text:
        written, quote, _ = text.partition(b'"')
        return _decoded(written, b"", is_closed=bool(quote))
    inside = IN_STRING.match(text)
    assert inside is not None
    whole = _WHOLE.match(inside.group())
    assert whole is not None
    begun = inside.group()[whole.end() :]
    try:
        written = ESCAPE.sub(_plain, whole.group())
    except ValueError:
        return None
    return _decoded(written, begun, is_closed=inside.end() < len(text))


def _decoded(written: bytes, escape: bytes, *, is_closed: bool) -> _Spelled | None:
    try:
        chars, begun = split(written)
    except UnicodeDecodeError:
        return None
    return None if begun and (escape or is_closed) else _Spelled(chars, begun or escape, is_closed)


def _plain(escape: re.Match[bytes]) -> bytes:
    char: str = json.loads(b'"' + escape.group() + b'"')
    return char.encode()
