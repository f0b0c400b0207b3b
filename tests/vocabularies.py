"""Vocabularies that tests write over, and how texts are spelled in them."""

from collections.abc import Iterable, Sequence
from functools import cache

from corpus import corpus

from compiler.vocabulary import Vocabulary

BYTES = Vocabulary.of_bytes()
STOP = 256
"""The token that ends an output, in `BYTES` and in vocabularies `with_tokens`."""


def with_tokens(*tokens: str | bytes, markers: Sequence[str] = (), stops: Sequence[str] = ()) -> Vocabulary:
    """Single bytes, `STOP`, then markers from 257 on, then other tokens; `stops` are markers that end outputs too."""
    spelled = [token.encode() if isinstance(token, str) else token for token in tokens]
    ids = {marker: STOP + 1 + at for at, marker in enumerate(markers)}
    return Vocabulary.from_tokens(
        [*(bytes([byte]) for byte in range(256)), b"", *[b"?"] * len(markers), *spelled],
        markers=ids,
        stop_ids=[STOP, *(ids[stop] for stop in stops)],
    )


@cache
def named_vocabulary(name: str) -> Vocabulary:
    """`bytes`, or one of the corpus's tokenizers, read once in a process; skips the test where that is absent."""
    if name == "bytes":
        return BYTES
    from transformers import AutoTokenizer

    return Vocabulary.from_tokenizer(AutoTokenizer.from_pretrained(corpus("tokenizers", name)))


def ids_of(text: str, vocabulary: Vocabulary = BYTES) -> list[int]:
    """The ids of an output's text in a vocabulary with all bytes: of markers, and of single bytes elsewhere."""
    pieces = vocabulary.pieces(vocabulary.spell(text).encode())
    return [i for piece in pieces for i in ([piece] if isinstance(piece, int) else piece)]


def spelled(token_ids: Iterable[int], vocabulary: Vocabulary) -> bytes:
    """The bytes of some tokens."""
    return b"".join(vocabulary.tokens[token_id] for token_id in token_ids)
