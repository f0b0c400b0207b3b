"""A tool that a model may call, a call of one, and the choice which tools a model may or must call."""

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

    `parameters` is never modified after construction. Arguments are generated in the order of its keys, so
    that order is part of the tool's identity. `extras` are the informational fields of the shape that the
    tool was read from, such as an MCP title. They are kept and given back, and do not change the grammar.
    `documents` are the tool's bundle: the parts of the toolset's documents that the schema refers to, by URI.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    extras: Mapping[str, Any] = field(default_factory=dict)
    documents: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the tool and its bundle, in hexadecimal; the order of keys counts."""
        fields = [self.name, self.description, self.parameters]
        if self.extras or self.documents:
            fields.append(self.extras)
        if self.documents:
            fields.append(self.documents)
        content = json.dumps(fields, separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()

    @property
    def is_hashed(self) -> bool:
        """Whether the digest was asked for before, so that it costs nothing now."""
        return "digest" in vars(self)

    @cached_property
    def num_bytes(self) -> int:
        """The size of the tool and its bundle as compact JSON."""
        fields = [self.name, self.description, self.parameters, self.extras, self.documents]
        return len(json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode(errors="replace"))


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model made; `arguments` is JSON text that validates against the tool's parameters."""

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
    """A mode, and the tools that may be called (None: every tool of the request).

    `is_named` marks the choice of one function by name: OpenAI gives it another finish reason.
    """

    mode: ChoiceMode = ChoiceMode.AUTO
    allowed: tuple[str, ...] | None = None
    is_named: bool = False

    @classmethod
    def named(cls, name: str) -> "ToolChoice":
        """The choice that makes the model call the tool `name`."""
        return cls(ChoiceMode.REQUIRED, (name,), is_named=True)
