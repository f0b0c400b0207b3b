"""Patterns that a guard keeps whole, such as passwords': what may be written is what rules would let be."""

import json
import random
import re

import jsonschema_rs
import pytest
from guarded_patterns import (
    STRING,
    bounds_of,
    close,
    compare,
    counted_by_rules,
    in_array,
    in_object,
    made_up_patterns,
    made_up_vocabulary,
)
from hypothesis import HealthCheck, assume, given, reject, settings
from hypothesis import strategies as st
from vocabularies import named_vocabulary

from compiler import UnsupportedSchema, compile_schema
from compiler.report import Verdict
from compiler.scalars import strings

PASSWORDS = (
    r"^(?=.*[A-Z])(?=.*[a-z])(?=.*\d).{8,12}$",
    r"^(?=.*[a-z])(?=.*[A-Z])(?=.*\d)(?=.*[@$!%*?&])[A-Za-z\d@$!%*?&]{8,}$",
    r"^(?=.*[a-z])(?!.*\s).{6,}$",
    r"^(?=.*\W)(?!.*--)[^é]{7,13}(?<!-)$",
    r'^(?=.*")(?=.*\\).{8,}$',
)
CHARACTERS = 'abcXYZ019@$!-_ "\\é中😀\n\t'


@pytest.fixture(autouse=True)
def _all_whole(monkeypatch):
    """The guard keeps every pattern that it can, however cheap its rules would be."""
    monkeypatch.setattr(strings, "MAX_COST_BESIDE_GUARD", -1)


def enforces_pattern(compiled):
    return any(bound.enforces_pattern for bound in bounds_of(compiled))


def admits_any_rest(bound):
    """Whether some of its texts may go on in any way, lone surrogates aside."""
    automaton = bound.automaton
    classes = {
        kind
        for start, kind in zip(automaton.starts, automaton.classes, strict=True)
        if not 0xD800 <= start < 0xE000 and start <= 0x10FFFF
    }
    return any(
        {automaton.transitions[state][kind] for kind in classes} == {state} for state in automaton.accepting
    )


@pytest.mark.parametrize("pattern", PASSWORDS)
def test_passwords_are_what_validators_take_for_them(pattern):
    schema = {**STRING, "pattern": pattern}
    compiled, rng = compile_schema(schema), random.Random(pattern)
    assert enforces_pattern(compiled)
    assert [entry.verdict for entry in compiled.report if entry.keyword == "pattern"] == [Verdict.GUARDED]
    num_valid = 0
    for _ in range(1200):
        text = "".join(rng.choices(rng.choice([CHARACTERS, 'abXY01@$!"\\']), k=rng.randrange(5, 15)))
        verdicts = {jsonschema_rs.is_valid(schema, text), re.search(pattern, text) is not None}
        written = json.dumps(text, ensure_ascii=False)
        if len(verdicts) == 2 or not (text.isascii() or r"\W" not in pattern):  # engines disagree
            assert not (compiled.accepts(written) and False in verdicts), text
        elif "\n" not in text:  # engines disagree on `.` and other line ends
            assert compiled.accepts(written) == verdicts.pop(), text
            num_valid += compiled.accepts(written)
    assert num_valid > 20


@pytest.mark.parametrize("wrap", [dict, in_array, in_object])
@pytest.mark.parametrize("pattern", PASSWORDS)
def test_masks_of_passwords_are_those_of_rules(pattern, wrap):
    schema = wrap({**STRING, "pattern": pattern})
    vocabulary, rng = made_up_vocabulary(), random.Random(pattern)
    guarded, counting = compile_schema(schema, tokenizer=vocabulary), counted_by_rules(schema, vocabulary)
    assert enforces_pattern(guarded)
    assert not enforces_pattern(counting)
    for _ in range(6):
        compare(guarded, counting, schema, rng)
    for slack in range(0, 24, 3):
        close(guarded, schema, rng, slack)


