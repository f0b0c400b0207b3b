"""What a runtime is asked for: a conversation, the tools shown, a grammar, how to sample."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from compiler.constraint import Constraint
from toolspecs.tool import Tool, ToolCall


@dataclass(frozen=True, slots=True)
class Message:
    """One message. Roles: `system`, `user`, `assistant`, `tool`. `thought`: what came before the answer."""

    role: str
    content: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    name: str | None = None
    thought: str | None = None


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is drawn; temperature 0 is greedy. `seed` None draws one."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int | None = None
    min_p: float = 0.0
    seed: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One generation of `num_choices` independent sequences over the same prompt.

    `num_logprobs` None returns none; 0 returns those of the chosen tokens. After `timeout_s` seconds the
    request ends with DeadlineExceeded.
    """

    request_id: str
    model: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    constraint: Constraint | None = None
    sampling: Sampling = Sampling()
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    num_choices: int = 1
    num_logprobs: int | None = None
    template_options: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float | None = None
