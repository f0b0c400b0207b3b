"""Rewritings before canonicalization: the same instances are valid before and after, also around `unevaluated*`."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from soundness.judges import Judges
from soundness.schemas import DIALECTS, instances, schemas_around_unevaluated

from compiler.errors import UnsupportedSchema
from compiler.frontend.described_values import with_described_values
from compiler.frontend.dialect_dependent import without_nested_dialects
from compiler.schema import compile_schema

CALM = settings(deadline=None, suppress_health_check=list(HealthCheck))
DRAFTS = {2019: 19, 2020: 20}
"""The years of drafts with `unevaluated*`, and their numbers."""
NEWEST = DIALECTS[2020]
DRAFT_7 = DIALECTS[7]

LISTED = [
    ({"anyOf": [{"const": [1]}, {"prefixItems": [{"type": "string"}]}], "unevaluatedItems": False}, [1], ["a"]),
    ({"anyOf": [{"enum": [[1, 2]]}, {"prefixItems": [True]}], "unevaluatedItems": False}, [1, 2], [1]),
    (
        {"anyOf": [{"const": {"a": 1}}, {"properties": {"b": True}}], "unevaluatedProperties": False},
        {"a": 1},
        {"b": 1},
    ),
    (
        {"allOf": [{"enum": [{"a": [1]}, {}]}], "properties": {"b": True}, "unevaluatedProperties": False},
        {"a": [1]},
        {},
    ),
    (
        {
            "if": {"const": [1]},
            "then": {"not": {"const": [[2]]}},
            "else": {"items": True},
            "unevaluatedItems": False,
        },
        [1],
        [2],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "invalid", "valid"), LISTED)
def test_a_listed_value_evaluates_nothing(schema, invalid, valid):
    compiled = compile_schema({"type": ["array", "object"], **schema})
    assert not compiled.accepts(json.dumps(invalid))
    assert compiled.accepts(json.dumps(valid))
    assert Judges(schema).faults(json.dumps(invalid).encode())


@pytest.mark.parametrize("listed", [{"const": [1]}, {"enum": [[1]]}])
def test_values_listed_in_another_dialect_are_not_described_in_this_one(listed):
    """In draft 7 `prefixItems` has no force: a description with it would admit `[2]`."""
    inner = {"$id": "https://example.com/a", "$schema": DRAFT_7, **listed}
    schema = {"$defs": {"a": inner}, "$ref": "https://example.com/a", "not": {"const": [3]}}
    assert with_described_values(schema, 20) == schema
    try:
        compiled = compile_schema(schema)
    except UnsupportedSchema:
        return
    assert not compiled.accepts("[2]")


def check_same(before, after, values) -> None:
    """Both admit the same values, and so does every judge."""
    first, second = Judges(before), Judges(after)
    for value in values:
        text = json.dumps(value).encode()
        assert (first.faults(text) == []) == (second.faults(text) == []), text
        for one, other in zip(first.verdicts(text), second.verdicts(text), strict=True):
            assert one == other, text


def check_described(draft, schema, values) -> None:
    check_same(schema, with_described_values(schema, DRAFTS[draft]), values)


def check_nested(draft, schema, values) -> None:
    del draft
    check_same(schema, without_nested_dialects(schema), values)


def check_compiled(draft, schema, values) -> None:
    """What is accepted is valid: the rewritings together, both readings of a dialect-dependent keyword too."""
    del draft
    try:
        compiled = compile_schema(schema)
    except UnsupportedSchema:
        return
    judges = Judges(schema)
    for value in values:
        text = json.dumps(value)
        assert not (compiled.accepts(text) and judges.faults(text.encode())), text


CHECKS = [check_described, check_nested, check_compiled]


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("check", CHECKS)
def test_rewritings_keep_what_is_valid(check, draft):
    made_up = given(schemas_around_unevaluated(draft), st.lists(instances(), min_size=20, max_size=30))
    settings(CALM, max_examples=60, derandomize=True)(made_up(lambda s, v: check(draft, s, v)))()


@pytest.mark.corpus
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("check", CHECKS)
def test_rewritings_keep_what_is_valid_in_many_schemas(check, draft):
    made_up = given(schemas_around_unevaluated(draft), st.lists(instances(), min_size=20, max_size=30))
    settings(CALM, max_examples=5000)(made_up(lambda s, v: check(draft, s, v)))()
