"""Tokens as the characters that they add to a string, in groups that a pattern cannot tell apart."""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from compiler.guard.json_characters import ESCAPE
from compiler.guard.string_automaton import FAR, StringAutomaton
from compiler.regular import charset
from compiler.regular.utf8 import decode_prefix
from compiler.token_index import Row

BACKSLASH = b"\\"
QUOTE = b'"'
IN_STRING = re.compile(rb'(?:[^"\\]|\\.)*\\?', re.DOTALL)
"""The part of a token that is in the string it begins in, unless an escape has begun before it."""
ESCAPABLE = frozenset({b'"', b"\\", b"/", b"b", b"f", b"n", b"r", b"t", b"u"})
"""What may follow a backslash."""
OPENED_STRING = re.compile(rb'\s*"(.*)\Z', re.DOTALL)
"""A token that opens a string before it writes anything else, and what it writes of the string."""
_COMPLETE_CHARACTERS = re.compile(rb"(?:[^\\]|" + ESCAPE.pattern + rb")*", re.DOTALL)
_MAX_CACHED_GROUPS = 8
_MAX_NEEDS_BYTES = 4 * 2**20
"""What the needs from states of an automaton may take; a few thousand groups take some 16 KB a state, and
those of a pattern that tells most tokens apart some 200 KB."""
_MIN_CACHED_NEEDS = 16
_KEY_BITS = 63
_NEVER = np.iinfo(np.int32).max


class _DecodedText(NamedTuple):
    chars: str
    partial: bytes = b""
    """The bytes of a last character that is incomplete."""
    is_closed: bool = False
    """A quote follows, which closes the string."""


def _read_after(lead: bytes, tokens: Mapping[int, bytes]) -> dict[int, bytes]:
    """What tokens write of a string after `lead`, with `lead` if it is a backslash.

    `lead` can also be nothing, or the quote that a token itself writes before anything else.
    """
    match lead:
        case b"":
            return dict(tokens)
        case b'"':
            opened = {token_id: OPENED_STRING.match(token) for token_id, token in tokens.items()}
            return {token_id: match.group(1) for token_id, match in opened.items() if match}
        case _:
            return {i: lead + token for i, token in tokens.items() if token[:1] in ESCAPABLE}


