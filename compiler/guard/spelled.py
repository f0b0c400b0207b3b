"""The tokens of a vocabulary as the characters that they add to a string of JSON."""

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from compiler.guard.string_bounds import Pattern
from compiler.guard.utf8 import split
from compiler.regular import charset

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

    def needs(self, pattern: Pattern, state: int) -> NDArray[np.int32]:
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
