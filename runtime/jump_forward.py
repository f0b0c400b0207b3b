"""Jump-forward: how the text that a grammar forces is spelled in tokens, and which of them are certain.

A tokenizer spells a text by merging, so the tokens of a text, cut where one of them ends, are the tokens of
each part. What follows a forced text is not known, and may be merged with its end: then some token of the
vocabulary begins at a place inside the forced text and goes on behind it. The tokens on which the spellings
up to all of these places agree with that of the whole are those of every text that begins so. Each of the
others is certain only where the mask allows no token that leaves the forced text.
"""

import codecs
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from compiler.vocabulary import Vocabulary

MAX_KEPT = 4096
"""Texts whose spelling is kept; a toolset forces a few per tool."""
MAX_KEPT_BYTES = 2048
"""Longer texts are spelled anew."""
MAX_TRIED = 1024
"""Tokens that are tried behind a text; where more begin alike, one of them is taken to fit."""
_ANCHOR = "\n"


@dataclass(frozen=True, slots=True)
class Spelled:
    """Tokens of a forced text; `beginnings` has all that spell a beginning of the rest in each one's place.

    It has None for a token that is certain, whatever follows the text.
    """

    ids: tuple[int, ...] = ()
    beginnings: tuple[tuple[int, ...] | None, ...] = ()


class JumpForward:
    """Spells forced texts over one vocabulary, and keeps what it has spelled. Not thread-safe.

    `encode` is the tokenizer: the ids of a text that does not begin an input, nothing added.
    """

    def __init__(self, vocabulary: Vocabulary, encode: Callable[[str], list[int]]) -> None:
        self._tokens = vocabulary.tokens
        self._vocabulary = vocabulary
        self._index = vocabulary.index
        self.encode = encode
        self._kept: dict[bytes, Spelled] = {b"": Spelled()}
        self._goes_on: dict[tuple[bytes, bytes], bool] = {}

    @classmethod
    def of(cls, tokenizer: Any, vocabulary: Vocabulary) -> "JumpForward | None":
        """With a transformers tokenizer; None if its ids cannot be had from several threads at once."""
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            return None
        anchor = tokenizer(_ANCHOR, add_special_tokens=False)["input_ids"]  # leaves the backend set up

        def encode(text: str) -> list[int]:
            ids: list[int] = backend.encode(text, add_special_tokens=False).ids
            if b"".join(vocabulary.tokens[i] for i in ids) == text.encode():
                return ids
            # Some tokenizers put a blank before a beginning.
            anchored: list[int] = backend.encode(_ANCHOR + text, add_special_tokens=False).ids
            return anchored[len(anchor) :] if anchored[: len(anchor)] == anchor else []

        return cls(vocabulary, encode)

    def spelled(self, text: bytes) -> Spelled:
        """The tokens of a forced text; fewer, or none, where the tokenizer has no spelling of it."""
        spelled = self._kept.get(text)
        if spelled is None:
            spelled = self._spell(text)
            if len(text) <= MAX_KEPT_BYTES:
                if len(self._kept) >= MAX_KEPT:
                    self._kept = {b"": Spelled()}
                self._kept[text] = spelled
        return spelled

    def _spell(self, text: bytes) -> Spelled:
        ids: list[int] = []
        beginnings: list[tuple[int, ...] | None] = []
        for piece in self._vocabulary.pieces(text):
            if isinstance(piece, int):
                ids.append(piece)
                beginnings = [None] * len(ids)  # nothing is merged across a marker
                continue
            whole = _whole_characters(piece)
            found = self._ids(whole)
            beginnings += self._beginnings(whole, found)
            ids += found
            if not found or len(whole) < len(piece):
                break
        return Spelled(tuple(ids[: len(beginnings)]), tuple(beginnings))

    def _ids(self, text: bytes) -> list[int]:
        """What the tokenizer makes of it; nothing if that spells something else, or it is no text."""
        try:
            ids = self.encode(text.decode())
        except UnicodeDecodeError:
            return []
        return ids if b"".join(self._tokens[i] for i in ids) == text else []

    def _beginnings(self, text: bytes, ids: list[int]) -> Iterator[tuple[int, ...] | None]:
        """Of the tokens of a text; ends before one inside which another may begin that goes on behind it."""
        starts = [0, *accumulate(len(self._tokens[i]) for i in ids)]
        places = list(self._places(text, starts))
        num_certain = len(ids)
        for place in places:
            shorter = self._ids(_whole_characters(text[:place]))
            num_certain = _num_shared(ids[:num_certain], shorter)
        for number, (start, end) in enumerate(pairwise(starts)):
            if number < num_certain:
                yield None
            elif any(start < place < end for place in places):
                return
            else:
                found = self._index.beginnings(text[start:])
                yield tuple(token_id for at in found for token_id in self._index.ids[at])

    def _places(self, text: bytes, starts: list[int]) -> Iterator[int]:
        """Where a token may begin that goes on behind the text."""
        for place in range(max(0, len(text) - self._index.longest), len(text)):
            if self._index.goes_on(text[place:]):
                context = starts[max(0, bisect_right(starts, place) - 2)]
                key = (text[context:place], text[place:])
                if key not in self._goes_on:
                    if len(self._goes_on) >= MAX_KEPT:
                        self._goes_on.clear()
                    self._goes_on[key] = self._may_go_on(*key)
                if self._goes_on[key]:
                    yield place

    def _may_go_on(self, before: bytes, rest: bytes) -> bool:
        """Whether the tokenizer ever writes a token behind `before` that begins with `rest` and is longer."""
        low, high = self._index.narrow(rest)
        if high - low > MAX_TRIED:
            return True
        longer = (token for token in self._index.spellings[low:high] if token != rest)
        return any(self._ends(before + token, token) for token in longer)

    def _ends(self, text: bytes, token: bytes) -> bool:
        """Whether `token` is the last token of a text; it may be, of one that ends inside a character."""
        ids = self._ids(text)
        return not ids or self._tokens[ids[-1]] == token


def _num_shared(ids: list[int], others: list[int]) -> int:
    """How many tokens both begin with."""
    pairs = zip(ids, others, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(ids), len(others)))


def _whole_characters(text: bytes) -> bytes:
    """The text up to a character that it ends inside; nothing if it begins inside one."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(text).encode()
    except UnicodeDecodeError:
        return b""
