"""The chat template: messages and tools in, token ids of the prompt out.

Whatever anybody but the template wrote stays text, even where it spells a marker token such as `<|im_end|>`:
see `runtime.text.private_markers`. This holds for users, tools and their authors, for system prompts, and for
what is played back of the model's own outputs.
"""

import hashlib
import inspect
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from jinja2 import Environment, TemplateError
from jinja2.meta import find_undeclared_variables

from runtime.errors import PromptTooLong, RequestRefused
from runtime.request import Message
from runtime.text.private_markers import PrivateMarkers
from toolspecs.tool import Tool, ToolCall

_GENERATION = re.compile(r"\{%-?\s*(?:end)?generation\s*-?%\}")
"""A block that transformers adds to Jinja."""
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
_THOUGHT = re.compile(r"\A(\s*)<think>(.*?)</think>", re.DOTALL)

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
"""For tokenizers whose chat template shows no tools, or is missing: ChatML, calls in the `hermes` syntax."""
CHATML_MARKERS = ("<|im_start|>", "<|im_end|>")

_SAMPLES = (
    (Message("user", "Hi"),),
    (
        Message("system", "Be brief."),
        Message("user", "Hi"),
        Message("assistant", "Yes?"),
        Message("user", "So"),
    ),
    (
        Message("user", "Hi"),
        Message("assistant", calls=(ToolCall("callid001", "f", '{"a": 1}'),)),
        Message("tool", "2", call_id="callid001", name="f"),
    ),
)
"""Conversations that a template is checked with."""


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


class ChatTemplate:
    """The chat template of a transformers tokenizer. Several threads may use it at once.

        template = ChatTemplate(tokenizer)
        template.token_ids([Message("user", "hi")])  # <|im_start|>, user, a newline, hi, ...

    Raises:
        ValueError: the tokenizer or the template cannot keep text and markers apart.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._markers = PrivateMarkers(tokenizer)
        self._renamed = self._markers.rename(tokenizer.chat_template)
        self._tokens = {key: self._markers.name(text) for key, text in tokenizer.special_tokens_map.items()}
        parameters = inspect.signature(tokenizer.apply_chat_template).parameters
        self._reserved = frozenset({"self", "messages", *self._tokens, *parameters})
        for sample in _SAMPLES:
            self._check_sample(sample)

    def token_ids(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] = (),
        options: Mapping[str, Any] | None = None,
        *,
        limit: PromptLimit | None = None,
    ) -> list[int]:
        """The token ids of a conversation, up to where the assistant's answer begins.

        Raises:
            RequestRefused: the template refuses the conversation or an option.
            PromptTooLong: the prompt exceeds `limit`.
        """
        options = dict(options or {})
        if forbidden := self._reserved & set(options):
            raise RequestRefused(
                f"{min(forbidden)!r} is not an option of chat templates; remove it", "template_options"
            )
        if not messages:
            raise RequestRefused("there are no messages", "messages")
        if limit is not None:
            limit.check_messages(messages)
        try:
            prompt = self._render(messages, tools, options)
            if limit is not None:
                limit.check_prompt(prompt)
            ids = self._markers.encode(prompt)
        except RecursionError as error:
            reason = "a call or a tool is nested too deeply for this model's chat template"
            raise RequestRefused(reason, "messages") from error
        except (TemplateError, TypeError, KeyError, ValueError) as error:
            reason = self._markers.restore(str(error))
            raise RequestRefused(
                f"this model's chat template refuses the messages: {reason}", "messages"
            ) from error
        if not ids:
            raise RequestRefused("the chat template makes an empty prompt of the messages", "messages")
        return ids

    def _render(self, messages: Sequence[Message], tools: Sequence[Tool], options: Mapping[str, Any]) -> str:
        turns, functions = conversation_fields(self._tokenizer, messages, tools)
        for turn in turns:
            if turn["role"] == "assistant":
                turn["content"] = self._with_thought(turn["content"])
        prompt: str = self._tokenizer.apply_chat_template(
            turns,
            tools=functions or None,
            chat_template=self._renamed,
            add_generation_prompt=True,
            tokenize=False,
            **self._tokens,
            **options,
        )
        return prompt

    def _with_thought(self, content: str) -> str:
        """What an assistant said: the tags of a thought that it begins with are the template's to read.

        Servers that do not tell thoughts from answers return them so.
        """
        begin, end = self._markers.name("<think>"), self._markers.name("</think>")
        return _THOUGHT.sub(lambda match: f"{match[1]}{begin}{match[2]}{end}", content, count=1)

    def _check_sample(self, messages: Sequence[Message]) -> None:
        """Check that a conversation without markers of its own has the token ids that it has without names.

        Raises:
            ValueError: the template writes markers that `PrivateMarkers` does not find in its constants.
        """
        turns, _ = conversation_fields(self._tokenizer, messages, ())
        try:
            plain = self._tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
        except (TemplateError, TypeError, KeyError, ValueError):
            return  # the template refuses such a conversation
        expected = self._tokenizer(plain, add_special_tokens=False, verbose=False)["input_ids"]
        if self._markers.encode(self._render(messages, (), {})) != expected:
            raise ValueError(
                "its chat template joins marker tokens from parts; write them as whole constants"
            )


def template_variables(chat_template: str) -> frozenset[str]:
    """The variables of a chat template that a request can set: the options that it knows.

    >>> template_variables("{% if enable_thinking %}{{ messages[0].content }}{% endif %}")
    frozenset({'enable_thinking'})
    """
    environment = Environment(extensions=["jinja2.ext.loopcontrols"])  # noqa: S701 nothing is rendered
    try:
        names = find_undeclared_variables(environment.parse(_GENERATION.sub("", chat_template)))
    except TemplateError:
        return frozenset()
    return frozenset(names) - _OWN_VARIABLES


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
        group = list(run)
        if not is_result:
            number_of = {call.call_id: number for number, call in enumerate(group[-1].calls)}
        elif all(message.call_id in number_of for message in group):
            group.sort(key=lambda message: number_of[message.call_id])
        ordered += group
    return ordered


def _turn(message: Message, call_ids: Mapping[str, str]) -> dict[str, Any]:
    content = _parts(message) if message.images else message.content
    turn: dict[str, Any] = {"role": message.role, "content": content}
    if message.calls:
        turn["tool_calls"] = [_call(call, call_ids) for call in message.calls]
    if message.call_id is not None:
        turn["tool_call_id"] = call_ids.get(message.call_id, message.call_id)
    if message.name is not None:
        turn["name"] = message.name
    if message.thought is not None:
        turn["reasoning_content"] = message.thought
    return turn


def _parts(message: Message) -> list[dict[str, str]]:
    """Text and images in their order; the template writes where the engine puts an image in."""
    parts: list[dict[str, str]] = []
    begin = 0
    for image in message.images:
        parts += [{"type": "text", "text": message.content[begin : image.at]}, {"type": "image"}]
        begin = image.at
    parts.append({"type": "text", "text": message.content[begin:]})
    return [part for part in parts if part.get("text") != ""]


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
    spell = _short if "length 9" in template else str
    return {call_id: spell(call_id) for call_id in (*(call.call_id for call in calls), *answered)}


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
