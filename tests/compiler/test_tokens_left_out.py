"""A fault of xgrammar: masks lack some tokens that its matcher takes. The text is written by other tokens then."""

import random

import pytest
from random_decoding import allowed_ids
from vocabularies import with_tokens
from xgrammar_faults import leaves_tokens_out

from compiler import compile_schema


def allowed_and_taken(text, tokens):
    """Which of some tokens begin a constant by its mask, and which by its matcher; single bytes are tokens, too."""
    vocabulary = with_tokens(*tokens)
    matcher = compile_schema({"const": text}, tokenizer=vocabulary).matcher()
    assert matcher.accept(ord('"'))
    allowed, taken = set(allowed_ids(matcher, vocabulary)), set()
    for token_id, token in enumerate(vocabulary.tokens):
        if token and matcher.accept(token_id):
            matcher.rollback(1)
            taken.add(token_id)
    return [{vocabulary.tokens[i].decode() for i in found} for found in (allowed, taken)]


@leaves_tokens_out
@pytest.mark.parametrize(("text", "tokens"), [("bab:", ["b:", "bab:"]), ("bb:", ["b:", "bb:"])])
def test_a_mask_has_every_token_that_is_taken(text, tokens):
    allowed, taken = allowed_and_taken(text, tokens)
    assert allowed == taken


def test_masks_lack_no_single_byte_and_have_no_other_tokens():
    rng = random.Random(0)
    for _ in range(300):
        text = "".join(rng.choices("ab:", k=rng.randrange(2, 7)))
        starts = [rng.choice((0, rng.randrange(len(text)))) for _ in range(rng.randrange(1, 6))]
        tokens = {text[start : start + rng.randrange(2, 6)] for start in starts}
        allowed, taken = allowed_and_taken(text, sorted(token for token in tokens if len(token) > 1))
        assert allowed <= taken
        assert all(len(token) > 1 for token in taken - allowed)
