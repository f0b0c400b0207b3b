"""The chat template: messages and tools in, prompt token ids out."""

import hashlib
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from jinja2 import TemplateError

from runtime.errors import PromptTooLong, RequestRefused
from runtime.request import Message
from runtime.text.seams import Seams, texts_in
from toolspecs.tool import Tool, ToolCall

_OWN_ROLES = frozenset({"system", "assistant"})

CHATML = r"""
{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\n\n' }}
    {%- endif %}
    {{- '# Tools\n\nYou may call one or more functions to assist with the user query.\n\n' }}
    {{- 'You are provided with function signatures within <tools></tools> XML tags:\n<tools>' }}
    {%- for tool in tools %}
        {{- '\n' + tool | tojson }}
    {%- endfor %}
    {{- '\n</tools>\n\nFor each function call, return a json object with function name and arguments' }}
    {{- ' within <tool_call></tool_call> XML tags:\n<tool_call>\n' }}
    {{- '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' + message.content + '\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}
            {{- '<|im_end|>\n' }}
        {%- endif %}
    {%- elif message.role != 'system' or not loop.first %}
        {{- '<|im_start|>' + message.role + '\n' + message.content }}
        {%- for call in message.tool_calls or [] %}
            {%- if message.content or not loop.first %}
                {{- '\n' }}
            {%- endif %}
            {{- '<tool_call>\n{"name": ' + call.function.name | tojson }}
            {{- ', "arguments": ' + call.function.arguments | tojson + '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
"""
"""For tokenizers without a template of their own: ChatML, with calls in the `hermes` syntax."""


@dataclass(frozen=True, slots=True)
class Room:
    """A context of `length` tokens, each of `longest_token` characters at most."""

    length: int
    longest_token: int

    def check_number(self, messages: Sequence[Message]) -> None:
        """Refuse more messages and calls than tokens before they are rendered, which takes seconds.

        Raises:
            PromptTooLong: there is not one token for each.
        """
        least = sum(1 + len(message.calls) for message in messages)
        if least > self.length:
            raise PromptTooLong(least, self.length, at_least=True)

    def check(self, prompt: str) -> None:
        """Refuse what cannot fit before it is tokenized, which takes a second a megabyte.

        Raises:
            PromptTooLong: even the longest tokens would be too many.
        """
        least = -(-len(prompt) // self.longest_token)
        if least > self.length:
            raise PromptTooLong(least, self.length, at_least=True)


def render_prompt(
    tokenizer: Any,
    messages: Sequence[Message],
    tools: Sequence[Tool],
    options: Mapping[str, Any] | None = None,
    *,
    room: Room | None = None,
) -> list[int]:
    """The prompt of a conversation, ending where the assistant's answer begins.

    What users, tools and their authors wrote stays text, even where it spells a marker token. What the
    system and the assistant said is left as it is: templates look for markers in it.

    Raises:
        RequestRefused: the template refuses the conversation or an option.
        PromptTooLong: it can be no prompt of this `room`.
    """
    options = dict(options or {})
    taken = {"self", "messages", *inspect.signature(tokenizer.apply_chat_template).parameters}
    reserved = taken & set(options)
    if reserved:
        raise RequestRefused(f"a chat template takes no option {min(reserved)!r}", "template_options")
    if not messages:
        raise RequestRefused("there are no messages", "messages")
    if room is not None:
        room.check_number(messages)
    turns, functions = conversation_fields(tokenizer, messages, tools)
    try:
        seams = Seams(tokenizer, texts_in([*turns, *functions]))
        prompt: str = tokenizer.apply_chat_template(
            [_sewn(turn, seams) for turn in turns],
            tools=seams.sewn(functions) or None,
            add_generation_prompt=True,
            tokenize=False,
            **options,
        )
        if room is not None:
            room.check(prompt)
        ids = seams.encode(prompt)
    except (TemplateError, TypeError, KeyError, ValueError) as error:
        raise RequestRefused(
            f"this model's chat template refuses the messages: {error}", "messages"
        ) from error
    if not ids:
        raise RequestRefused("the messages make an empty prompt", "messages")
    return ids


def conversation_fields(
    tokenizer: Any, messages: Sequence[Message], tools: Sequence[Tool]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Messages and tools, as chat templates take them."""
    messages = in_order_of_calls(messages)
    call_ids = _call_ids(messages, tokenizer.chat_template or "")
    return [_turn(message, call_ids) for message in messages], [_function(tool) for tool in tools]


def in_order_of_calls(messages: Sequence[Message]) -> list[Message]:
    """Results in the order of the calls before them: most templates show no ids, so order tells them apart.

    Results of other calls, too, stay as they are.
    """
    ordered: list[Message] = []
    place: dict[str | None, int] = {}
    for is_result, run in groupby(messages, lambda message: message.role == "tool"):
        found = list(run)
        if not is_result:
            place = {call.call_id: number for number, call in enumerate(found[-1].calls)}
        elif all(message.call_id in place for message in found):
            found.sort(key=lambda message: place[message.call_id])
        ordered += found
    return ordered


def _sewn(turn: dict[str, Any], seams: Seams) -> dict[str, Any]:
    """A turn in which nothing that a stranger wrote spells a marker."""
    foreign = ("tool_calls", "name") if turn["role"] in _OWN_ROLES else tuple(turn)
    return {key: seams.sewn(value) if key in foreign else value for key, value in turn.items()}


def _turn(message: Message, call_ids: Mapping[str, str]) -> dict[str, Any]:
    turn: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.calls:
        turn["tool_calls"] = [_call(call, call_ids) for call in message.calls]
    if message.call_id is not None:
        turn["tool_call_id"] = call_ids.get(message.call_id, message.call_id)
    if message.name is not None:
        turn["name"] = message.name
    if message.thought is not None:
        turn["reasoning_content"] = message.thought
    return turn


def _call(call: ToolCall, call_ids: Mapping[str, str]) -> dict[str, Any]:
    try:
        arguments = json.loads(call.arguments or "{}")
    except ValueError as error:
        raise RequestRefused(
            f"the arguments of call {call.call_id!r} to {call.name!r} are not JSON: {error}", "messages"
        ) from error
    function = {"name": call.name, "arguments": arguments}
    return {"id": call_ids[call.call_id], "type": "function", "function": function}


def _call_ids(messages: Sequence[Message], template: str) -> Mapping[str, str]:
    """What a template is shown for every call id: Mistral's demand a form, Kimi's print names and numbers."""
    calls = [call for message in messages for call in message.calls]
    if "tool_call_argument_begin" in template:
        return {call.call_id: f"functions.{call.name}:{number}" for number, call in enumerate(calls)}
    answered = [message.call_id for message in messages if message.call_id is not None]
    shown = _short if "length 9" in template else str
    return {call_id: shown(call_id) for call_id in (*(call.call_id for call in calls), *answered)}


def _short(call_id: str) -> str:
    """Nine letters and digits, as Mistral's templates demand."""
    if len(call_id) == 9 and call_id.isalnum():
        return call_id
    return hashlib.blake2b(call_id.encode(), digest_size=5).hexdigest()[:9]


def _function(tool: Tool) -> dict[str, Any]:
    parameters = json.loads(json.dumps(tool.parameters, default=dict))
    if tool.documents:  # what a model is shown refers to nothing that it is not shown
        parameters["$defs"] = {**parameters.get("$defs", {}), **tool.documents}
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}
