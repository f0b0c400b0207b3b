"""Which texts an engine that tries alternatives in order takes whole, compared with Python's `re`."""

import random
import re
from itertools import product

import pytest

from compiler.regular.ecma import parse
from compiler.regular.language import whole_texts
from compiler.regular.leftmost_first import taken_in_part
from compiler.regular.pattern_tree import PatternError

TEXTS = ["".join(chars) for length in range(6) for chars in product("abc", repeat=length)]
COUNTS = ["*", "+", "?", "{1,2}", "{2,3}", "{0,2}", "{2,}", "{0,3}", "{2}", "{0}"]


def in_part(pattern):
    return taken_in_part(parse(pattern), parse(pattern, is_outer=True))


def made_up(rng, depth=3):
    """A pattern over three letters, with alternatives and counts of what may be empty, too."""
    kind = rng.random()
    if depth == 0 or kind < 0.3:
        return rng.choice(["a", "b", "c", "[ab]", "[bc]", "aa", "ab"])
    if kind < 0.55:
        return "".join(made_up(rng, depth - 1) for _ in range(rng.randint(1, 3)))
    if kind < 0.75:
        options = [made_up(rng, depth - 1) if rng.random() < 0.9 else "" for _ in range(rng.randint(2, 3))]
        return f"(?:{'|'.join(options)})"
    item = made_up(rng, depth - 1)
    if rng.random() < 0.5:
        options = ["", item, made_up(rng, depth - 1)]
        rng.shuffle(options)
        item = "|".join(options)
    return f"(?:{item}){rng.choice(COUNTS)}"


@pytest.mark.parametrize("seed", range(4))
def test_what_is_taken_is_what_python_takes(seed):
    rng = random.Random(seed)
    num_in_part = 0
    for _ in range(100):
        pattern = made_up(rng)
        found = in_part(pattern)
        read = re.compile(pattern)
        if found is None:
            assert all(read.match(text)[0] == text for text in TEXTS if read.fullmatch(text)), pattern
        else:
            assert read.fullmatch(found.text), pattern
            assert read.match(found.text)[0] == found.taken != found.text, pattern
            num_in_part += 1
    assert 10 < num_in_part < 90


@pytest.mark.parametrize(
    "pattern",
    [
        "[a-z]{1,1000}",
        "(?:a*)*",
        "(?:x?){50}x{50}",
        "(?:b||ab){0,3}b",
        "[bc](?:(?:ab)?|a|){0,3}ab",
        r'"(?:\\.|[^"\\])*"',
        r"\w+|\W+",
        r"\s+|\S+",
        r"\d+|\D+",
        r"\w+|[^\w\s]+",
    ],
)
def test_patterns_that_take_the_longest_match(pattern):
    assert in_part(pattern) is None


@pytest.mark.parametrize(
    "pattern",
    [
        "ba*(?:c*|a)*",
        "[a-z]+(?:_?|[a-z])*",
        "x(?:(?:a?)*|b)*",
        "(?:|aa|a){0,2}(?:aaabc|b)",
        "b(?:(?:|a){0,2}|aab)(?:aac)?",
    ],
)
def test_an_item_that_was_empty_ends_its_repetition(pattern):
    found = in_part(pattern)
    assert re.match(pattern, found.text)[0] == found.taken


def test_an_empty_item_that_the_count_needs_does_not_end_it():
    pattern = "(?:|a){2,3}b"
    assert re.match(pattern, "aaab")[0] == "aaab"
    assert in_part(pattern) is None


def test_an_engine_may_read_more_characters_as_a_shorthand_than_are_written_for_it():
    """Python takes `é` for a word's, so that it takes one of two; ECMA-262 does not."""
    found = in_part(r"\w|é+")
    assert (found.text, found.taken) == ("éé", "é")
    assert re.match(r"\w|é+", found.text)[0] == found.taken


@pytest.mark.parametrize("seed", range(3))
def test_what_is_taken_of_shorthands_is_what_python_takes(seed):
    rng = random.Random(seed)
    atoms = [r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", "[^a]", "[^é]", "a", "é", "7", " "]
    texts = ["".join(chars) for length in range(5) for chars in product("aé7 ٣", repeat=length)]
    num_whole = 0
    for _ in range(150):
        options = ("".join(rng.choices(atoms, k=rng.randint(1, 3))) for _ in range(rng.randint(2, 3)))
        pattern = "|".join(option + rng.choice(["", "", "+", "?"]) for option in options)
        if in_part(pattern) is None:
            written, read = whole_texts(pattern, is_outer=False), re.compile(pattern)
            num_whole += 1
            for text in filter(written.accepts, texts):
                assert read.match(text)[0] == text, (pattern, text)
    assert num_whole > 10


def test_it_takes_only_so_many_steps_to_find_out():
    with pytest.raises(PatternError, match="too many ways"):
        in_part("(?:.{0,200}x){3}")
