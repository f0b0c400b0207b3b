"""Operations of OpenAPI documents as tools."""

import json

import pytest
from corpus import corpus
from openapi_documents import admits, only, operation, read

from compiler import compile_schema
from toolspecs.errors import UnreadableSource
from toolspecs.imports.imported import SOURCE, valid_name
from toolspecs.imports.openapi import OperationFilter, import_openapi, unreachable
from toolspecs.shapes import Shape, write_tool
from toolspecs.tool_parser import parse_tools


@pytest.mark.parametrize(
    "name", ["adyen_transfers_v4", "notion", "petstore", "tictactoe", "twilio_content_v1"]
)
def test_real_documents_are_imported_whole(name):
    file = corpus("openapi", f"{name}.json")
    text = file.read_text()
    imported = import_openapi(file.as_uri(), text, unreachable)
    methods = {"get", "put", "post", "delete", "patch"}
    num_operations = sum(len(methods & item.keys()) for item in json.loads(text)["paths"].values())
    assert len(imported.tools) == num_operations
    assert not imported.faults
    parse_tools([write_tool(tool, Shape.MCP) for tool in imported.with_source_ids()])
    for tool in imported.tools:
        compile_schema(tool.parameters)


def test_arguments_are_parameters_and_the_body_with_where_the_request_carries_them():
    tool = only(
        read(
            {
                "/pets/{id}": {
                    "parameters": [
                        {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}},
                        {"name": "lang", "in": "query", "schema": {"type": "string"}},
                    ],
                    "put": operation(
                        [
                            {"name": "id", "in": "query", "schema": {"type": "string"}},
                            {"name": "lang", "in": "query", "required": True, "schema": {"enum": ["en"]}},
                            {
                                "name": "filter[]",
                                "in": "query",
                                "schema": {"type": "array", "items": {"type": "string"}},
                            },
                            {"name": "Authorization", "in": "header", "schema": {"type": "string"}},
                            {
                                "name": "where",
                                "in": "query",
                                "content": {"application/json": {"schema": {"type": "object"}}},
                            },
                        ],
                        {"type": "string"},
                        operationId="replace pet",
                        summary="Replace a pet.",
                        description="All of it.",
                    ),
                }
            }
        )
    )
    assert tool.name == "replace_pet"
    assert tool.description == "Replace a pet.\n\nAll of it."
    assert tool.parameters["required"] == ["id", "lang"]
    assert tool.parameters["properties"]["lang"] == {"enum": ["en"]}
    assert tool.extras["_meta"][SOURCE] == {
        "operation": "PUT /pets/{id}",
        "arguments": {
            "id": {"in": "path", "name": "id"},
            "lang": {"in": "query", "name": "lang"},
            "id_query": {"in": "query", "name": "id"},
            "filter": {"in": "query", "name": "filter[]"},
            "where": {"in": "query", "name": "where", "type": "application/json"},
            "body": {"in": "body", "type": "application/json"},
        },
    }
    assert admits(tool, {"id": 3, "lang": "en", "body": "x"})
    assert not admits(tool, {"id": "3", "lang": "en"})
    assert not admits(tool, {"lang": "en"})


def test_what_is_deprecated_is_told_and_so_is_an_example():
    """OpenAPI 3.0 ignores keywords beside a `$ref`, but those of a parameter do not stand beside its schema's."""

    def parameter(name, schema, **fields):
        return {"name": name, "in": "query", "schema": schema, **fields}

    parameters = [
        parameter("old", {"type": "string"}, deprecated=True, description="Use new."),
        parameter("new", {"type": "string"}, deprecated=False, example="ab-12"),
        parameter("own", {"type": "integer", "example": 1}, example=2),
        parameter("some", {"type": "integer"}, examples={"one": {"summary": "One", "value": 1}}),
        parameter("named", {"$ref": "#/components/schemas/N"}, example=2, deprecated=True, description="N."),
    ]
    for version, definitions in (("3.0.3", "definitions"), ("3.1.0", "$defs")):
        path = {"get": operation(parameters, deprecated=True, summary="Lists.")}
        tool = only(read({"/a": path}, version, schemas={"N": {"type": "integer"}}))
        assert tool.description == "Deprecated. Lists."
        assert tool.parameters["properties"] == {
            "old": {"type": "string", "deprecated": True, "description": "Use new."},
            "new": {"type": "string", "examples": ["ab-12"]},
            "own": {"type": "integer", "examples": [1]},
            "some": {"type": "integer"},
            "named": {
                "$ref": f"#/{definitions}/N",
                "description": "N.",
                "deprecated": True,
                "examples": [2],
            },
        }
    assert only(read({"/a": {"get": operation(deprecated=True)}})).description == "Deprecated."
    assert only(read({"/a": {"get": operation(deprecated="no", summary="A.")}})).description == "A."


