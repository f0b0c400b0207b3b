"""Rewritings before canonicalization: the same instances are valid before and after, also around `unevaluated*`."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from soundness.judges import Judges
from soundness.schemas import (
    DIALECTS,
    instances,
    schemas_around_unevaluated,
    schemas_with_conditions,
)

from compiler.errors import UnsupportedSchema
from compiler.frontend.conditional_cases import with_cases
from compiler.frontend.described_values import with_described_values
from compiler.frontend.dialect_dependent import without_nested_dialects
from compiler.schema import compile_schema

CALM = settings(suppress_health_check=list(HealthCheck))
MANY = pytest.param(5000, marks=[pytest.mark.corpus, pytest.mark.timeout(7200)])
"""How many schemas a full run has, others each time."""
DRAFTS = {2019: 19, 2020: 20}
"""The years of drafts with `unevaluated*`, and their numbers."""
NUMBERS = {7: 7, **DRAFTS}
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


D4, D20 = "http://json-schema.org/draft-04/schema#", "https://json-schema.org/draft/2020-12/schema"
HOST_OR_ADDRESS = {"oneOf": [{"format": "hostname"}, {"$ref": "#/definitions/address", "title": "b"}]}
ADDRESS = {"type": "string", "format": "ipv6"}


@pytest.mark.parametrize(
    ("inner", "address", "is_removed"),
    [
        ({}, ADDRESS, True),
        ({"minimum": 3}, ADDRESS, True),
        ({"exclusiveMinimum": True}, ADDRESS, False),  # a number since draft 6
        ({"const": "::"}, ADDRESS, False),  # has no force in draft 4
        ({}, {"format": "uuid"}, False),  # not in draft 4
        ({}, {"const": "::1"}, False),  # where the reference leads to
        ({}, {"$id": "https://example.com/a", **ADDRESS}, False),
        ({"id": "a"}, ADDRESS, False),
        ({"items": [{"$ref": "#"}]}, ADDRESS, False),
        ({"$ref": "#/definitions/address", "minimum": 3}, ADDRESS, False),  # ignored beside `$ref` in draft 4
    ],
)
def test_a_nested_dialect_is_left_out_where_all_of_the_document_is_read_alike(inner, address, is_removed):
    schema = {
        "definitions": {"address": address},
        "properties": {"a": {"$schema": D4, **HOST_OR_ADDRESS, **inner}},
    }
    rewritten = without_nested_dialects(schema)
    assert (rewritten != schema) == is_removed
    assert without_nested_dialects({**schema, "$schema": "https://example.com/mine"})["properties"]["a"][
        "$schema"
    ]
    if is_removed:
        values = [{"a": value} for value in ("example.com", "::1", "a_b", "", 1, 3, None)]
        check_same(schema, rewritten, values)
        check_same({"$schema": D20, **schema}, without_nested_dialects({"$schema": D20, **schema}), values)


UNUSED = {"oneOf": [{"format": "uuid"}, {"not": {"const": 1}}]}


@pytest.mark.parametrize(
    ("definitions", "is_removed"),
    [
        ({"a": {"format": "uuid"}, "b": UNUSED}, True),
        ({"a": {"$ref": "#/definitions/b"}, "b": UNUSED}, False),
        ({"a": {"items": {"$ref": "#/definitions/b"}}, "b": UNUSED}, False),
        ({"a": {"definitions": {"c": UNUSED}, "minLength": 2}}, True),
        ({"a": {"$ref": "#elsewhere"}, "b": UNUSED}, False),
        ({"a": {"$dynamicRef": "#/definitions/a/items", "items": {"const": 3}}, "b": UNUSED}, False),
    ],
)
def test_an_older_nested_dialect_is_left_out_where_asserting_more_admits_less(definitions, is_removed):
    """What no value is looked at by does not matter."""
    schema = {"$schema": D20, "definitions": definitions}
    schema["properties"] = {"a": {"$schema": D4, "$ref": "#/definitions/a"}}
    rewritten = without_nested_dialects(schema)
    assert ("$schema" not in rewritten["properties"]["a"]) == is_removed
    if is_removed:
        values = [{"a": value} for value in ("", "ab", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", 1, None, [1])]
        before, after = Judges(schema), Judges(rewritten)
        admitted = [text for text in (json.dumps(v).encode() for v in values) if not after.faults(text)]
        assert admitted
        assert [text for text in admitted if before.faults(text)] == []


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


@pytest.mark.parametrize("count", [15, MANY])
@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("check", CHECKS)
def test_rewritings_keep_what_is_valid(check, draft, count):
    made_up = given(schemas_around_unevaluated(draft), st.lists(instances(), min_size=20, max_size=30))
    settings(CALM, max_examples=count, derandomize=count == 15)(made_up(lambda s, v: check(draft, s, v)))()


def check_cases(draft, schema, values) -> None:
    rewritten = with_cases(schema, NUMBERS[draft])
    check_same(schema, rewritten, values)


@pytest.mark.parametrize("count", [15, MANY])
@pytest.mark.parametrize("draft", NUMBERS)
@pytest.mark.parametrize("check", [check_cases, check_compiled])
def test_conditions_written_as_cases_keep_what_is_valid(check, draft, count):
    made_up = given(schemas_with_conditions(draft), st.lists(instances(), min_size=20, max_size=30))
    settings(CALM, max_examples=count, derandomize=count == 15)(made_up(lambda s, v: check(draft, s, v)))()


def kinds(num_kinds, *, is_listed=True, **condition):
    """A tool's schema with a condition for every value of `kind`; `condition` has functions from the number."""
    names = [f"k{number}" for number in range(num_kinds)]
    parts = {f"p{number}": {"type": "integer"} for number in range(num_kinds)}
    return {
        "type": "object",
        "properties": {"kind": {"enum": names} if is_listed else {"type": "string"}, **parts},
        "required": ["kind"],
        "allOf": [
            {keyword: build(number) for keyword, build in condition.items()} for number in range(num_kinds)
        ],
    }


