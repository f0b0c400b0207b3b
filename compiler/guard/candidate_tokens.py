"""Candidate tokens: the few tokens of a vocabulary that might repeat an element, or lead to a repetition.

A guard advances its cursor over each candidate that a mask allows. No other token can repeat anything, which
is known from the bytes of the token and from what the cursor has seen.
"""

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from compiler.guard.cursor import JsonCursor
from compiler.guard.guarded_tokens import NOT_ONLY_CHARACTERS, GuardedTokens
from compiler.guard.json_characters import num_characters_begun
from compiler.guard.open_containers import SeenElement
from compiler.guard.tagged_cursor import Cursor
from compiler.token_index import Row, TokenSet, allows, forbid
from compiler.vocabulary import KEY_MARK

_SEPARATORS = (b",", b":")
_BLANKS_BEFORE = (b"", b" ")
"""What may precede the rest of an element outside of a string."""
_KEY_MARK = KEY_MARK.encode()
_NUM_WORDS_LOOKED_AT = 4
"""Words of a row, of 32 tokens each, of which one token is compared with what was seen."""

Candidates = Iterator[tuple[int, Cursor | None]]
"""Candidate tokens, each with the cursor after it; None if the token repeats an element."""


class CandidateTokens:
    """Finds the candidates at a cursor; no other token repeats anything there.

    `has_items` says whether items must be distinct anywhere, not only keys.
    """

    def __init__(self, tokens: GuardedTokens, *, has_items: bool) -> None:
        self._tokens = tokens
        self._spellings = tokens.vocabulary.tokens
        self._has_items = has_items

    def allowed(self, row: Row, cursor: Cursor) -> Candidates:
        """The candidates that a row allows."""
        json = cursor.json
        seen = list(json.seen_elements())
        in_sets = chain.from_iterable(tokens.allowed(row) for tokens in self._sets(json, seen))
        whole_keys = (token_id for token_id in self._whole_keys(json) if allows(row, token_id))
        for token_id in dict.fromkeys(chain(in_sets, self._writing(row, seen, json), whole_keys)):
            yield token_id, cursor.advance(self._spellings[token_id])

    def completing_marked(self, row: Row, cursor: JsonCursor) -> Iterator[tuple[int, bytes]]:
        """The tokens that a row allows and that complete a marked key, as the grammar reads them.

        Those that begin outside of the key or also complete anything else are among `allowed`.
        """
        if cursor.scalar is None or cursor.escape or not cursor.marked_keys:
            return
        written = bytes(cursor.scalar)
        for key in cursor.marked_keys:
            if not key.startswith(written):
                continue
            rest = key[len(written) :]
            for token_id in self._beginning(rest, row):
                yield token_id, rest + _KEY_MARK + self._spellings[token_id][len(rest) :]

    def _beginning(self, text: bytes, row: Row) -> Sequence[int]:
        """The tokens that a row allows and that begin with a text."""
        tokens = self._tokens.beginning(text) if len(text) <= self._tokens.index.longest else None
        return tokens.allowed(row) if tokens else ()

    def are_all_allowed(self, row: Row, cursor: Cursor) -> bool:
        """Whether a row allows candidates only."""
        others = row.copy()
        json = cursor.json
        seen = list(json.seen_elements())
        for tokens in self._sets(json, seen):
            tokens.remove(others)
        if json.in_string and self._allows_another_text(others, seen):
            return False
        for token_id in self._writing(others, seen, json):
            forbid(others, token_id)
        return not others.any()

    def _allows_another_text(self, row: Row, seen: list[SeenElement]) -> bool:
        """Whether one of the first tokens of a row, inside a string, begins no seen element.

        That is mostly so, and known without the tokens that write a part of each of very many elements.
        """
        for word in np.flatnonzero(row)[:_NUM_WORDS_LOOKED_AT].tolist():
            bits = int(row[word])
            token = self._spellings[32 * word + (bits & -bits).bit_length() - 1]
            is_text = not NOT_ONLY_CHARACTERS.search(token)
            if is_text and not any(element.rest.startswith(token) for element in seen):
                return True
        return False

    def _sets(self, cursor: JsonCursor, seen: list[SeenElement]) -> Iterator[TokenSet]:
        """The candidates that are known without spelling a seen element: all but those of `_writing`."""
        tokens = self._tokens
        if cursor.is_complete:
            yield tokens.opening  # from between tags, a token may lead into the JSON of the next one
            if cursor.plan.marks_keys:
                yield tokens.keys_outside
            return
        if cursor.can_run_out:
            if not cursor.in_string:
                yield tokens.structural
            else:
                yield tokens.quoted if seen or cursor.marked_keys else tokens.crossing
                if seen:
                    yield tokens.escaping
            return
        yield from self._sets_inside(cursor, seen) if cursor.in_string else self._sets_outside(cursor, seen)

    def _sets_inside(self, cursor: JsonCursor, seen: list[SeenElement]) -> Iterator[TokenSet]:
        """As `_sets`, inside a string."""
        tokens = self._tokens
        yield tokens.keys_inside
        if self._has_items:
            yield tokens.items_inside
        if seen or cursor.marked_keys:
            yield tokens.quoted if cursor.escape else tokens.escaped
        if _filling(seen, cursor):
            yield tokens.escaping

    def _sets_outside(self, cursor: JsonCursor, seen: list[SeenElement]) -> Iterator[TokenSet]:
        """As `_sets`, outside of any string, where nothing runs out."""
        tokens = self._tokens
        yield tokens.keys_outside
        if self._has_items:
            yield tokens.items_outside
            if seen:
                yield tokens.whole_strings
        if seen or cursor.marked_keys:
            yield tokens.escaped

    def _writing(self, row: Row, seen: list[SeenElement], cursor: JsonCursor) -> Iterator[int]:
        """The tokens that a row allows and that write on a seen element up to its end.

        Also those that write a part of it if it can run out.
        """
        in_string, filling = cursor.in_string, _filling(seen, cursor)
        blanks = (b"",) if in_string else _BLANKS_BEFORE
        for element in seen:
            if element.can_run_out or element in filling:
                # In a full string, the last character, perhaps not whole, leads to the end of the element.
                parts = self._writing_part(element.rest, in_string=in_string)
                yield from (token_id for token_id in parts if allows(row, token_id))
            if element.can_run_out or (not in_string and element.rest.startswith(b'"')):
                continue  # the tokens that write it whole are in `whole_strings` or `_whole_keys`
            for blank in blanks:
                yield from self._beginning(blank + element.rest, row)

    def _whole_keys(self, cursor: JsonCursor) -> Iterator[int]:
        """The tokens that open, outside of any string, a key that the object has or that is marked."""
        container = cursor.container
        if container is None or not (container.is_object and cursor.expects_element):
            return
        marked, seen = cursor.marked_keys, container.seen
        if marked or seen.size:
            for string, ids in self._tokens.by_whole_string.items():
                if string in marked or string in seen:
                    yield from ids

    def _writing_part(self, text: bytes, *, in_string: bool) -> Iterator[int]:
        """The tokens that begin a canonical spelling, with or without blanks after separators."""
        index = self._tokens.index
        blanks = (b"",) if in_string else _BLANKS_BEFORE
        pending = [(blank, 0, in_string, 0, len(index.spellings)) for blank in blanks]
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


def _filling(seen: list[SeenElement], cursor: JsonCursor) -> list[SeenElement]:
    """The seen elements for whose rest the string at the cursor has room, and for no character more."""
    if cursor.remaining is None:
        return []
    num_left = cursor.remaining.num_left
    return [
        element
        for element in seen
        if num_left < len(element.rest) and num_characters_begun(element.rest, cursor.escape) == num_left
    ]


def _is_escaped(text: bytes, at: int) -> bool:
    """Whether an odd number of backslashes precedes a character of a string."""
    return (at - len(text[:at].rstrip(b"\\"))) % 2 == 1
