"""A tool: what a model may call."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Tool:
    """A name, a description for the model, and the JSON Schema of the arguments.

    `parameters` is never modified after construction; the order of its keys is the order in which
    arguments are generated, so it is part of the tool's identity. `extras` are the informational fields
    of the shape the tool was read from (an MCP title, annotations, ...): kept and given back, without
    any effect on the grammar.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    extras: Mapping[str, Any] = field(default_factory=dict)
    documents: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the tool's content, what it refers to included, hexadecimal; key order counts."""
        fields = [self.name, self.description, self.parameters]
        if self.extras or self.documents:
            fields.append(self.extras)
        if self.documents:
            fields.append(self.documents)
        content = json.dumps(fields, separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ToolCall:
    """`arguments` is JSON text that validates against the named tool's parameters."""

    call_id: str
    name: str
    arguments: str


class ChoiceMode(StrEnum):
    """`none`: text only; `auto`: text or calls; `required`: at least one call."""

    NONE = "none"
    AUTO = "auto"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """A mode, and the tools it is restricted to (`None`: every tool of the toolset).

    `is_named` marks the choice of one function by name, which wire formats finish differently.
    """

    mode: ChoiceMode = ChoiceMode.AUTO
    allowed: tuple[str, ...] | None = None
    is_named: bool = False

    @classmethod
    def named(cls, name: str) -> "ToolChoice":
        """The choice that calls exactly the tool `name`."""
        return cls(ChoiceMode.REQUIRED, (name,), is_named=True)
