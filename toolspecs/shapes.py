"""The shapes in which APIs write tools: a tool is read from any of them and written to any of them.

| shape              | a tool                                                                            |
|--------------------|-----------------------------------------------------------------------------------|
| `openai`           | `{"type": "function", "function": {"name", "description", "parameters", "strict"}}` |
| `openai_responses` | `{"type": "function", "name", "description", "parameters", "strict"}`               |
| `anthropic`        | `{"name", "description", "input_schema"}`                                           |
| `mcp`              | `{"name", "description", "inputSchema"}`                                            |
| `function`         | `{"name", "description", "parameters"}`                                             |

The shape is detected for each tool. Informational fields (the `extras` of the table below) are kept with the
tool and written back; they do not change the grammar. `strict` is one of them, because every call is valid
with or without it. `callgate` holds what Callgate alone knows of a tool: `{"key_order": "any"}` lets a model
write declared keys in any order.

`toolspecs/tool_parser.py` reads tools. Custom tools have shapes of their own (`toolspecs/custom_shapes.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, get_args

from toolspecs.custom_shapes import input_fields, is_custom, write_custom
from toolspecs.tool import KeyOrder, Tool


class Shape(StrEnum):
    """The API that writes tools in this shape."""

    OPENAI = "openai"
    OPENAI_RESPONSES = "openai_responses"
    ANTHROPIC = "anthropic"
    MCP = "mcp"
    FUNCTION = "function"


@dataclass(frozen=True, slots=True)
class ShapeRow:
    """How a shape is spelled.

    `tag` is the value of `type`, `wrapper` the field that holds all others, `extras` the types of the
    informational fields.
    """

    schema_field: str
    extras: Mapping[str, type]
    tag: str | None = None
    is_tag_written: bool = True
    wrapper: str | None = None


SHAPES: Mapping[Shape, ShapeRow] = {
    Shape.OPENAI: ShapeRow("parameters", {"strict": bool}, tag="function", wrapper="function"),
    Shape.OPENAI_RESPONSES: ShapeRow("parameters", {"strict": bool}, tag="function"),
    Shape.ANTHROPIC: ShapeRow(
        "input_schema", {"cache_control": dict, "strict": bool}, tag="custom", is_tag_written=False
    ),
    Shape.MCP: ShapeRow(
        "inputSchema",
        {
            "title": str,
            "annotations": dict,
            "outputSchema": dict,
            "icons": list,
            "execution": dict,
            "_meta": dict,
        },
    ),
    Shape.FUNCTION: ShapeRow("parameters", {"strict": bool}),
}

EXTRAS: Mapping[str, type] = {field: kind for row in SHAPES.values() for field, kind in row.extras.items()}

OWN_FIELD = "callgate"
"""The field of Callgate's own options, in every shape."""

KEY_ORDERS: tuple[KeyOrder, ...] = get_args(KeyOrder)


def detect_shape(document: Mapping[str, Any]) -> Shape:
    """The shape a tool is written in, or the most similar one if it is in none of them."""
    if "function" in document:
        return Shape.OPENAI
    if document.get("type") == "function" or is_custom(document):
        return Shape.OPENAI_RESPONSES if "name" in document or "parameters" in document else Shape.OPENAI
    if "input_schema" in document or "type" in document:
        return Shape.ANTHROPIC
    if "inputSchema" in document:
        return Shape.MCP
    if "parameters" in document or "strict" in document:
        return Shape.FUNCTION
    return Shape.ANTHROPIC if "cache_control" in document else Shape.MCP


def write_tool(tool: Tool, shape: Shape, *, all_extras: bool = False) -> dict[str, Any]:
    """The tool in `shape`, with the extras that the shape has; values are not copied.

    >>> write_tool(Tool("now", "Tells the time.", {"type": "object"}), Shape.ANTHROPIC)
    {'name': 'now', 'description': 'Tells the time.', 'input_schema': {'type': 'object'}}
    """
    if tool.custom and shape in {Shape.OPENAI, Shape.OPENAI_RESPONSES}:
        return write_custom(tool, is_nested=shape is Shape.OPENAI)
    row = SHAPES[shape]
    fields = {"name": tool.name, "description": tool.description, row.schema_field: tool.parameters}
    fields |= {field: value for field, value in tool.extras.items() if all_extras or field in row.extras}
    if tool.custom:
        fields[OWN_FIELD] = {"input": input_fields(tool.custom)}
    elif tool.key_order != "declared":
        fields[OWN_FIELD] = {"key_order": tool.key_order}
    tag = {"type": row.tag} if row.tag and row.is_tag_written else {}
    return {**tag, row.wrapper: fields} if row.wrapper else {**tag, **fields}
