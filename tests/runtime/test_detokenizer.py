"""Text comes in whole characters, and stop strings cut it, wherever tokens begin and end."""

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vocabularies import STOP, ids_of, with_tokens

from compiler.syntaxes import find_syntax
from runtime.text.detokenizer import Detokenizer, StopScanner, TokenBytes, overlap


def pieces_of(text, cuts):
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[a:b] for a, b in pairwise(edges)]


@given(st.binary(max_size=30), st.lists(st.integers(0, 30), max_size=5))
def test_any_bytes_in_any_pieces(data, cuts):
    detokenizer = Detokenizer()
    parts = [detokenizer.feed(piece) for piece in pieces_of(data, cuts)]
    assert "".join([*parts, detokenizer.finish()]) == data.decode("utf-8", "replace")


@given(st.text(max_size=20))
def test_no_piece_of_good_text_has_a_broken_character(text):
    detokenizer = Detokenizer()
    assert "".join(detokenizer.feed(bytes([b])) for b in text.encode()) == text
    assert detokenizer.finish() == ""


def test_a_broken_character_does_not_reach_into_another_text():
    detokenizer = Detokenizer()
    first, _ = "é".encode()
    assert detokenizer.feed(bytes([first])) == ""
    assert detokenizer.finish() == "\ufffd"
    assert detokenizer.feed(b"a") == "a"


def test_markers_are_spelled_and_stop_tokens_are_not():
    vocabulary = with_tokens(markers=["<m>"])
    assert TokenBytes(vocabulary).of([*ids_of("a<m>b", vocabulary), STOP]) == b"a<m>b"


@pytest.mark.parametrize(
    ("prompt", "is_thinking"),
    [
        ("Hi", False),
        ("Hi<think>", True),
        ("Hi<think>\n", True),
        ("Hi<think>\nSo", False),
        ("<think>So</think>Hi", False),
        ("<think>So</think>Hi<think>", True),
    ],
)
def test_a_prompt_may_end_with_the_beginning_of_a_thought(prompt, is_thinking):
    vocabulary = with_tokens(markers=("<think>", "</think>"))
    ids, spelling = ids_of(prompt, vocabulary), TokenBytes(vocabulary)
    assert spelling.is_thinking(ids, find_syntax("hermes+think")) is is_thinking
    assert not spelling.is_thinking(ids, find_syntax("hermes"))
    assert not spelling.is_thinking(ids, None)


stops = st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3)


@given(st.text("abc", max_size=20), stops, st.lists(st.integers(0, 20), max_size=6))
def test_text_is_cut_before_a_stop_string(text, stop, cuts):
    """No stop string comes through, what comes through is a prefix, and nothing is lost where none is."""
    scanner = StopScanner(stop)
    given_out = "".join(map(scanner.feed, pieces_of(text, cuts))) + scanner.finish()
    assert text.startswith(given_out)
    assert not any(s in given_out for s in stop)
    assert (scanner.stop_string is not None) == any(s in text for s in stop)
    if scanner.stop_string is not None:
        assert any(text.startswith(s, len(given_out)) for s in stop)
    else:
        assert given_out == text


@pytest.mark.parametrize(
    ("stops", "pieces", "settled"),
    [
        (["END"], ["abE", "N", "x", "EE", "ND!", "more"], ["ab", "", "ENx", "E", "", ""]),
        (["aab", "abc"], ["xa", "a", "a", "bd"], ["x", "", "a", ""]),
    ],
)
def test_only_what_may_become_a_stop_string_is_held_back(stops, pieces, settled):
    scanner = StopScanner(stops)
    assert [scanner.feed(piece) for piece in pieces] == settled
    assert scanner.stop_string == stops[0]


@pytest.mark.parametrize("stops", [("aa",), ("ab", "abba"), ("ba", "aab"), ("b", "abab", "bba")])
def test_a_stop_string_that_ends_where_the_text_may_not_stop_is_text(stops):
    """Also if it is held back, as the beginning of another one: that one may end where the text may stop."""
    for text, num_unstopped in product(map("".join, product("ab", repeat=7)), range(8)):
        ends = [end for end in range(num_unstopped + 1, 8) if text[:end].endswith(stops)]
        starts = [ends[0] - len(stop) for stop in stops if ends and text[: ends[0]].endswith(stop)]
        scanner = StopScanner(stops)
        fed = [scanner.feed(letter, may_stop=at >= num_unstopped) for at, letter in enumerate(text)]
        assert "".join([*fed, scanner.finish()]) == text[: min(starts, default=7)], (text, num_unstopped)
        assert (scanner.stop_string is None) == (not starts)


def test_an_overlap_is_the_longest_beginning_that_a_text_ends_with():
    texts = ["".join(letters) for length in range(6) for letters in product("ab", repeat=length)]
    for text, pattern in product(texts, texts):
        expected = max((n for n in range(len(pattern)) if text.endswith(pattern[:n])), default=0)
        assert overlap(text, pattern) == expected
