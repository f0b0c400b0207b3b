"""JSON strings: every escape, lengths in code points, one encoding of literals."""

import json

import jsonschema_rs
import pytest
import xgrammar as xgr
from hypothesis import given, settings
from hypothesis import strategies as st
from vocabularies import BYTES

from compiler.errors import UnsupportedKeyword, UnsupportedSchema
from compiler.grammar.grammar import Rule
from compiler.grammar.rules import RuleTable
from compiler.lowering.json_text import FLEXIBLE
from compiler.prepared_vocabulary import prepare
from compiler.regular.formats import FORMATS
from compiler.report import Verdict
from compiler.scalars.string_constraint import StringConstraint
from compiler.scalars.strings import lower_string
from compiler.schema import lower_schema

FORMAT_TEXTS = ("", "a", "a b", "2024-02-29", "24:00", "2024-02-29T10:00:00Z", "10:00:00Z", "P1D", "a@b.co", "é@é.de",
    "example.com", "a_b", "127.0.0.1", "::1", "1234", "0/a", "/a~1", "2eb8aa08-aa98-11ea-b4aa-73b441d16380", "urn:a",
    "//a/b?c", "{a}", "a{b}c", "^a*$", "(", "*", "\\", "<a>", "%41", "-1")  # fmt: skip


def accepts(expr, rules: RuleTable, text: str) -> bool:
    matcher = xgr.GrammarMatcher(prepare(BYTES).backend.compile_grammar(rules.grammar(Rule(expr))))
    return matcher.accept_string(text) and matcher.is_completed()


def admits(constraint: StringConstraint, text: str, **options) -> bool:
    rules = RuleTable()
    lowered = lower_string(constraint, rules, in_container=False, **options)
    return lowered is not None and accepts(lowered.expr, rules, text)


@pytest.mark.parametrize(
    "text", ['""', '"é😀"', '"\\n\\u0041\\u00e9\\/"', '"\\ud83d\\ude00"', '"\\uFFFF\\uD7ff"']
)
def test_every_json_string_is_admitted(text):
    assert admits(StringConstraint(), text)


@pytest.mark.parametrize(
    "text", ['"\n"', '"', '"a', '"a"b"', '"\\x"', '"\\ud83d"', '"\\ude00"', '"\\ud83dx"', '"\x7f\t"']
)
def test_what_is_no_json_string_is_not(text):
    assert not admits(StringConstraint(), text)


@settings(max_examples=60)
@given(st.text(max_size=6), st.integers(0, 3), st.integers(3, 5), st.booleans())
def test_lengths_count_code_points(text, low, high, is_ascii):
    written = json.dumps(text, ensure_ascii=is_ascii)
    assert admits(StringConstraint(low, high), written) == (low <= len(text) <= high)


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 47), (0, 48), (0, 58), (0, 69), (5, 80), (0, 100), (31, 100), (33, 100), (64, 64), (90, 91),
     (0, 400), (100, 400), (1, 1024), (70, None), (300, None)],
)  # fmt: skip
@pytest.mark.parametrize("pattern", [None, "^[^b]*$", "^x?"])
def test_long_bounds_are_exact(low, high, pattern):
    constraint = StringConstraint(low, high, patterns=(pattern,) if pattern else ())
    rules = RuleTable()
    expr = lower_string(constraint, rules, in_container=False).expr
    compiled = prepare(BYTES).backend.compile_grammar(rules.grammar(Rule(expr)))
    edges = {0, 1, 31, 32, 33, *(edge + step for edge in (low, high or low) for step in (-1, 0, 1, 40))}
    for length in (edge for edge in edges if edge >= 0):
        matcher = xgr.GrammarMatcher(compiled)
        text = json.dumps(("xé" * length)[:length], ensure_ascii=False)
        is_admitted = matcher.accept_string(text) and matcher.is_completed()
        assert is_admitted == (low <= length <= (high or length)), length


@pytest.mark.parametrize(
    ("pattern", "valid", "invalid"),
    [
        ("^.{1,500}$", ["a", "é" * 500], ["", "a" * 501]),
        ("^x[a-z]{60}$", ["x" + "a" * 60], ["x" + "a" * 59, "x" + "a" * 61, "y" + "a" * 60]),
        ("^(ab|c)[a-z]{0,90}$", ["ab", "c" * 91, "ab" + "z" * 90], ["c" * 92, "a"]),
        ("a{60}$", ["a" * 60, "b" + "a" * 61], ["a" * 59]),
    ],
)
def test_long_counts_in_patterns_are_exact(pattern, valid, invalid):
    constraint = StringConstraint(patterns=(pattern,))
    assert [text for text in valid if not admits(constraint, json.dumps(text, ensure_ascii=False))] == []
    assert [text for text in invalid if admits(constraint, json.dumps(text, ensure_ascii=False))] == []


