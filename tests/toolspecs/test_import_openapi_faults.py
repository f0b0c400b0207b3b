"""What cannot be imported of an OpenAPI document: the faults of its tools, and documents that cannot be read."""

import json
from contextlib import suppress
from functools import reduce
from operator import getitem

import pytest
from openapi_documents import URI, document, operation, read

from toolspecs.errors import UnreadableSource
from toolspecs.imports.openapi import import_openapi, unreachable


def test_a_document_that_cannot_be_read_costs_the_tools_that_need_it():
    """Not the whole import."""
    asked = []

    def retrieve(uri):
        asked.append(uri)
        if uri.endswith("broken.yaml"):
            return "{"
        raise UnreadableSource(uri, "HTTP 404 Not Found")

    def needs(name):
        return {"post": operation(body={"$ref": name})}

    paths = {"/a": needs("gone.yaml#/A"), "/b": needs("gone.yaml"), "/c": needs("broken.yaml")}
    text = json.dumps(document({**paths, "/d": {"get": operation(operationId="good")}}))
    imported = import_openapi(URI, text, retrieve)
    assert [tool.name for tool in imported.tools] == ["good"]
    assert [(fault.tool, fault.pointer, fault.keyword) for fault in imported.faults] == [
        (f"post_{name}", f"/paths/~1{name}/post/requestBody/content/application~1json/schema/$ref", "$ref")
        for name in "abc"
    ]
    gone, again, broken = (fault.message for fault in imported.faults)
    assert gone == again == "file:///api/gone.yaml: HTTP 404 Not Found"
    assert broken.startswith("file:///api/broken.yaml: it is neither JSON nor YAML")
    assert asked == ["file:///api/gone.yaml", "file:///api/broken.yaml"]


def test_many_documents_that_cannot_be_read_fail_the_import():
    """Each may take a minute to fail."""
    paths = {f"/{n}": {"post": operation(body={"$ref": f"https://a.example/{n}"})} for n in range(20)}
    with pytest.raises(UnreadableSource, match="example/4: other documents are not read here"):
        read(paths)


def test_a_path_in_a_document_that_cannot_be_read_fails_the_import():
    """Its tools are not known, so they would seem to be gone."""
    paths = {"/a": {"$ref": "gone.yaml"}, "/b": {"get": operation()}}
    with pytest.raises(
        UnreadableSource, match=r"at the path /a: file:///api/gone\.yaml: other documents are"
    ):
        read(paths)


REFUSED = [
    (
        operation(body={"$ref": "#/components/schemas/Pett"}),
        "/paths/~1a/post/requestBody/content/application~1json/schema/$ref",
        "did you mean 'Pet'",
    ),
    (
        operation(body={"$ref": "#anchor"}),
        "/paths/~1a/post/requestBody/content/application~1json/schema/$ref",
        "no|not a JSON pointer",
    ),
    (
        operation(body={"items": {"$dynamicRef": "#x"}}),
        "/paths/~1a/post/requestBody/content/application~1json/schema/items/$dynamicRef",
        "depends on the document",
    ),
    (operation([{"name": "x", "in": "query"}]), "/paths/~1a/post/parameters/0", "has no schema"),
    (
        operation([{"name": "x", "in": "body", "schema": {}}]),
        "/paths/~1a/post/parameters/0",
        "a parameter has a name",
    ),
    (
        operation([{"$ref": "#/components/parameters/loop"}]),
        "/paths/~1a/post/parameters/0/$ref",
        "form a cycle",
    ),
    (operation([3]), "/paths/~1a/post/parameters/0", "an object"),
]


@pytest.mark.parametrize(("bad", "pointer", "message"), REFUSED)
def test_a_tool_that_cannot_be_made_is_a_fault_and_the_others_are_imported(bad, pointer, message):
    imported = read(
        {"/a": {"post": bad}, "/b": {"get": operation(operationId="good")}},
        schemas={"Pet": {"type": "object"}},
        parameters={"loop": {"$ref": "#/components/parameters/loop"}},
    )
    assert [tool.name for tool in imported.tools] == ["good"]
    [fault] = imported.faults
    assert (fault.tool, fault.pointer) == ("post_a", pointer)
    assert any(part in fault.message for part in message.split("|"))


def test_a_path_without_its_parameter_is_a_fault():
    [fault] = read({"/a/{id}": {"get": operation()}}).faults
    assert "the path has {id}, but no parameter" in fault.message


SHOP = document(
    {
        "/a/{id}": {
            "$ref": "#/components/pathItems/P",
            "parameters": [
                {
                    "name": "id",
                    "in": "path",
                    "required": True,
                    "style": "matrix",
                    "explode": True,
                    "schema": {},
                }
            ],
            "post": operation(
                [
                    {
                        "name": "q",
                        "in": "query",
                        "content": {"application/json": {"schema": {"type": "object"}}},
                    }
                ],
                {
                    "oneOf": [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}],
                    "discriminator": {"propertyName": "kind", "mapping": {"cat": "Cat", "dog": "Dog"}},
                },
                operationId="x",
                tags=["t"],
                description="d",
            ),
            "additionalOperations": {"COPY": operation()},
        }
    },
    "3.2.0",
    schemas={
        "Pet": {
            "properties": {"id": {"type": "string", "readOnly": True}, "kind": {"enum": ["cat", "dog"]}},
            "required": ["kind", "id"],
        },
        "Cat": {"allOf": [{"$ref": "#/components/schemas/Pet"}, {"properties": {"n": {"example": 1}}}]},
        "Dog": {"allOf": [{"$ref": "#/components/schemas/Pet"}]},
    },
    parameters={"H": {"name": "h", "in": "header", "schema": {"type": "string"}}},
    pathItems={
        "P": {
            "get": operation([{"$ref": "#/components/parameters/H"}]),
            "put": {
                "requestBody": {
                    "content": {
                        "multipart/form-data": {
                            "schema": {"properties": {"f": {"type": "string"}}},
                            "encoding": {"f": {"contentType": "a/b", "explode": True}},
                        }
                    }
                }
            },
        }
    },
)
ODD = (None, True, 1.5, "", "x", "#/", "#/components/schemas/Cat", [], ["a"], {}, {"a": 1}, [[]], [{}])


def paths_in(value, path=()):
    """The path of each value below the root."""
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, child in children:
        yield (*path, key)
        yield from paths_in(child, (*path, key))


def test_a_value_of_any_other_type_is_imported_or_told():
    """For instance a list for the style of a parameter."""
    for path in paths_in(SHOP):
        for odd in ODD:
            changed = json.loads(json.dumps(SHOP))
            place = reduce(getitem, path[:-1], changed)
            place[path[-1]] = odd
            with suppress(UnreadableSource):
                import_openapi(URI, json.dumps(changed), unreachable)