def test_how_a_parameter_is_written_is_noted_where_it_is_not_as_usual():
    styles = [
        ("path", {"style": "simple", "explode": False}, {}),
        ("path", {"style": "matrix", "explode": True}, {"style": "matrix", "explode": True}),
        ("query", {"style": "form", "explode": True, "allowReserved": False}, {}),
        ("query", {"explode": False}, {"explode": False}),
        ("query", {"style": "pipeDelimited", "explode": False}, {"style": "pipeDelimited"}),
        ("query", {"style": "deepObject", "explode": True}, {"style": "deepObject", "explode": True}),
        ("query", {"allowReserved": True}, {"allowReserved": True}),
        ("header", {"explode": True}, {"explode": True}),
        ("cookie", {"style": "form"}, {}),
    ]
    parameters = [
        {"name": f"p{number}", "in": place, "schema": {"type": "array"}, **fields}
        for number, (place, fields, _) in enumerate(styles)
    ]
    noted = only(read({"/a": {"get": operation(parameters)}})).extras["_meta"][SOURCE]["arguments"]
    assert noted == {
        f"p{number}": {"in": place, "name": f"p{number}", **written}
        for number, (place, _, written) in enumerate(styles)
    }


def test_how_the_parts_of_a_form_are_written_is_noted():
    file, ids = {"contentType": "image/png"}, {"style": "pipeDelimited", "explode": False}
    media = {
        "schema": {"type": "object"},
        "encoding": {"file": {**file, "headers": {}}, "ids": ids, "none": {}, "odd": 1},
    }
    body = {"requestBody": {"content": {"multipart/form-data": media}}}
    noted = only(read({"/a": {"post": body}})).extras["_meta"][SOURCE]["arguments"]
    encoding = {"file": file, "ids": ids}
    assert noted == {"body": {"in": "body", "type": "multipart/form-data", "encoding": encoding}}


def test_a_path_that_refers_to_another_has_the_operations_and_parameters_of_both():
    def parameter(name, **schema):
        return {"name": name, "in": "query", "schema": schema}

    files = {
        "file:///api/paths.json": json.dumps(
            {
                "shared": {
                    "parameters": [{"$ref": "#/lang"}, parameter("page", type="integer")],
                    "get": operation(operationId="get"),
                    "put": operation(operationId="theirs"),
                },
                "lang": parameter("lang", enum=["en"]),
            }
        )
    }
    path = {
        "$ref": "paths.json#/shared",
        "parameters": [{"name": "id", "in": "path", "schema": {}}, parameter("page", type="string")],
        "put": operation(operationId="ours"),
    }
    tools = read({"/a/{id}": path}, files=files).tools
    assert [tool.name for tool in tools] == ["get", "ours"]
    for tool in tools:
        assert tool.parameters["required"] == ["id"]
        assert admits(tool, {"lang": "en", "page": "1", "id": 1})
        assert not admits(tool, {"page": 1, "id": 1})