def test_a_pattern_that_counts_many_states_narrows_the_bound():
    lowered = lower_string(StringConstraint(max_length=2_000, patterns=(r"^\w+( \w+)*$",)), RuleTable())
    assert [keyword for keyword, verdict, _ in lowered.notes if verdict == Verdict.NARROWED] == ["maxLength"]


@pytest.mark.parametrize(
    ("name", "high", "text"),
    [
        ("uri", 2_000, "https://example.com/search?q=" + "a+" * 900),
        ("uri", 30, "https://example.com/a?b=c"),
        ("uri-reference", 500, "/a/" + "b" * 400),
        ("email", 50, "joe.bloggs@example.com"),
        ("email", 254, "joe.bloggs@example.com"),
        ("hostname", 253, "a-name-with-many-parts.example.com"),
        ("date", 10, "2024-02-29"),
        ("uri", 60, "file:///home/me/notes.txt"),
    ],
)
def test_formats_beside_a_bound_keep_room(name, high, text):
    assert admits(StringConstraint(max_length=high, formats=(name,)), json.dumps(text))
    assert not admits(StringConstraint(max_length=len(text) - 1, formats=(name,)), json.dumps(text))


@pytest.mark.parametrize("pattern", [r"(\w\W?){250}", r"^.{1000}a.{1000}$"])
def test_a_pattern_that_takes_long_to_compile_is_refused(pattern):
    with pytest.raises(UnsupportedKeyword):
        lower_string(StringConstraint(patterns=(pattern,)), RuleTable())


def test_patterns_and_lengths_together():
    constraint = StringConstraint(2, 3, patterns=("^a",))
    assert [t for t in ("a", "ab", "abc", "abcd", "ba") if admits(constraint, json.dumps(t))] == ["ab", "abc"]


def test_patterns_spell_special_characters_as_json_does():
    constraint = StringConstraint(patterns=("^a.b$",))
    for text in ('a"b', "a\\b", "a\tb", "a\x01b", "aéb"):
        assert admits(constraint, json.dumps(text, ensure_ascii=False))
    assert not admits(constraint, '"a\\u00e9b"')
    assert not admits(constraint, '"a"b"')


def test_long_bounds_are_narrowed_and_say_so():
    lowered = lower_string(StringConstraint(max_length=100_000), RuleTable())
    assert [keyword for keyword, _, _ in lowered.notes] == ["maxLength"]


@pytest.mark.parametrize(
    ("constraint", "keyword"),
    [
        (StringConstraint(min_length=100_000), "minLength"),
        (StringConstraint(patterns=("(a)\\1",)), "pattern"),
        (StringConstraint(content_media_types=("application/json",)), "contentMediaType"),
    ],
)
def test_refusals_name_the_keyword(constraint, keyword):
    with pytest.raises(UnsupportedKeyword) as refused:
        lower_string(constraint, RuleTable())
    assert refused.value.keyword == keyword


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_what_a_format_excludes_is_excluded_where_it_must_not_hold(name):
    lowered = lower_string(StringConstraint(excluded_formats=(name,)), RuleTable())
    assert [verdict for _, verdict, _ in lowered.notes] == [Verdict.NARROWED]
    for text in FORMAT_TEXTS:
        if jsonschema_rs.is_valid({"format": name}, text, validate_formats=True):
            assert not admits(StringConstraint(excluded_formats=(name,)), json.dumps(text)), (name, text)


def test_a_format_that_the_draft_does_not_know_holds_for_every_text():
    assert lower_string(StringConstraint(excluded_formats=("uuid",), draft=7), RuleTable()) is None
    assert admits(StringConstraint(excluded_formats=("uuid",), draft=19), '"a"')


def test_patterns_that_count_too_far_count_less_far():
    pattern = "^(?:\\S+\\s+){0,199}\\S+$"
    constraint = StringConstraint(patterns=(pattern,))
    assert lower_string(constraint, RuleTable()).notes[-1][:2] == ("pattern", Verdict.NARROWED)
    assert admits(constraint, '"one two three"')
    assert not admits(constraint, '"one "')


def test_nothing_left_is_none():
    assert lower_string(StringConstraint(patterns=("^a$", "^b$")), RuleTable()) is None


@given(st.text(max_size=5))
def test_a_literal_has_its_spellings(text):
    encodings = {json.dumps(text, ensure_ascii=is_ascii) for is_ascii in (False, True)}
    expr = FLEXIBLE.text(text)
    assert all(accepts(expr, RuleTable(), encoding) for encoding in encodings)


def test_a_literal_without_a_spelling_is_refused():
    with pytest.raises(UnsupportedSchema):
        lower_schema({"const": "\ud800"})
