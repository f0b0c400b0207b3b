"""Patterns and formats as automata: what they accept is valid under two validators."""

import random
import re
from functools import reduce
from itertools import product

import jsonschema
import jsonschema_rs
import pytest
from automaton_samples import sample
from corpus import corpus, json_lines
from hypothesis import given
from hypothesis import strategies as st

from compiler.regular.dfa import Alphabet, Dfa, intersection
from compiler.regular.language import PatternCondition, language
from compiler.regular.pattern_tree import PatternError

FORMAT_CHECKER = jsonschema.Draft202012Validator.FORMAT_CHECKER
MATCHING = [
    ("foo", ["foo", "xfoox"], ["fo", ""]),
    ("^foo|bar$", ["foox", "xbar"], ["xfoox", "barx"]),
    (r"^\d+$", ["0", "12"], ["", "a", "\u0661"]),
    (r"\bfoo\b", ["a foo b", "foo", "foo-x"], ["xfoo", "foo_"]),
    (r"\Bfoo", ["xfoo"], ["foo", " foo"]),
    (r"^(?!x)[a-z]+$", ["abc"], ["xa", ""]),
    (r"^(?=.*\d)[a-z0-9]{3,5}$", ["a1b"], ["abc", "a1", "abcde1"]),
    (r"^[a-z]+(?<!z)$", ["ab"], ["az"]),
    (r"^((?!ab)(?!cd).)*$", ["", "acbd", "ba"], ["xab", "cd"]),
    (r"^a(?=b$|cc).*$", ["ab", "acc", "accb"], ["a", "abb", "ac"]),
    (r"x(?!(?=.c)b.)..", ["xbb", "xac", "xxbc"], ["xbc", "x"]),
    (r"^(?:[ab]|c(?!.*a))+$", ["abc", "cbc"], ["ca", "bcba"]),
    ("^[^/]+$", ["é a"], ["a/b", ""]),
    ("(a|^b)c", ["xac", "bc"], ["xbc"]),
    (r"^[\w.-]{2}$", ["a.", "_-"], ["a", "aé"]),
    (r"^\p{Lu}+$", ["ÀB"], ["a"]),
    (r"^\u0041\x42\t$", ["AB\t"], ["AB"]),
    (r"^[\]\\]$", ["]", "\\"], ["["]),
    ("^a{0}b{2,}$", ["bb", "bbb"], ["ab", "b"]),
    ("^a{0000000002}$", ["aa"], ["", "a"]),
    ("^a{0,0000000002}$", ["", "aa"], ["aaa"]),
    ("^(a?){3}$", ["", "aaa"], ["aaaa"]),
    ("", ["", "x"], []),
    ("^{x}{$", ["{x}{"], ["x"]),
]


@pytest.mark.parametrize(("pattern", "matching", "other"), MATCHING)
def test_patterns_as_ecma_reads_them(pattern, matching, other):
    dfa = language([PatternCondition(pattern)])
    assert [text for text in matching if not dfa.accepts(text)] == []
    assert [text for text in other if dfa.accepts(text)] == []


@pytest.mark.parametrize(
    "pattern",
    ["(a)\\1", "(?<x>a)\\k<x>", "a(?<=a)c", "a(?=\\bc)c", "(a(?!^b))*", "(", "[", "a**", "a{2}{3}", "a{0000000001001}", "{2}", "x{2,1}", "\\ud800", "[z-a]", "(?i)a", "a" * 20_000,
     "(((a{500}){500}){500})", "(.{1,900}a){900}", "[ab]*a[ab]{15}",
     # engines read these differently
     "a{,2}", "\\01", "\\<a", "a\\>", "\\b{start}", "[]a]", "[^]", "\\x{41}", "\\x4", "\\u{}", "\\c1", "\\p{C}", "\\p{Greek}"],
)  # fmt: skip
def test_what_is_not_regular_or_too_large_is_refused(pattern):
    with pytest.raises(ValueError, match=r"."):
        language([PatternCondition(pattern)])


@pytest.mark.parametrize(
    ("pattern", "text"),
    [(r"a\b", "aé"), (r"a\B", "aé"), (r"\bé", "é"), (r"\Bé", "é"), (r"^\W$", "é"), (r"^\w$", "é")],
)
def test_what_engines_dispute_is_accepted_neither_way(pattern, text):
    assert not language([PatternCondition(pattern)]).accepts(text)
    assert not language([PatternCondition(pattern, is_excluded=True)]).accepts(text)


def test_characters_that_another_unicode_may_assign_are_left_out():
    unassigned = "\U0003fffd"
    for pattern in (r"\p{L}", r"\P{L}", r"[^\p{Lu}]"):
        for is_excluded in (False, True):
            assert not language([PatternCondition(f"^{pattern}$", is_excluded=is_excluded)]).accepts(
                unassigned
            )


def test_several_patterns_exclusions_and_values_together():
    dfa = language([PatternCondition("^[ab]+$"), PatternCondition("aa", is_excluded=True)], ("b", "ab"))
    assert [text for text in ("a", "b", "ab", "ba", "aab", "bb") if dfa.accepts(text)] == ["a", "ba", "bb"]


