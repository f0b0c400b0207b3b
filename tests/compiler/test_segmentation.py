"""Segmentation: the fewest tokens that spell a text."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vocabularies import with_tokens

from compiler.closing.segmentation import Segmentation
from compiler.grammar.shortest import NEVER
from compiler.prepared_vocabulary import prepare
from compiler.vocabulary import Vocabulary


def test_a_text_is_spelled_with_the_fewest_tokens():
    words = ("a", "ab", "abc", "bcd", "cd", "d", "é")
    vocabulary = Vocabulary.from_tokens([*(w.encode() for w in words), b""], stop_ids=[len(words)])
    segmentation = Segmentation(prepare(vocabulary).index)
    for text, split in [("abcd", ["a", "bcd"]), ("abcdd", ["a", "bcd", "d"]), ("é", ["é"]), ("", [])]:
        ids = segmentation.ids(text.encode())
        assert segmentation.count(text.encode()) == len(ids) == len(split)
        assert "".join(words[i] for i in ids) == text


@pytest.mark.parametrize("word", ["a", "aa", "aaaaaaa"])
def test_a_long_text_takes_memory_and_steps_linear_in_its_length(word):
    segmentation = Segmentation(prepare(with_tokens(word * 3)).index)
    length = 60_000
    text = b'"' + b"a" * length + b'"'
    longest = 3 * len(word)
    expected = 2 + length // longest + length % longest
    tracemalloc.start()
    try:
        assert segmentation.count(text) == expected
        assert segmentation.count(text, expected) == expected
        assert segmentation.count(text, expected - 1) > expected - 1
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100 * len(text)


@settings(max_examples=200)
@given(
    st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=6, unique=True),
    st.lists(st.text("ab", max_size=24), min_size=1, max_size=6),
    st.integers(0, 30),
)
def test_any_text_is_counted_in_any_order(words, texts, limit):
    """One table serves all texts: each count is what breadth-first search finds, or beyond the limit."""
    vocabulary = Vocabulary.from_tokens([*(w.encode() for w in words), b""], stop_ids=[len(words)])
    segmentation = Segmentation(prepare(vocabulary).index)
    for text in texts:
        expected = _fewest(text, words)
        found = segmentation.count(text.encode(), limit)
        assert found == expected if expected <= limit else found > limit
        assert segmentation.count(text.encode()) == expected
        if expected < NEVER:
            assert "".join(words[i] for i in segmentation.ids(text.encode())) == text


def _fewest(text: str, words: list[str]) -> int:
    reached, count = {0}, 0
    while reached:
        if len(text) in reached:
            return count
        reached = {at + len(word) for at in reached for word in words if text.startswith(word, at)}
        count += 1
    return NEVER
