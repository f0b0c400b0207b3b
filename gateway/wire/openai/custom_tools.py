"""OpenAI's custom tools: the model writes free text for them, or a text of a grammar.

A custom tool is a tool with one string, the argument `input`, so that every call syntax can write it, and its
grammar holds for the string that is decoded (see `gateway.custom_inputs`). Chat Completions nests the fields
of a tool under `custom`, Responses does not; each API takes both.

>>> tool = {"type": "custom", "name": "run", "format": {"type": "text"}}
>>> read_tools([tool], FieldReader())[0].custom
CustomInput(syntax='text', definition='')
"""

from typing import Any, Literal

import msgspec

from gateway.errors import InvalidField
from gateway.wire.field_reader import FieldReader
from gateway.wire.fields import read_inline_tools
from toolspecs.tool import CustomInput, Tool, custom_tool


class TextInput(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="text"):
    """Any text."""


class GrammarFields(msgspec.Struct, forbid_unknown_fields=True):
    """A grammar: a pattern, or a grammar for Lark whose start rule is `start`."""

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
    """Whether a tool is one of OpenAI's custom tools; Anthropic's have the same type, and a schema."""
    return isinstance(document, dict) and document.get("type") == "custom" and "input_schema" not in document


def read_tools(documents: list[Any], reader: FieldReader) -> tuple[Tool, ...]:
    """Tools in the shape of any API, custom tools among them.

    Raises:
        InvalidField, InvalidTools: a tool is not well-formed.
        LimitExceeded: there are too many.
    """
    custom = {i: _read(document, i, reader) for i, document in enumerate(documents) if is_custom(document)}
    plain = [_as_function(custom[i]) if i in custom else document for i, document in enumerate(documents)]
    return tuple(custom.get(i, tool) for i, tool in enumerate(read_inline_tools(plain, reader)))


def _as_function(tool: Tool) -> dict[str, Any]:
    """A custom tool as a function, so that its name and description are checked as those of any other."""
    return {"type": "function", "name": tool.name, "description": tool.description}


def _read(document: dict[str, Any], index: int, reader: FieldReader) -> Tool:
    try:
        if "custom" not in document:
            flat = reader.convert(document, CustomTool)
            return custom_tool(flat.name, flat.description or "", _input(flat.format))
        fields = reader.convert(document, NestedCustomTool).custom
        asked = fields.format
        grammar = asked.grammar if isinstance(asked, NestedGrammarInput) else None
        return custom_tool(fields.name, fields.description or "", _input(grammar))
    except InvalidField as error:
        path = f"tools[{index}]" + (f".{error.param}" if error.param else "")
        raise InvalidField(path, error.reason) from error


def _input(asked: TextInput | GrammarFields | None) -> CustomInput:
    return CustomInput(asked.syntax, asked.definition) if isinstance(asked, GrammarFields) else CustomInput()
