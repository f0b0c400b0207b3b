"""Vocabularies that tests write over, each read once in a process."""

from collections.abc import Iterable
from functools import cache

from corpus import corpus

from compiler.vocabulary import Vocabulary


@cache
def named_vocabulary(name: str) -> Vocabulary:
    """`bytes`, or one of the corpus's tokenizers; skips the test where that is absent."""
    if name == "bytes":
        return Vocabulary.of_bytes()
    from transformers import AutoTokenizer

    return Vocabulary.from_tokenizer(AutoTokenizer.from_pretrained(corpus("tokenizers", name)))


def spelled(token_ids: Iterable[int], vocabulary: Vocabulary) -> bytes:
    """The bytes of some tokens."""
    return b"".join(vocabulary.tokens[token_id] for token_id in token_ids)
