"""Reads the messages of a Chat Completions request."""

from typing import Any

import msgspec

from gateway.errors import InvalidField
from gateway.generation.custom_inputs import call_with_input
from gateway.wire.field_reader import FieldReader
from gateway.wire.message_parts import Part, RefusalPart, ShownImage, TextPart, images_of, text_of
from gateway.wire.tools_and_calls import check_arguments, check_result
from runtime.request import Message
from toolspecs.tool import ToolCall


class Text(TextPart, tag="text"):
    """Text."""


class ImageURL(msgspec.Struct, forbid_unknown_fields=True):
    """An image as a data URL; `detail` has no effect."""

    url: str
    detail: Any = None


class ImagePart(Part, tag="image_url"):
    """What the user shows."""

    image_url: ImageURL

    @property
    def has_detail(self) -> bool:
        """Whether it asks for a resolution."""
        return self.image_url.detail not in (None, "auto")  # a tuple, because it may have no hash

    @property
    def shown(self) -> ShownImage:
        """The image."""
        return ShownImage(self.image_url.url, "image_url.url")


Content = str | list[Text | RefusalPart]


class _Strict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, tag_field="role"):
    name: str | None = None


class System(_Strict, tag="system"):
    """Instructions."""

    content: Content


class Developer(_Strict, tag="developer"):
    """What newer models call the system message."""

    content: Content


class User(_Strict, tag="user"):
    """What the user says and shows."""

    content: str | list[Text | RefusalPart | ImagePart]


class Function(msgspec.Struct, forbid_unknown_fields=True):
    """A call's name, and its arguments as JSON text."""

    name: str
    arguments: str


class Call(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="function"):
    """An earlier call; clients that replay streamed deltas also send `index`."""

    id: str
    function: Function
    index: int | None = None


class CustomInput(msgspec.Struct, forbid_unknown_fields=True):
    """The name of a custom tool, and the input of a call."""

    name: str
    input: str


class CustomCall(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="custom"):
    """An earlier call of a custom tool."""

    id: str
    custom: CustomInput
    index: int | None = None


class Assistant(_Strict, tag="assistant"):
    """What the model said or called."""

    content: Content | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[Call | CustomCall] | None = None
    # Clients send messages back as they got them; these fields may be there, but empty.
    annotations: list[Any] | None = None
    audio: None = None
    function_call: Any = None


class Tool(_Strict, tag="tool"):
    """What a call returned."""

    content: Content
    tool_call_id: str


class Messages(msgspec.Struct):
    """The field of the messages."""

    messages: list[System | Developer | User | Assistant | Tool]


def read_messages(messages: list[Any], reader: FieldReader) -> tuple[Message, ...]:
    """The messages of the request; raises InvalidField."""
    read = reader.convert({"messages": messages}, Messages).messages
    called: dict[str, None] = {}
    for i, message in enumerate(read):
        match message:
            case Assistant(function_call=None, tool_calls=calls):
                for j, call in enumerate(calls or ()):
                    _check_call(call, f"messages[{i}].tool_calls[{j}]")
                    called[call.id] = None
            case Assistant():
                raise InvalidField(f"messages[{i}].function_call", "use tool_calls")
            case Tool(tool_call_id=call_id):
                check_result(call_id, called, f"messages[{i}].tool_call_id")
            case User(content=[*parts]) if any(
                isinstance(part, ImagePart) and part.has_detail for part in parts
            ):
                path = "messages[].content[].image_url.detail"
                reader.ignore(path, "the engine reads images in its own way")
    return tuple(_read_message(message, f"messages[{i}].content") for i, message in enumerate(read))


def _check_call(call: Call | CustomCall, path: str) -> None:
    """Raise InvalidField unless the arguments of a function's call are JSON."""
    if isinstance(call, Call):
        check_arguments(call.function.arguments, f"{path}.function.arguments")


def _read_message(message: System | Developer | User | Assistant | Tool, content_path: str) -> Message:
    text, name = text_of(message.content), message.name
    match message:
        case User(content=content):
            return Message("user", text, name=name, images=images_of(content, content_path))
        case System() | Developer():
            return Message("system", text, name=name)
        case Tool(tool_call_id=call_id):
            return Message("tool", text, call_id=call_id, name=name)
        case Assistant(refusal=refusal, reasoning_content=thought):
            calls = tuple(map(_read_call, message.tool_calls or ()))
            return Message("assistant", text or refusal or "", calls=calls, name=name, thought=thought)


def _read_call(call: Call | CustomCall) -> ToolCall:
    if isinstance(call, CustomCall):
        return call_with_input(call.id, call.custom.name, call.custom.input)
    return ToolCall(call.id, call.function.name, call.function.arguments)
