r"""Custom tools with patterns: an input is written if and only if Python's `re` matches all of it.

The patterns are made of what ECMA-262 and `re` read alike, with ASCII classes. Engines differ in whether `\W` takes
other letters and dots other line ends, so these are never written; texts that must be accepted have neither.
"""

import random

import regex
from custom_inputs import accepts, inputs, linked
from hypothesis import example, given, settings
from hypothesis import strategies as st

CHARS = 'ab1_ -."\\\n\t'

ATOMS = st.sampled_from(
    ["a", "b", "1", "-", "é", "😀", " ", '"', r"\\", r"\.", r"\n", r"\t", r"\x41", ".", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S",
     "[ab]", "[^a]", "[a-z]", r"[\w-]", r"[^\s\"]", r"[\d_.]", "[é-ü]", "[😀-😃]"]
)  # fmt: skip
MAX_JUDGE_S = 2
"""Patterns such as `(a?b+)+` take a backtracking judge a time that doubles with each character."""
COUNTS = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{0,2}", "{1,3}", "{2,}", "*?", "+?", "{1,2}?"])


def _larger(inner):
    counted = st.builds("(?:{}){}".format, inner, COUNTS) | st.builds("({}){}".format, inner, COUNTS)
    return (
        counted
        | st.lists(inner, min_size=2, max_size=3).map("".join)
        | st.lists(inner, min_size=2, max_size=3).map(lambda options: f"(?:{'|'.join(options)})")
    )


BODIES = st.recursive(st.builds("{}{}".format, ATOMS, COUNTS), _larger, max_leaves=5)
PATTERNS = st.builds("{}{}".format, BODIES, st.sampled_from(["", "", "$"])) | st.builds(
    "{}|{}".format, BODIES, BODIES
)


def matches(reader, text):
    """Whether a pattern matches all of a text; None if that takes too long to tell."""
    try:
        return reader.fullmatch(text, timeout=MAX_JUDGE_S) is not None
    except TimeoutError:
        return None


@given(PATTERNS, st.lists(st.text(CHARS, max_size=6), max_size=8), st.integers(0, 2**32))
@example("a|", ["", "a", "aa"], 0)
@settings(max_examples=150)
def test_an_input_is_written_if_and_only_if_the_pattern_matches_it(pattern, texts, seed):
    rng = random.Random(seed)
    reader = regex.compile(pattern, regex.ASCII)
    grammar = linked(pattern, kind="regex")
    drawn = list(inputs(grammar, seed, 3, budget=100))
    for text in drawn:
        assert matches(reader, text) is not False, (pattern, text)
    near = [text + rng.choice(CHARS) for text in drawn] + [text[1:] for text in drawn]
    for text in {*texts, *near, ""}:
        if not set(text) <= set(CHARS):
            continue
        assert matches(reader, text) in {accepts(grammar, text), None}, (pattern, text)


@given(PATTERNS, st.integers(0, 2**32))
@settings(max_examples=50)
def test_tagged_inputs_match_too(pattern, seed):
    """Where calls are written in tags, an input has no escapes."""
    [text] = inputs(linked(pattern, "qwen3_coder", "regex"), seed, 1)
    assert matches(regex.compile(pattern, regex.ASCII), text) is not False
