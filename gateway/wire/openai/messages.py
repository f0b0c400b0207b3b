"""Reads the messages of a Chat Completions request."""

from collections.abc import Iterator
from typing import Any

import msgspec

from gateway.errors import InvalidField
from gateway.generation.custom_inputs import call_with_input
from gateway.wire.field_reader import FieldReader
from gateway.wire.images import ImageURL, text_and_images
from gateway.wire.tools_and_calls import check_arguments, check_result
from runtime.request import Message
from toolspecs.nearest import MAX_NAME, instead, shorten
from toolspecs.tool import ToolCall

Content = str | list[dict[str, Any]]


class _Strict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, tag_field="role"):
    name: str | None = None


class System(_Strict, tag="system"):
    """Instructions."""

    content: Content


class Developer(_Strict, tag="developer"):
    """What newer models call the system message."""

    content: Content


class User(_Strict, tag="user"):
    """What the user says."""

    content: Content


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
        if isinstance(message, Assistant) and message.function_call is not None:
            raise InvalidField(f"messages[{i}].function_call", "use tool_calls")
        if isinstance(message, Assistant):
            for j, call in enumerate(message.tool_calls or ()):
                _check_call(call, f"messages[{i}].tool_calls[{j}]")
                called[call.id] = None
        elif isinstance(message, Tool):
            check_result(message.tool_call_id, called, f"messages[{i}].tool_call_id")
    return tuple(_read_message(message, f"messages[{i}]", reader) for i, message in enumerate(read))


def _check_call(call: Call | CustomCall, path: str) -> None:
    """Raise InvalidField unless the arguments of a function's call are JSON."""
    if isinstance(call, Call):
        check_arguments(call.function.arguments, f"{path}.function.arguments")


def _read_message(
    message: System | Developer | User | Assistant | Tool, path: str, reader: FieldReader
) -> Message:
    at = f"{path}.content"
    if isinstance(message, User):
        user_text, images = text_and_images(_pieces(message.content, at, reader))
        return Message("user", user_text, name=message.name, images=images)
    text = _read_content(message.content, at, reader)
    match message:
        case System() | Developer():
            return Message("system", text, name=message.name)
        case Tool():
            return Message("tool", text, call_id=message.tool_call_id, name=message.name)
        case Assistant():
            calls = tuple(map(_read_call, message.tool_calls or ()))
            return Message(
                "assistant",
                text or message.refusal or "",
                calls=calls,
                name=message.name,
                thought=message.reasoning_content,
            )


def _read_call(call: Call | CustomCall) -> ToolCall:
    if isinstance(call, CustomCall):
        return call_with_input(call.id, call.custom.name, call.custom.input)
    return ToolCall(call.id, call.function.name, call.function.arguments)


def _pieces(content: Content, path: str, reader: FieldReader) -> Iterator[str | ImageURL]:
    """What a user says and shows."""
    if isinstance(content, str):
        yield content
        return
    for i, part in enumerate(content):
        read = _read_image if part.get("type") == "image_url" else _read_part
        yield read(part, f"{path}[{i}]", reader)


def _read_image(part: dict[str, Any], path: str, reader: FieldReader) -> ImageURL:
    image = part.get("image_url")
    if not isinstance(image, dict) or not isinstance(image.get("url"), str):
        raise InvalidField(f"{path}.image_url.url", "it must be a string")
    if image.get("detail") not in (None, "auto"):  # a tuple, because what a client sends may have no hash
        reader.ignore("messages[].content[].image_url.detail", "the engine reads images in its own way")
    return ImageURL(image["url"], f"{path}.image_url.url")


def _read_content(content: Content | None, path: str, reader: FieldReader) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(_read_part(part, f"{path}[{i}]", reader) for i, part in enumerate(content))


def _read_part(part: dict[str, Any], path: str, reader: FieldReader) -> str:
    kind = part.get("type")
    if kind is None:
        raise InvalidField(f"{path}.type", "it is required; a text has 'text'")
    key = "refusal" if kind == "refusal" else "text"
    if kind not in ("text", "refusal"):  # a tuple, because what a client sends may have no hash
        shown = shorten(repr(kind), MAX_NAME)
        raise InvalidField(f"{path}.type", f"{shown} is not supported: the model reads 'text' only")
    for name, value in part.items():
        if name in {"type", key} or reader.ignore_unknown(
            name, value, ("type", key), f"messages[].content[].{name}"
        ):
            continue
        raise InvalidField(f"{path}.{name}", f"there is no such field{instead(name, ('type', key))}")
    if not isinstance(part.get(key), str):
        raise InvalidField(f"{path}.{key}", "it must be a string")
    text: str = part[key]
    return text
