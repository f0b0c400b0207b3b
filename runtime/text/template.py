"""The chat template: messages and tools in, token ids of the prompt out.

Only the template itself can write a marker token such as `<|im_end|>`. Whatever else spells one stays text:
the messages of users, system prompts, tools and their results, and earlier outputs of the model. See
`runtime.text.private_markers`.
"""

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, TemplateError
from jinja2.meta import find_undeclared_variables

from runtime.errors import PromptTooLong, RequestRefused
from runtime.request import Message
from runtime.text.conversation_fields import conversation_fields
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
        """An assistant's message, in which the tags around a thought at its beginning are markers.

        Servers that do not tell thoughts from answers return both in one text.
        """
        begin, end = self._markers.name("<think>"), self._markers.name("</think>")
        return _THOUGHT.sub(lambda match: f"{match[1]}{begin}{match[2]}{end}", content, count=1)

    def _check_sample(self, messages: Sequence[Message]) -> None:
        """Check that private names do not change the token ids of a conversation that spells no marker.

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
