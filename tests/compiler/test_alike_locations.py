"""Equal schemas at several places are lowered once, and the report tells of each place what holds there."""

import json

import pytest
from soundness.corpora import sample

from compiler import UnsupportedSchema, compile_schema
from compiler.frontend.alike_locations import AlikeLocations, MovedPointers
from compiler.frontend.keywords import transformed
from compiler.frontend.source_map import SchemaLocation, SourceMap
from compiler.schema import lower_schema

DISTINCT = {"type": "array", "uniqueItems": True}
INNER = {
    "type": "object",
    "description": "what it is",
    "properties": {
        "tags": {**DISTINCT, "items": {"type": "string", "maxLength": 40}},
        "size": {"type": "number", "multipleOf": 0.1},
        "kind": {"anyOf": [{"type": "integer"}, {"properties": {"b": {}, "a": {"format": "email"}}}]},
        "next": {"$ref": "#/$defs/next"},
    },
    "required": ["size"],
}
NEXT = {"type": "object", "properties": {"note": {"type": "string", "pattern": "^[a-z]+$"}}}
NUMBERS = {"type": "number", "maximum": 3}


def two_places(first, second):
    """The schema `first` under a key, and `second` under another one and as an item."""
    items = {"type": "array", "items": second, "minItems": 1}
    return {"properties": {"a": first, "b": second, "c": items}, "$defs": {"next": NEXT}}


def unlike(schema):
    """The same schema, written so that no part of it equals a part of the original."""
    return transformed(schema, lambda inner: {**inner, "x-place": "another"})


def told(schema, place, **options):
    """The verdicts on the keywords of the schema at a place, with their notes."""
    return {
        (entry.pointer.removeprefix(place), entry.keyword): (entry.verdict, set(entry.note.split("; ")))
        for entry in lower_schema(schema, **options).report
        if entry.pointer.startswith(place) and entry.keyword != "x-place"
    }


def test_equal_schemas_are_lowered_once():
    num_rules = [
        len(
            lower_schema(
                {"properties": {f"k{i}": INNER for i in range(n)}, "$defs": {"next": NEXT}}
            ).grammar.rules
        )
        for n in (1, 2, 9)
    ]
    assert num_rules[1] <= num_rules[0] + 6, "what follows a key is all that is new"
    assert num_rules[2] <= num_rules[1] + 7 * 3


@pytest.mark.parametrize("objects", ["schema", "closed"])
@pytest.mark.parametrize("place", ["/properties/a", "/properties/b", "/properties/c/items"])
def test_the_report_tells_of_each_place(place, objects):
    shared = two_places(INNER, INNER)
    assert told(shared, place, objects=objects) == told(
        two_places(INNER, unlike(INNER)), place, objects=objects
    )
    assert "tags" in json.dumps([*told(shared, place)])


@pytest.mark.parametrize("place", ["/properties/a", "/properties/c/items"])
def test_what_holds_among_distinct_items_is_told_there_alone(place):
    schema = {"properties": {"a": INNER, "c": {**DISTINCT, "items": INNER}}, "$defs": {"next": NEXT}}
    others = {"properties": {"a": INNER, "c": {**DISTINCT, "items": unlike(INNER)}}, "$defs": {"next": NEXT}}
    assert told(schema, place) == told(others, place)
    assert ("at most one undeclared key" in str(told(schema, place))) == ("items" in place)


@pytest.mark.parametrize(("name", "every"), [("mcp", 25), ("bfcl", 150), ("jsonschemabench", 200)])
def test_real_schemas_are_told_of_as_if_each_place_were_lowered(name, every):
    for case in sample(name, every=every, seed=1):
        if "$ref" in json.dumps(case.schema) or "$id" in json.dumps(case.schema):
            continue
        dialect = {"$schema": case.schema["$schema"]} if "$schema" in case.schema else {}
        schema = {key: value for key, value in case.schema.items() if key not in ("$schema", "id")}
        other = unlike(schema)
        try:
            expected = told({**dialect, "properties": {"a": schema, "b": other}}, "/properties/b")
        except UnsupportedSchema:
            continue
        assert told({**dialect, "properties": {"a": schema, "b": schema}}, "/properties/b") == expected, (
            case.name
        )


def test_a_refusal_names_the_place_that_is_refused():
    schema = {"type": "array", "items": {"not": {"uniqueItems": True}}}
    with pytest.raises(UnsupportedSchema) as refusal:
        compile_schema({"properties": {"a": {"type": "null"}, "b": schema, "c": schema}})
    assert refusal.value.pointer.startswith("/properties/b")


@pytest.mark.parametrize(
    ("schemas", "are_alike"),
    [
        ((NUMBERS, {**NUMBERS, "description": "another"}), True),
        ((NUMBERS, {**NUMBERS, "maximum": 3.0}), False),
        ((NUMBERS, dict(reversed(NUMBERS.items()))), False),
        (({"properties": {"title": {}}}, {"properties": {"description": {}}}), False),
        (({"$ref": "#/$defs/next"}, {"$ref": "#/$defs/next"}), True),
        (({"$id": "https://a.example/a", **NUMBERS}, {"$id": "https://a.example/b", **NUMBERS}), False),
        (({"items": {"$anchor": "x"}}, {"items": {"$anchor": "x"}}), True),
        (({"$id": "a", "items": {"$ref": "#"}}, {"$id": "a", "items": {"$ref": "#"}}), False),
        (({"items": {"$anchor": "x"}, "not": {"$ref": "#x"}},) * 2, False),
        (({"anyOf": [NUMBERS, True]}, {"anyOf": [NUMBERS, True]}), True),
        (({"anyOf": [NUMBERS, True]}, {"allOf": [NUMBERS, True]}), False),
    ],
)
def test_locations_are_alike_if_their_schemas_are_equal(schemas, are_alike):
    source_map = SourceMap({"properties": dict(zip("ab", schemas, strict=True)), "$defs": {"next": NEXT}})
    alike = AlikeLocations(source_map)
    first, second = (alike.form(source_map.property(source_map.root, key)) for key in "ab")
    assert (first == second) == are_alike


def test_pointers_move_with_the_innermost_schema_around_them():
    origin = SchemaLocation(("/a", "/a/anyOf/0", "/$defs/x"), "/a")
    target = SchemaLocation(("/b~1c", "/d", "/$defs/x"), "/b~1c")
    moved = MovedPointers(origin, target)
    assert moved.pointer("/a") == "/b~1c"
    assert moved.pointer("/a/anyOf/1/items") == "/b~1c/anyOf/1/items"
    assert moved.pointer("/a/anyOf/0/items") == "/d/items"
    assert [moved.pointer(pointer) for pointer in ("/ab", "", "/$defs/x/items")] == [
        "/ab",
        "",
        "/$defs/x/items",
    ]
