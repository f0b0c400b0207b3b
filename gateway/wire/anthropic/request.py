"""A Messages request becomes a turn: the fields, the format of the answer, the tools and the choice."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from compiler.response_format import ResponseFormat
from gateway.errors import InvalidField, ThreadUnsupported
from gateway.http.conversion import convert
from gateway.wire.anthropic.blocks import Conversation, read_messages
from gateway.wire.field_reader import FieldReader, FieldRules, RequestBody
from gateway.wire.field_rules import rules_of
from gateway.wire.response_formats import AskedFormat, StructuredOutputsField, read_any_format
from gateway.wire.tools_and_calls import check_types, read_inline_tools
from gateway.wire.turn_fields import (
    NO_HEADERS,
    TurnFields,
    TurnHeaders,
    WireRequest,
    read_stop,
    read_turn,
)
from toolspecs.tool import ChoiceMode, Tool, ToolChoice

MAX_STOP_SEQUENCES = 64

_NO_LOGPROBS = "there are no log probabilities here; use /v1/chat/completions"


class Thinking(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`thinking`. A thought has no budget of its own."""

    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: int | None = None
    display: str | None = None


class JsonSchema(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="json_schema"):
    """JSON that validates against a schema."""

    schema: dict[str, Any] | bool
    name: str | None = None


class OutputConfig(msgspec.Struct, forbid_unknown_fields=True):
    """`output_config`."""

    format: JsonSchema | None = None
    effort: str | None = None


class MessagesFields(TurnFields, forbid_unknown_fields=True, kw_only=True):
    """The fields that are honoured; absent and null mean the same."""

    messages: Annotated[list[Any], Meta(min_length=1)]
    system: Any = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    stop_sequences: list[str] | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    output_format: JsonSchema | None = None


class _Choice(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, tag_field="type"):
    disable_parallel_tool_use: bool = False


class Auto(_Choice, tag="auto"):
    """Text or calls."""


class AnyTool(_Choice, tag="any"):
    """At least one call."""


class NoTool(_Choice, tag="none"):
    """Text only."""


class OneTool(_Choice, tag="tool"):
    """A call of one tool."""

    name: str


class ChoiceFields(msgspec.Struct):
    """The field of the tool choice."""

    tool_choice: Auto | AnyTool | NoTool | OneTool | None


_NAMES = {
    "reasoning_effort": "output_config.effort",
    "response_format": "output_config.format",
    "response_format.json_schema": "output_config.format",
    "stop": "stop_sequences",
}
"""The names here of what Chat Completions calls otherwise."""

RULES = rules_of(
    MessagesFields,
    _NAMES,
    FieldRules(
        silent=frozenset({"cache_control", "thread", "user_profile_id", "workspace_id"}),
        hints={
            "betas": (),
            "billing_policy": (),
            "diagnostics": (),
            "context_management": (),
            "fallback_credit_token": (),
            "fallbacks": (),
            "inference_geo": (),
            "service_tier": ("auto", "standard_only"),
            "speed": ("standard",),
        },
        fixed={"logprobs": ((False,), _NO_LOGPROBS)},
        refused={
            "compaction": "conversations are not summarized here; ask for a summary in messages",
            "container": "there are no containers: tools run at the client",
            "mcp_servers": "tools run at the client; register the server's tools as a toolset",
            "previous_response_id": "send the whole conversation in messages, or use /v1/responses",
        },
    ),
)

BODY = RequestBody(MessagesFields, (Conversation,), (ChoiceFields, StructuredOutputsField), RULES)


