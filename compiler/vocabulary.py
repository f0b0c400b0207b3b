"""The vocabulary: what each token id spells, and which ids no grammar allows as text.

Three kinds of ids:

- *text*: an ordinary token, bytes of UTF-8;
- *marker*: an added or control token with a spelling, such as `<tool_call>` or `[TOOL_CALLS]`. To a grammar
  it is not its spelling but a sentinel of C0 control characters that no JSON text contains, so that it can
  stand only where a syntax puts it, never inside a string;
- *unused*: padding, and tokens that spell nothing or contain a character of the sentinels. No mask allows
  them.

Logits can be wider than the tokenizer, so `width` is the model's.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import xgrammar as xgr

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_SENTINEL_START = 0x01
MARKER_START = chr(_SENTINEL_START)
"""The first character of every marker's sentinel; no text token contains it."""
MARKER_BYTES = 7
"""The length of a sentinel."""
KEY_MARK = "\x0e"
"""The character that grammars read after a marked key (`compiler.guard.key_marks`); no token contains it."""
_SENTINEL_DIGITS = range(0x0E, 0x1E)  # sixteen C0 controls, none of them whitespace
_SENTINEL = re.compile(rb"\x01[\x0e-\x1d]{6}")
RESERVED = frozenset({_SENTINEL_START, *_SENTINEL_DIGITS})
"""The bytes that only grammars write, in sentinels and key marks; no text token contains one."""


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Token bytes by id (empty for an unused id), marker ids by spelling, stop ids, and the logits' width.

    `digest` identifies it and covers every byte, so grammars of two vocabularies of equal size never mix.
    """

    tokens: tuple[bytes, ...] = field(repr=False)
    markers: Mapping[str, int] = field(repr=False)
    stop_ids: tuple[int, ...]
    stops: frozenset[str] = frozenset()
    """The texts of the stop tokens, for syntaxes that end with one."""

    @classmethod
    def of_bytes(cls) -> "Vocabulary":
        """256 single bytes and a stop token, id 256."""
        tokens = tuple(b"" if b in RESERVED else bytes([b]) for b in range(256))
        return cls((*tokens, b""), {}, (256,))

    @classmethod
    def from_tokens(
        cls,
        tokens: Sequence[bytes],
        *,
        markers: Mapping[str, int] | None = None,
        stop_ids: Sequence[int],
        width: int | None = None,
    ) -> "Vocabulary":
        """Text tokens as they are spelled, padded to `width`; markers and stop ids lose their spelling."""
        stops = frozenset(text for text, i in (markers or {}).items() if i in stop_ids)
        markers = {text: i for text, i in (markers or {}).items() if text not in stops}
        spelled = [b"" if RESERVED & set(token) else token for token in tokens]
        spelled += [b""] * ((width or 0) - len(spelled))
        for token_id in (*markers.values(), *stop_ids):
            spelled[token_id] = b""
        for token_id in markers.values():
            spelled[token_id] = _sentinel(token_id)
        return cls(tuple(spelled), markers, tuple(stop_ids), stops)

    @classmethod
    def from_tokenizer(
        cls,
        tokenizer: "PreTrainedTokenizerBase",
        *,
        width: int | None = None,
        stop_ids: Sequence[int] = (),
    ) -> "Vocabulary":
        """Read a transformers tokenizer; `stop_ids` adds to its own end-of-sequence token.

        Raises:
            ValueError: the tokenizer has no stop token and none was given.
        """
        added = {str(token): token_id for token_id, token in tokenizer.added_tokens_decoder.items()}
        stops = dict.fromkeys(
            [*stop_ids, *([tokenizer.eos_token_id] if tokenizer.eos_token_id is not None else [])]
        )
        if not stops:
            raise ValueError("the tokenizer names no end-of-sequence token; give stop_ids")
        plain = xgr.TokenizerInfo.from_huggingface(tokenizer, stop_token_ids=list(stops))
        return cls.from_tokens(
            plain.decoded_vocab,
            markers=added,
            stop_ids=tuple(stops),
            width=max(width or 0, len(tokenizer), plain.vocab_size),
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> "Vocabulary":
        """Read what `to_bytes` wrote."""
        tokens, markers, stop_ids, stops = json.loads(data)
        encoded = tuple(token.encode("latin-1") for token in tokens)
        return cls(encoded, markers, tuple(stop_ids), frozenset(stops))

    def to_bytes(self) -> bytes:
        """The vocabulary as JSON; each byte of a token becomes the character with that code point."""
        tokens = [token.decode("latin-1") for token in self.tokens]
        return json.dumps([tokens, dict(self.markers), self.stop_ids, sorted(self.stops)]).encode()

    @property
    def width(self) -> int:
        """The number of token ids, which is the number of columns of the logits."""
        return len(self.tokens)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over every token's bytes, the markers, the stop ids and their texts, hexadecimal."""
        content = hashlib.sha256()
        for token in self.tokens:
            content.update(len(token).to_bytes(4, "little") + token)
        content.update(repr((sorted(self.markers.items()), self.stop_ids, sorted(self.stops))).encode())
        return content.hexdigest()

    @cached_property
    def marker_ids(self) -> frozenset[int]:
        """The ids of the markers, which never stand for text."""
        return frozenset(self.markers.values())

    def spell(self, text: str) -> str:
        """`text` as a grammar over this vocabulary writes it: marker spellings become their sentinels.

        A stop token becomes nothing: where a syntax ends with one, the output stops. Call this only with the
        fixed texts of a syntax, never with text that a client sent.
        """
        for stop in self.stops:
            text = text.replace(stop, "")
        for marker in sorted(self.markers, key=len, reverse=True):
            if marker in text:
                text = text.replace(marker, _sentinel(self.markers[marker]).decode())
        return text

    def display(self, text: bytes) -> bytes:
        """A grammar's text as readers see it: each sentinel is its marker's spelling."""
        if _SENTINEL_START not in text:
            return text
        spellings = {i: spelling.encode() for spelling, i in self.markers.items()}
        return b"".join(p if isinstance(p, bytes) else spellings[p] for p in self.pieces(text))

    def pieces(self, text: bytes) -> Iterator[bytes | int]:
        """The parts of a grammar's text: bytes of text, and ids of markers."""
        at = 0
        for sentinel in _SENTINEL.finditer(text):
            if sentinel.start() > at:
                yield text[at : sentinel.start()]
            yield self._marker_of[sentinel.group()]
            at = sentinel.end()
        if at < len(text):
            yield text[at:]

    @cached_property
    def _marker_of(self) -> Mapping[bytes, int]:
        return {_sentinel(token_id): token_id for token_id in self.markers.values()}


def _sentinel(token_id: int) -> bytes:
    digits = [_SENTINEL_DIGITS[(token_id >> shift) & 0xF] for shift in (20, 16, 12, 8, 4, 0)]
    return bytes([_SENTINEL_START, *digits])
