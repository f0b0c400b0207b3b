"""The turn: what any wire format asks for, in neutral terms."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from compiler.response_format import ResponseFormat
from runtime.request import Message, Sampling
from toolspecs.tool import Tool, ToolChoice
from toolspecs.toolset import ToolsetReference


@dataclass(frozen=True, slots=True)
class Turn:
    """One request for the assistant's next turn.

    `choice` None is the wire formats' default: `auto` where there are tools, `none` where there are none.
    `response_format` None is any text. `timeout_s`: seconds after which nobody wants the answer any more.
    `model` may still carry a toolset, as `model:toolset`.
    """

    model: str
    messages: tuple[Message, ...]
    toolsets: tuple[ToolsetReference, ...] = ()
    tools: tuple[Tool, ...] = ()
    choice: ToolChoice | None = None
    is_parallel: bool = True
    response_format: ResponseFormat | None = None
    sampling: Sampling = field(default_factory=Sampling)
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    num_choices: int = 1
    num_logprobs: int | None = None
    template_options: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float | None = None
