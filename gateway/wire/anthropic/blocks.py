"""Reads the messages of a Messages request: content blocks, several of which may make one message.

A message of the user may hold results of calls, each of which becomes a message of the role `tool`.

>>> result = {"type": "tool_result", "tool_use_id": "a", "content": "4 degrees", "is_error": False}
>>> call = {"type": "tool_use", "id": "a", "name": "weather", "input": {}}
>>> asked = [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
>>> [message.role for message in read_messages(asked, None, FieldReader())]
['assistant', 'tool']
"""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from gateway.errors import InvalidField
from gateway.wire.field_reader import FieldReader
from gateway.wire.message_parts import Part, ShownImage, TextPart, images_of, text_of
from gateway.wire.tools_and_calls import check_result
from runtime.request import Message
from toolspecs.tool import ToolCall

ERROR = "Error: "
"""What a failed call's result begins with: chat templates know no other mark of an error."""


class _Block(Part, kw_only=True):
    cache_control: Any = None


class Text(TextPart, tag="text"):
    """Text; citations are not shown to the model again."""

    citations: Any = None
    cache_control: Any = None


class ImageData(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="base64"):
    """An image that comes with the request."""

    media_type: str
    data: str

    @property
    def url(self) -> str:
        """The image as a data URL."""
        return f"data:{self.media_type};base64,{self.data}"


class ImageAddress(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="url"):
    """An image at a URL, which would have to be fetched."""

    url: str


class ImageBlock(_Block, tag="image"):
    """What the user shows."""

    source: ImageData | ImageAddress

    @property
    def shown(self) -> ShownImage:
        """The image."""
        return ShownImage(self.source.url, "source")


class Thinking(_Block, tag="thinking"):
    """What the model thought. The signature is not checked: a thought is text that the client sends."""

    thinking: str
    signature: str | None = None


class RedactedThinking(_Block, tag="redacted_thinking"):
    """A thought that only another server can read; it is left out."""

    data: str


class ToolUse(_Block, tag="tool_use"):
    """An earlier call."""

    id: str
    name: str
    input: dict[str, Any]
    caller: Any = None


class ToolResult(_Block, tag="tool_result"):
    """What a call returned."""

    tool_use_id: str
    content: str | list[Text] | None = None
    is_error: bool | None = None


class _Message(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, tag_field="role"):
    pass


class System(_Message, tag="system"):
    """Instructions in the middle of a conversation."""

    content: str | list[Text]


class User(_Message, tag="user"):
    """What the user says, and what calls returned."""

    content: str | list[Text | ImageBlock | ToolResult]


class Assistant(_Message, tag="assistant"):
    """What the model thought, said and called."""

    content: str | list[Text | Thinking | RedactedThinking | ToolUse]


class Conversation(msgspec.Struct):
    """The fields of the messages and of the system prompt."""

    messages: list[System | User | Assistant]
    system: str | list[Text] | None = None


def read_messages(messages: list[Any], system: Any, reader: FieldReader) -> tuple[Message, ...]:
    """The messages of `system` and `messages`; raises InvalidField."""
    conversation = reader.convert({"messages": messages, "system": system}, Conversation)
    if isinstance(conversation.messages[-1], Assistant):
        at = f"messages[{len(conversation.messages) - 1}].role"
        raise InvalidField(at, "the last message must be the user's: an answer is a message of its own")
    read = [Message("system", text_of(conversation.system))] if conversation.system else []
    called: dict[str, None] = {}
    for i, message in enumerate(conversation.messages):
        read += _read_message(message, f"messages[{i}]", called, reader)
    return tuple(read)


def _read_message(
    message: System | User | Assistant, path: str, called: dict[str, None], reader: FieldReader
) -> Iterator[Message]:
    content = message.content
    match message:
        case System():
            yield Message("system", text_of(content))
        case User():
            blocks = [] if isinstance(content, str) else content
            for j, block in enumerate(blocks):
                if isinstance(block, ToolResult):
                    check_result(block.tool_use_id, called, f"{path}.content[{j}].tool_use_id")
                    yield _result(block)
            text, images = text_of(content), images_of(content, f"{path}.content")
            if text or images or not any(isinstance(block, ToolResult) for block in blocks):
                yield Message("user", text, images=images)
        case Assistant():
            blocks = [] if isinstance(content, str) else content
            if any(isinstance(block, RedactedThinking) for block in blocks):
                reader.ignore("messages[].content[].redacted_thinking", "nobody here can read it")
            calls = tuple(
                ToolCall(block.id, block.name, json.dumps(block.input, ensure_ascii=False))
                for block in blocks
                if isinstance(block, ToolUse)
            )
            called.update(dict.fromkeys(call.call_id for call in calls))
            thoughts = [block.thinking for block in blocks if isinstance(block, Thinking)]
            thought = "".join(thoughts) if thoughts else None
            yield Message("assistant", text_of(content), calls=calls, thought=thought)


def _result(block: ToolResult) -> Message:
    text = text_of(block.content)
    return Message("tool", f"{ERROR}{text}" if block.is_error else text, call_id=block.tool_use_id)
