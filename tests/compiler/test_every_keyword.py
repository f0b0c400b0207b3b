"""Every keyword that is said to have force has it, and none of the drafts' keywords is unknown."""

import pytest
from jsonschema_specifications import REGISTRY

from compiler import compile_schema
from compiler.frontend.keywords import ANNOTATIONS, ASSERTIONS, STRUCTURE, transformed, without
from toolspecs.schemas.drafts import FIRST_WITH, LAST_WITH, SchemaDraft

DRAFT_7, DRAFT_2019_09 = (
    {"$schema": draft.uri} for draft in (SchemaDraft.DRAFT_7, SchemaDraft.DRAFT_2019_09)
)
STRING = {"type": "string"}
INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
ARRAY = {"type": "array"}
OBJECT = {"type": "object"}
NEEDS_B = {"a": {"required": ["b"]}}

EXAMPLES = {
    "$ref": ({"$defs": {"a": STRING}, "$ref": "#/$defs/a"}, "1"),
    "$dynamicRef": ({"$defs": {"a": {**STRING, "$dynamicAnchor": "x"}}, "$dynamicRef": "#x"}, "1"),
    "$recursiveRef": (
        {**DRAFT_2019_09, "type": ["array", "null"], "items": {"$recursiveRef": "#"}},
        "[1]",
    ),
    "type": (STRING, "1"),
    "enum": ({"enum": [1, 2]}, "3"),
    "const": ({"const": 1}, "2"),
    "multipleOf": ({**INTEGER, "multipleOf": 3}, "4"),
    "maximum": ({**INTEGER, "maximum": 3}, "4"),
    "exclusiveMaximum": ({**NUMBER, "exclusiveMaximum": 3}, "3"),
    "minimum": ({**INTEGER, "minimum": 3}, "2"),
    "exclusiveMinimum": ({**NUMBER, "exclusiveMinimum": 3}, "3"),
    "maxLength": ({**STRING, "maxLength": 1}, '"ab"'),
    "minLength": ({**STRING, "minLength": 2}, '"a"'),
    "pattern": ({**STRING, "pattern": "^a"}, '"b"'),
    "format": ({**STRING, "format": "date"}, '"b"'),
    "items": ({**ARRAY, "items": STRING}, "[1]"),
    "prefixItems": ({**ARRAY, "prefixItems": [STRING]}, "[1]"),
    "additionalItems": ({**DRAFT_2019_09, **ARRAY, "items": [{}], "additionalItems": STRING}, "[1,2]"),
    "unevaluatedItems": ({**ARRAY, "prefixItems": [{}], "unevaluatedItems": STRING}, "[1,2]"),
    "maxItems": ({**ARRAY, "maxItems": 1}, "[1,2]"),
    "minItems": ({**ARRAY, "minItems": 2}, "[1]"),
    "uniqueItems": ({**ARRAY, "items": INTEGER, "uniqueItems": True}, "[1,1]"),
    "contains": ({**ARRAY, "contains": {"const": 1}}, "[2]"),
    "maxContains": ({**ARRAY, "contains": {"const": 1}, "maxContains": 1}, "[1,1]"),
    "minContains": ({**ARRAY, "contains": {"const": 1}, "minContains": 2}, "[1]"),
    "properties": ({**OBJECT, "properties": {"a": STRING}}, '{"a":1}'),
    "patternProperties": ({**OBJECT, "patternProperties": {"^a": STRING}}, '{"a":1}'),
    "additionalProperties": ({**OBJECT, "additionalProperties": STRING}, '{"a":1}'),
    "unevaluatedProperties": ({**OBJECT, "unevaluatedProperties": STRING}, '{"a":1}'),
    "propertyNames": ({**OBJECT, "propertyNames": {"pattern": "^x"}}, '{"a":1}'),
    "maxProperties": ({**OBJECT, "maxProperties": 1}, '{"a":1,"b":1}'),
    "minProperties": ({**OBJECT, "minProperties": 2}, '{"a":1}'),
    "required": ({**OBJECT, "required": ["a"]}, "{}"),
    "dependentRequired": ({**OBJECT, "dependentRequired": {"a": ["b"]}}, '{"a":1}'),
    "dependentSchemas": ({**OBJECT, "dependentSchemas": NEEDS_B}, '{"a":1}'),
    "dependencies": ({**DRAFT_7, **OBJECT, "dependencies": NEEDS_B}, '{"a":1}'),
    "allOf": ({**INTEGER, "allOf": [{"minimum": 3}]}, "2"),
    "anyOf": ({**INTEGER, "anyOf": [{"minimum": 3}, {"const": 1}]}, "2"),
    "oneOf": ({**INTEGER, "oneOf": [{"minimum": 3}, {"maximum": 5}]}, "4"),
    "not": ({**INTEGER, "not": {"const": 1}}, "1"),
    "if": ({**INTEGER, "if": {"const": 1}, "then": {"const": 2}}, "1"),
    "then": ({**INTEGER, "if": {"const": 1}, "then": {"const": 2}}, "1"),
    "else": ({**INTEGER, "if": {"const": 1}, "else": {"const": 2}}, "3"),
}
"""Of each keyword a schema, and a text that only this keyword forbids."""


def test_every_keyword_has_an_example():
    """The report calls a keyword exact that nothing enforces, once it is named among those with force."""
    assert EXAMPLES.keys() == ASSERTIONS, "write a schema and a text that the keyword forbids"


@pytest.mark.parametrize("keyword", EXAMPLES)
def test_every_keyword_has_force(keyword):
    schema, text = EXAMPLES[keyword]
    assert not compile_schema(schema).accepts(text)
    other = transformed(schema, lambda each: without(each, {keyword}))
    assert compile_schema(other).accepts(text)


def test_every_keyword_of_the_drafts_is_known():
    metaschemas = {uri: REGISTRY.contents(uri) for uri in REGISTRY if "/draft-03/" not in uri}
    assert {draft.uri for draft in SchemaDraft} <= metaschemas.keys()
    named = {keyword for content in metaschemas.values() for keyword in content.get("properties", ())}
    assert named - ASSERTIONS - ANNOTATIONS - STRUCTURE == set(), "name it in compiler/frontend/keywords.py"
    assert FIRST_WITH.keys() | LAST_WITH.keys() <= ASSERTIONS | STRUCTURE
