"""Quantifiers admit exactly the numbers of items and members that a schema admits, at any size."""

import json
import random

import jsonschema_rs
import pytest
from random_decoding import RandomDecoder
from vocabularies import BYTES

from compiler.errors import UnsupportedSchema
from compiler.lowering.arrays import MAX_LEAST
from compiler.report import Verdict
from compiler.schema import compile_schema

VALUES = (1, True, None, "a", [])


def _schema(rng: random.Random):
    schema = {"type": "array"}
    if rng.random() < 0.5:
        prefix = [{"type": "integer"}, {"type": "string"}, {}, False]
        schema["prefixItems"] = rng.choices(prefix, weights=(4, 4, 4, 1), k=rng.randint(1, 3))
    if rng.random() < 0.8:
        schema["items"] = rng.choice([{"type": "boolean"}, {"const": 1}, {"type": "null"}, False, {}])
    if rng.random() < 0.7:
        schema["minItems"] = rng.choice([0, 1, 2, 3, 15, 16, 17, 18, 31, 33, 64, 70])
    if rng.random() < 0.7:
        slack = rng.choice([0, 1, 2, 14, 15, 16, 17, 18, 31, 32, 33, 47, 48, 100, 1000])
        schema["maxItems"] = schema.get("minItems", 0) + slack
    return schema


def _arrays(schema, rng: random.Random):
    """Arrays with about as many items as the bounds, and other arrays."""
    low, high = schema.get("minItems", 0), schema.get("maxItems", 40)
    for number in {
        0,
        1,
        2,
        3,
        max(0, low - 1),
        low,
        low + 1,
        max(0, high - 1),
        high,
        high + 1,
        rng.randrange(120),
    }:
        for value in VALUES:
            first = [rng.choice(VALUES) for _ in schema.get("prefixItems", ())]
            yield (first + [value] * number)[:number]


def test_arrays_of_any_bounds():
    rng = random.Random(1)
    num_compiled = 0
    for _ in range(80):
        schema = _schema(rng)
        arrays = list(_arrays(schema, rng))
        valid = [jsonschema_rs.is_valid(schema, array) for array in arrays]
        try:
            compiled = compile_schema(schema, tokenizer=BYTES)
        except UnsupportedSchema:
            assert not any(valid), schema
            continue
        num_compiled += 1
        assert [compiled.accepts(json.dumps(array)) for array in arrays] == valid, schema
    assert num_compiled > 60


@pytest.mark.parametrize(
    ("low", "high"), [(0, 10**9), (1_000, 10**9), (700, 1_023), (0, 100_000), (1_999, None)]
)
def test_large_bounds_are_exact(low, high):
    bounds = {"minItems": low} | ({} if high is None else {"maxItems": high})
    compiled = compile_schema({"type": "array", "items": {"type": "boolean"}, **bounds}, tokenizer=BYTES)
    assert {entry.verdict for entry in compiled.report} == {Verdict.EXACT}
    for number in (low - 1, low, low + 1, low + 300, 2_500, 100_000, 100_001):
        is_within = low <= number and (high is None or number <= high)
        assert number < 0 or compiled.accepts(json.dumps([True] * number)) == is_within
    assert compiled.closer().minimum() == len(json.dumps([True] * low, separators=(",", ":")))


def test_more_than_can_be_closed_in_time_is_refused():
    for least in (MAX_LEAST + 1, 10**9):
        with pytest.raises(UnsupportedSchema, match="demands more than") as refusal:
            compile_schema({"properties": {"p": {"type": "array", "minItems": least}}}, tokenizer=BYTES)
        assert refusal.value.pointer == "/properties/p/minItems"


@pytest.mark.parametrize("is_distinct", [False, True])
def test_random_outputs_stay_within_large_bounds(is_distinct):
    schema = {
        "type": "array",
        "items": {"type": "integer", "minimum": 0, "maximum": 99},
        "minItems": 17,
        "maxItems": 75,
        "uniqueItems": is_distinct,
    }
    compiled = compile_schema(schema, tokenizer=BYTES)
    decoder, rng = RandomDecoder(BYTES), random.Random(2)
    lengths = []
    for bias in (0.02, 0.3, 0.9) * 3:
        text = decoder.decode(compiled.matcher(), rng, max_tokens=600, bias=bias)
        if text is not None:
            assert jsonschema_rs.is_valid(schema, json.loads(text)), text
            lengths.append(len(json.loads(text)))
    assert len(set(lengths)) > 1
