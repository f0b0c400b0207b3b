"""The turn: what a request asks for, whichever API it came from. Wire formats read requests into turns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from compiler.response_format import SCHEMA, ResponseFormat
from runtime.request import Message
from runtime.selection import Selection
from toolspecs.tool import KeyOrder, ShownTools, Tool, ToolChoice, ToolSearch
from toolspecs.toolset import ToolsetReference


@dataclass(frozen=True, slots=True)
class Turn:
    """One request for the assistant's next turn, whichever API it came from."""

    model: str
    """May name a toolset too, as `model:toolset`."""
    messages: tuple[Message, ...]
    prompt: str | tuple[int, ...] | None = None
    """A prompt that the client wrote instead of messages."""
    toolsets: tuple[ToolsetReference, ...] = ()
    tools: tuple[Tool, ...] = ()
    prompt_tools: ShownTools | None = None
    """None stands for the setting of the toolset, or else of the model."""
    tool_search: ToolSearch | Literal[False] | None = None
    """None stands for the setting of the toolset, or else of the model; with False, nothing is searched."""
    tool_choice: ToolChoice | None = None
    """None stands for `auto` with tools, and `none` without."""
    is_parallel: bool = True
    response_format: ResponseFormat | None = None
    """None stands for any text."""
    key_order: KeyOrder | None = None
    """None leaves the order of keys to each tool."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """The fields of `Sampling` that the request sets; the model's card has the others."""
    stop: tuple[str, ...] = ()
    """Like `stop_token_ids` and `min_tokens`, only for text, never for output that a grammar constrains."""
    stop_token_ids: tuple[int, ...] = ()
    min_tokens: int = 0
    max_tokens: int | None = None
    num_choices: int = 1
    num_logprobs: int | None = None
    template_options: Mapping[str, Any] = field(default_factory=dict)
    reasoning_effort: str | None = None
    """Sets the thinking switch of the model's chat template, if it has one."""
    truncates: bool = False
    """Whether the oldest messages may be left out if the conversation is too long for the model."""
    timeout_s: float | None = None
    """After this time the client no longer wants the answer."""
    selection: Selection | None = None
    """None stands for the engine's default."""
    is_streamed: bool = False
    is_inspected: bool = False
    client_id: str = ""
    """Whose turn it is in queues; its wire format does not say."""
    has_custom_calls: bool = True
    """Whether the API writes the input of a custom tool as text, and not as an argument."""

    @property
    def operation(self) -> str:
        """What is done, in the words of OpenTelemetry's conventions: the model chats, or continues a text."""
        return "chat" if self.prompt is None else "text_completion"

    @property
    def answers_in_json(self) -> bool:
        """Whether an answer that calls no tool is one JSON value."""
        return self.response_format is not None and self.response_format.kind == SCHEMA
