"""Schemas of OpenAPI documents as the schemas of tools."""

import json

import pytest
from openapi_documents import admits, body_tool, only, operation, read


def test_what_only_the_server_writes_is_left_out():
    base = {
        "type": "object",
        "properties": {"id": {"$ref": "#/components/schemas/Id"}, "name": {"type": "string"}},
    }
    tool = body_tool(
        {"allOf": [{"$ref": "#/components/schemas/Base"}, {"required": ["id", "name"]}]},
        Base=base,
        Id={"type": "integer", "readOnly": True},
    )
    assert admits(tool, {"body": {"name": "x"}})
    assert "id" not in json.dumps(tool.parameters)


def test_what_only_the_server_writes_is_not_required_beside_a_reference():
    base = {
        "type": "object",
        "properties": {"id": {"type": "integer", "readOnly": True}, "name": {"type": "string"}},
        "additionalProperties": False,
    }
    tool = body_tool({"$ref": "#/components/schemas/Base", "required": ["id", "name"]}, Base=base)
    assert admits(tool, {"body": {"name": "x"}})
    assert not admits(tool, {"body": {}})
    beside = {"$ref": "#/components/schemas/Open", "properties": {"at": {"readOnly": True}, "by": {}}}
    part = {"required": ["at", "by"]}
    tool = body_tool({"allOf": [beside, part]}, Open={"type": "object"})
    assert admits(tool, {"body": {"by": 1}})
    assert not admits(tool, {"body": {}})


def test_what_only_the_server_writes_is_not_required_in_nested_parts():
    base = {"properties": {"id": {"readOnly": True}, "name": {}}}
    nested = {"allOf": [{"allOf": [{"required": ["id", "name"]}]}, {"$ref": "#/components/schemas/Base"}]}
    tool = body_tool({"type": "object", **nested}, Base=base)
    assert admits(tool, {"body": {"name": 1}})
    assert not admits(tool, {"body": {}})


@pytest.mark.parametrize("mapping", [{}, {"mapping": {"cat": "Cat", "kitten": "Cat", "dog": "Dog"}}])
def test_alternatives_with_a_shared_list_of_values_are_told_apart(mapping):
    cat, dog = ("cat", "dog") if mapping else ("Cat", "Dog")
    base = {"type": "object", "required": ["kind"], "properties": {"kind": {"enum": [cat, dog, "cow"]}}}
    schema = {
        "oneOf": [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}],
        "discriminator": {"propertyName": "kind", **mapping},
    }
    pets = {
        name: {"allOf": [{"$ref": "#/components/schemas/Base"}, {"properties": {"age": {"type": kind}}}]}
        for name, kind in (("Cat", "integer"), ("Dog", "string"))
    }
    tool = body_tool(schema, Base=base, **pets)
    assert admits(tool, {"body": {"kind": cat, "age": 1}})
    assert admits(tool, {"body": {"kind": dog, "age": "old"}})
    assert not admits(tool, {"body": {"kind": dog, "age": 1}})
    assert not admits(tool, {"body": {"kind": "cow"}})


def test_a_discriminator_that_only_the_server_writes_is_not_required():
    closed = {"type": "object", "additionalProperties": False, "required": ["kind"]}
    kind = {"kind": {"type": "string", "readOnly": True}}
    schema = {
        "oneOf": [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}],
        "discriminator": {"propertyName": "kind"},
    }
    cat, dog = ({**closed, "required": ["kind", name], "properties": {**kind, name: {}}} for name in "cd")
    tool = body_tool(schema, Cat=cat, Dog=dog)
    assert admits(tool, {"body": {"c": 1}})
    assert not admits(tool, {"body": {"c": 1, "kind": "Cat"}})


def test_a_mapping_may_name_a_schema_with_dots_or_a_file():
    def pet():
        return {"type": "object", "properties": {"kind": {"type": "string"}}}

    files = {"file:///api/dog.json": json.dumps(pet())}
    schema = {
        "oneOf": [{"$ref": "#/components/schemas/Shop.Cat"}, {"$ref": "dog.json"}],
        "discriminator": {"propertyName": "kind", "mapping": {"cat": "Shop.Cat", "dog": "dog.json"}},
    }
    tool = only(read({"/a": {"post": operation(body=schema)}}, files=files, schemas={"Shop.Cat": pet()}))
    assert [admits(tool, {"body": {"kind": kind}}) for kind in ("cat", "dog", "Shop.Cat")] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize(
    "mapping", [{}, {"mapping": {"cat": "Cat", "kitten": "#/components/schemas/Cat", "dog": "Dog"}}]
)
def test_alternatives_are_told_apart_by_their_discriminator(version, mapping):
    def pet(name):
        properties = {"kind": {"type": "string"}, name: {"type": "string"}}
        return {
            "type": "object",
            "required": ["kind"],
            "properties": properties,
            "additionalProperties": False,
        }

    schema = {
        "oneOf": [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}],
        "discriminator": {"propertyName": "kind", **mapping},
    }
    tool = body_tool(schema, version, Cat=pet("meow"), Dog=pet("bark"))
    cat, dog = ("cat", "dog") if mapping else ("Cat", "Dog")
    assert admits(tool, {"body": {"kind": cat, "meow": "x"}})
    assert admits(tool, {"body": {"kind": dog}})
    assert admits(tool, {"body": {"kind": "kitten"}}) == bool(mapping)
    assert not admits(tool, {"body": {"kind": dog, "meow": "x"}})
    assert not admits(tool, {"body": {"kind": "cow"}})


def test_schemas_of_3_0_are_read_in_their_own_dialect():
    schema = {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "nullable": True}
    tool = body_tool(schema, "3.0.3")
    assert admits(tool, {"body": None})
    assert admits(tool, {"body": 1})
    assert not admits(tool, {"body": 0})


def test_a_recursive_schema_is_defined_once():
    node = {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Node"}}}
    tool = body_tool({"$ref": "#/components/schemas/Node"}, Node=node)
    assert list(tool.parameters["$defs"]) == ["Node"]
    assert admits(tool, {"body": {"next": {"next": {}}}})


def test_what_looks_like_a_keyword_is_a_name_or_a_value():
    schema = {
        "type": "object",
        "properties": {
            "$ref": {"type": "string"},
            "example": {"type": "integer", "example": {"$ref": "#/no"}},
        },
        "enum": [{"$ref": "#/nowhere", "readOnly": True}],
    }
    copied = body_tool(schema).parameters["properties"]["body"]
    assert copied["enum"] == schema["enum"]
    assert copied["properties"]["$ref"] == {"type": "string"}
    assert copied["properties"]["example"] == {"type": "integer", "examples": [{"$ref": "#/no"}]}
