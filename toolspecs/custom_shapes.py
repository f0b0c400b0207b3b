"""The shapes in which APIs write custom tools, whose input is free text or a text of a grammar.

| shape              | a custom tool                                                        |
|--------------------|----------------------------------------------------------------------|
| `openai`           | `{"type": "custom", "custom": {"name", "description", "format"}}`      |
| `openai_responses` | `{"type": "custom", "name", "description", "format"}`                  |
| others             | a tool with one string, and `"callgate": {"input": {"syntax", "definition"}}` |

A `format` is `{"type": "text"}` or `{"type": "grammar", "syntax", "definition"}`. In the shape `openai` the
fields of a grammar are nested once more, under `grammar`.

>>> tool = read_custom({"type": "custom", "name": "run", "format": {"type": "text"}})
>>> tool.custom
CustomInput(syntax='text', definition='')
>>> write_custom(tool, is_nested=True)
{'type': 'custom', 'custom': {'name': 'run', 'description': '', 'format': {'type': 'text'}}}
"""

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from toolspecs.json_value import Flaw, Path
from toolspecs.nearest import near_matches, shorten
from toolspecs.resolved_types import resolved
from toolspecs.tool import CustomInput, Tool, custom_tool

MAX_MESSAGE = 200
"""The most characters of a message that quotes what a client sent."""

_FIELDS = ("type", "custom", "name", "description", "format", "grammar", "syntax", "definition")
_KNOWN = "a custom tool has a name, a description and a format"
_EXPECTED = {"syntax": "use 'lark' or 'regex'", "type": "use 'text' or 'grammar'"}
"""What to write in a field with a wrong value."""
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)


class InputFields(msgspec.Struct, forbid_unknown_fields=True):
    """The input of a custom tool, as the field `callgate` describes it in other APIs' shapes."""

    syntax: Literal["text", "lark", "regex"]
    definition: str = ""


class TextInput(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="text"):
    """Any text."""


class GrammarFields(msgspec.Struct, forbid_unknown_fields=True):
    """A grammar: a regular expression, or a Lark grammar whose start rule is `start`."""

    syntax: Literal["lark", "regex"]
    definition: str


class GrammarInput(GrammarFields, forbid_unknown_fields=True, tag_field="type", tag="grammar"):
    """A text of a grammar, as Responses writes it."""


class NestedGrammarInput(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="grammar"):
    """A text of a grammar, as Chat Completions writes it."""

    grammar: GrammarFields


class CustomFields(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The fields of a custom tool, as Chat Completions nests them."""

    name: str
    description: str | None = None
    format: TextInput | NestedGrammarInput | None = None


class NestedCustomTool(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="custom"):
    """A custom tool, as Chat Completions writes it."""

    custom: CustomFields


class CustomTool(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, tag_field="type", tag="custom"):
    """A custom tool, as Responses writes it."""

    name: str
    description: str | None = None
    format: TextInput | GrammarInput | None = None


def is_custom(document: Any) -> bool:
    """Whether a tool is one of OpenAI's custom tools; Anthropic's have the same type, but with a schema."""
    return isinstance(document, dict) and document.get("type") == "custom" and "input_schema" not in document


def read_custom(document: Mapping[str, Any]) -> Tool:
    """A custom tool in one of OpenAI's shapes; its name and description are not checked.

    Raises:
        msgspec.ValidationError: a field is unknown, missing or of the wrong type; see `flaw_of`.
    """
    if "custom" in document:
        return tool_of(msgspec.convert(document, resolved(NestedCustomTool)))
    return tool_of(msgspec.convert(document, resolved(CustomTool)))


def tool_of(written: NestedCustomTool | CustomTool) -> Tool:
    """The tool for these fields."""
    fields = written.custom if isinstance(written, NestedCustomTool) else written
    match fields.format:
        case NestedGrammarInput(grammar=asked) | (GrammarInput() as asked):
            custom = CustomInput(asked.syntax, asked.definition)
        case _:
            custom = CustomInput()
    return custom_tool(fields.name, fields.description or "", custom)


def read_input(fields: Any) -> CustomInput:
    """Read the input from the field `callgate`; raises `msgspec.ValidationError`."""
    input_fields = msgspec.convert(fields, resolved(InputFields))
    return CustomInput(input_fields.syntax, input_fields.definition)


def flaw_of(error: msgspec.ValidationError) -> Flaw:
    """The flaw that an error describes, with its path below the value that was read."""
    message, mark, end = str(error).rpartition(" - at `$")
    path = tuple(filter(None, end.removesuffix("`").split("."))) if mark else ()
    if not mark or not set(path) <= {*_FIELDS}:  # what looks like a path stands in a client's text
        message, path = str(error), ()
    near: tuple[str, ...] = ()
    if (unknown := _UNKNOWN.fullmatch(message)) and unknown[1] not in _FIELDS:
        near = near_matches(unknown[1], _FIELDS, 1)
    meant = f"did you mean {near[0]!r}?" if near else _EXPECTED.get(path[-1] if path else "", _KNOWN)
    return Flaw(path, "", shorten(message, MAX_MESSAGE), meant)


def definition_path(document: Mapping[str, Any]) -> Path:
    """The path of the object that holds the definition of a custom tool's grammar."""
    return ("custom", "format", "grammar") if "custom" in document else ("format",)


def write_custom(tool: Tool, *, is_nested: bool) -> dict[str, Any]:
    """A custom tool as Chat Completions writes it (`is_nested`), or as Responses does."""
    assert tool.custom, "it is a custom tool"
    grammar = input_fields(tool.custom)
    if tool.custom.syntax == "text":
        form: dict[str, Any] = {"type": "text"}
    else:
        form = {"type": "grammar", **({"grammar": grammar} if is_nested else grammar)}
    fields = {"name": tool.name, "description": tool.description, "format": form}
    return {"type": "custom", "custom": fields} if is_nested else {"type": "custom", **fields}


def input_fields(custom: CustomInput) -> dict[str, str]:
    """The fields that `read_input` reads."""
    return {"syntax": custom.syntax, "definition": custom.definition}
