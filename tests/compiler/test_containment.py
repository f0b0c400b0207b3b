"""Containment: what a change of a tool's schema means for the arguments it admits."""

import pytest

from compiler import compile_schema
from compiler.frontend.containment import covers

STRING = {"type": "string"}
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"


def one(**properties):
    return {"type": "object", "properties": properties}


def change(old, new):
    is_wider, is_narrower = covers((new, {}), (old, {})), covers((old, {}), (new, {}))
    return {
        (True, True): "compatible",
        (True, False): "widened",
        (False, True): "narrowed",
        (False, False): "changed",
    }[is_wider, is_narrower]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (one(a=STRING), one(a=STRING | {"description": "x"}), "compatible"),
        (one(a={"enum": [1]}), one(a={"enum": [1, 2]}), "widened"),
        (one(a=STRING), one(a=STRING) | {"required": ["a"]}, "narrowed"),
        (one(a=STRING), one(a={"type": "integer"}), "changed"),
    ],
)
def test_sets_of_arguments_are_compared(old, new, expected):
    assert change(old, new) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("date", None, "widened"),
        (None, "date", "narrowed"),
        ("ipv4", "date", "changed"),
        ("date", "date", "compatible"),
        (None, "no-such-format", "compatible"),
    ],
)
def test_formats_count_where_masks_assert_them(old, new, expected):
    def schema(name):
        return one(a=STRING | ({"format": name} if name else {}))

    assert change(schema(old), schema(new)) == expected


def test_only_objects_are_arguments():
    schema = one(a=STRING)
    assert change({"properties": schema["properties"]}, schema) == "compatible"
    assert change({"anyOf": [schema, STRING]}, schema) == "compatible"


@pytest.mark.parametrize("dialect", [DRAFT_7, DRAFT_2019])
def test_dialects_are_compared_by_what_they_mean(dialect):
    pair = one(a={"type": "array", "items": [STRING], "additionalItems": False}) | {"$schema": dialect}
    assert change(pair, one(a={"type": "array", "prefixItems": [STRING], "items": False})) == "compatible"
    assert change(pair, one(a={"type": "array", "prefixItems": [STRING]})) == "widened"
    tree = {"$ref": "#/definitions/n", "definitions": {"n": one(c={"$ref": "#/definitions/n"})}}
    assert change(tree | {"$schema": dialect}, tree) == "compatible"


def test_the_oldest_dialect_has_integers_of_its_own():
    assert change(one(a={"type": "integer"}) | {"$schema": DRAFT_4}, one(a={"type": "integer"})) == "changed"


@pytest.mark.parametrize(
    "schema",
    [
        {"dependentSchemas": {"a": {"if": {"enum": [["b"]]}, "then": {}}}},
        one(a={"oneOf": [{}, {"enum": [["b"]]}]}),
        {
            "$schema": DRAFT_2019,
            "$recursiveAnchor": True,
            "patternProperties": {"^b": {"if": {"enum": [["b"]]}, "then": True}},
        },
    ],
)
def test_of_what_canonicalization_leaves_as_it_is_nothing_is_proved(schema):
    """These schemas are compiled; comparing them is no fault of the compiler."""
    compile_schema(schema)
    assert change(schema, schema | {"description": "x"}) == "changed"
