"""A tool call, as a model made it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolCall:
    """`arguments` is JSON text that validates against the named tool's parameters."""

    call_id: str
    name: str
    arguments: str
