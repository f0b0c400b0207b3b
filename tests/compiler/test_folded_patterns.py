"""A pattern of keys stays a pattern, though canonicalization would take it for the keys themselves."""

import json

import jsonschema_rs
import pytest
from soundness.judges import Judges

from compiler.frontend.folded_patterns import without_folding
from compiler.schema import compile_schema

NULL = {"type": "null"}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"patternProperties": {"^$": NULL}}, {"\n": 1}),
        ({"patternProperties": {"^ab$": NULL}}, {"ab\n": 1}),
        ({"patternProperties": {"^(a|b)$": False}}, {"b\n": 1}),
        ({"patternProperties": {r"^a\.b$": NULL, "^a": True}}, {"a.b\n": 1}),
        ({"not": {"patternProperties": {"^a$": NULL}, "additionalProperties": False}}, {"a\n": None}),
        ({"$ref": "urn:other"}, {"a\n": 1}),
        ({"not": {"$ref": "urn:only_a"}}, {"a\n": None}),
        ({"not": {"patternProperties": {"^a$": NULL}, "additionalProperties": {"type": "string"}}}, {"a\n": None}),
        ({"oneOf": [{"patternProperties": {"^a$": NULL}}, {"type": "array"}]}, {"a\n": 1}),
        ({"not": {"not": {"patternProperties": {"^a$": NULL}}}}, {"a\n": 1}),
        ({"patternProperties": {"^[ac]": True, "^a$": NULL}, "additionalProperties": False}, {"a\n": 1}),
        ({"patternProperties": {"^(a|b)$": False, "^(a|b)(?:)$": True}}, {"a": 1}),
        ({"patternProperties": {"^(a|b)(?:)$": True, "^(a|b)$": False, "^(a|b)(?:)(?:)$": True}}, {"b": 1}),
    ],
)  # fmt: skip
def test_a_key_with_a_line_break_is_not_written_past_a_pattern(schema, value):
    documents = {
        "urn:other": {"patternProperties": {"^a$": NULL}},
        "urn:only_a": {"patternProperties": {"^a$": NULL}, "additionalProperties": False},
    }
    compiled = compile_schema(schema, documents=documents)
    assert not compiled.accepts(json.dumps(value))
    assert Judges(schema, documents).faults(json.dumps(value).encode())
    assert compiled.accepts('{"c":1}')


def test_the_keys_are_known_where_no_others_are_admitted():
    compiled = compile_schema({"patternProperties": {"^(b|a)$": NULL}, "additionalProperties": False})
    assert compiled.accepts('{"b":null,"a":null}')
    assert not compiled.accepts('{"a\\n":1}')


def test_the_keys_are_known_below_one_negation():
    schema = {"type": "object", "not": {"patternProperties": {"^(1|3)$": False}}}
    assert without_folding(schema, is_referred=False) == schema
    compiled = compile_schema(schema)
    assert compiled.accepts('{"3":0}')
    assert not compiled.accepts('{"2":0}')


@pytest.mark.parametrize("pattern", ["^$", "^a$", "^(a|b)$", r"^\$ref$", "^a/b$", r"^a\-b$", "^a b$"])
def test_no_key_is_made_of_a_pattern(pattern):
    schema = {"type": "object", "patternProperties": {pattern: NULL}}
    schema = without_folding(schema, is_referred=False)
    assert "properties" not in jsonschema_rs.canonicalize(schema).to_json_schema()