def test_operations_of_other_methods_are_imported_too():
    tool = only(
        read(
            {
                "/a/{id}": {
                    "parameters": [{"name": "id", "in": "path", "schema": {}}],
                    "additionalOperations": {
                        "Copy": operation([{"name": "to", "in": "query", "schema": {}}])
                    },
                }
            },
            "3.2.0",
        )
    )
    assert tool.name == "Copy_a_id"
    assert tool.extras["_meta"][SOURCE]["operation"] == "Copy /a/{id}"
    assert list(tool.parameters["properties"]) == ["id", "to"]
    bad = read({"/a": {"additionalOperations": {"COPY": operation([{}])}}}, "3.2.0").faults
    assert [fault.pointer for fault in bad] == ["/paths/~1a/additionalOperations/COPY/parameters/0"]


def test_a_media_type_may_stand_in_another_document():
    files = {
        "file:///api/media.json": json.dumps(
            {"media": {"schema": {"$ref": "#/number"}}, "number": {"type": "integer"}}
        )
    }
    content = {"content": {"application/json": {"$ref": "media.json#/media"}}}
    fields = {"parameters": [{"name": "q", "in": "query", **content}], "requestBody": content}
    tool = only(read({"/a": {"post": fields}}, "3.2.0", files=files))
    assert admits(tool, {"q": 1, "body": 1})
    assert not admits(tool, {"q": "1"})
    assert not admits(tool, {"body": "1"})


def test_names_are_valid_and_of_their_own():
    paths = {
        "/a/{x}": {"get": operation([{"name": "x", "in": "path", "schema": {}}])},
        "/a.b": {"get": operation(operationId="näme"), "post": operation(operationId="n me")},
        "/c": {"get": operation(operationId="n" * 100), "put": operation(operationId="n" * 100)},
    }
    names = [tool.name for tool in read(paths).tools]
    assert names == ["get_a_x", "n_me", "n_me_2", "n" * 64, "n" * 62 + "_2"]
    selected = read(paths, selection=OperationFilter(paths=("/a.b",), operations=("n me",)))
    assert [tool.name for tool in selected.tools] == ["n_me_2"]


def test_operations_are_selected_by_tag_path_and_name():
    paths = {
        "/users": {"get": operation(tags=["people"], operationId="listUsers")},
        "/users/me": {"get": operation(tags=["people", "own"], operationId="getMe")},
        "/files": {"get": operation(operationId="listFiles")},
    }

    def names(**kinds):
        return [tool.name for tool in read(paths, selection=OperationFilter(**kinds)).tools]

    assert names(tags=("own",)) == ["getMe"]
    assert names(paths=("/users*",)) == ["listUsers", "getMe"]
    assert names(operations=("list*",)) == ["listUsers", "listFiles"]
    assert names(operations=("list*",), tags=("people",)) == ["listUsers"]
    with pytest.raises(UnreadableSource, match="no operation has the tag 'peple'; there are 'people'"):
        names(tags=("peple",))
    with pytest.raises(UnreadableSource, match="none of its 3 operations is selected"):
        names(paths=("/nowhere",))


def test_references_lead_through_the_documents_own_files():
    files = {
        "file:///api/parts/pet.yaml": "Pet: {type: object, properties: {owner: {$ref: '../people.yaml#/Owner'}}}",
        "file:///api/people.yaml": "Owner: {type: object, required: [name], properties: {name: {type: string}}}",
        "file:///api/paths.yaml": "pets: {post: {requestBody: {content: {application/json: {schema: {$ref: 'parts/pet.yaml#/Pet'}}}}}}",
    }
    tool = only(read({"/pets": {"$ref": "paths.yaml#/pets"}}, files=files))
    assert list(tool.parameters["$defs"]) == ["Pet", "Owner"]
    assert admits(tool, {"body": {"owner": {"name": "x"}}})
    assert not admits(tool, {"body": {"owner": {}}})


def test_a_name_that_is_repeated_very_often_is_numbered_in_linear_time():
    """Not each number is tried for each name, nor looked for among all names."""
    paths = {f"/{number}": {"get": operation(operationId="same")} for number in range(20_000)}
    tools = read(paths, selection=OperationFilter(paths=("/0", "/19999"))).tools
    assert [tool.name for tool in tools] == ["same", "same_20000"]


def test_a_name_without_any_valid_character_is_still_a_name():
    assert valid_name("日本") == "unnamed"
