"""Reads the input of a Responses request: items, several of which may make one message."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby, starmap
from typing import Any, Literal

import msgspec

from gateway.errors import InvalidField
from gateway.generation.custom_inputs import call_with_input
from gateway.wire.field_reader import FieldReader
from gateway.wire.message_parts import Part, RefusalPart, ShownImage, TextPart, images_of, text_of
from gateway.wire.tools_and_calls import check_arguments, check_result
from runtime.request import Message
from toolspecs.tool import ToolCall


class InputText(TextPart, tag="input_text"):
    """What a user, a developer or a tool wrote."""


class InputImage(Part, tag="input_image"):
    """An image from the user; `detail` has no effect."""

    image_url: str
    detail: str | None = None
    file_id: None = None

    @property
    def shown(self) -> ShownImage:
        """The image."""
        return ShownImage(self.image_url, "image_url")


class OutputText(TextPart, tag="output_text"):
    """What the model wrote; annotations and log probabilities are not shown to it again."""

    annotations: list[Any] | None = None
    logprobs: list[Any] | None = None


class ReasoningText(TextPart, tag="reasoning_text"):
    """A thought."""


class SummaryText(TextPart, tag="summary_text"):
    """The summary of a thought."""


Status = Literal["in_progress", "completed", "incomplete"]


class _Item(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, tag_field="type"):
    """Fields of items that clients send back from earlier answers; they are not used."""

    id: str | None = None
    status: Status | None = None


class MessageItem(_Item, tag="message"):
    """A message; clients may leave out its type."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[InputText | InputImage | OutputText | RefusalPart]
    phase: str | None = None


class FunctionCallItem(_Item, tag="function_call"):
    """An earlier call."""

    call_id: str
    name: str
    arguments: str
    caller: None = None
    namespace: None = None


class FunctionCallOutputItem(_Item, tag="function_call_output"):
    """What a call returned."""

    call_id: str
    output: str | list[InputText]
    name: str | None = None
    caller: None = None


class CustomToolCallItem(_Item, tag="custom_tool_call"):
    """An earlier call of a custom tool."""

    call_id: str
    name: str
    input: str
    caller: None = None
    namespace: None = None


class CustomToolCallOutputItem(_Item, tag="custom_tool_call_output"):
    """What a call of a custom tool returned."""

    call_id: str
    output: str | list[InputText]
    name: str | None = None
    caller: None = None


class ReasoningItem(_Item, tag="reasoning"):
    """What the model thought. Of what another service has encrypted, nothing can be read."""

    summary: list[SummaryText] | None = None
    content: list[ReasoningText] | None = None
    encrypted_content: str | None = None

    @property
    def text(self) -> str:
        """What can be read of it."""
        return text_of(self.content or self.summary or [])


InputItem = (
    MessageItem
    | FunctionCallItem
    | FunctionCallOutputItem
    | CustomToolCallItem
    | CustomToolCallOutputItem
    | ReasoningItem
)


_CALLS = (FunctionCallItem, CustomToolCallItem)
_RESULTS = (FunctionCallOutputItem, CustomToolCallOutputItem)


class InputField(msgspec.Struct):
    """The field of the input, with the types of messages, which clients may leave out."""

    input: list[InputItem]


def read_input(value: str | list[Any], instructions: str | None, reader: FieldReader) -> tuple[Message, ...]:
    """The messages of `instructions` and `input`; raises InvalidField."""
    messages = [Message("system", instructions)] if instructions else []
    if isinstance(value, str):
        return *messages, Message("user", value)
    items = reader.convert({"input": [_with_type(item) for item in value]}, InputField).input
    _check_calls(items)
    if any(isinstance(item, ReasoningItem) and item.encrypted_content for item in items):
        reader.ignore("input[].encrypted_content", "another service has encrypted it; leave the item out")
    numbered = (item for item in enumerate(items) if not _is_blank(item[1]))
    for is_called, run in groupby(numbered, lambda item: isinstance(item[1], _CALLS)):
        if is_called:
            run_messages: Iterable[Message] = [_calls_message(item for _, item in run)]
        else:
            run_messages = starmap(_message, run)
        for message in run_messages:
            if messages and _is_one_turn(messages[-1], message):
                messages[-1] = _merged(messages[-1], message)
            else:
                messages.append(message)
    return tuple(messages)


def _check_calls(items: list[InputItem]) -> None:
    called: dict[str, None] = {}
    for i, item in enumerate(items):
        if isinstance(item, FunctionCallItem):
            check_arguments(item.arguments, f"input[{i}].arguments")
        if isinstance(item, _CALLS):
            called[item.call_id] = None
        elif isinstance(item, _RESULTS):
            check_result(item.call_id, called, f"input[{i}].call_id")


def _with_type(item: Any) -> Any:
    """An item with its type and without null fields, which some clients add to what they send back."""
    if not isinstance(item, dict):
        return item
    present = {name: value for name, value in item.items() if value is not None}
    return {"type": "message", **present} if "role" in present else present


def _calls_message(run: Iterable[InputItem]) -> Message:
    """One message for a run of adjacent calls; there may be very many of them."""
    return Message("assistant", calls=tuple(_call(item) for item in run if isinstance(item, _CALLS)))


def _call(item: FunctionCallItem | CustomToolCallItem) -> ToolCall:
    if isinstance(item, CustomToolCallItem):
        return call_with_input(item.call_id, item.name, item.input)
    return ToolCall(item.call_id, item.name, item.arguments)


def _message(number: int, item: InputItem) -> Message:
    match item:
        case FunctionCallItem() | CustomToolCallItem():
            return _calls_message([item])
        case MessageItem(role=role, content=content):
            at = f"input[{number}].content"
            images = images_of(content, at)
            if images and role != "user":
                raise InvalidField(at, f"{role!r} shows an image, and only a user can")
            return Message("system" if role == "developer" else role, text_of(content), images=images)
        case FunctionCallOutputItem() | CustomToolCallOutputItem():
            return Message("tool", text_of(item.output), call_id=item.call_id, name=item.name)
        case ReasoningItem():
            return Message("assistant", thought=item.text)


def _is_blank(item: InputItem) -> bool:
    """Whether it is a thought of which nothing can be read."""
    return isinstance(item, ReasoningItem) and not item.text


def _is_one_turn(last: Message, following: Message) -> bool:
    """Whether two messages are one turn: a thought, then text, then calls, each of which may be missing."""
    if not last.role == following.role == "assistant" or following.thought is not None:
        return False
    return bool(following.calls) or not (last.content or last.calls)


def _merged(last: Message, following: Message) -> Message:
    return replace(last, content=last.content + following.content, calls=following.calls)
