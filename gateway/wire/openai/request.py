"""A Chat Completions request becomes a turn: the fields, the response format, the tools and the choice."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from compiler.response_format import ResponseFormat
from gateway.errors import InvalidField
from gateway.http.conversion import convert
from gateway.wire.field_reader import FieldReader, FieldRules, RequestBody
from gateway.wire.field_rules import rules_of
from gateway.wire.openai.messages import Messages, read_messages
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
from gateway.wire.tools_and_calls import allowed_choice, choice_of_mode, read_openai_tools
from gateway.wire.turn_fields import (
    NO_HEADERS,
    StreamOptions,
    TurnFields,
    TurnHeaders,
    WireRequest,
    ignore_obfuscation,
    read_sampling,
    read_stop,
    read_turn,
)
from toolspecs.nearest import MAX_NAME, shorten
from toolspecs.tool import ToolChoice

MAX_BIASES = 1_024
"""Tokens that `logit_bias` may name: each is added to the logits of every token that is written."""

_TOKEN_ID = re.compile(r"[0-9]{1,18}")

Penalty = Annotated[float, Meta(ge=-2, le=2)]


NumTokens = Annotated[int, Meta(ge=1)]


class UsageOptions(StreamOptions, forbid_unknown_fields=True):
    """`stream_options` of Chat Completions and Completions."""

    include_usage: bool | None = None


class OpenAIFields(TurnFields, forbid_unknown_fields=True, kw_only=True):
    """The fields that are honoured in Chat Completions and in Completions; absent and null mean the same."""

    response_format: Any = None
    stream_options: UsageOptions | None = None
    max_tokens: NumTokens | None = None
    n: Annotated[int, Meta(ge=1)] | None = None
    stop: str | list[str] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: Annotated[dict[str, Any], Meta(max_length=MAX_BIASES)] | None = None


class ChatFields(OpenAIFields, forbid_unknown_fields=True, kw_only=True):
    """The fields that are honoured in Chat Completions."""

    messages: Annotated[list[Any], Meta(min_length=1)]
    max_completion_tokens: NumTokens | None = None
    logprobs: bool | None = None
    reasoning_effort: str | None = None
    truncation: Literal["auto", "disabled"] | None = None


class JsonSchema(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="json_schema"):
    """JSON that validates against a schema."""

    json_schema: NamedSchema


class FormatFields(msgspec.Struct):
    """The field of the response format."""

    response_format: TextFormat | JsonObject | JsonSchema | Regex | Choice | Grammar | None


class FunctionName(msgspec.Struct, forbid_unknown_fields=True):
    """A tool by name."""

    name: str


class Named(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="function"):
    """The choice of one function, or a member of `allowed_tools`."""

    function: FunctionName


class NamedCustom(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="custom"):
    """The choice of one custom tool, or a member of `allowed_tools`."""

    custom: FunctionName


class AllowedTools(msgspec.Struct, forbid_unknown_fields=True):
    """The functions that the model may choose among."""

    mode: Literal["auto", "required"]
    tools: list[Named | NamedCustom]


class Allowed(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="allowed_tools"):
    """The choice among some of the tools."""

    allowed_tools: AllowedTools


class ChoiceFields(msgspec.Struct):
    """The field of the tool choice."""

    tool_choice: Literal["none", "auto", "required", "any"] | Named | NamedCustom | Allowed | None


_NAMES = {"max_tokens": "max_completion_tokens", "system": "a message of the role system"}

RULES = rules_of(
    ChatFields,
    _NAMES,
    FieldRules(
        hints={"prediction": (), "store": (False,), "verbosity": ("medium",)},
        fixed={"modalities": ((["text"],), "only text is generated")},
        refused={
            "audio": "only text is generated",
            "previous_response_id": "send the whole conversation in messages, or use /v1/responses",
            "web_search_options": "there is no web search",
        },
    ),
)

BODY = RequestBody(ChatFields, (Messages,), (FormatFields, ChoiceFields, StructuredOutputsField), RULES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest(WireRequest):
    """A request for chat completions or for completions; with `includes_usage`, its stream has the usage."""

    includes_usage: bool = False


def read_request(body: Any, headers: TurnHeaders = NO_HEADERS, *, is_strict: bool = False) -> ChatRequest:
    """Read a decoded body.

    With `is_strict` no field is left out: those that are unknown or have no effect are refused.

    Raises:
        InvalidField: a field is of the wrong type, or asks for something unsupported, or is a slip.
        InvalidTools: an inline tool is not well-formed.
    """
    reader = FieldReader(is_strict=is_strict)
    fields = reader.convert(reader.apply_rules(RULES, body), ChatFields)
    includes_usage = read_stream_options(fields, reader)
    own_format = read_response_format(fields.response_format)
    asked_format = read_any_format(own_format, "response_format", fields)
    turn = replace(
        read_turn(fields, headers),
        tools=read_openai_tools(fields.tools or [], reader),
        messages=read_messages(fields.messages, reader),
        tool_choice=read_tool_choice(fields.tool_choice),
        response_format=asked_format.format,
        sampling=read_biased_sampling(fields),
        stop=read_stop(fields.stop, asked_format.format, reader),
        max_tokens=_read_max_tokens(fields),
        num_choices=fields.n or 1,
        num_logprobs=_read_logprobs(fields),
        reasoning_effort=fields.reasoning_effort,
        truncates=fields.truncation == "auto",
    )
    budget_name = {} if fields.max_completion_tokens is None else {"max_tokens": "max_completion_tokens"}
    return ChatRequest(
        turn=turn,
        ignored=reader.ignored,
        names={**asked_format.names, **budget_name},
        includes_usage=includes_usage,
    )


def read_stream_options(fields: OpenAIFields, reader: FieldReader) -> bool:
    """Whether the stream ends with the usage; raises InvalidField."""
    if fields.stream_options is None:
        return False
    if not fields.stream:
        raise InvalidField("stream_options", "it is only allowed with `stream: true`")
    ignore_obfuscation(fields.stream_options, reader)
    return bool(fields.stream_options.include_usage)


def read_biased_sampling(fields: OpenAIFields) -> Mapping[str, Any]:
    """The fields of `Sampling` that the request sets, `logit_bias` checked; raises InvalidField."""
    asked = read_sampling(fields)
    if fields.logit_bias is None:
        return asked
    return {**asked, "logit_bias": dict(_read_bias(*item) for item in fields.logit_bias.items())}


def _read_bias(key: str, value: Any) -> tuple[int, float]:
    if not _TOKEN_ID.fullmatch(key):
        raise InvalidField("logit_bias", f"{shorten(key, MAX_NAME)!r} is not a token id")
    if type(value) not in {int, float} or not -100 <= value <= 100:
        raise InvalidField(f'logit_bias["{key}"]', "it must be a number from -100 to 100")
    return int(key), float(value)


def _read_max_tokens(fields: ChatFields) -> int | None:
    old, new = fields.max_tokens, fields.max_completion_tokens
    if old is not None and new is not None and old != new:
        raise InvalidField("max_completion_tokens", f"it is {new}, but max_tokens is {old}; give one of them")
    return new if new is not None else old


def _read_logprobs(fields: ChatFields) -> int | None:
    if not fields.logprobs:
        if fields.top_logprobs:
            raise InvalidField("top_logprobs", "it is only allowed with `logprobs: true`")
        return None
    return fields.top_logprobs or 0


def read_response_format(value: Any) -> ResponseFormat | None:
    """`response_format`; None is any text. Raises InvalidField."""
    read = convert({"response_format": value}, FormatFields).response_format
    if isinstance(read, JsonSchema):
        return ResponseFormat("schema", read.json_schema.schema)
    return read_shared_format(read)


def read_tool_choice(value: Any) -> ToolChoice | None:
    """`tool_choice`; None is the API's default. Raises InvalidField."""
    match convert({"tool_choice": value}, ChoiceFields).tool_choice:
        case Named(function=chosen) | NamedCustom(custom=chosen):
            return ToolChoice.named(chosen.name)
        case Allowed(allowed_tools=allowed):
            names = [
                tool.function.name if isinstance(tool, Named) else tool.custom.name for tool in allowed.tools
            ]
            return allowed_choice(allowed.mode, names, "tool_choice.allowed_tools.tools")
        case mode:
            return choice_of_mode(mode)