def read_request(body: Any, headers: TurnHeaders = NO_HEADERS, *, is_strict: bool = False) -> WireRequest:
    """Read a decoded body.

    With `is_strict` no field is left out: those that are unknown or have no effect are refused.

    Raises:
        InvalidField: a field is of the wrong type, or asks for something unsupported, or is a slip.
        ThreadUnsupported: the request is one of a thread.
        InvalidTools: an inline tool is not well-formed.
    """
    reader = FieldReader(is_strict=is_strict)
    if isinstance(body, dict) and body.get("thread"):
        raise ThreadUnsupported
    fields = reader.convert(reader.apply_rules(RULES, body), MessagesFields)
    tool_choice = convert({"tool_choice": fields.tool_choice}, ChoiceFields).tool_choice
    if fields.top_logprobs:
        raise InvalidField("top_logprobs", _NO_LOGPROBS)
    if fields.thinking and fields.thinking.budget_tokens is not None:
        reader.ignore("thinking.budget_tokens", "a thought has no budget of its own")
    turn = read_turn(fields, headers)
    asked_format = _read_format(fields)
    turn = replace(
        turn,
        messages=read_messages(fields.messages, fields.system, reader),
        tools=_read_tools(fields.tools or [], reader),
        tool_choice=_read_tool_choice(tool_choice),
        is_parallel=turn.is_parallel and not (tool_choice and tool_choice.disable_parallel_tool_use),
        response_format=asked_format.format,
        stop=read_stop(
            fields.stop_sequences,
            asked_format.format,
            reader,
            param="stop_sequences",
            most=MAX_STOP_SEQUENCES,
        ),
        max_tokens=fields.max_tokens,
        reasoning_effort=_read_effort(fields),
        has_custom_calls=False,
    )
    effort_name = {"reasoning_effort": "thinking"} if fields.thinking else {}
    names = {**_NAMES, **asked_format.names, **effort_name}
    return WireRequest(turn=turn, ignored=reader.ignored, names=names)


def _read_effort(fields: MessagesFields) -> str | None:
    """The effort, or `none` if thinking is switched off; None leaves the template's default."""
    if fields.thinking and fields.thinking.type == "disabled":
        return "none"
    effort = fields.output_config.effort if fields.output_config else None
    return effort or ("medium" if fields.thinking else None)


def _read_format(fields: MessagesFields) -> AskedFormat:
    form = fields.output_config.format if fields.output_config else None
    own = ResponseFormat("schema", form.schema) if form else None
    if fields.output_format is None:
        return read_any_format(own, "output_config.format", fields)
    if own:
        raise InvalidField(
            "output_format", "an answer has one format, and output_config.format asks for one already"
        )
    asked = read_any_format(ResponseFormat("schema", fields.output_format.schema), "output_format", fields)
    return replace(
        asked, names={"response_format": "output_format", "response_format.json_schema": "output_format"}
    )


def _read_tool_choice(tool_choice: Auto | AnyTool | NoTool | OneTool | None) -> ToolChoice | None:
    match tool_choice:
        case OneTool(name=name):
            return ToolChoice.named(name)
        case AnyTool():
            return ToolChoice(ChoiceMode.REQUIRED)
        case NoTool():
            return ToolChoice(ChoiceMode.NONE)
        case Auto():
            return ToolChoice(ChoiceMode.AUTO)
        case None:
            return None


def _read_tools(documents: list[Any], reader: FieldReader) -> tuple[Tool, ...]:
    """`tools` without deferred ones, which a model may call only after Anthropic's search found them.

    Raises:
        InvalidField: it is a tool that Anthropic runs.
        InvalidTools, LimitExceeded: as `read_inline_tools`.
    """
    check_types(documents, ("custom",), "only tools with an input_schema are called")
    tools = read_inline_tools(list(map(_plain, documents)), reader)
    return tuple(
        tool
        for tool, written in zip(tools, documents, strict=True)
        if written.get("defer_loading") is not True
    )


def _plain(document: Any) -> Any:
    """A tool without fields that have no effect, and without its type, which other APIs read differently."""
    if not isinstance(document, Mapping):
        return document
    left_out = {"cache_control", "defer_loading", "type"}
    return {name: value for name, value in document.items() if name not in left_out}
