"""Lengths that a guard counts beside a pattern: what may be written is what rules that count would let be.

Rules that count are exact too: their masks allow a token if the text can still end within its bound after it.
"""

import json
import random
import re
import tracemalloc
from itertools import product

import numpy as np
import pytest
from guarded_patterns import (
    PATTERNS,
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
from compiler.grammar.json_form import grammar_from_json, grammar_to_json
from compiler.guard.decoded_tokens import DecodedTokens
from compiler.guard.plan import plan_from_json, plan_to_json
from compiler.guard.string_automaton import MAX_ENTRIES, string_automaton
from compiler.guard.string_bounds import RemainingLength
from compiler.regular.dfa import TooManyStates
from compiler.regular.language import PatternCondition, language
from compiler.report import Verdict


@pytest.mark.parametrize("wrap", [dict, in_array, in_object])
@pytest.mark.parametrize("name", PATTERNS)
def test_masks_are_those_of_rules_that_count(name, wrap):
    schema = wrap({**STRING, "pattern": PATTERNS[name], "maxLength": 14})
    vocabulary, rng = made_up_vocabulary(), random.Random(name)
    guarded, counting = compile_schema(schema, tokenizer=vocabulary), counted_by_rules(schema, vocabulary)
    assert any(bound.automaton for bound in bounds_of(guarded))
    assert not any(bound.automaton for bound in bounds_of(counting))
    for _ in range(12):
        compare(guarded, counting, schema, rng)
    for slack in range(0, 24, 2):
        close(guarded, schema, rng, slack)


@pytest.mark.parametrize("name", ["slug", "lines", "letters"])
def test_masks_of_a_real_vocabulary_are_those_of_rules_that_count(name):
    schema = in_object({**STRING, "pattern": PATTERNS[name], "minLength": 3, "maxLength": 11})
    vocabulary, rng = named_vocabulary("qwen3"), random.Random(name)
    guarded, counting = compile_schema(schema, tokenizer=vocabulary), counted_by_rules(schema, vocabulary)
    assert any(bound.automaton for bound in bounds_of(guarded))
    for _ in range(6):
        compare(guarded, counting, schema, rng)
    for slack in range(0, 12, 2):
        close(guarded, schema, rng, slack)


@given(made_up_patterns(), made_up_patterns(), st.integers(9, 15), st.integers(0, 15), st.integers(0, 99))
@settings(max_examples=8, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
def test_masks_of_any_pattern_are_those_of_rules_that_count(first, other, longest, least, seed):
    rng = random.Random(seed)
    pattern = f"^(?:{first})(?:-(?:{other}))*$"
    string = {**STRING, "pattern": pattern, "minLength": least, "maxLength": longest}
    schema, vocabulary = in_array(string), made_up_vocabulary()
    try:
        guarded = compile_schema(schema, tokenizer=vocabulary)
        counting = counted_by_rules(schema, vocabulary)
    except UnsupportedSchema:
        reject()
    assume(any(bound.automaton for bound in bounds_of(guarded)))
    assume(not any(e.verdict == Verdict.NARROWED and e.keyword == "maxLength" for e in counting.report))
    for _ in range(3):
        compare(guarded, counting, schema, rng)
    close(guarded, schema, rng, rng.randrange(20))


@pytest.mark.parametrize(
    ("pattern", "least"), [("^(?:ab|c)*$", 0), (r"\S", 3), ("^[^a]{2}(?:-[é中]|x)+$", 5)]
)
def test_a_pattern_knows_how_far_every_text_is_from_an_end(pattern, least):
    automaton = string_automaton(language([PatternCondition(pattern)]), least)
    alphabet = 'abcx-é中😀 \n"\\\x01'
    rng = random.Random(pattern)
    for _ in range(300):
        text = "".join(rng.choices(alphabet, k=rng.randrange(7)))
        remaining = RemainingLength(100, automaton)
        for byte in text.encode():
            remaining = remaining.after(bytes([byte]), begins_escape=False)
        distance = automaton.distance[remaining.state]
        is_text = re.search(pattern.replace("$", r"\Z"), text) is not None and len(text) >= least
        assert (remaining.state in automaton.accepting) == is_text
        assert not is_text or distance == 0
        if 0 < distance < 3:
            ends = ["", *alphabet] if distance == 1 else [a + b for a in alphabet for b in alphabet]
            long_enough = (end for end in ends if len(end) == distance and len(text + end) >= least)
            assert any(re.search(pattern.replace("$", r"\Z"), text + end) for end in long_enough), text


def test_escapes_that_lead_too_far_are_not_begun():
    compiled = compile_schema({**STRING, "pattern": r"^(?:[a-z]|\t|\n-)*$", "maxLength": 9})
    matcher = compiled.matcher()
    assert all(map(matcher.accept, b'"abcdefgh\\'))
    assert not matcher.accept(ord("n"))
    assert matcher.accept(ord("t"))
    assert compiled.accepts(r'"abcdefg\n-"')
    assert not compiled.accepts(r'"abcdefgh\n-"')


def test_the_bound_is_exact_where_rules_would_have_narrowed_it():
    schema = {**STRING, "pattern": "[a-zA-Z0-9_.-]+", "maxLength": 20_000}
    compiled = compile_schema(schema)
    assert [e.verdict for e in compiled.report if e.keyword == "maxLength"] == [Verdict.GUARDED]
    assert compiled.accepts(json.dumps(" " * 19_999 + "x"))
    assert not compiled.accepts(json.dumps(" " * 20_000 + "x"))
    assert not compiled.accepts(json.dumps(" " * 20_000))


def test_items_that_must_differ_do_not_run_out_of_room():
    """Arrays at the path of distinct ones must be distinct too."""
    item = {**STRING, "pattern": "^a+(?:-a)*$", "maxLength": 9}
    distinct = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
    schema = {"anyOf": [distinct, {"type": "array", "items": item}]}
    compiled = compile_schema(schema, tokenizer=made_up_vocabulary())
    assert any(bound.automaton for bound in bounds_of(compiled))
    for seed in range(20):
        close(compiled, schema, random.Random(seed), 2 * seed)


def test_patterns_are_stored_once_and_read_back():
    string = {**STRING, "pattern": PATTERNS["slug"], "maxLength": 30}
    grammar = compile_schema({"type": "object", "properties": {"a": string, "b": in_array(string)}}).grammar
    stored = plan_to_json(grammar.plan)
    assert len(stored[-1]) == 1
    assert plan_from_json(json.loads(json.dumps(stored))) == grammar.plan
    assert grammar_from_json(grammar_to_json(grammar)).digest == grammar.digest


@pytest.mark.parametrize(
    "pattern",
    [
        [[1], [0], [[0]], [0]],
        [[0, 5, 5], [0, 0, 0], [[0]], [0]],
        [[0], [1], [[0]], [0]],
        [[0], [0, 0], [[0]], [0]],
        [[0], [0], [[1]], [0]],
        [[0], [0], [[-1]], [0]],
        [[0], [0], [[0], [0, 0]], [0]],
        [[0], [0], [[0]], [1]],
        [[], [], [], []],
    ],
)
def test_a_stored_pattern_that_is_none_is_refused(pattern):
    sound = [[0], [0], [[0]], [0]]
    state = [False, False, [9, 0], False, {}, [], [], []]
    assert plan_from_json([[0], [state], None, False, [sound]]).bounds
    with pytest.raises(ValueError, match="pattern"):
        plan_from_json([[0], [state], None, False, [pattern]])
    with pytest.raises(ValueError, match="pattern"):
        plan_from_json([[0], [state], None, False, []])


def test_patterns_that_are_kept_are_small():
    automaton = language([PatternCondition(PATTERNS["words"])])
    assert len(string_automaton(automaton, 400).transitions) > 400
    with pytest.raises(TooManyStates):
        string_automaton(automaton, MAX_ENTRIES)


def test_what_all_tokens_need_is_kept_in_bounded_memory():
    """A pattern can tell most tokens apart; seven of them would take 1 GB beside Qwen 3's vocabulary."""
    tokens = dict(enumerate("".join(text).encode() for text in product("eanhuj", repeat=6)))
    pattern = "^(?:[^et][^aoi][^nsr][^hldc][^umwfgypb]){30}$"
    automaton = string_automaton(language([PatternCondition(pattern)]), 0, enforces_pattern=True)
    groups = DecodedTokens(tokens, b"", len(tokens)).groups(automaton)
    num_states = len(automaton.transitions)
    tracemalloc.start()
    try:
        rows = [groups.fitting_row(state, 1000).copy() for state in range(5)]
        for state in range(num_states):
            groups.fitting_row(state, 1000)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 5 * 2**20 < 4 * len(tokens) * num_states
    for state, row in enumerate(rows):
        assert np.array_equal(groups.fitting_row(state, 1000), row), "states that were forgotten"
