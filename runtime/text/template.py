"""The chat template: messages and tools in, token ids of the prompt out.

A tokenizer finds the text of a marker token (such as `<tool_call>`) anywhere in a prompt, also in what a user
wrote. `MarkerEscaper` keeps that text from becoming the marker: before the template sees it, a separator
character goes behind its first character. The rendered prompt is then tokenized piece by piece between the
separators, and no piece contains the marker's text.
"""

import hashlib
import inspect
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from jinja2 import Environment, TemplateError
from jinja2.meta import find_undeclared_variables

from runtime.errors import PromptTooLong, RequestRefused
from runtime.request import Message
from toolspecs.tool import Tool, ToolCall

_TRUSTED_ROLES = frozenset({"system", "assistant"})
_SEPARATORS = [chr(code) for code in range(0xFDD0, 0xFDF0)]
"""Noncharacters: Unicode gives them no meaning, so that programs can use them internally."""
_ANCHOR = "\n"
_GENERATION = re.compile(r"\{%-?\s*(?:end)?generation\s*-?%\}")
"""A block of transformers' own, of which Jinja alone knows nothing."""
_OWN_VARIABLES = frozenset(
    {
        "messages",
        "tools",
        "add_generation_prompt",
        "raise_exception",
        "strftime_now",
        "bos_token",
        "eos_token",
    }
)
"""What transformers gives a chat template, whatever the request says."""

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
"""For tokenizers without a chat template: ChatML, with calls in the `hermes` syntax."""


