"""What a runtime is asked for: a conversation, the tools shown, a grammar, how to sample."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from compiler.matcher import Matcher
from toolspecs.tool import Tool, ToolCall


class Constraint(Protocol):
    """A compiled grammar, as far as a runtime knows it: `LinkedGrammar` and `CompiledSchema` are such."""

    @property
    def digest(self) -> str:
        """Names the grammar in stores and traces."""

    def matcher(self) -> Matcher:
        """A fresh matcher at the start."""


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

    `syntax` names how calls are spelled (compiler/syntaxes.py), None if the output is text or plain JSON.
    `num_logprobs` None returns none; 0 returns those of the chosen tokens. After `timeout_s` seconds the
    request ends with DeadlineExceeded.
    """

    request_id: str
    model: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    constraint: Constraint | None = None
    syntax: str | None = None
    sampling: Sampling = Sampling()
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    num_choices: int = 1
    num_logprobs: int | None = None
    template_options: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float | None = None
