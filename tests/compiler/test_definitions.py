"""References to places where no keyword holds schemas: what they lead to is read as under `$defs`."""

import json

import pytest
from jsonschema import Draft202012Validator
from soundness.judges import Judges

from compiler.argument_faults import argument_faults
from compiler.errors import UnsupportedSchema
from compiler.frontend.definitions import with_definitions
from compiler.schema import compile_schema, lower_schema
from toolspecs.tool import Tool

FOLDED = {"patternProperties": {"^a$": {"type": "integer"}}}
NEEDS = {"dependencies": {"b": ["c"]}}
INSTANCES = (
    1,
    {"a": 1},
    {"a": "x"},
    {"a\n": "x"},
    {"b": 1},
    {"b": 1, "c": 1},
    {"p": {"a\n": "x"}},
    {"p": {"a": 1}},
    {"p": {"b": 1}},
)


def referring(schema):
    """Schemas that refer to another one, at places of many kinds."""
    yield {"$ref": "#/refs/x", "refs": {"x": schema}}
    yield {"not": {"$ref": "#/refs/x"}, "refs": {"x": schema}}
    yield {"properties": {"p": {"$ref": "#/refs/a~1b%20c"}}, "refs": {"a/b c": schema}}
    yield {"properties": {"p": {"$ref": "#/$defs/group/x"}}, "$defs": {"group": {"x": schema}}}
    yield {"properties": {"p": {"$ref": "#/refs/y/not"}}, "refs": {"y": {"not": schema}}}
    yield {
        "properties": {"p": {"$ref": "#/refs/y"}},
        "refs": {"y": {"allOf": [{"$ref": "#/refs/x"}]}, "x": schema},
    }
    yield {
        "properties": {"p": {"oneOf": [{"$ref": "#/refs/x"}, {"type": "null"}]}, "q": {"$ref": "#/refs"}},
        "refs": {"x": schema, "items": schema},
    }
    yield {"$ref": "#/refs/x", "refs": {"x": schema}, "$defs": {"refs/x": {"type": "null"}}}


@pytest.mark.parametrize("schema", [FOLDED, NEEDS, {"enum": [{"a": 1}, 1.0]}, True], ids=str)
def test_what_is_written_is_valid(schema):
    num_written = 0
    for document in referring(schema):
        try:
            compiled = compile_schema(document)
        except UnsupportedSchema:
            continue
        judges = Judges(document)
        for instance in INSTANCES:
            text = json.dumps(instance)
            if compiled.accepts(text):
                num_written += 1
                assert judges.faults(text.encode()) == [], (document, text)
    assert num_written


def test_a_document_that_is_referred_to_may_hold_schemas_anywhere():
    documents = {"https://a.example/b": {"refs": {"x": {"$ref": "#/refs/y"}, "y": FOLDED}}}
    compiled = compile_schema({"$ref": "https://a.example/b#/refs/x", "type": "object"}, documents=documents)
    accepted = [compiled.accepts(json.dumps(value)) for value in ({"a": 1}, {"a": "x"}, {"a\n": "x"})]
    assert accepted == [True, False, False]


def test_pointers_are_those_of_the_document():
    schema = {"items": {"$ref": "#/refs/x"}, "refs": {"x": {"type": "string", "pattern": "^a"}}}
    found = {(entry.pointer, entry.keyword) for entry in lower_schema(schema).report}
    assert {("/items", "$ref"), ("/refs/x", "pattern")} <= found
    assert not any(pointer.startswith("/$defs") for pointer, _ in found)
    schema["refs"]["x"]["pattern"] = "(?i)a"
    with pytest.raises(UnsupportedSchema) as refused:
        lower_schema(schema)
    assert refused.value.pointer == "/refs/x/pattern"


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/x", "$defs": {"x": {}}, "refs": {"x": {}}},
        {"$ref": "#/properties/a/items/0", "properties": {"a": {"items": [{}]}}},
        {"$ref": "#/refs/x", "refs": {"x": True}},
        {"$ref": "#/nowhere"},
        True,
    ],
    ids=str,
)
def test_a_document_without_such_places_is_left_alone(schema):
    assert with_definitions(schema, {}).document is schema


