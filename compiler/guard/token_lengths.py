"""The lengths of tokens: which tokens a string still has room for, the shortest way to its end included.

A character counts as soon as its first byte or its backslash is written, so a character that has begun can
always be completed.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from compiler.guard.cursor import ESCAPE
from compiler.guard.string_bounds import LengthBound, RemainingLength, StringAutomaton
from compiler.guard.tagged_cursor import Cursor
from compiler.regular import charset
from compiler.regular.utf8 import decode_prefix, num_characters
from compiler.token_index import Row, TokenSet, bits_of, forbid

_BACKSLASH = b"\\"
_LEADS = (b"", _BACKSLASH)
"""The incomplete characters for which the needs of all tokens are computed at once: none, or a backslash."""
_ESCAPABLE = frozenset({b'"', b"\\", b"/", b"b", b"f", b"n", b"r", b"t", b"u"})
"""What may follow a backslash."""
_IN_STRING = re.compile(rb'(?:[^"\\]|\\.)*\\?', re.DOTALL)
"""The part of a token that is in the string it begins in, unless an escape has begun before it."""
_COMPLETE_CHARACTERS = re.compile(rb"(?:[^\\]|" + ESCAPE.pattern + rb")*", re.DOTALL)
_INCOMPLETE_ESCAPE = re.compile(rb"\\.*\Z", re.DOTALL)
_FEW = 8
_MANY = 4_096
"""To compute what all tokens need from a state of a pattern takes 10 ms. Up to this many long tokens, those
that the row allows are counted first, and if they are few, each is tried."""
_MAX_CACHED_NEEDS = 32
_MAX_CACHED_ROWS = 512


class TokenLengths:
    """How many characters each token adds to a string, up to the quote that closes it."""

    def __init__(self, tokens: Mapping[int, bytes], width: int) -> None:
        self._tokens = tokens = dict(sorted(tokens.items(), key=lambda item: -len(item[1])))
        self._width = width
        self._ids = np.fromiter(tokens, np.int64, len(tokens))
        self._words, self._bits = bits_of(self._ids)
        self._num_bytes = [*map(len, tokens.values())]
        self._num_opened = np.fromiter(map(_num_opened, tokens.values()), np.int32, len(tokens))
        self._max_bytes = max(self._num_bytes, default=0)
        self._num_added = {b"": self._by_id(_num_added), _BACKSLASH: self._by_id(_num_added_escaped)}
        self._decoded = cache(lambda lead: DecodedTokens(tokens, lead))
        self._needs = lru_cache(_MAX_CACHED_NEEDS)(self._find_needs)
        self._fitting_row = lru_cache(_MAX_CACHED_ROWS)(self._find_fitting_row)

    def prepare(self) -> None:
        """Decode all tokens now, within a second, instead of when a pattern first asks for it."""
        for lead in _LEADS:
            self._decoded(lead)

    def opening_too_much(self, bounds: Iterable[LengthBound]) -> TokenSet:
        """The tokens that might open a string and write more of it than one of the bounds allows."""
        unchecked = (bound.num_unchecked(self._max_bytes) for bound in bounds)
        return TokenSet(self._ids[self._num_opened > min(unchecked, default=self._max_bytes)], self._width)

    def forbid_too_long(self, row: Row, cursor: Cursor, opening: TokenSet) -> None:
        """Remove from a row what would make a string too long.

        That is the string at the cursor, or one that a token of `opening` opens.
        """
        remaining = cursor.json.remaining
        if remaining is not None:
            self._keep_fitting(row, cursor, remaining)
        if opening:
            self._try(opening.allowed(row), row, cursor)

    def _keep_fitting(self, row: Row, cursor: Cursor, remaining: RemainingLength) -> None:
        """Keep in a row the tokens that the string at the cursor has room for.

        Short tokens always fit. If the row allows few long ones, each is tried; if it allows many, the needs
        of the whole vocabulary are looked up.
        """
        automaton, lead = remaining.automaton, cursor.json.escape or remaining.partial
        num_safe = remaining.num_left if automaton is None else remaining.num_left - automaton.max_distance
        if num_safe >= self._max_bytes:
            return
        num_long = self._num_longer(num_safe)
        if lead in _LEADS and (automaton is None or num_long > _MANY):
            row &= self._fitting_row(automaton, remaining.state, lead, remaining.num_left)
            return
        allowed = self._ids[:num_long][row[self._words[:num_long]] & self._bits[:num_long] != 0].tolist()
        if lead in _LEADS and len(allowed) > _FEW:
            row &= self._fitting_row(automaton, remaining.state, lead, remaining.num_left)
        else:
            self._try(allowed, row, cursor)

    def _num_longer(self, num_bytes: int) -> int:
        """How many tokens have more bytes; they are the first ones."""
        return bisect_left(self._num_bytes, -num_bytes, key=lambda each: -each)

    def _try(self, token_ids: Iterable[int], row: Row, cursor: Cursor) -> None:
        for token_id in token_ids:
            if cursor.advance(self._tokens[token_id]) is None:
                forbid(row, token_id)

    def _find_fitting_row(
        self, automaton: StringAutomaton | None, state: int, lead: bytes, num_left: int
    ) -> Row:
        """The row of the tokens that need at most `num_left` characters."""
        return np.packbits(self._needs(automaton, state, lead) <= num_left, bitorder="little").view(np.int32)

    def _find_needs(self, automaton: StringAutomaton | None, state: int, lead: bytes) -> NDArray[np.int32]:
        """By token id, the characters that the token adds and the fewest that end the string after it."""
        if automaton is None:
            return self._num_added[lead]
        needs = self._unlimited()
        decoded = self._decoded(lead)
        needs[decoded.ids] = decoded.needs(automaton, state)
        return needs

    def _by_id(self, count: Callable[[bytes], int]) -> NDArray[np.int32]:
        """By token id, what `count` says; for ids of no text more than any bound."""
        by_id = self._unlimited()
        by_id[self._ids] = np.fromiter(map(count, self._tokens.values()), np.int32, len(self._tokens))
        return by_id

    def _unlimited(self) -> NDArray[np.int32]:
        return np.full(-(-self._width // 32) * 32, np.iinfo(np.int32).max, np.int32)


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
    return num_characters(_INCOMPLETE_ESCAPE.sub(b".", ESCAPE.sub(b".", match.group())))


def _num_added_escaped(token: bytes) -> int:
    """The characters that a token adds after a backslash, which has been counted.

    0 for a token that may not follow a backslash: the grammar forbids it.
    """
    return _num_added(_BACKSLASH + token) - 1 if token[:1] in _ESCAPABLE else 0


class _DecodedText(NamedTuple):
    chars: str
    partial: bytes = b""
    """The bytes of a last character that is incomplete."""
    is_closed: bool = False
    """A quote follows, which closes the string."""


class DecodedTokens:
    """Tokens as the characters that they add to a string, after `lead`: an opening backslash, or nothing.

    The tokens with the most characters come first, so that column `i` holds the character at index `i` of
    every token that has so many.
    """

    def __init__(self, tokens: Mapping[int, bytes], lead: bytes) -> None:
        possible = {
            token_id: token for token_id, token in tokens.items() if not lead or token[:1] in _ESCAPABLE
        }
        read = [(token_id, text) for token_id, token in possible.items() if (text := _decode(lead + token))]
        read.sort(key=lambda item: -len(item[1].chars))
        texts = [text for _, text in read]
        self.ids = np.array([token_id for token_id, _ in read], np.int64)
        num_chars = np.array([len(text.chars) for text in texts], np.int32)
        self._is_closed = np.array([text.is_closed for text in texts], bool)
        self._num_added = num_chars + np.array([bool(text.partial) for text in texts], np.int32) - bool(lead)
        joined = "".join(text.chars for text in texts).encode("utf-32-le")
        self._codes, numbers = _numbered(np.frombuffer(joined, np.uint32))
        first = np.cumsum(num_chars, dtype=np.int64) - num_chars
        self._columns = [
            numbers[first[: np.searchsorted(-num_chars, -at)] + at] for at in range(num_chars.max(initial=0))
        ]
        incomplete: dict[bytes, list[int]] = {}
        for index, text in enumerate(texts):
            if text.partial:
                incomplete.setdefault(text.partial, []).append(index)
        self._incomplete = {partial: np.array(indices) for partial, indices in incomplete.items()}

    def needs(self, automaton: StringAutomaton, state: int) -> NDArray[np.int32]:
        """For each of `ids`, the characters that it adds and the fewest that end the text after it.

        The character that `lead` has begun is counted already; `state` is the state before it.
        """
        classes, table = automaton.classes_of(self._codes), automaton.table
        states = np.full(len(self.ids), state, np.int32)
        for column in self._columns:
            states[: len(column)] = table[states[: len(column)], classes[column]]
        num_more = np.array(automaton.distance, np.int32)[states]
        num_more[self._is_closed] = 0
        for partial, indices in self._incomplete.items():
            num_more[indices] = [automaton.distance_within(int(each), partial) for each in states[indices]]
        needs: NDArray[np.int32] = self._num_added + num_more
        return needs


def _numbered(codes: NDArray[np.uint32]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The distinct code points in order, and for each of `codes` its index among them."""
    is_there = np.zeros(charset.LAST + 1, bool)
    is_there[codes] = True
    return np.flatnonzero(is_there), (np.cumsum(is_there, dtype=np.int32) - 1)[codes]


def _decode(text: bytes) -> _DecodedText | None:
    """The characters of a text up to the quote that closes the string; None if no string can hold it."""
    if b"\\" not in text:
        written, quote, _ = text.partition(b'"')
        return _decode_utf8(written, b"", is_closed=bool(quote))
    inside = _IN_STRING.match(text)
    assert inside is not None
    complete = _COMPLETE_CHARACTERS.match(inside.group())
    assert complete is not None
    partial = inside.group()[complete.end() :]
    try:
        written = ESCAPE.sub(_unescape, complete.group())
    except ValueError:
        return None
    return _decode_utf8(written, partial, is_closed=inside.end() < len(text))


def _decode_utf8(written: bytes, escape: bytes, *, is_closed: bool) -> _DecodedText | None:
    try:
        chars, partial = decode_prefix(written)
    except UnicodeDecodeError:
        return None
    return None if partial and (escape or is_closed) else _DecodedText(chars, partial or escape, is_closed)


def _unescape(escape: re.Match[bytes]) -> bytes:
    char: str = json.loads(b'"' + escape.group() + b'"')
    return char.encode()
