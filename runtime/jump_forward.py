"""Jump-forward: which tokens stand for the text that a grammar forces, and which of them are certain.

A tokenizer merges characters to tokens. So if a text is cut where one of its tokens ends, the tokens of both
parts together are the tokens of the whole. The text that follows a forced text is unknown, and its beginning
may be merged with the forced text's end: some token then starts at a boundary inside the forced text and
extends past it. Take the tokens of the forced text up to each such boundary. Where they agree with the tokens
of the whole forced text, these are the tokens of every text that begins with it: they are certain. Each of
the others is certain only where the mask allows no token that leaves the forced text.

For the same reason a long forced text is tokenized piece by piece: what is certain of a piece is certain of
the whole, and the next piece begins after it.

With Qwen 3's tokenizer:

    jump_forward.tokenize(b'{"name": "').ids           # the ids of '{"', 'name', '":' and ' "'
    jump_forward.tokenize(b'{"name": "').alternatives  # (None, None, None, (ids of ' ' and ' "')):
                                                       # a longer token may begin with ' "'
"""

import codecs
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from compiler.prepared_vocabulary import PreparedVocabulary
from compiler.vocabulary import MARKER_BYTES, MARKER_START

MAX_CACHED = 4096
"""The most texts whose tokens are cached; a toolset forces a few per tool."""
MAX_PIECE_BYTES = 2048
"""A longer forced text is tokenized in pieces. A schema may force 100 kB, which takes half a second."""
MAX_TRIED = 1024
"""If more tokens than this begin with the same text, none is tried: one of them is assumed to merge."""
_ANCHOR = "\n"
_MARKER_START = MARKER_START.encode()

ForcedToken = tuple[int, tuple[int, ...] | None]
"""The id of a forced token, and its alternatives; see `ForcedTokens`."""


@dataclass(frozen=True, slots=True)
class ForcedTokens:
    """The token ids of a forced text; `alternatives` has one entry for each of them.

    It is None for a token that is certain. Else it has the ids of all tokens that the rest of the forced text
    begins with: the token is certain if the mask allows only these.
    """

    ids: tuple[int, ...] = ()
    alternatives: tuple[tuple[int, ...] | None, ...] = ()


