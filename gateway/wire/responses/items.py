"""The input of a Responses request: items, of which several may make one message."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from typing import Any, Literal

import msgspec

from gateway.body import convert
from gateway.wire.fields import check_arguments, check_result
from runtime.request import Message
from toolspecs.tool import ToolCall


class _Part(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, tag_field="type"):
    pass


class InputText(_Part, tag="input_text"):
    """What a user, a developer or a tool wrote."""

    text: str


class OutputText(_Part, tag="output_text"):
    """What the model wrote; its annotations and log probabilities say nothing to it."""

    text: str
    annotations: list[Any] | None = None
    logprobs: list[Any] | None = None


class Refusal(_Part, tag="refusal"):
    """What the model would not do."""

    refusal: str

    @property
    def text(self) -> str:
        """Its text."""
        return self.refusal


class ReasoningText(_Part, tag="reasoning_text"):
    """A thought."""

    text: str


class SummaryText(_Part, tag="summary_text"):
    """What a thought comes to."""

    text: str


Status = Literal["in_progress", "completed", "incomplete"]


class _Item(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, tag_field="type"):
    """Items of earlier answers are sent back as they came, with fields that mean nothing here."""

    id: str | None = None
    status: Status | None = None


class Said(_Item, tag="message"):
    """A message, which may leave out its type."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[InputText | OutputText | Refusal]
    phase: str | None = None


class Called(_Item, tag="function_call"):
    """An earlier call."""

    call_id: str
    name: str
    arguments: str
    caller: None = None
    namespace: None = None


class Returned(_Item, tag="function_call_output"):
    """What a call returned."""

    call_id: str
    output: str | list[InputText]
    name: str | None = None
    caller: None = None


class Thought(_Item, tag="reasoning"):
    """What the model thought."""

    summary: list[SummaryText] | None = None
    content: list[ReasoningText] | None = None
    encrypted_content: None = None


Item = Said | Called | Returned | Thought


class _Input(msgspec.Struct):
    input: list[Item]


def read_input(value: str | list[Any], instructions: str | None) -> tuple[Message, ...]:
    """The messages that `instructions` and `input` make; raises InvalidField."""
    messages = [Message("system", instructions)] if instructions else []
    if isinstance(value, str):
        return *messages, Message("user", value)
    items = convert({"input": [_typed(item) for item in value]}, _Input).input
    _check_calls(items)
    for is_called, run in groupby(items, lambda item: isinstance(item, Called)):
        for message in [_calling(run)] if is_called else map(_message, run):
            if messages and _is_one_turn(messages[-1], message):
                messages[-1] = _joined(messages[-1], message)
            else:
                messages.append(message)
    return tuple(messages)


def _check_calls(items: list[Item]) -> None:
    called: dict[str, None] = {}
    for i, item in enumerate(items):
        if isinstance(item, Called):
            check_arguments(item.arguments, f"input[{i}].arguments")
            called[item.call_id] = None
        elif isinstance(item, Returned):
            check_result(item.call_id, called, f"input[{i}].call_id")


def _typed(item: Any) -> Any:
    """An item with its type, without fields that are null: clients send back more of these than they got."""
    if not isinstance(item, dict):
        return item
    given = {name: value for name, value in item.items() if value is not None}
    return {"type": "message", **given} if "role" in given else given


def _calling(run: Iterable[Item]) -> Message:
    """Calls that stand side by side; there may be very many."""
    calls = (ToolCall(i.call_id, i.name, i.arguments) for i in run if isinstance(i, Called))
    return Message("assistant", calls=tuple(calls))


def _message(item: Item) -> Message:
    match item:
        case Called():
            return _calling([item])
        case Said(role=role, content=content):
            return Message("system" if role == "developer" else role, _text(content))
        case Returned():
            return Message("tool", _text(item.output), call_id=item.call_id, name=item.name)
        case Thought():
            return Message("assistant", thought=_text(item.content or item.summary or []))


def _is_one_turn(last: Message, following: Message) -> bool:
    """A turn is a thought, then text, then calls; each of them may be missing."""
    if not last.role == following.role == "assistant" or following.thought is not None:
        return False
    return bool(following.calls) or not (last.content or last.calls)


def _joined(last: Message, following: Message) -> Message:
    return replace(last, content=last.content + following.content, calls=following.calls)


Parts = list[InputText] | list[InputText | OutputText | Refusal] | list[ReasoningText] | list[SummaryText]


def _text(content: str | Parts) -> str:
    return content if isinstance(content, str) else "".join(part.text for part in content)
