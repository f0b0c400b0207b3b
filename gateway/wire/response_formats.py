"""Response formats that both of OpenAI's APIs have."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from compiler.response_format import ResponseFormat
from gateway.wire.engine_formats import ANY_OBJECT


class TextFormat(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="text"):
    """Any text."""


class JsonObject(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="json_object"):
    """Any JSON object."""


class NamedSchema(msgspec.Struct, forbid_unknown_fields=True):
    """A schema. It is enforced whatever `strict` says."""

    name: str
    schema: dict[str, Any] | bool
    description: str | None = None
    strict: bool | None = None


class Regex(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="regex"):
    """A text that matches an ECMA-262 pattern as a whole."""

    pattern: str


class Choice(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="choice"):
    """One of several texts."""

    choices: Annotated[list[str], Meta(min_length=1)]


class Grammar(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="grammar"):
    """A text of a context-free grammar."""

    grammar: str
    syntax: Literal["ebnf"] = "ebnf"


def read_shared_format(
    response_format: TextFormat | JsonObject | Regex | Choice | Grammar | None,
) -> ResponseFormat | None:
    """A response format that both of OpenAI's APIs have; None is any text."""
    match response_format:
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
