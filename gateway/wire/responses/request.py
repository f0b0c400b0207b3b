"""A Responses request becomes a turn: the fields, the format of the text, the tools and the choice."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from compiler.response_format import ResponseFormat
from gateway.errors import InvalidField
from gateway.generation.turn import Turn
from gateway.http.conversion import convert
from gateway.wire.field_reader import FieldReader, FieldRules, RequestBody
from gateway.wire.field_rules import rules_of
from gateway.wire.response_formats import (
    Choice,
    Grammar,
    JsonObject,
    NamedSchema,
    Regex,
    StructuredOutputsField,
    TextFormat,
    read_any_format,
    read_shared_format,
)
from gateway.wire.responses.items import InputField, read_input
from gateway.wire.tools_and_calls import allowed_choice, choice_of_mode, read_openai_tools
from gateway.wire.turn_fields import (
    NO_HEADERS,
    StreamOptions,
    TurnFields,
    TurnHeaders,
    WireRequest,
    ignore_obfuscation,
    read_turn,
)
from toolspecs.shapes import Shape, write_tool
from toolspecs.tool import Tool, ToolChoice

LOGPROBS = "message.output_text.logprobs"
# The others are about OpenAI's own tools, about images, and about thoughts, which are never encrypted here.
Included = Literal[
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "web_search_call.action.sources",
    "web_search_call.results",
]

_CONTINUED = "use previous_response_id, or send the whole conversation in input"

ECHOED: Mapping[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "safety_identifier": None,
    "tool_choice": "auto",
    "top_logprobs": 0,
    "truncation": "disabled",
    "user": None,
}
"""Request fields that a response repeats, and their values when the request leaves them out."""


class JsonSchema(NamedSchema, tag_field="type", tag="json_schema"):
    """JSON that validates against a schema, whatever `strict` says."""


class Text(msgspec.Struct, forbid_unknown_fields=True):
    """`text`."""

    format: TextFormat | JsonObject | JsonSchema | Regex | Choice | Grammar | None = None
    verbosity: str | None = None


class Reasoning(msgspec.Struct, forbid_unknown_fields=True):
    """`reasoning`. A summary is not made: thoughts are sent as they are."""

    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None


class ResponsesFields(TurnFields, forbid_unknown_fields=True, kw_only=True):
    """The fields that are honoured; absent and null mean the same."""

    input: str | Annotated[list[Any], Meta(min_length=1)]
    instructions: str | None = None
    text: Text | None = None
    include: list[Included] | None = None
    stream_options: StreamOptions | None = None
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    metadata: dict[str, str] | None = None
    reasoning: Reasoning | None = None
    truncation: Literal["auto", "disabled"] | None = None
    store: bool | None = None
    previous_response_id: str | None = None
    # These have no effect; `max_tool_calls` would count only calls of OpenAI's own tools.
    max_tool_calls: Annotated[int, Meta(ge=1)] | None = None
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None
    user: str | None = None


class Named(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="function"):
    """The choice of one function, or a member of `allowed_tools`."""

    name: str


class NamedCustom(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="custom"):
    """The choice of one custom tool, or a member of `allowed_tools`."""

    name: str


class Allowed(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="allowed_tools"):
    """The choice among some of the tools."""

    mode: Literal["auto", "required"]
    tools: list[Named | NamedCustom]


class ChoiceFields(msgspec.Struct):
    """The field of the tool choice."""

    tool_choice: Literal["none", "auto", "required", "any"] | Named | NamedCustom | Allowed | None


_NAMES = {
    "max_tokens": "max_output_tokens",
    "messages": "input",
    "reasoning_effort": "reasoning.effort",
    "response_format": "text.format",
    "response_format.json_schema": "text.format",
    "system": "instructions",
}
"""The names here of what Chat Completions calls otherwise."""

RULES = rules_of(
    ResponsesFields,
    {**_NAMES, "stop": "/v1/chat/completions: there are no stop sequences here"},
    FieldRules(
        hints={
            # Of OpenAI's service.
            "access_programs": (),
            "background_options": (),
            "image": (),
        },
        fixed={
            "background": ((False,), "every answer is made at once"),
            "logprobs": ((False,), f'put "{LOGPROBS}" into include'),
        },
        refused={
            "context_management": "it is not supported",
            "conversation": _CONTINUED,
            "prompt": "prompts are not stored: send instructions and input",
        },
    ),
)

BODY = RequestBody(ResponsesFields, (InputField,), (ChoiceFields, StructuredOutputsField), RULES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesRequest(WireRequest):
    """A request, and the fields that the answer repeats.

    `items` is the whole input, as it is stored with the answer if `is_stored`, which is this API's default.
    """

    echoed: Mapping[str, Any]
    is_stored: bool
    items: list[Any]


def read_request(
    body: Any, headers: TurnHeaders = NO_HEADERS, *, is_strict: bool = False
) -> ResponsesRequest:
    """Read a decoded body.

    The conversation that `previous_response_id` names is in `input` already. With `is_strict` no field is
    left out: those that are unknown or have no effect are refused.

    Raises:
        InvalidField: a field is of the wrong type, or asks for something unsupported, or is a slip.
        InvalidTools: an inline tool is not well-formed.
    """
    reader = FieldReader(is_strict=is_strict)
    fields = reader.convert(reader.apply_rules(RULES, body), ResponsesFields)
    _tell_hints(fields, reader)
    asked_format = read_any_format(_read_format(fields.text), "text.format", fields)
    turn = replace(
        read_turn(fields, headers),
        messages=read_input(fields.input, fields.instructions, reader),
        tools=read_openai_tools(fields.tools or [], reader),
        tool_choice=read_tool_choice(fields.tool_choice),
        response_format=asked_format.format,
        max_tokens=fields.max_output_tokens,
        num_logprobs=_read_logprobs(fields),
        reasoning_effort=fields.reasoning.effort if fields.reasoning else None,
        truncates=fields.truncation == "auto",
    )
    items = [{"role": "user", "content": fields.input}] if isinstance(fields.input, str) else fields.input
    return ResponsesRequest(
        turn=turn,
        ignored=reader.ignored,
        names={**_NAMES, **asked_format.names},
        echoed=_echoed(body, turn, fields.tools or []),
        is_stored=fields.store is not False,
        items=items,
    )


def _echoed(body: Mapping[str, Any], turn: Turn, tools: list[Any]) -> dict[str, Any]:
    """What the response repeats of the request, as OpenAI writes it: clients send other APIs' shapes, too."""
    echoed = {name: default if body.get(name) is None else body[name] for name, default in ECHOED.items()}
    if echoed["tool_choice"] == "any":
        echoed["tool_choice"] = "required"
    form: dict[str, Any] = {"format": {"type": "text"}}
    form |= {name: value for name, value in (body.get("text") or {}).items() if value is not None}
    if form["format"]["type"] == "json_schema":
        form["format"] = {"description": None, "strict": True, **form["format"]}
    return {
        **echoed,
        "reasoning": {"effort": turn.reasoning_effort, "summary": None},
        "text": form,
        "tools": [_echoed_tool(tool, sent) for tool, sent in zip(turn.tools, tools, strict=True)],
    }


