"""Vocabularies to draw from: tokens of one byte, and tokens that cross what a grammar keeps apart."""

import random
from functools import cache
from typing import Any

from random_decoding import allowed_ids
from soundness.tagged_schemas import Drawing, crossing_vocabulary
from vocabularies import BYTES, with_tokens

from compiler.syntaxes import SYNTAXES
from compiler.vocabulary import Vocabulary

_PIECES = (
    '{"', '":', '": ', '", "', '","', '"}', '"]', "[]", "{}", '["', "[1", ", ", ": ", "null", "true", "false", "tru", "aa", "ab", 'a"', 'b"', '"a',
    "\\u00", "\\n", '\\"', "\\u0061", "\\ud83d\\ude00", "é", "😀", "12", "0.5", "e1", "1]", "}}", "]}", "]]", "}]", '"a"', '"a":', '"a": ', '"b": ',
    "[[", "],", "},", '",', '": "', '": {"', '": [', "1,", "1, ", "00", "123", "-1", ".0", "aaaaaaaa", "abcdefghi", "x-", '["a"', '["a", "', '"a", "a"',
    "[1, 1", '{"a":1,"a":', '{"a": 1}', '""', '"",', ' "', "\\\\", "2024-", "http://", "@", "://", "a@b.co", '"x-1"', "0", "00000", "99999999",
    ' "\\""', '"\\\\"', ' "\\n": ', '"a\\"b"', ' "a"', ', "a"',
)  # fmt: skip


@cache
def vocabulary(name: str) -> Vocabulary:
    """`bytes`, `pieces`, or `crossing NAME [markers]` for a call syntax with tags."""
    if name == "bytes":
        return BYTES
    if name == "pieces":
        pieces = (piece for piece in dict.fromkeys(_PIECES) if len(piece.encode()) > 1)
        return with_tokens(*pieces, b"\xf0\x9f", b"\x98\x80", b'\xa9"', b'"\xc3')
    _, syntax, *markers = name.split()
    return crossing_vocabulary(SYNTAXES[syntax], has_markers=bool(markers))


def draw(grammar: Any, rng: random.Random, num_tokens: int) -> bytes:
    """What so many random tokens write, and what the closer adds; markers as sentinels.

    Raises:
        AssertionError: the matcher refuses what its mask allows or the closer writes, or a mask is empty.
    """
    words, matcher, closer = grammar.vocabulary, grammar.matcher(), grammar.closer()
    drawing = Drawing(rng.getrandbits(32), words)
    written = b""
    for _ in range(num_tokens):
        token_id = int(drawing.choice(allowed_ids(matcher, words)))
        assert matcher.accept(token_id), (
            f"the matcher refuses what its mask allows: {words.tokens[token_id]!r} after {written!r}"
        )
        if matcher.is_terminated():
            return written
        closer.accepted(token_id)
        written += words.tokens[token_id]
    closing = closer.completion_ids(closer.minimum())
    for token_id in closing:
        assert matcher.accept(token_id), (
            f"the matcher refuses what the closer writes: {words.tokens[token_id]!r} after {written!r}"
        )
        written += words.tokens[token_id]
    assert matcher.is_completed(), f"the closer did not come to an end: {written!r}"
    return written
