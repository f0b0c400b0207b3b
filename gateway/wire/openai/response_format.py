"""`response_format`: OpenAI's, and three more that its API has no word for."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from compiler.response_format import ResponseFormat
from gateway.body import convert

ANY_OBJECT = {"type": "object", "additionalProperties": True}


class TextFormat(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="text"):
    """Anything."""


class JsonObject(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="json_object"):
    """Any JSON object."""


class NamedSchema(msgspec.Struct, forbid_unknown_fields=True):
    """A schema, which is upheld whatever `strict` says."""

    name: str
    schema: dict[str, Any] | bool
    description: str | None = None
    strict: bool | None = None


class JsonSchema(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="json_schema"):
    """JSON that validates against a schema."""

    json_schema: NamedSchema


class Regex(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="regex"):
    """A text that matches an ECMA-262 pattern as a whole."""

    pattern: str


class Choice(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="choice"):
    """One of some texts."""

    choices: Annotated[list[str], Meta(min_length=1)]


class Grammar(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="grammar"):
    """A text of a context-free grammar."""

    grammar: str
    syntax: Literal["ebnf"] = "ebnf"


class _Fields(msgspec.Struct):
    response_format: TextFormat | JsonObject | JsonSchema | Regex | Choice | Grammar | None


def read_response_format(value: Any) -> ResponseFormat | None:
    """Translate; None is any text. Raises InvalidField."""
    read = convert({"response_format": value}, _Fields).response_format
    if isinstance(read, JsonSchema):
        return ResponseFormat("schema", read.json_schema.schema)
    return other_format(read)


def other_format(read: TextFormat | JsonObject | Regex | Choice | Grammar | None) -> ResponseFormat | None:
    """A format that is written alike in every API."""
    match read:
        case JsonObject():
            return ResponseFormat("schema", ANY_OBJECT)
        case Regex(pattern=pattern):
            return ResponseFormat("pattern", pattern)
        case Choice(choices=choices):
            return ResponseFormat("choice", choices)
        case Grammar(grammar=grammar):
            return ResponseFormat("grammar", grammar)
        case _:
            return None