@pytest.mark.parametrize(
    ("pattern", "written"),
    [
        ("^a$", ["a\n\n", "a\nb", "b", ""]),
        ("^a$\n", ["a", "a\n\n", "a\nb", "b", ""]),
        ("^(a$|b)[^b]?$", ["a\nb", "", "a\n\n"]),
        ("^a$b", ["a", "a\n", "a\n\n", "a\nb", "b", ""]),
    ],
)
def test_an_excluded_end_is_one_for_every_engine(pattern, written):
    dfa = language([PatternCondition(pattern, is_excluded=True)])
    texts = ("a", "a\n", "a\n\n", "a\nb", "b", "")
    assert {text for text in texts if dfa.accepts(text)} == set(written)


def real_patterns(limit: int) -> list[str]:
    found: dict[str, None] = {}
    for path in sorted(corpus("jsonschemabench").glob("*.gz")):
        for case in json_lines(path):
            stack = [case["schema"]]
            while stack:
                value = stack.pop()
                if isinstance(value, dict):
                    if isinstance(value.get("pattern"), str):
                        found[value["pattern"]] = None
                    stack += value.values()
                elif isinstance(value, list):
                    stack += value
    return random.Random(0).sample(sorted(found), limit)


def test_real_patterns_accept_only_what_validators_do():
    rng = random.Random(0)
    refused = []
    for pattern in real_patterns(250):
        try:
            dfa = language([PatternCondition(pattern)])
        except ValueError:
            refused.append(pattern)
            continue
        if not jsonschema_rs.meta.is_valid({"pattern": pattern}):
            continue
        validator = jsonschema_rs.validator_for({"pattern": pattern})
        for text in filter(None, (sample(dfa, rng) for _ in range(10))):
            assert validator.is_valid(text), (pattern, text)
    assert len(refused) <= 5, refused


@given(st.text(max_size=6), st.sampled_from(["a.c", "^x?y+$", r"\s", r"^\S*$", "[^a-f]$", r"\w\W"]))
def test_no_text_is_accepted_that_the_validator_rejects(text, pattern):
    if language([PatternCondition(pattern)]).accepts(text):
        assert jsonschema_rs.is_valid({"pattern": pattern}, text)


@given(st.text(max_size=6), st.sampled_from(["a.c", r"\s", r"^\S*$", "[^a-f]$", r"\w", r"\d"]))
def test_no_text_is_accepted_that_an_excluded_pattern_matches(text, pattern):
    if language([PatternCondition(pattern, is_excluded=True)]).accepts(text):
        assert not jsonschema_rs.is_valid({"pattern": pattern}, text)


CONDITIONS = st.builds(
    PatternCondition,
    st.sampled_from(
        ["^[a-z]+$", "^(ab|b)*$", "a", "^x-", "^.{2,4}$", "[^ab]", "b$", r"\d", "^(?!b)", "^a|b$"]
    ),
    is_excluded=st.booleans(),
)


@given(st.lists(CONDITIONS, min_size=3, max_size=6, unique=True), st.sampled_from([1, 4, 400]))
def test_a_product_is_the_same_automaton_made_at_once_or_factor_by_factor(conditions, most):
    sets = [atom for each in conditions for atom in language([each]).alphabet.atoms]
    factors = [language([each]).over(Alphabet.of(sets)) for each in conditions]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("compiler.regular.dfa._MOST_AT_ONCE", most)
        assert intersection(factors) == reduce(Dfa.intersect, factors)


def made_up_lookaheads(rng: random.Random, depth: int = 0, *, has_anchors: bool = True) -> str:
    """A pattern over a and b with lookaheads at any place, in groups, alternatives and one another."""
    characters = ["a", "b", "[ab]", "."]
    pieces = []
    for _ in range(rng.randint(1, 3)):
        if depth < 3 and rng.random() < 0.5:
            opening = rng.choice(["(?=", "(?!", "(?:"])
            inner = made_up_lookaheads(rng, depth + 1, has_anchors=has_anchors and opening == "(?:")
            pieces.append(f"{opening}{inner})")
            can_repeat = opening == "(?:"
        else:
            pieces.append(rng.choice([*characters, *(["^", "$"] if has_anchors else ["$"])]))
            can_repeat = pieces[-1] in characters
        if can_repeat and rng.random() < 0.4:
            pieces[-1] += rng.choice(["*", "+", "?", "{2}", "{1,2}"])
    return "".join(pieces) + (f"|{rng.choice(characters)}" if rng.random() < 0.2 else "")


@pytest.mark.parametrize("seed", range(6))
def test_lookaheads_anywhere_are_what_two_engines_say(seed):
    """On short texts without what engines dispute, both readings are exactly what the engines say."""
    rng = random.Random(f"lookaheads {seed}")
    num_read = 0
    for pattern in (made_up_lookaheads(rng) for _ in range(60)):
        try:
            matching, other = (language([PatternCondition(pattern, is_excluded=x)]) for x in (False, True))
        except PatternError:  # a group of a lookahead alone is repeated
            continue
        num_read += "(?=" in pattern or "(?!" in pattern
        in_rust, in_python = jsonschema_rs.validator_for({"pattern": pattern}), re.compile(pattern)
        for text in ("".join(chars) for length in range(6) for chars in product("ab", repeat=length)):
            said = in_rust.is_valid(text)
            assert said == (in_python.search(text) is not None), (pattern, text)
            assert (matching.accepts(text), other.accepts(text)) == (said, not said), (pattern, text)
    assert num_read > 30


def test_a_refusal_says_why():
    with pytest.raises(PatternError, match="backreference"):
        language([PatternCondition(r"(a)\1")])