def asks(number):
    return {"properties": {"kind": {"const": f"k{number}"}}, "required": ["kind"]}


def demands(number):
    return {"required": [f"p{number}"]}


MANY = {
    "then": kinds(30, **{"if": asks}, then=demands),
    "not all kinds": kinds(30, is_listed=False, **{"if": asks}, then=demands),
    "else": kinds(30, **{"if": lambda number: {"not": asks(number)}}, then=lambda _: {}, **{"else": demands}),
    "without required": kinds(30, **{"if": lambda n: {"properties": asks(n)["properties"]}}, then=demands),
    "enum": kinds(30, **{"if": lambda n: {"properties": {"kind": {"enum": [f"k{n}", "x"]}}}}, then=demands),
}


@pytest.mark.parametrize(
    ("name", "around"),
    [*((name, "alone") for name in MANY), ("then", "allOf"), ("else", "oneOf"), ("enum", "property")],
)
def test_thirty_conditions_are_compiled(name, around):
    """Canonicalization alone would make 2**30 schemas of them."""
    schema = MANY[name]
    if around == "property":
        schema = {"properties": {"in": schema}, "required": ["in"]}
    elif around != "alone":
        schema = {around: [schema]}
    compiled = compile_schema(schema)
    for value, is_valid in (
        ({"kind": "k7", "p7": 1}, True),
        ({"kind": "k7", "p7": 1, "p9": 1}, True),
        ({"kind": "k7", "p9": 1}, False),
        ({"kind": "k7"}, False),
        ({"kind": "another"}, name == "not all kinds"),
    ):
        assert compiled.accepts(json.dumps({"in": value} if around == "property" else value)) is is_valid, (
            value
        )


def test_thirty_conditions_on_two_keys_are_compiled():
    def both(number):
        mode = {"mode": {"const": ("a", "b")[number % 2]}}
        return {"properties": {**asks(number)["properties"], **mode}, "required": ["kind", "mode"]}

    schema = kinds(30, **{"if": both}, then=demands)
    compiled = compile_schema(schema)
    assert compiled.accepts('{"kind": "k3", "p3": 1, "mode": "b"}')
    assert compiled.accepts('{"kind": "k3", "mode": "a"}')
    assert not compiled.accepts('{"kind": "k3", "mode": "b"}')


def test_thirty_conditions_with_unevaluated_properties_are_compiled():
    def own(number):
        return {"properties": {f"q{number}": {"type": "integer"}}}

    schema = {**kinds(30, **{"if": asks}, then=own), "unevaluatedProperties": False}
    compiled = compile_schema(schema)
    assert compiled.accepts('{"kind": "k3", "q3": 1}')
    assert not compiled.accepts('{"kind": "k3", "q4": 1}')


def test_what_is_referred_to_stays_where_it_is():
    schema = kinds(3, **{"if": asks}, then=demands)
    assert with_cases(schema, 20, {"#/$defs/a"}) != schema
    assert with_cases(schema, 20, {"#/allOf/1/then"}) == schema
    named = {
        **schema,
        "allOf": [{**part, "then": {"$anchor": f"n{i}"}} for i, part in enumerate(schema["allOf"])],
    }
    assert with_cases(named, 20) == named
