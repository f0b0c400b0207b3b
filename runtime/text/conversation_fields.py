"""Messages and tools in the form in which chat templates read them: transformers' dictionaries."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from runtime.errors import RequestRefused
from runtime.request import Message
from toolspecs.tool import Tool, ToolCall


def conversation_fields(
    tokenizer: Any, messages: Sequence[Message], tools: Sequence[Tool]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Messages and tools in the form that chat templates take."""
    messages = in_order_of_calls(messages)
    call_ids = _shown_call_ids(messages, tokenizer.chat_template or "")
    return [_message_fields(message, call_ids) for message in messages], [
        _tool_fields(tool) for tool in tools
    ]


def in_order_of_calls(messages: Sequence[Message]) -> list[Message]:
    """The messages, with each run of results in the order of the calls before it.

    Most templates show no call ids, so only the order says which result belongs to which call. If a run has a
    result of any other call, it stays as it is.
    """
    ordered: list[Message] = []
    number_of: dict[str | None, int] = {}
    for is_result, run in groupby(messages, lambda message: message.role == "tool"):
        group = list(run)
        if not is_result:
            number_of = {call.call_id: number for number, call in enumerate(group[-1].calls)}
        elif all(message.call_id in number_of for message in group):
            group.sort(key=lambda message: number_of[message.call_id])
        ordered += group
    return ordered


def _message_fields(message: Message, call_ids: Mapping[str, str]) -> dict[str, Any]:
    content = _content_parts(message) if message.images else message.content
    turn: dict[str, Any] = {"role": message.role, "content": content}
    if message.calls:
        turn["tool_calls"] = [_call_fields(call, call_ids) for call in message.calls]
    if message.call_id is not None:
        turn["tool_call_id"] = call_ids.get(message.call_id, message.call_id)
    if message.name is not None:
        turn["name"] = message.name
    if message.thought is not None:
        turn["reasoning_content"] = message.thought
    return turn


def _content_parts(message: Message) -> list[dict[str, str]]:
    """The texts and images of a message in order. The template marks where the engine inserts images."""
    parts: list[dict[str, str]] = []
    begin = 0
    for image in message.images:
        parts += [{"type": "text", "text": message.content[begin : image.at]}, {"type": "image"}]
        begin = image.at
    parts.append({"type": "text", "text": message.content[begin:]})
    return [part for part in parts if part.get("text") != ""]


def _call_fields(call: ToolCall, call_ids: Mapping[str, str]) -> dict[str, Any]:
    try:
        arguments = json.loads(call.arguments or "{}")
    except ValueError as error:
        raise RequestRefused(
            f"the arguments of call {call.call_id!r} to {call.name!r} are not JSON: {error}", "messages"
        ) from error
    function = {"name": call.name, "arguments": arguments}
    return {"id": call_ids[call.call_id], "type": "function", "function": function}


def _shown_call_ids(messages: Sequence[Message], template: str) -> Mapping[str, str]:
    """The id that the template gets for each call id: the templates of Mistral and Kimi prescribe a form."""
    calls = [call for message in messages for call in message.calls]
    if "tool_call_argument_begin" in template:
        return {call.call_id: f"functions.{call.name}:{number}" for number, call in enumerate(calls)}
    answered = [message.call_id for message in messages if message.call_id is not None]
    spell = _nine_characters if "length 9" in template else str
    return {call_id: spell(call_id) for call_id in (*(call.call_id for call in calls), *answered)}


def _nine_characters(call_id: str) -> str:
    """The id as nine letters and digits, as Mistral's templates demand."""
    if len(call_id) == 9 and call_id.isalnum():
        return call_id
    return hashlib.blake2b(call_id.encode(), digest_size=5).hexdigest()[:9]


def _tool_fields(tool: Tool) -> dict[str, Any]:
    parameters = json.loads(json.dumps(tool.parameters, default=dict))
    if tool.documents:  # the model must see what `$ref` leads to
        parameters["$defs"] = {**parameters.get("$defs", {}), **tool.documents}
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}