@pytest.mark.parametrize("pattern", [r"^(?=.*[A-Z])(?=.*\d).{3,5}$", PASSWORDS[1]])
def test_masks_of_passwords_in_a_real_vocabulary_are_those_of_rules(pattern):
    schema = in_object({**STRING, "pattern": pattern})
    vocabulary, rng = named_vocabulary("qwen3"), random.Random(pattern)
    guarded, counting = compile_schema(schema, tokenizer=vocabulary), counted_by_rules(schema, vocabulary)
    assert enforces_pattern(guarded)
    for _ in range(5):
        compare(guarded, counting, schema, rng)
    for slack in range(0, 12, 3):
        close(guarded, schema, rng, slack)


def test_the_empty_string_alone_needs_no_guard():
    compiled = compile_schema({**STRING, "pattern": r"^(?!.*a)a{0,9}$"}, tokenizer=made_up_vocabulary())
    assert compiled.accepts('""')
    assert not compiled.accepts('"a"')


_LOOKS = st.lists(
    st.tuples(st.sampled_from(["(?=.*", "(?!.*", "(?="]), made_up_patterns()).map(lambda p: "".join(p) + ")"),
    max_size=2,
)


@given(_LOOKS, made_up_patterns(), st.integers(0, 9), st.none() | st.integers(9, 15), st.integers(0, 99))
@settings(
    max_examples=12,
    suppress_health_check=[
        HealthCheck.filter_too_much,
        HealthCheck.too_slow,
        HealthCheck.function_scoped_fixture,
    ],
)
def test_masks_of_any_pattern_are_those_of_rules(looks, body, least, longest, seed):
    rng = random.Random(seed)
    pattern = f"^{''.join(looks)}(?:{body})*$"
    string = {**STRING, "pattern": pattern, "minLength": least}
    if longest is not None:
        string["maxLength"] = longest
    schema, vocabulary = in_array(string), made_up_vocabulary()
    try:
        guarded = compile_schema(schema, tokenizer=vocabulary)
        counting = counted_by_rules(schema, vocabulary)
    except UnsupportedSchema:
        reject()
    assume(enforces_pattern(guarded))
    assume(not any(map(admits_any_rest, bounds_of(guarded))))  # rules let such a rest have more spellings
    assume(not any(entry.verdict == Verdict.NARROWED and entry.note for entry in counting.report))
    for _ in range(3):
        compare(guarded, counting, schema, rng)
    close(guarded, schema, rng, rng.randrange(20))


def test_a_guard_keeps_only_what_costs_too_much(monkeypatch):
    monkeypatch.undo()
    costly = [{"pattern": PASSWORDS[0]}, {"pattern": "^[a-z]{1,60}$"}, {"format": "regex"}, {"minLength": 17}]
    cheap = [
        {"pattern": r"^(?=.*\d)[a-z0-9]{3,9}$"},
        {"pattern": "^[a-z]{1,30}$"},
        {"pattern": "^[0-9a-f]{64}$"},
        {"format": "uri"},
        {"minLength": 16},
    ]
    assert [enforces_pattern(compile_schema({**STRING, **costs})) for costs in costly] == [True] * len(costly)
    assert [enforces_pattern(compile_schema({**STRING, **costs})) for costs in cheap] == [False] * len(cheap)


def test_a_bound_that_no_text_meets_admits_nothing():
    pattern = r"^(?=.*[A-Z])(?=.*[a-z])(?=.*\d)(?=.*[!?]).{2,3}$"
    with pytest.raises(UnsupportedSchema):
        compile_schema({**STRING, "pattern": pattern})


def test_an_unlimited_password_is_closed_at_any_budget():
    schema = {"type": "array", "items": {**STRING, "pattern": PASSWORDS[1]}, "minItems": 3}
    compiled, rng = compile_schema(schema, tokenizer=made_up_vocabulary()), random.Random(1)
    assert enforces_pattern(compiled)
    for slack in range(0, 40, 4):
        close(compiled, schema, rng, slack)
