"""`unevaluatedProperties` of draft 2019-09 is refused where validators disagree on which keys are evaluated."""

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
