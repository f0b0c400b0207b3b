"""Operations of OpenAPI documents as tools."""

import json

import pytest
from corpus import corpus

from compiler import compile_schema
from toolspecs.errors import UnreadableSource
from toolspecs.imports.documents import parse_document
from toolspecs.imports.imported import SOURCE, valid_name
from toolspecs.imports.openapi import OperationFilter, import_openapi, unreachable
from toolspecs.shapes import Shape, write_tool
from toolspecs.tool_parser import parse_tools

URI = "file:///api/shop.json"


def document(paths, version="3.1.0", **components):
    return {"openapi": version, "info": {"title": "Shop"}, "paths": paths, "components": components}


def read(paths, version="3.1.0", *, files=None, selection=None, **components):
    text = json.dumps(document(paths, version, **components))
    retrieve = (lambda uri: files[uri]) if files else unreachable
    return import_openapi(URI, text, retrieve, selection or OperationFilter())


def operation(parameters=(), body=None, **fields):
    content = {"requestBody": {"content": {"application/json": {"schema": body}}}} if body else {}
    return {"parameters": list(parameters), **content, **fields}


def only(imported):
    assert not imported.faults
    [tool] = imported.tools
    return tool


def body_tool(schema, version="3.1.0", **schemas):
    return only(read({"/a": {"post": operation(body=schema)}}, version, schemas=schemas))


def admits(tool, arguments):
    return compile_schema(tool.parameters).accepts(json.dumps(arguments))


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "neither JSON nor YAML"),
        (
            "a: b: c",
            "neither JSON nor YAML: mapping values are not allowed in this context at line 1, column 5",
        ),
        ("? [a]\n: 1", "a key is not text"),
        ("!!python/object/apply:os.system ['true']", "neither JSON nor YAML"),
        ("[" * 100_000, "nested more than|neither JSON nor YAML"),
        ("a: " + "[" * 100_000, "nested more than 200 deep"),
        ("{a: " * 100_000, "nested more than 200 deep"),
        ("- " * 100_000, "nested more than 200 deep"),
        ("a: &a [*a]", "nested more than 200 deep"),
        ("a: .nan", "at /a: JSON has no infinite numbers and no NaN"),
        ("3", "has the field `openapi`"),
        ("swagger: '2.0'", "convert it to OpenAPI 3"),
        ("openapi: 4.0.0", "OpenAPI 4.0.0 cannot be read"),
        ("openapi: 3.1.0\npaths: []", "at /paths"),
        ("openapi: 3.1.0\npaths: {}", "it has no operations"),
    ],
)
def test_what_is_no_such_document_is_told(text, message):
    with pytest.raises(UnreadableSource) as raised:
        import_openapi(URI, text, unreachable)
    assert str(raised.value).startswith(URI)
    assert any(part in str(raised.value) for part in message.split("|"))


@pytest.mark.parametrize(
    ("text", "place", "key"),
    [
        ('{"a": [1, {"b/c": {"d": 1, "d": 2}}]}', "/a/1/b~1c", "d"),
        ('{"a": 1, "\\u0061": 2}', "/", "a"),
        ("a:\n  - 1\n  - b/c:\n      d: 1\n      e: {d: 2}\n      d: [3]", "/a/1/b~1c", "d"),
        ("{a: {b: 1}, c: {b: 1, 'b': 2}}", "/c", "b"),
        ("200: x\n'200': y", "/", "200"),
        ("a: &a {b: 1}\nc:\n  <<: *a\n  d: 1\n  d: 2", "/c", "d"),
        ("? a\n: 1\n? a\n: 2", "/", "a"),
        ("&k a: 1\nb: {*k : 1, a: 2}", "/b", "a"),
        ("&k a: 1\n*k : 2", "/", "a"),
        ("a: {'<<': 1, '<<': 2}", "/a", "<<"),
    ],
)
def test_a_key_that_stands_twice_is_refused_with_its_place(text, place, key):
    """Of an operation or a keyword, the first was lost without a word."""
    with pytest.raises(UnreadableSource, match=f"the object at {place} has the key {key!r} twice"):
        parse_document(text, "api")


def test_keys_of_different_objects_and_merged_ones_may_be_alike():
    text = "a: &a {x: 1, y: 1}\nb: &b {z: 1}\nc:\n  <<: *a\n  <<: *b\n  x: 2\nd: [{x: 1}, {x: 1}, *a]"
    assert parse_document(text, "api")["c"] == {"x": 2, "y": 1, "z": 1}
    assert parse_document('{"a": {"b": {"a": ["a:", {}, "a"]}}, "b": {"a:{": 1}}', "api")["b"] == {"a:{": 1}


def test_a_small_text_that_stands_for_a_huge_value_is_refused_quickly():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(UnreadableSource, match="larger than"):
        parse_document("\n".join(lines), "bomb")


def test_yaml_is_read_as_its_version_1_2():
    text = "{on: yes, date: 2024-01-02, time: 12:30, octal: 010, hex: 0x1F, float: 1.5e3, none: ~, true: True, 200: ok}"
    assert parse_document(text, "x") == {
        "on": "yes",
        "date": "2024-01-02",
        "time": "12:30",
        "octal": 10,
        "hex": 31,
        "float": 1500.0,
        "none": None,
        "true": True,
        "200": "ok",
    }


def test_a_name_that_is_repeated_very_often_is_numbered_in_linear_time():
    """Each number was once tried again for each name, and looked for among all names."""
    paths = {f"/{number}": {"get": operation(operationId="same")} for number in range(20_000)}
    tools = read(paths, selection=OperationFilter(paths=("/0", "/19999"))).tools
    assert [tool.name for tool in tools] == ["same", "same_20000"]


def test_a_name_without_any_valid_character_is_still_a_name():
    assert valid_name("日本") == "unnamed"


def test_merges_of_merges_are_bounded():
    lines = [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}" for i in range(1, 12)]
    with pytest.raises(UnreadableSource, match="too much is merged"):
        parse_document("\n".join(["a0: &a0 {x: 1}", *lines]), "api.yaml")
