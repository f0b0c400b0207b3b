"""Suspects: the tokens that may repeat a key or an item, or write on one that is like one seen before."""

from collections.abc import Iterator
from itertools import chain

from compiler.guard.cursor import Cursor
from compiler.guard.tagged_cursor import AnyCursor
from compiler.guard.target import Target
from compiler.guard.token_class import TokenClass
from compiler.guard.tokens import GuardedTokens
from compiler.token_index import Row, forbid

_SEPARATORS = (b",", b":")

Ways = Iterator[tuple[int, AnyCursor | None]]
"""Tokens that may follow a place, each with the cursor after it, None if it repeats something."""


class Suspects:
    """Finds the suspects at a cursor; every other token is harmless there.

    `has_items` says whether items must be distinct anywhere, not keys alone.
    """

    def __init__(self, tokens: GuardedTokens, *, has_items: bool) -> None:
        self._tokens = tokens
        self._spellings = tokens.vocabulary.tokens
        self._has_items = has_items

    def among(self, row: Row, cursor: AnyCursor) -> Ways:
        """Those that a row allows."""
        in_json = cursor.in_json
        if in_json.is_over:
            return
        targets = list(in_json.targets())
        ids = chain.from_iterable(tokens.allowed(row) for tokens in self._classes(in_json, targets))
        along = (i for i in self._along(targets, in_json) if row[i >> 5] >> (i & 31) & 1)
        for token_id in dict.fromkeys(chain(ids, along)):
            yield token_id, cursor.advance(self._spellings[token_id])

    def are_all(self, row: Row, cursor: AnyCursor) -> bool:
        """Whether a row allows nothing else."""
        harmless = row.copy()
        in_json = cursor.in_json
        targets = list(in_json.targets())
        for tokens in self._classes(in_json, targets):
            tokens.remove(harmless)
        for token_id in self._along(targets, in_json):
            forbid(harmless, token_id)
        return not harmless.any()

    def _classes(self, cursor: Cursor, targets: list[Target]) -> Iterator[TokenClass]:
        """Those that are known without spelling a target, by class: all but those `_along` one."""
        tokens = self._tokens
        if cursor.can_run_out:
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

    def _along(self, targets: list[Target], cursor: Cursor) -> Iterator[int]:
        """The tokens that write on a target: to its end and beyond, or some of it if it can run out."""
        in_string, index = cursor.in_string, self._tokens.index
        for target in targets:
            if target.can_run_out:
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
