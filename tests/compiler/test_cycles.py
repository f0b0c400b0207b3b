"""Schemas that refer to themselves for the same value are refused; recursion into a part is not."""

import pytest

from compiler import UnsupportedSchema, compile_schema
from compiler.frontend.cycles import find_cycle


@pytest.mark.parametrize(
    ("schema", "culprit"),
    [
        ({"$ref": "#"}, ""),
        ({"properties": {"p": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}}, "/$defs/a"),
        ({"allOf": [{"type": "object"}, {"anyOf": [{"$ref": "#"}]}]}, "/allOf/1/anyOf/0"),
        ({"items": {"not": {"$ref": "#/items"}}}, "/items/not"),
        ({"properties": {"a/b": {"if": {"$ref": "#/properties/a~1b"}}}}, "/properties/a~1b/if"),
    ],
)
def test_a_cycle_with_no_way_out_is_refused(schema, culprit):
    with pytest.raises(UnsupportedSchema, match="refers back to itself") as refused:
        compile_schema(schema)
    assert refused.value.pointer == f"{culprit}/$ref"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"next": {"$ref": "#"}}},
        {"type": "array", "items": {"$ref": "#"}},
        {"properties": {"$ref": {"type": "string"}}},
        {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}], "$defs": {"a": {"type": "null"}}},
    ],
)
def test_other_references_are_no_cycles(schema):
    assert find_cycle(schema, {}) is None