@dataclass(frozen=True, slots=True)
class PromptLimit:
    """Refuses prompts that cannot fit into `context_length` tokens of at most `longest_token` characters."""

    context_length: int
    longest_token: int

    def check_messages(self, messages: Sequence[Message]) -> None:
        """Check messages before they are rendered, which can take seconds.

        Raises:
            PromptTooLong: there are more messages and calls than tokens in the context.
        """
        num_tokens = sum(1 + len(message.calls) for message in messages)
        if num_tokens > self.context_length:
            raise PromptTooLong(num_tokens, self.context_length, at_least=True)

    def check_prompt(self, prompt: str) -> None:
        """Check a rendered prompt before it is tokenized, which takes a second per megabyte.

        Raises:
            PromptTooLong: there are too many tokens, even if each is as long as possible.
        """
        num_tokens = -(-len(prompt) // self.longest_token)
        if num_tokens > self.context_length:
            raise PromptTooLong(num_tokens, self.context_length, at_least=True)


def render_prompt(
    tokenizer: Any,
    messages: Sequence[Message],
    tools: Sequence[Tool],
    options: Mapping[str, Any] | None = None,
    *,
    limit: PromptLimit | None = None,
) -> list[int]:
    """The token ids of a conversation, up to where the assistant's answer begins.

        render_prompt(tokenizer, [Message("user", "hi")], [])  # <|im_start|>, user, a newline, hi, ...

    What users, tools and their authors wrote stays text, even where it contains the text of a marker token.
    What the system and the assistant wrote may contain markers: templates look for them there.

    Raises:
        RequestRefused: the template refuses the conversation or an option.
        PromptTooLong: the prompt exceeds `limit`.
    """
    options = dict(options or {})
    reserved = {"self", "messages", *inspect.signature(tokenizer.apply_chat_template).parameters}
    if forbidden := reserved & set(options):
        raise RequestRefused(
            f"{min(forbidden)!r} is not an option of chat templates; remove it", "template_options"
        )
    if not messages:
        raise RequestRefused("there are no messages", "messages")
    if limit is not None:
        limit.check_messages(messages)
    turns, functions = conversation_fields(tokenizer, messages, tools)
    try:
        escaper = MarkerEscaper(tokenizer, texts_in([*turns, *functions]))
        prompt: str = tokenizer.apply_chat_template(
            [_escape_turn(turn, escaper) for turn in turns],
            tools=escaper.escape(functions) or None,
            add_generation_prompt=True,
            tokenize=False,
            **options,
        )
        if limit is not None:
            limit.check_prompt(prompt)
        ids = escaper.encode(prompt)
    except (TemplateError, TypeError, KeyError, ValueError) as error:
        raise RequestRefused(
            f"this model's chat template refuses the messages: {error}", "messages"
        ) from error
    if not ids:
        raise RequestRefused("the chat template makes an empty prompt of the messages", "messages")
    return ids


def template_variables(chat_template: str) -> frozenset[str]:
    """The variables of a chat template that a request can set: the options that it knows.

    >>> template_variables("{% if enable_thinking %}{{ messages[0].content }}{% endif %}")
    frozenset({'enable_thinking'})
    """
    environment = Environment(extensions=["jinja2.ext.loopcontrols"])  # noqa: S701 nothing is rendered
    try:
        found = find_undeclared_variables(environment.parse(_GENERATION.sub("", chat_template)))
    except TemplateError:
        return frozenset()
    return frozenset(found) - _OWN_VARIABLES


def conversation_fields(
    tokenizer: Any, messages: Sequence[Message], tools: Sequence[Tool]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Messages and tools in the form that chat templates take."""
    messages = in_order_of_calls(messages)
    call_ids = _call_ids(messages, tokenizer.chat_template or "")
    return [_turn(message, call_ids) for message in messages], [_function(tool) for tool in tools]


def in_order_of_calls(messages: Sequence[Message]) -> list[Message]:
    """The messages, with each run of results in the order of the calls before it.

    Most templates show no call ids, so that only the order says which result belongs to which call. A run
    with the result of any other call stays as it is.
    """
    ordered: list[Message] = []
    number_of: dict[str | None, int] = {}
    for is_result, run in groupby(messages, lambda message: message.role == "tool"):
        found = list(run)
        if not is_result:
            number_of = {call.call_id: number for number, call in enumerate(found[-1].calls)}
        elif all(message.call_id in number_of for message in found):
            found.sort(key=lambda message: number_of[message.call_id])
        ordered += found
    return ordered


def _escape_turn(turn: dict[str, Any], escaper: "MarkerEscaper") -> dict[str, Any]:
    """A turn with the markers escaped in everything that is not the system's or the assistant's own text."""
    untrusted = ("tool_calls", "name") if turn["role"] in _TRUSTED_ROLES else tuple(turn)
    return {key: escaper.escape(value) if key in untrusted else value for key, value in turn.items()}


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
    """The id that the template is shown for every call id: Mistral and Kimi prescribe a form."""
    calls = [call for message in messages for call in message.calls]
    if "tool_call_argument_begin" in template:
        return {call.call_id: f"functions.{call.name}:{number}" for number, call in enumerate(calls)}
    answered = [message.call_id for message in messages if message.call_id is not None]
    shown = _short if "length 9" in template else str
    return {call_id: shown(call_id) for call_id in (*(call.call_id for call in calls), *answered)}


def _short(call_id: str) -> str:
    """The id as nine letters and digits, as Mistral's templates demand."""
    if len(call_id) == 9 and call_id.isalnum():
        return call_id
    return hashlib.blake2b(call_id.encode(), digest_size=5).hexdigest()[:9]


def _function(tool: Tool) -> dict[str, Any]:
    parameters = json.loads(json.dumps(tool.parameters, default=dict))
    if tool.documents:  # the model must see what `$ref` leads to
        parameters["$defs"] = {**parameters.get("$defs", {}), **tool.documents}
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


class MarkerEscaper:
    """Keeps the texts of one prompt from becoming marker tokens."""

    def __init__(self, tokenizer: Any, texts: Iterable[str]) -> None:
        """Choose a separator that occurs in none of `texts`.

        Raises:
            ValueError: every possible separator occurs in them.
        """
        self._tokenizer = tokenizer
        used = set().union(*texts)
        unused = [char for char in _SEPARATORS if char not in used]
        if not unused:
            raise ValueError("the messages contain every noncharacter from U+FDD0 to U+FDEF; remove one")
        self._separator = unused[0]
        self._split = re.compile(f"{self._separator}|\\\\u{ord(self._separator):04x}")
        markers = sorted(_markers(tokenizer), key=len, reverse=True)
        self._markers = re.compile("|".join(map(re.escape, markers))) if markers else None

    def escape(self, value: Any) -> Any:
        """A JSON value with a separator in each marker that its texts contain."""
        match value:
            case str():
                return self._markers.sub(self._separate, value) if self._markers else value
            case Mapping():
                return {self.escape(key): self.escape(inner) for key, inner in value.items()}
            case list() | tuple():
                return [self.escape(inner) for inner in value]
            case _:
                return value

    def encode(self, prompt: str) -> list[int]:
        """The token ids of a rendered prompt, without the separators."""
        first, *others = self._split.split(prompt)
        ids = self._encode_piece(first)
        for piece in others:
            ids += self._encode_behind(piece)
        return ids

    def _separate(self, found: re.Match[str]) -> str:
        return found[0][0] + self._separator + found[0][1:]

    def _encode_behind(self, piece: str) -> list[int]:
        """The ids of a piece behind others: some tokenizers put a blank before the first word of a text."""
        anchor, anchored = self._encode_piece(_ANCHOR), self._encode_piece(_ANCHOR + piece)
        return anchored[len(anchor) :] if anchored[: len(anchor)] == anchor else self._encode_piece(piece)

    def _encode_piece(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return ids


def texts_in(values: Sequence[Any]) -> Iterable[str]:
    """Every text inside JSON values, keys included."""
    pending = list(values)
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            pending += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple):
            pending += value


def _markers(tokenizer: Any) -> set[str]:
    """The texts of the markers. Some vocabularies add runs of blanks as tokens: these are text."""
    added = {str(token) for token in tokenizer.added_tokens_decoder.values()}
    return {text for text in added if len(text) > 1 and text.strip()}