class JumpForward:
    """Tokenizes forced texts for one vocabulary, and caches the results. Not thread-safe.

    `encode` is the tokenizer: the ids of a text that does not begin an input, without added tokens.
    """

    def __init__(self, prepared: PreparedVocabulary, encode: Callable[[str], list[int]]) -> None:
        self._vocabulary = prepared.vocabulary
        self._tokens = prepared.vocabulary.tokens
        self._index = prepared.index
        self.encode = encode
        self._cache: dict[bytes, ForcedTokens] = {b"": ForcedTokens()}
        self._merges: dict[tuple[bytes, bytes], bool] = {}

    @classmethod
    def of(cls, tokenizer: Any, prepared: PreparedVocabulary) -> "JumpForward":
        """For a transformers tokenizer with a `backend_tokenizer`, as every loaded model has."""
        backend = tokenizer.backend_tokenizer
        anchor = tokenizer(_ANCHOR, add_special_tokens=False)["input_ids"]  # leaves the backend set up

        def encode(text: str) -> list[int]:
            ids: list[int] = backend.encode(text, add_special_tokens=False).ids
            if b"".join(prepared.vocabulary.tokens[i] for i in ids) == text.encode():
                return ids
            # Some tokenizers put a blank before the first word of a text.
            anchored: list[int] = backend.encode(_ANCHOR + text, add_special_tokens=False).ids
            return anchored[len(anchor) :] if anchored[: len(anchor)] == anchor else []

        return cls(prepared, encode)

    def tokens(self, text: bytes) -> Iterator[ForcedToken]:
        """The tokens of a forced text and their alternatives, up to where they are unknown.

        Of a long text they are certain up to where its last piece begins. Each piece is tokenized when its
        first token is asked for.
        """
        while len(text) > MAX_PIECE_BYTES:
            forced = self.tokenize(_piece(text))
            num_certain = _num_certain(forced)
            if not num_certain:
                return
            yield from zip(forced.ids[:num_certain], forced.alternatives, strict=False)
            text = text[sum(len(self._tokens[i]) for i in forced.ids[:num_certain]) :]
        forced = self.tokenize(text)
        yield from zip(forced.ids, forced.alternatives, strict=True)

    def tokenize(self, text: bytes) -> ForcedTokens:
        """The tokens of a short forced text, up to where the tokenizer has none or they are unknown."""
        forced = self._cache.get(text)
        if forced is None:
            if len(self._cache) >= MAX_CACHED:
                self._cache = {b"": ForcedTokens()}
            forced = self._cache[text] = self._tokenize(text)
        return forced

    def _tokenize(self, text: bytes) -> ForcedTokens:
        ids: list[int] = []
        alternatives: list[tuple[int, ...] | None] = []
        for piece in self._vocabulary.pieces(text):
            if isinstance(piece, int):
                ids.append(piece)
                alternatives = [None] * len(ids)  # nothing is merged with a marker
                continue
            whole = _whole_characters(piece)
            token_ids = self._encode(whole)
            alternatives += self._alternatives(whole, token_ids)
            ids += token_ids
            if not token_ids or len(whole) < len(piece):
                break
        return ForcedTokens(tuple(ids[: len(alternatives)]), tuple(alternatives))

    def _encode(self, text: bytes) -> list[int]:
        """The tokenizer's ids of a text; none if they spell another text, or it is not UTF-8."""
        try:
            ids = self.encode(text.decode())
        except UnicodeDecodeError:
            return []
        return ids if b"".join(self._tokens[i] for i in ids) == text else []

    def _alternatives(self, text: bytes, ids: list[int]) -> Iterator[tuple[int, ...] | None]:
        """`ForcedTokens.alternatives` of a text; ends before a token that a merge may cut in two."""
        starts = [0, *accumulate(len(self._tokens[i]) for i in ids)]
        boundaries = list(self._boundaries(text, starts))
        num_certain = len(ids)
        for boundary in boundaries:
            shorter = self._encode(_whole_characters(text[:boundary]))
            num_certain = _num_shared(ids[:num_certain], shorter)
        for number, (start, end) in enumerate(pairwise(starts)):
            if number < num_certain:
                yield None
            elif any(start < boundary < end for boundary in boundaries):
                return
            else:
                alternatives = self._index.beginnings(text[start:])
                yield tuple(token_id for position in alternatives for token_id in self._index.ids[position])

    def _boundaries(self, text: bytes, starts: list[int]) -> Iterator[int]:
        """The offsets in `text` where a token may start that extends past its end."""
        for offset in range(max(0, len(text) - self._index.longest), len(text)):
            if self._index.goes_on(text[offset:]):
                context = starts[max(0, bisect_right(starts, offset) - 2)]
                key = (text[context:offset], text[offset:])
                if key not in self._merges:
                    if len(self._merges) >= MAX_CACHED:
                        self._merges.clear()
                    self._merges[key] = self._may_merge(*key)
                if self._merges[key]:
                    yield offset

    def _may_merge(self, before: bytes, rest: bytes) -> bool:
        """Whether, after `before`, the tokenizer ever writes a longer token that begins with `rest`."""
        low, high = self._index.narrow(rest)
        if high - low > MAX_TRIED:
            return True
        longer = (token for token in self._index.spellings[low:high] if token != rest)
        return any(self._ends_with_token(before + token, token) for token in longer)

    def _ends_with_token(self, text: bytes, token: bytes) -> bool:
        """Whether `token` is a text's last token; assumed so if the text ends inside a character."""
        ids = self._encode(text)
        return not ids or self._tokens[ids[-1]] == token


def _piece(text: bytes) -> bytes:
    """The beginning of a long text, up to a marker that would be cut in two."""
    piece = text[:MAX_PIECE_BYTES]
    at = piece.rfind(_MARKER_START)
    return piece[:at] if at > len(piece) - MARKER_BYTES else piece


def _num_certain(forced: ForcedTokens) -> int:
    """How many tokens are certain before the first that is not."""
    uncertain = (at for at, alternatives in enumerate(forced.alternatives) if alternatives is not None)
    return next(uncertain, len(forced.ids))


def _num_shared(ids: list[int], others: list[int]) -> int:
    """The length of the longest common prefix."""
    pairs = zip(ids, others, strict=False)
    return next((at for at, (own, other) in enumerate(pairs) if own != other), min(len(ids), len(others)))


def _whole_characters(text: bytes) -> bytes:
    """The text without a cut character at its end; nothing if it begins inside a character."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(text).encode()
    except UnicodeDecodeError:
        return b""