class DecodedTokens:
    """Texts of tokens, as the characters that they add to a string after `lead` (see `_read_after`).

    The tokens with the most characters come first, so that column `i` holds the character at index `i` of
    every token that has so many.
    """

    def __init__(self, tokens: Mapping[int, bytes], lead: bytes, width: int) -> None:
        ids: list[int] = []
        texts: list[str] = []
        end_of: list[int] = []
        numbers: dict[tuple[bytes, bool], int] = {}
        for token_id, token in _read_after(lead, tokens).items():
            if text := _decode(token):
                # Kept apart: 150,000 tuples in one list would make the garbage collector read all memory.
                ids.append(token_id)
                texts.append(text.chars)
                end_of.append(numbers.setdefault((text.partial, text.is_closed), len(numbers)))
        lengths = np.fromiter(map(len, texts), np.int32, len(texts))
        order = np.argsort(-lengths, kind="stable")
        self._ids = np.array(ids, np.int64)[order]
        self._width = width
        self._others = 0 if lead == QUOTE else _NEVER
        """What all other tokens need: nothing, as they open no string, or more than any bound."""
        self._ends = list(numbers)
        """What tokens end with: the bytes of an incomplete character, whether a quote follows."""
        self._end_of = np.array(end_of, np.int64)[order]
        has_partial = np.array([bool(partial) for partial, _ in self._ends], np.int32)[self._end_of]
        self._num_added = lengths[order] + has_partial - (lead == BACKSLASH)
        self._codes, self._columns = _columns([texts[at] for at in order.tolist()], lengths[order])
        self.groups = lru_cache(_MAX_CACHED_GROUPS)(self._find_groups)

    def _find_groups(self, automaton: StringAutomaton) -> "TokenGroups":
        """The groups of tokens that the automaton cannot tell apart."""
        classes = automaton.classes_of(self._codes)
        alike = [(automaton.classes_within(partial), is_closed) for partial, is_closed in self._ends]
        ends = list(dict.fromkeys(alike))
        end_of = np.array([ends.index(end) for end in alike], np.int64)[self._end_of]
        columns = [classes[column] for column in self._columns]
        group_of, members = _equal_rows(end_of, columns, len(automaton.transitions[0]))
        by_id = np.full(-(-self._width // 32) * 32, len(members), np.intp)
        by_id[self._ids] = group_of
        columns = [column[members[: np.searchsorted(members, len(column))]] for column in columns]
        groups = _Groups(columns, self._num_added[members], end_of[members], ends)
        return TokenGroups(automaton, groups, by_id, self._others)


class _Groups(NamedTuple):
    """What tells groups of tokens from one another."""

    columns: list[NDArray[np.int32]]
    """The classes of their characters, as the columns of `DecodedTokens`."""
    num_added: NDArray[np.int32]
    end_of: NDArray[np.int64]
    ends: list[tuple[frozenset[int] | None, bool]]
    """By number: the classes of the character that is incomplete, None if all are complete; and whether
    a quote follows."""


def _equal_rows(
    first: NDArray[np.int64], columns: list[NDArray[np.int32]], num_classes: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The group of each row, and the first row of each group, in order; equal rows are in one group.

    A column holds the values of the first rows only; the others have none there.
    """
    bits = num_classes.bit_length()
    groups = first
    at = 0
    while at < len(columns):
        num_rows = len(columns[at])
        key = groups[:num_rows].copy()
        fresh = int(groups.max(initial=0)) + 1
        room = _KEY_BITS - fresh.bit_length()
        for column in columns[at : at + max(1, room // bits)]:
            key <<= bits
            key[: len(column)] += column + 1
            at += 1
        groups = np.append(np.unique(key, return_inverse=True)[1] + fresh, groups[num_rows:])
    _, members, group_of = np.unique(groups, return_index=True, return_inverse=True)
    order = np.argsort(members)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank[group_of], members[order]


class TokenGroups:
    """Groups of tokens between which an automaton does not distinguish: a few thousand for a vocabulary."""

    def __init__(
        self, automaton: StringAutomaton, groups: _Groups, group_of: NDArray[np.intp], others: int
    ) -> None:
        self._automaton = automaton
        self._groups = groups
        self._group_of = group_of
        """By token id; tokens that write nothing of the string are in a last group."""
        self._others = others
        num_bytes = (len(groups.num_added) + 1) * groups.num_added.itemsize
        self._needs = lru_cache(max(_MIN_CACHED_NEEDS, _MAX_NEEDS_BYTES // num_bytes))(self._find_needs)

    def fitting_row(self, state: int, num_left: int) -> Row:
        """The row of the tokens that need at most `num_left` characters from a state of the automaton on."""
        fits: NDArray[np.bool_] = self._needs(state) <= num_left
        return np.packbits(fits[self._group_of], bitorder="little").view(np.int32)

    def _find_needs(self, state: int) -> NDArray[np.int32]:
        """For each group, the characters that a token adds and the fewest that end the text after it.

        A character that has begun is counted already; `state` is the state before it.
        """
        automaton, table, groups = self._automaton, self._automaton.table, self._groups
        states = np.full(len(groups.num_added), state, np.int32)
        for column in groups.columns:
            states[: len(column)] = table[states[: len(column)], column]
        num_more = np.array(automaton.distance, np.int32)[states]
        for number, (classes, is_closed) in enumerate(groups.ends):
            has_end = groups.end_of == number
            if is_closed:
                num_more[has_end] = [
                    0 if automaton.may_end(end_state) else FAR for end_state in states[has_end].tolist()
                ]
            elif classes is not None:
                num_more[has_end] = [
                    automaton.distance_after(end_state, classes) for end_state in states[has_end].tolist()
                ]
        return np.append(groups.num_added + num_more, np.int32(self._others))


def _columns(
    texts: list[str], lengths: NDArray[np.int32]
) -> tuple[NDArray[np.int64], list[NDArray[np.int32]]]:
    """The distinct code points of texts, the longest text first; and the columns of their characters.

    Column `i` holds, for every text of more than `i` characters, the number of its character at index `i`.
    """
    codes, numbers = _numbered(np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32))
    first = np.cumsum(lengths, dtype=np.int64) - lengths
    num_longer = [np.searchsorted(-lengths, -at) for at in range(lengths.max(initial=0))]
    return codes, [numbers[first[:num_texts] + at] for at, num_texts in enumerate(num_longer)]


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
    inside = IN_STRING.match(text)
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
