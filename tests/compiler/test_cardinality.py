"""Arrays of distinct items are taken where there are enough items, and masks then never run out of them."""

import json
import random

import pytest
from random_decoding import Generation
from soundness.judges import Judges
from vocabularies import named_vocabulary

from compiler import compile_schema
from compiler.errors import UnsupportedSchema
from compiler.recogniser.search_budget import MAX_ATTEMPTS, SearchBudget

FIVE = {"type": "number", "minimum": 0, "maximum": 0.04}
HALVES = {"type": "number", "multipleOf": 0.5, "exclusiveMinimum": 0, "maximum": 2}
TENS = {"type": "integer", "multipleOf": 10, "minimum": 1, "maximum": 45}
POINT = {
    "type": "array",
    "items": {"type": "number", "minimum": -180, "maximum": 180},
    "minItems": 2,
    "maxItems": 2,
}


def distinct(items, low):
    return {"type": "array", "items": items, "minItems": low, "maxItems": low + 2, "uniqueItems": True}


@pytest.mark.parametrize(("items", "num_items"), [(FIVE, 5), (HALVES, 4), (TENS, 4), (POINT, 64)])
def test_bounded_numbers_and_multiples_are_counted(items, num_items):
    schema = distinct(items, min(num_items, 6))
    compiled = compile_schema(schema, tokenizer=named_vocabulary("bytes"))
    judges, rng = Judges(schema), random.Random(num_items)
    shortest = compiled.closer().minimum()
    for seed in range(12):
        generation = Generation(compiled, shortest + 20 * seed, rng)
        assert judges.faults(generation.spelled) == []
        assert len(json.loads(generation.text)) >= min(num_items, 6)


@pytest.mark.parametrize(
    ("items", "too_many"),
    [
        (FIVE, 6),
        (HALVES, 5),
        (TENS, 5),
        ({"type": "number", "minimum": 0, "maximum": 1, "not": {"multipleOf": 0.5}}, 2),
    ],
)
def test_no_more_are_demanded_than_are_counted(items, too_many):
    with pytest.raises(UnsupportedSchema, match="demands more distinct items"):
        compile_schema(distinct(items, too_many))


FAR = {"type": "integer", "minimum": 10**15}


@pytest.mark.parametrize(
    "item",
    [
        FAR,
        {**FAR, "multipleOf": 5},
        {**FAR, "not": {"multipleOf": 5}},
        {"type": "number", "minimum": 10**15},
        {"type": "number", "exclusiveMinimum": 0, "maximum": 1e-30},
        {"enum": [2**53, 2**53 + 1]},
    ],
)
def test_numbers_that_cannot_be_written_are_not_counted(item):
    """Else a mask would become empty after `[[], `, where another item seems to be left."""
    arrays = {"type": "array", "items": item, "maxItems": 1}
    with pytest.raises(UnsupportedSchema, match="demands more distinct items"):
        compile_schema(distinct(arrays, 2))


TEXTS = {"type": "string"}
PAIR = {"k": TEXTS, "v": TEXTS}


@pytest.mark.parametrize(
    "items",
    [
        {"type": "object", "properties": PAIR, "minProperties": 1},
        {"type": "object", "patternProperties": {"^x-": TEXTS}},
        {"type": "object", "propertyNames": {"pattern": "^x-"}},
        {"type": "object", "minProperties": 1, "additionalProperties": TEXTS},
        {"type": "array", "contains": TEXTS},
        {"type": "string", "not": {"format": "date"}},
    ],
)
@pytest.mark.parametrize("needed", ["minItems", "contains"])
def test_one_item_is_always_distinct(items, needed):
    """Also where the values of such items are not counted."""
    schema = {"type": "array", "uniqueItems": True, "items": items}
    schema |= {"minItems": 1} if needed == "minItems" else {"contains": items}
    compiled = compile_schema(schema, tokenizer=named_vocabulary("bytes"))
    judges, rng = Judges(schema), random.Random(needed)
    shortest = compiled.closer().minimum()
    for seed in range(6):
        assert judges.faults(Generation(compiled, shortest + 15 * seed, rng).spelled) == []


INTEGERS = {"type": "integer", "minimum": 1, "maximum": 100}
FRACTIONS = {"type": "number", "minimum": 4, "maximum": 5}
FLAGS = {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 6}


@pytest.mark.parametrize(
    ("items", "low"),
    [
        (INTEGERS, 30),
        (INTEGERS, 64),
        (FRACTIONS, 8),
        (FRACTIONS, 40),
        ({"type": "number"}, 64),
        ({"type": "number", "minimum": 21, "maximum": 21.5, "multipleOf": 0.01}, 51),
        ({"type": "string", "maxLength": 2}, 64),
        ({"type": "string", "minLength": 40}, 60),
        ({"type": "string", "minLength": 500}, 60),
        ({"type": "string", "format": "uuid"}, 64),
        (FLAGS, 16),
        (POINT, 64),
        ({"type": "integer", "minimum": 1, "maximum": 40}, 40),
        ({"type": "number", "minimum": 2e6, "maximum": 3e6}, 8),
        ({"type": "integer", "minimum": 1_600_000_000, "multipleOf": 60}, 8),
        ({"type": "object", "properties": PAIR, "minProperties": 1}, 8),
        ({"type": "object", "minProperties": 1, "additionalProperties": TEXTS}, 8),
        ({"type": "array", "items": {"type": "string"}}, 5),
        ({"type": "array", "items": {"type": "string"}}, 64),
        ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, 40),
        ({"type": "object", "additionalProperties": {"type": "string"}}, 40),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}, 40),
        ({"type": "object", "properties": PAIR, "additionalProperties": False}, 64),
    ],
)
def test_as_many_distinct_items_as_are_taken_are_found_with_few_attempts(items, low):
    """Longer texts are tried before all shorter ones are, of which there may be too many."""
    schema = {"type": "array", "items": items, "minItems": low, "uniqueItems": True}
    [*_, text] = compile_schema(schema).shortest_texts(SearchBudget(MAX_ATTEMPTS // 3))
    assert Judges(schema).faults(text) == []
    assert len(json.loads(text)) == low


@pytest.mark.timeout(8)  # it took longer to count to it, or failed
@pytest.mark.parametrize("keyword", ["maxItems", "maxProperties"])
def test_a_bound_that_no_output_reaches_takes_no_time(keyword):
    compiled = compile_schema({keyword: 10**100})
    assert compiled.accepts("[1]")
    assert compiled.accepts('{"a": 1}')
