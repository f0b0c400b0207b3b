"""Random walks: a matcher driven by random allowed tokens, the hardest test of a mask."""

import random

import numpy as np

from compiler.matcher import Matcher, allocate_bitmask
from compiler.vocabulary import Vocabulary

CLOSING = frozenset(b'"}],')


class EmptyMask(AssertionError):
    """The matcher allowed nothing at all."""


def allowed_ids(matcher: Matcher, vocabulary: Vocabulary) -> np.ndarray:
    """The ids of the tokens that may come next."""
    bitmask = allocate_bitmask(1, vocabulary.width)
    matcher.fill_bitmask(bitmask, 0)
    bits = np.unpackbits(bitmask[0].view(np.uint8), bitorder="little")[: vocabulary.width]
    ids = np.flatnonzero(bits)
    if not len(ids):
        raise EmptyMask
    return ids


def walk(
    matcher: Matcher, vocabulary: Vocabulary, rng: random.Random, *, max_tokens: int = 300, bias: float = 0.5
) -> bytes | None:
    """The bytes of one walk to the end, None if `max_tokens` did not suffice.

    With probability `bias` a step prefers to stop, or else a token of closing characters.
    """
    stops = set(vocabulary.stop_ids)
    spelled = bytearray()
    for _ in range(max_tokens):
        ids = allowed_ids(matcher, vocabulary)
        if rng.random() < bias:
            closing = [i for i in ids if i in stops] or [
                i for i in ids if vocabulary.tokens[i] and CLOSING.issuperset(vocabulary.tokens[i])
            ]
            token = int(rng.choice(closing or ids))
        else:
            token = int(rng.choice(ids))
        assert matcher.accept(token), (
            f"the mask allows {token}, the matcher refuses it after {bytes(spelled)!r}"
        )
        if matcher.is_terminated():
            return bytes(spelled)
        spelled += vocabulary.tokens[token]
    return None