NAMES = ["Page<User>", "Page[User]", "List`1", "a b", "Größe", 'x"y', "a|b", "{a}", "^a", "a?b"]


@pytest.mark.parametrize("place", ["$defs", "components"])
@pytest.mark.parametrize("name", NAMES)
def test_names_of_types_are_read_in_references_as_they_are(name, place):
    data = {"$ref": "#/is data/and stays"}
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": f"#/{place}/{name}"}, "b": {"const": data}},
        place: {name: {"type": "integer"}},
    }
    compiled = compile_schema(schema)
    values = {"a": 1}, {"a": "x"}, {"b": data}
    assert [compiled.accepts(json.dumps(value)) for value in values] == [True, False, True]
    assert ("/properties/a", "$ref") in {(entry.pointer, entry.keyword) for entry in compiled.report}
    tool = Tool("t", "", schema)
    assert [len(argument_faults(tool, value)) for value in values] == [0, 1, 0]
    assert Draft202012Validator(schema).is_valid({"a": 1})
    assert not Draft202012Validator(schema).is_valid({"a": "x"})


def test_names_of_what_is_moved_are_left_out():
    schema = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "properties": {"a": {"$ref": "#/a"}},
        "a": {"id": "a", "type": "string"},
    }
    compiled = compile_schema(schema)
    assert [compiled.accepts(text) for text in ('{"a": "x"}', '{"a": 1}')] == [True, False]


def test_references_relative_to_a_schema_below_the_root_are_refused():
    schema = {
        "properties": {"a": {"$id": "b", "$ref": "#/x"}, "c": {"$ref": "#/refs/x"}},
        "refs": {"x": {"type": "null"}},
    }
    with pytest.raises(UnsupportedSchema, match="leads to a place where no keyword holds schemas") as refused:
        lower_schema(schema)
    assert refused.value.pointer == "/properties/c/$ref"


@pytest.mark.parametrize("listing", ["const", "enum"])
def test_a_listed_value_that_is_also_referred_to_stays_as_it_is(listing):
    value = {"$anchor": "foo", "$ref": "#/properties/c/a b"}
    schema = {
        "type": "object",
        "properties": {
            "a": {listing: value if listing == "const" else [value]},
            "b": {"$ref": "#/properties/a/const" if listing == "const" else "#/properties/a/enum/0"},
            "c": {"const": 1, "a b": {"type": "string"}},
        },
        "required": ["a"],
    }
    compiled = compile_schema(schema)
    assert compiled.accepts(json.dumps({"a": value, "b": "x"}))
    assert not compiled.accepts(json.dumps({"a": value, "b": 1}))
    for altered in ({**value, "$ref": "#/$defs/x"}, {"$ref": value["$ref"]}, {}):
        assert not compiled.accepts(json.dumps({"a": altered}))


@pytest.mark.parametrize("pattern", ["^a$", "^(a|b)$", "^x-"])
def test_references_lead_into_patterns_of_keys(pattern):
    """Canonicalization is given some of them in another spelling."""
    escaped = pattern.replace("^", "%5E")
    schema = {
        "type": "object",
        "patternProperties": {pattern: {"type": "object", "properties": {"n": {"type": "integer"}}}},
        "properties": {
            "p": {"$ref": f"#/patternProperties/{escaped}"},
            "q": {"$ref": f"#/patternProperties/{escaped}/properties/n"},
        },
    }
    other = "https://example.com/other"
    referring = {
        "type": "object",
        "properties": {key: {"$ref": f"{other}#/properties/{key}"} for key in "pq"},
    }
    for compiled in (compile_schema(schema), compile_schema(referring, documents={other: schema})):
        texts = '{"p": {"n": 1}}', '{"p": {"n": "x"}}', '{"q": 1}', '{"q": "x"}'
        assert [compiled.accepts(text) for text in texts] == [True, False, True, False]
