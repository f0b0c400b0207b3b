"""`unevaluated*` is refused where validators disagree on what is evaluated, or canonicalization mistakes it."""

import json

import pytest
from soundness.judges import Judges
from soundness.schemas import DIALECTS

from compiler.errors import UnsupportedSchema
from compiler.schema import compile_schema

STRING = {"type": "string"}
DISPUTED = [
    ({"allOf": [{"unevaluatedProperties": STRING}], "unevaluatedProperties": False}, {"a": "a"}),
    ({"additionalProperties": {}, "unevaluatedProperties": False}, {"": 0}),
    ({"properties": {"k": {"additionalProperties": {}, "unevaluatedProperties": False}}}, {"k": {"": 1}}),
    ({"dependentSchemas": {"a": {"unevaluatedProperties": {}}}, "unevaluatedProperties": False}, {"a": 1}),
    (
        {"anyOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"additionalProperties": STRING}}, "unevaluatedProperties": False},
        {"a": "a"},
    ),
    ({"items": {"$recursiveRef": "#"}, "additionalProperties": STRING, "unevaluatedProperties": False}, {"a": "a"}),
    ({"not": {"unevaluatedProperties": STRING}}, {"type": 1}),
]  # fmt: skip
AGREED = [
    ({"unevaluatedProperties": STRING}, {"a": "a"}, {"a": 1}),
    ({"properties": {"a": True}, "unevaluatedProperties": False}, {"a": 1}, {"b": 1}),
    ({"allOf": [{"properties": {"a": {"additionalProperties": STRING}}}], "unevaluatedProperties": False}, {"a": {"b": "c"}}, {"b": 1}),
    ({"additionalProperties": False, "properties": {"a": True}, "unevaluatedProperties": False}, {"a": 1}, {"b": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value"), DISPUTED)
def test_disputed_keys_are_refused_in_2019_and_read_in_2020(schema, value):
    text = json.dumps(value)
    old = {"$schema": DIALECTS[2019], **schema}
    for named in (DIALECTS[2019], DIALECTS[2019].replace("https:", "http:")):
        with pytest.raises(UnsupportedSchema, match="disagree on whether the keys") as refused:
            compile_schema({**old, "$schema": named})
        assert refused.value.pointer.endswith(refused.value.keyword)
    first, second = Judges(old).verdicts(text.encode())
    assert (first, second) == (True, False)
    new = json.loads(json.dumps(schema).replace("$recursiveRef", "$ref"))
    assert compile_schema(new).accepts(text)


@pytest.mark.parametrize(("schema", "valid", "invalid"), AGREED)
def test_other_keys_are_read_in_2019(schema, valid, invalid):
    compiled = compile_schema({"$schema": DIALECTS[2019], **schema})
    assert compiled.accepts(json.dumps(valid))
    assert not compiled.accepts(json.dumps(invalid))


def test_items_that_contains_evaluates_are_refused_in_2019():
    schema = {"type": "array", "allOf": [{"contains": True}], "unevaluatedItems": False}
    with pytest.raises(UnsupportedSchema, match="disagree on whether the items") as refused:
        compile_schema({"$schema": DIALECTS[2019], **schema})
    assert refused.value.pointer == "/allOf/0/contains"
    assert compile_schema({"contains": True, "unevaluatedItems": False}).accepts("[1]")
    assert compile_schema({"$schema": DIALECTS[2019], "contains": {"unevaluatedItems": False}}).accepts(
        "[[]]"
    )


def test_keys_are_followed_into_other_documents():
    schema = {"$schema": DIALECTS[2019], "$ref": "urn:other", "unevaluatedProperties": False}
    with pytest.raises(UnsupportedSchema, match="disagree on whether the keys") as refused:
        compile_schema(schema, documents={"urn:other": {"additionalProperties": STRING}})
    assert refused.value.pointer == "urn:other#/additionalProperties"


A, B = ({"properties": {key: True}} for key in "ab")
MISTAKEN = [
    ({"anyOf": [A, True]}, {"a": 1}),
    ({"oneOf": [A, {"required": ["c"]}]}, {"a": 1}),
    ({"if": False, "else": A}, {"a": 1}),
    ({"allOf": [{"if": {"additionalProperties": True}}]}, {"c": 1}),
    ({"dependentSchemas": {"a": A}}, {"a": 1}),
    ({"$ref": "#/$defs/a"}, {"a": 1}),
    ({"anyOf": [True, {"prefixItems": [True]}]}, [1]),
    ({"uniqueItems": True, "oneOf": [{"contains": True, "minContains": 0}]}, [1, 2]),
]
"""Schemas under `if`, and a value of which they evaluate everything by an alternative."""


def not_closed(schema, value):
    """A schema that demands what another one does not evaluate."""
    keyword = "unevaluatedProperties" if isinstance(value, dict) else "unevaluatedItems"
    return {"not": {**schema, keyword: False}, "$defs": {"a": {"anyOf": [A, True]}}}


@pytest.mark.parametrize(("condition", "value"), MISTAKEN)
@pytest.mark.parametrize("others", [{}, {"then": {"minProperties": 0}}, {"else": True}], ids=str)
def test_a_condition_with_alternatives_is_refused(condition, value, others):
    """Canonicalization takes the value for one that is not evaluated; `anyOf` says the same and is read well."""
    schema = not_closed({"if": condition, **others}, value)
    assert Judges(schema).faults(json.dumps(value).encode())
    with pytest.raises(UnsupportedSchema, match="has alternatives inside") as refused:
        compile_schema(schema)
    assert refused.value.pointer == "/not/if"


@pytest.mark.parametrize("condition", [A, {"required": ["b"], **A}], ids=str)
def test_other_conditions_are_read(condition):
    schema = not_closed({"if": condition, "then": B}, {})
    judges, compiled = Judges(schema), compile_schema(schema)
    for value in ({}, {"a": 1}, {"b": 1}, {"a": 1, "b": 1}, {"c": 1}):
        text = json.dumps(value)
        assert compiled.accepts(text) == (judges.faults(text.encode()) == [])


def test_a_condition_with_alternatives_is_read_where_nothing_looks_at_the_rest():
    schema = {"if": {"anyOf": [A, B]}, "properties": {"d": {"unevaluatedProperties": False}}}
    assert compile_schema(schema).accepts('{"d": {}}')
