"""Schemas of request bodies, from the structs and field tables that the wire formats read with."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from gateway.access.api_keys import KeyTerms
from gateway.routes.generation_routes import DetokenizeBody
from gateway.routes.import_routes import DecisionBody, ImportBody, ToolListing
from gateway.routes.key_routes import RotationBody
from gateway.routes.mcp_routes import McpMessage
from gateway.routes.toolset_routes import ToolsetBody
from gateway.wire.anthropic.request import BODY as MESSAGE
from gateway.wire.field_reader import FieldRules, RequestBody
from gateway.wire.openai.request import BODY as CHAT
from gateway.wire.openai.text_completions import BODY as COMPLETION
from gateway.wire.responses.items import MessageItem
from gateway.wire.responses.request import BODY as RESPONSE
from toolspecs.custom_shapes import CustomTool, NestedCustomTool
from toolspecs.json_value import JSON
from toolspecs.shapes import KEY_ORDERS, OWN_FIELD, SHAPES, Shape, ShapeRow
from toolspecs.toolset import TOOL_NAME

BODIES: Mapping[str, RequestBody] = {
    "ChatRequest": CHAT,
    "CompletionRequest": COMPLETION,
    "ResponseRequest": RESPONSE,
    "MessageRequest": MESSAGE,
}

STRUCTS: tuple[type[Struct], ...] = (
    *(struct for body in BODIES.values() for struct in (body.fields, *body.lenient, *body.parts)),
    *(MessageItem, CustomTool, NestedCustomTool, DetokenizeBody, ToolsetBody),
    *(KeyTerms, RotationBody, McpMessage, ImportBody, ToolListing, DecisionBody),
)
"""The structs that bodies are read into."""

_LENIENT: tuple[type[Struct], ...] = (
    *(struct for body in BODIES.values() for struct in body.lenient),
    CustomTool,
    NestedCustomTool,
)

_TYPES = {bool: "boolean", dict: "object", list: "array", str: "string"}


def request_schemas(components: dict[str, JSON], refs: Mapping[type, JSON]) -> dict[str, JSON]:
    """The components of all request bodies; those of `components` that they need are opened where they are.

    `refs` has the reference to the schema of each of `STRUCTS`.
    """
    for struct in _LENIENT:
        for name in reached(refs[struct], components):
            components[name].pop("additionalProperties", None)
    schemas = {name: _body_schema(body, components, refs) for name, body in BODIES.items()}
    message = components[_name(refs[MessageItem])]
    schemas["ResponseRequest"]["properties"]["input"] = _input_schema(schemas, message)
    schemas["TokenizeRequest"] = {"anyOf": [ref("ChatRequest"), ref("CompletionRequest")]}
    schemas["ToolDefinition"] = {"anyOf": [_tool_schema(shape, row) for shape, row in SHAPES.items()]}
    schemas["AnyToolDefinition"] = {
        "anyOf": [ref("ToolDefinition"), refs[NestedCustomTool], refs[CustomTool]]
    }
    toolset = dict(components[_name(refs[ToolsetBody])])
    toolset["properties"] |= {
        "tools": {"type": "array", "items": ref("AnyToolDefinition")},
        "documents": {"type": ["object", "null"], "additionalProperties": {"type": ["object", "boolean"]}},
    }
    schemas["ToolsetRequest"] = toolset
    listing = components[_name(refs[ToolListing])]
    listing["properties"]["tools"] = {"type": "array", "items": ref("AnyToolDefinition")}
    named = {
        "DetokenizeRequest": DetokenizeBody,
        "KeyRequest": KeyTerms,
        "RotationRequest": RotationBody,
        "ImportRequest": ImportBody,
        "DecisionRequest": DecisionBody,
    }
    schemas |= {name: components[_name(refs[struct])] for name, struct in named.items()}
    return schemas


def ref(name: str) -> JSON:
    """A reference to a component."""
    return {"$ref": f"#/components/schemas/{name}"}


def _body_schema(body: RequestBody, components: Mapping[str, JSON], refs: Mapping[type, JSON]) -> JSON:
    own = components[_name(refs[body.fields])]
    properties = dict(own["properties"])
    for part in (*body.lenient, *body.parts):
        for name, schema in components[_name(refs[part])]["properties"].items():
            bounds = {key: value for key, value in properties[name].items() if key == "minItems"}
            properties[name] = {**schema, **bounds}
    tool = ref("ToolDefinition" if body is MESSAGE else "AnyToolDefinition")
    properties["tools"] = {"anyOf": [{"type": "array", "items": tool}, {"type": "null"}]}
    return {
        "type": "object",
        "description": "Fields that are not described here have no effect: the header "
        "`X-Callgate-Ignored` names them. With the setting `strict_fields` they are refused.",
        "properties": properties | dict(_ruled(body.rules)),
        "required": own["required"],
    }


def _ruled(rules: FieldRules) -> Iterator[tuple[str, JSON]]:
    """The fields of a table of rules."""
    for name in sorted(rules.silent):
        yield name, {"description": "Changes nothing in the answer."}
    for name in rules.hints:
        yield name, {"description": "Has no effect here."}
    for name, (values, reason) in rules.fixed.items():
        yield name, {"enum": [*values, None], "description": f"Other values are refused: {reason}."}
    for name, reason in rules.refused.items():
        yield name, {"type": "null", "description": f"Refused: {reason}."}


def _input_schema(schemas: Mapping[str, JSON], message: JSON) -> JSON:
    """The input of Responses: a text, or items. A message may leave out its type, an item may be stored."""
    untyped = {name: schema for name, schema in message["properties"].items() if name != "type"}
    reference = {"type": {"enum": ["item_reference"]}, "id": {"type": "string"}}
    items = {
        "anyOf": [
            schemas["ResponseRequest"]["properties"]["input"]["items"],
            {"type": "object", "properties": untyped, "required": ["role", "content"]},
            {"type": "object", "properties": reference, "required": ["type", "id"]},
        ]
    }
    return {"anyOf": [{"type": "string"}, {"type": "array", "items": items, "minItems": 1}]}


def _tool_schema(shape: Shape, row: ShapeRow) -> JSON:
    """A tool in one shape, as the table of shapes has it; a field that is null counts as left out."""
    extras = {name: {"type": [_TYPES[kind], "null"]} for name, kind in row.extras.items()}
    fields = {
        "name": {"type": "string", "pattern": f"^(?:{TOOL_NAME.pattern})$"},
        "description": {"type": ["string", "null"]},
        row.schema_field: {"type": ["object", "null"], "description": "The JSON Schema of the arguments."},
        **extras,
        OWN_FIELD: {
            "type": ["object", "null"],
            "properties": {
                "key_order": {
                    "enum": [*KEY_ORDERS, None],
                    "description": "`any` lets the model write declared keys in any order.",
                },
                "input": {
                    "type": ["object", "null"],
                    "properties": {
                        "syntax": {"enum": ["text", "lark", "regex"]},
                        "definition": {"type": "string"},
                    },
                    "required": ["syntax"],
                    "additionalProperties": False,
                    "description": "Makes it a custom tool; its schema is made from this.",
                },
            },
            "additionalProperties": False,
        },
    }
    inner: JSON = {"type": "object", "properties": fields, "required": ["name"]}
    tag = {"type": {"enum": [row.tag, *([] if row.wrapper else [None])]}} if row.tag else {}
    described = {"title": f"Tool in the shape `{shape}`", "type": "object"}
    if row.wrapper:
        return {**described, "properties": {**tag, row.wrapper: inner}, "required": ["type", row.wrapper]}
    if shape is Shape.FUNCTION:
        return {**inner, **described, "not": {"required": ["function"]}}
    return {**inner, **described, "properties": {**tag, **fields}}


def reached(start: Any, components: Mapping[str, JSON]) -> set[str]:
    """The names of the components that a value refers to, however indirectly."""
    names: set[str] = set()
    pending: list[Any] = [start]
    while pending:
        match pending.pop():
            case {"$ref": str()} as reference:
                name = _name(reference)
                if name not in names:
                    names.add(name)
                    pending.append(components[name])
            case dict() as schema:
                pending += schema.values()
            case list() as schemas:
                pending += schemas
    return names


def _name(reference: Mapping[str, Any]) -> str:
    name: str = reference["$ref"].removeprefix("#/components/schemas/")
    return name
