"""Response formats, as OpenAI's APIs have them and as clients of vLLM and SGLang ask for them.

| here, in `response_format` | vLLM | vLLM, older | SGLang |
|---|---|---|---|
| `json_schema` | `structured_outputs: {"json": …}` | `guided_json` | `json_schema` |
| `json_object` | `structured_outputs: {"json_object": true}` | | |
| `regex` | `structured_outputs: {"regex": …}` | `guided_regex` | `regex` |
| `choice` | `structured_outputs: {"choice": […]}` | `guided_choice` | |
| `grammar` | `structured_outputs: {"grammar": …}` | `guided_grammar` | `ebnf` |
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from compiler.response_format import ResponseFormat
from gateway.errors import InvalidField
from gateway.http.conversion import convert
from gateway.http.json_body import check_keys, read_inner_json
from toolspecs.errors import TooManyValues

ANY_OBJECT = {"type": "object", "additionalProperties": True}

Choices = Annotated[list[str], Meta(min_length=1)]


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

    choices: Choices


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


class RequestedFormatFields(msgspec.Struct, kw_only=True):
    """The fields by which clients of vLLM and SGLang ask for a format, in a body of any API."""

    structured_outputs: Any = None
    guided_json: dict[str, Any] | bool | str | None = None
    guided_regex: str | None = None
    guided_choice: Choices | None = None
    guided_grammar: str | None = None
    json_schema: dict[str, Any] | bool | str | None = None
    regex: str | None = None
    ebnf: str | None = None


class StructuredOutputs(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`structured_outputs`. Its options about white space and about vLLM's grammar engines are not used."""

    json: dict[str, Any] | bool | str | None = None
    json_object: bool | None = None
    regex: str | None = None
    choice: Choices | None = None
    grammar: str | None = None
    disable_any_whitespace: bool | None = None
    disable_additional_properties: bool | None = None
    disable_fallback: bool | None = None
    whitespace_pattern: str | None = None


class StructuredOutputsField(msgspec.Struct):
    """The field `structured_outputs` with its type; `RequestedFormatFields` takes any value there."""

    structured_outputs: StructuredOutputs | None


@dataclass(frozen=True, slots=True)
class AskedFormat:
    """The format that an answer must have, None for any text.

    If a field that is not the API's own asks for it, `names` says which field that is, by the names of Chat
    Completions for what it stands for.
    """

    format: ResponseFormat | None = None
    names: Mapping[str, str] = field(default_factory=dict)


def read_any_format(own: ResponseFormat | None, own_field: str, fields: RequestedFormatFields) -> AskedFormat:
    """The format that an answer must have, whichever field asks for it.

    `own` is what the API's own field `own_field` asks for.

    Raises:
        InvalidField: two fields ask for a format, or a schema that is written as text is no JSON.
    """
    formats = ({own_field: own} if own else {}) | dict(_formats(fields))
    if len(formats) > 1:
        first, second, *_ = formats
        raise InvalidField(second, f"an answer has one format, and {first} asks for one already")
    for field_name, response_format in formats.items():
        inner = () if field_name == own_field else ("", ".json_schema", ".json_schema.schema")
        return AskedFormat(response_format, {f"response_format{name}": field_name for name in inner})
    return AskedFormat()


def _formats(fields: RequestedFormatFields) -> Iterator[tuple[str, ResponseFormat]]:
    """The formats that these fields ask for, by the name of the field."""
    outputs = convert({"structured_outputs": fields.structured_outputs}, StructuredOutputsField)
    structured = outputs.structured_outputs or StructuredOutputs()
    asked: Mapping[str, tuple[str, Any]] = {
        "structured_outputs.json": ("schema", structured.json),
        "structured_outputs.json_object": ("schema", ANY_OBJECT if structured.json_object else None),
        "structured_outputs.regex": ("pattern", structured.regex),
        "structured_outputs.choice": ("choice", structured.choice),
        "structured_outputs.grammar": ("grammar", structured.grammar),
        "guided_json": ("schema", fields.guided_json),
        "json_schema": ("schema", fields.json_schema),
        "guided_regex": ("pattern", fields.guided_regex),
        "regex": ("pattern", fields.regex),
        "guided_choice": ("choice", fields.guided_choice),
        "guided_grammar": ("grammar", fields.guided_grammar),
        "ebnf": ("grammar", fields.ebnf),
    }
    for name, (kind, content) in asked.items():
        if content is not None:
            yield name, ResponseFormat(kind, _schema(content, name) if kind == "schema" else content)


def _schema(content: Any, path: str) -> Any:
    """A schema, which these clients also send as JSON text."""
    if not isinstance(content, str):
        return content
    try:
        schema = read_inner_json(content)
        check_keys(content.encode(), schema, path)
    except (ValueError, TooManyValues) as error:
        raise InvalidField(path, f"it must be a JSON Schema, and the text is no JSON: {error}") from error
    if not isinstance(schema, dict | bool):
        raise InvalidField(path, "a JSON Schema is an object, true or false")
    return schema
