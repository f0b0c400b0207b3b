"""Tools that a model may call, calls of them, and the choice of which tools it may or must call."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal

from toolspecs.json_value import count_values, json_size

KeyOrder = Literal["declared", "any"]
"""In which order a model writes the declared keys of an object."""


@dataclass(frozen=True, slots=True)
class CustomInput:
    """The input that a custom tool accepts: any text, or a text that matches `definition`.

    | `syntax` | `definition` |
    |---|---|
    | `text` | empty |
    | `regex` | an ECMA-262 pattern, which the whole input must match |
    | `lark` | a grammar whose start rule is `start` |
    """

    syntax: Literal["text", "regex", "lark"] = "text"
    definition: str = ""


INPUT = "input"
"""The only argument of a custom tool."""


@dataclass(frozen=True)
class Tool:
    """A name, a description for the model, and the JSON Schema of the arguments.

    `parameters` is never modified after construction. Arguments are generated in the order of its keys, or in
    any order if `key_order` says so; both are part of the tool's identity. `extras` are the informational
    fields of the shape that the tool was read from, such as an MCP title. They are kept and given back, and
    do not change the grammar.
    `documents` are the tool's bundle: the parts of the toolset's documents that the schema refers to, by URI.
    `custom` makes it a custom tool, whose parameters are one string (see `custom_tool`).
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    extras: Mapping[str, Any] = field(default_factory=dict)
    documents: Mapping[str, Any] = field(default_factory=dict)
    custom: CustomInput | None = None
    key_order: KeyOrder = "declared"

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the tool and its bundle, in hexadecimal; the order of keys counts."""
        fields: list[Any] = [self.name, self.description, self.parameters]
        if self.extras or self.documents:
            fields.append(self.extras)
        if self.documents:
            fields.append(self.documents)
        if self.custom:
            fields.append([self.custom.syntax, self.custom.definition])
        if self.key_order != "declared":
            fields.append(self.key_order)
        content = json.dumps(fields, separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()

    @property
    def is_hashed(self) -> bool:
        """Whether the digest has been computed, so that it costs nothing now."""
        return "digest" in vars(self)

    @cached_property
    def num_bytes(self) -> int:
        """The size of the tool and its bundle as compact JSON."""
        return json_size([self.name, self.description, self.parameters, self.extras, self.documents])

    @cached_property
    def num_values(self) -> int:
        """How many JSON values the tool is made of, without its bundle."""
        return count_values([self.parameters, self.extras])


def custom_tool(name: str, description: str, custom: CustomInput) -> Tool:
    """A tool that takes free text: one string, written as the argument `input`.

    A JSON Schema can express a regular expression but not a grammar. So the model reads the grammar in the
    description, and the compiler reads it in `Tool.custom`.
    """
    text: dict[str, Any] = {"type": "string"}
    match custom.syntax:
        case "regex":
            text["pattern"] = f"^(?:{custom.definition})$"
        case "lark":
            text["description"] = f"A text of this Lark grammar:\n{custom.definition}"
    parameters = {
        "type": "object",
        "properties": {INPUT: text},
        "required": [INPUT],
        "additionalProperties": False,
    }
    return Tool(name, description, parameters, custom=custom)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model made; `arguments` is JSON text that validates against the tool's parameters."""

    call_id: str
    name: str
    arguments: str


class ShownTools(StrEnum):
    """Which tools' definitions a prompt shows. A model that was trained on its tools needs none."""

    ALL = "all"
    ALLOWED = "allowed"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class ToolSearch:
    """How many tools a prompt shows: those that fit the conversation best.

    The tools in `always` are shown in any case. `query` is searched for instead of the user's messages.
    """

    limit: int = 20
    always: tuple[str, ...] = ()
    query: str | None = None


@dataclass(frozen=True, slots=True)
class SearchedTool:
    """A tool that a search kept: how well it fits (1 is best), and why it was kept."""

    name: str
    score: float
    reason: str


SearchedBy = Literal["words", "words and meaning"]


@dataclass(frozen=True, slots=True)
class ToolSearchResult:
    """The tools that a search kept, in the order of the prompt; how many were searched, and by what."""

    num_searched: int
    tools: tuple[SearchedTool, ...]
    by: SearchedBy = "words"


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
