"""Candidate tokens: those that may repeat a key or an item, or write on one that is like one seen before."""

import re
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from compiler.guard.token_lengths import TokenLengths
from compiler.token_index import TokenIndex, TokenSet

if TYPE_CHECKING:
    from compiler.vocabulary import Vocabulary

from collections.abc import Iterator
from itertools import chain

from compiler.guard.cursor import JsonCursor, SeenElement
from compiler.guard.tagged_cursor import Cursor
from compiler.token_index import Row, forbid

_STRUCTURE = frozenset(b'[]{},"')
_KEY = rb'[,{]\s*".*"'
_ITEM = rb'[,\[]\s*(?:".*"|[^"\s].*[],}])'
_ESCAPES = re.compile(rb"\\.", re.DOTALL)
_OTHER_SPELLING = re.compile(rb"\\[/u]")


class GuardedTokens:
    """The tokens of a vocabulary that a guard must look at, by what they can do."""

    def __init__(self, vocabulary: "Vocabulary") -> None:
        self.vocabulary = vocabulary

    def prepare(self) -> None:
        """Find all of them now, within two seconds, rather than when each is first looked at."""
        for name, found in vars(type(self)).items():
            if isinstance(found, cached_property):
                getattr(self, name)
        self.lengths.prepare()

    @cached_property
    def _texts(self) -> dict[int, bytes]:
        markers = self.vocabulary.marker_ids
        tokens = enumerate(self.vocabulary.tokens)
        return {token_id: token for token_id, token in tokens if token and token_id not in markers}

    def _those(self, is_in: Callable[[bytes], object]) -> TokenSet:
        ids = [token_id for token_id, token in self._texts.items() if is_in(token)]
        return TokenSet(np.array(ids, np.int64), self.vocabulary.width)

    @cached_property
    def keys_inside(self) -> TokenSet:
        """From inside a string they may complete a key that comes later."""
        return self._those(re.compile(b'".*' + _KEY, re.DOTALL).search)

    @cached_property
    def keys_outside(self) -> TokenSet:
        """The same from outside a string, a key that begins there aside."""
        return self._those(re.compile(_KEY, re.DOTALL).search)

    @cached_property
    def items_inside(self) -> TokenSet:
        """From inside a string they may complete an item that comes later."""
        return self._those(re.compile(b'".*' + _ITEM, re.DOTALL).search)

    @cached_property
    def items_outside(self) -> TokenSet:
        """The same from outside a string."""
        return self._those(re.compile(_ITEM, re.DOTALL).search)

    @cached_property
    def crossing(self) -> TokenSet:
        """From inside a string they may begin a key or an item that comes later."""
        return self._those(re.compile(rb'"[^,\[{]*[,\[{]').search)

    @cached_property
    def quoted(self) -> TokenSet:
        """They may complete the string they begin in."""
        return self._those(lambda token: b'"' in token)

    @cached_property
    def escaped(self) -> TokenSet:
        """They may do so in another spelling than the canonical one: that has all short escapes but one."""
        return self._those(lambda token: _OTHER_SPELLING.search(token) and b'"' in _ESCAPES.sub(b"", token))

    @cached_property
    def structural(self) -> TokenSet:
        """Outside a string they may complete anything."""
        return self._those(_ends_something)

    @cached_property
    def escaping(self) -> TokenSet:
        """They may spell a text in another way than the canonical one."""
        return self._those(lambda token: b"\\" in token)

    @cached_property
    def lengths(self) -> TokenLengths:
        """What they add to a string."""
        return TokenLengths(self._texts, self.vocabulary.width)

    @property
    def index(self) -> TokenIndex:
        """The tokens in order of their bytes."""
        index: TokenIndex = self.vocabulary.index
        return index


def _ends_something(token: bytes) -> bool:
    """Whether a token outside a string may complete anything; one that only opens a string does not."""
    only_opens = token.lstrip().startswith(b'"') and token.count(b'"') == 1 and b"\\" not in token
    return not _STRUCTURE.isdisjoint(token) and not only_opens


_SEPARATORS = (b",", b":")

Candidates = Iterator[tuple[int, Cursor | None]]
"""Tokens that may follow a place, each with the cursor after it, None if it repeats something."""


class CandidateTokens:
    """Finds the suspects at a cursor; every other token is harmless there.

    `has_items` says whether items must be distinct anywhere, not keys alone.
    """

    def __init__(self, tokens: GuardedTokens, *, has_items: bool) -> None:
        self._tokens = tokens
        self._spellings = tokens.vocabulary.tokens
        self._has_items = has_items

    def among(self, row: Row, cursor: Cursor) -> Candidates:
        """Those that a row allows."""
        in_json = cursor.in_json
        if in_json.is_over:
            return
        targets = list(in_json.targets())
        ids = chain.from_iterable(tokens.allowed(row) for tokens in self._classes(in_json, targets))
        along = (i for i in self._along(targets, in_json) if row[i >> 5] >> (i & 31) & 1)
        for token_id in dict.fromkeys(chain(ids, along)):
            yield token_id, cursor.advance(self._spellings[token_id])

    def are_all(self, row: Row, cursor: Cursor) -> bool:
        """Whether a row allows nothing else."""
        harmless = row.copy()
        in_json = cursor.in_json
        targets = list(in_json.targets())
        for tokens in self._classes(in_json, targets):
            tokens.remove(harmless)
        for token_id in self._along(targets, in_json):
            forbid(harmless, token_id)
        return not harmless.any()

    def _classes(self, cursor: JsonCursor, targets: list[SeenElement]) -> Iterator[TokenSet]:
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

    def _along(self, targets: list[SeenElement], cursor: JsonCursor) -> Iterator[int]:
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
