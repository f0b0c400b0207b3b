"""The tools and the tool choice of a Chat Completions request."""

from typing import Any, Literal

import msgspec

from gateway.body import convert
from gateway.wire.fields import allowed_choice
from toolspecs.shapes import parse_tools
from toolspecs.tool import ChoiceMode, Tool, ToolChoice


class FunctionName(msgspec.Struct, forbid_unknown_fields=True):
    """A function by name."""

    name: str


class Named(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="function"):
    """The choice of one function, or a member of `allowed_tools`."""

    function: FunctionName


class AllowedTools(msgspec.Struct, forbid_unknown_fields=True):
    """The functions the choice is restricted to."""

    mode: Literal["auto", "required"]
    tools: list[Named]


class Allowed(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="allowed_tools"):
    """The choice among some of the tools."""

    allowed_tools: AllowedTools


class _ChoiceFields(msgspec.Struct):
    tool_choice: Literal["none", "auto", "required"] | Named | Allowed | None


def read_choice(value: Any) -> ToolChoice | None:
    """`tool_choice`; None is the API's default. Raises InvalidField."""
    match convert({"tool_choice": value}, _ChoiceFields).tool_choice:
        case None:
            return None
        case Named(function=function):
            return ToolChoice.named(function.name)
        case Allowed(allowed_tools=allowed):
            names = [tool.function.name for tool in allowed.tools]
            return allowed_choice(allowed.mode, names, "tool_choice.allowed_tools.tools")
        case mode:
            return ToolChoice(ChoiceMode(mode))


def read_tools(documents: list[Any]) -> tuple[Tool, ...]:
    """`tools`, in this API's shape or any other known one; raises InvalidTools, LimitExceeded."""
    return parse_tools(documents, base="/tools")