def _echoed_tool(tool: Tool, sent: Mapping[str, Any]) -> dict[str, Any]:
    """A tool in the shape of Responses; `strict` is true by default, as at OpenAI."""
    if tool.custom:
        return write_tool(tool, Shape.OPENAI_RESPONSES)
    strict = {"strict": sent.get("function", sent).get("strict") is not False}
    return {**write_tool(tool, Shape.OPENAI_RESPONSES), **strict}


def _tell_hints(fields: ResponsesFields, reader: FieldReader) -> None:
    """Tell the client of hints inside other fields."""
    ignore_obfuscation(fields.stream_options, reader)
    for included in fields.include or ():
        if included not in {LOGPROBS, "reasoning.encrypted_content"}:
            reader.ignore(f"include[].{included}", "there is nothing of this kind in an answer")
    if fields.text and fields.text.verbosity not in {None, "medium"}:
        reader.ignore("text.verbosity")
    for name in ("summary", "generate_summary"):
        if getattr(fields.reasoning, name, None) is not None:
            reader.ignore(f"reasoning.{name}", "thoughts are sent as they are")


def _read_format(text: Text | None) -> ResponseFormat | None:
    read = text.format if text else None
    if isinstance(read, JsonSchema):
        return ResponseFormat("schema", read.schema)
    return read_shared_format(read)


def _read_logprobs(fields: ResponsesFields) -> int | None:
    if LOGPROBS in (fields.include or ()):
        return fields.top_logprobs or 0
    if fields.top_logprobs:
        raise InvalidField("top_logprobs", f'it is only allowed with "{LOGPROBS}" in include')
    return None


def read_tool_choice(value: Any) -> ToolChoice | None:
    """`tool_choice`; None is the API's default. Raises InvalidField."""
    match convert({"tool_choice": value}, ChoiceFields).tool_choice:
        case Named(name=name) | NamedCustom(name=name):
            return ToolChoice.named(name)
        case Allowed(mode=mode, tools=tools):
            return allowed_choice(mode, [tool.name for tool in tools], "tool_choice.tools")
        case mode:
            return choice_of_mode(mode)
