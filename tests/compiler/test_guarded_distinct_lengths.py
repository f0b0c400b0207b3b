"""Distinct strings whose lengths a guard counts: a full string must be another one than those before it.

Where rules count, the guard searches for dead ends instead (`DeadEndSearch`); the masks must be the same.
"""

import json
import random

import jsonschema_rs
import numpy as np
import pytest
from guarded_patterns import STRING, close, compare, counted_by_rules, made_up_vocabulary
from random_decoding import mask_of
from vocabularies import named_vocabulary

from compiler import compile_schema
from compiler.regular import charset
from compiler.regular.utf8 import chars_of_escape
from compiler.report import Verdict

ARRAY = {"type": "array", "uniqueItems": True}
LENGTHS = [{"maxLength": 8}, {"minLength": 8, "maxLength": 8}, {"minLength": 3, "maxLength": 10}]
SEEN = ["aaaaaaaa", "aaaaaaaé", "aaaaaaa😀", 'aaaaaaa"', "aaaaaaa\n", "aaaaa\\aa", "aaaaaaab-a", "-a-a-a-a"]
AGAIN = [
    '"aaaaaaaa"',
    '"aaaaaaaé"',
    r'"aaaaaaa\u00E9"',
    r'"a\u0061aaaaa\ud83D\uDe00"',
    r'"aaaaaaa\""',
    r'"aaaaaaa\u000a"',
    r'"\u0061aaaa\\aa"',
    '"aaaaaaab-a"',
    '"aaaaaaab-b"',
    '"-a-a-a-a"',
    '"aaaaaaax"',
]


def _begun(schema, items):
    """A matcher after some items, and one of rules that count; both over the same tokens."""
    vocabulary = made_up_vocabulary()
    guarded = compile_schema(schema, tokenizer=vocabulary)
    assert [e.verdict for e in guarded.report if e.keyword == "maxLength"] == [Verdict.GUARDED]
    assert not guarded.grammar.plan.can_run_out
    counting = counted_by_rules(schema, vocabulary)
    assert counting.grammar.plan.can_run_out
    matchers = guarded.matcher(), counting.matcher()
    text = ("[" + "".join(json.dumps(item, ensure_ascii=False) + "," for item in items)).encode()
    assert [matcher.read(text) for matcher in matchers] == [True, True]
    return vocabulary, matchers


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("written", AGAIN)
def test_masks_along_a_repetition_are_those_of_rules_that_count(written, lengths):
    low, high = lengths.get("minLength", 0), lengths["maxLength"]
    vocabulary, matchers = _begun(
        {**ARRAY, "items": {**STRING, **lengths}}, [item for item in SEEN if low <= len(item) <= high]
    )
    for byte in written.encode():
        allowed, expected = (mask_of(matcher, vocabulary) for matcher in matchers)
        assert [vocabulary.tokens[i] for i in np.flatnonzero(allowed != expected)] == []
        accepted = [matcher.accept(byte) for matcher in matchers]
        assert accepted[0] == accepted[1] == allowed[byte]
        if not accepted[0]:
            return
    assert json.loads(written) not in SEEN


@pytest.mark.parametrize("lengths", LENGTHS)
def test_masks_of_random_arrays_are_those_of_rules_that_count(lengths):
    schema, vocabulary, rng = (
        {**ARRAY, "items": {**STRING, **lengths}},
        made_up_vocabulary(),
        random.Random(3),
    )
    guarded, counting = compile_schema(schema, tokenizer=vocabulary), counted_by_rules(schema, vocabulary)
    for _ in range(3):
        compare(guarded, counting, schema, rng)
    for slack in range(0, 30, 6):
        close(guarded, schema, rng, slack)


@pytest.mark.parametrize(
    ("last", "begun"),
    [
        ([chr(0x60 + number) for number in range(16)], rb"\u006"),
        ([chr(0x400 + number) for number in range(64)], "Ѐ".encode()[:1]),
        ([chr(0x4E00 + number) for number in range(64)], "一".encode()[:2]),
        ([chr(0x1F600 + number) for number in range(16)], rb"\ud83d\ude0"),
    ],
)
def test_a_character_whose_every_end_is_taken_is_not_begun(last, begun):
    matcher = compile_schema({**ARRAY, "items": {**STRING, "maxLength": 8}}).matcher()
    text = (
        "["
        + "".join(json.dumps("aaaaaaa" + char, ensure_ascii=False) + "," for char in last[:-1])
        + '"aaaaaaa'
    )
    assert matcher.read(text.encode() + begun[:-1])
    assert matcher.accept(begun[-1])
    matcher.rollback(1)
    full = compile_schema({**ARRAY, "items": {**STRING, "maxLength": 8}}).matcher()
    text = "[" + "".join(json.dumps("aaaaaaa" + char, ensure_ascii=False) + "," for char in last) + '"aaaaaaa'
    assert full.read(text.encode() + begun[:-1])
    assert not full.accept(begun[-1])


def test_the_characters_of_an_escape_are_all_that_it_begins():
    """Compared with the JSON reader, over every character of some ranges."""
    samples = [
        chr(code) for low in (0, 0xFF0, 0xD7F0, 0xE000, 0x1F5F0, 0x10FFF0) for code in range(low, low + 16)
    ]
    samples = [char for char in samples if not 0xD800 <= ord(char) < 0xE000]
    for char in samples:
        units = char.encode("utf-16-be").hex()
        escape = "".join("\\u" + units[at : at + 4] for at in range(0, len(units), 4)).encode()
        for size in range(1, len(escape)):
            assert charset.contains(chars_of_escape(escape[:size]), ord(char)), (escape, size)
        whole = chars_of_escape(escape)
        assert whole == charset.of(char)


def test_distinct_strings_of_a_real_vocabulary_are_valid_at_any_budget():
    schema = {**ARRAY, "items": {**STRING, "minLength": 8, "maxLength": 8}, "minItems": 3}
    compiled = compile_schema(schema, tokenizer=named_vocabulary("qwen3"))
    for seed in range(6):
        close(compiled, schema, random.Random(seed), 5 * seed)


def test_a_bounded_string_beside_another_is_counted_by_rules():
    other = {"type": "array", "items": {**STRING, "maxLength": 20}}
    schema = {"anyOf": [{**ARRAY, "items": {**STRING, "maxLength": 9}}, other]}
    compiled = compile_schema(schema)
    assert compiled.grammar.plan.can_run_out
    assert compiled.accepts('["a", "b"]')
    assert not jsonschema_rs.is_valid(schema, ["a" * 21])
