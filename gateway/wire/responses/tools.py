"""The tool choice of a Responses request; its tools are read as those of Chat Completions."""

from typing import Any, Literal

import msgspec

from gateway.body import convert
from gateway.wire.fields import allowed_choice
from toolspecs.choice import ChoiceMode, ToolChoice


class Named(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="function"):
    """The choice of one function, or a member of `allowed_tools`."""

    name: str


class Allowed(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="allowed_tools"):
    """The choice among some of the tools."""

    mode: Literal["auto", "required"]
    tools: list[Named]


class _Fields(msgspec.Struct):
    tool_choice: Literal["none", "auto", "required"] | Named | Allowed | None


def read_choice(value: Any) -> ToolChoice | None:
    """`tool_choice`; None is the API's default. Raises InvalidField."""
    match convert({"tool_choice": value}, _Fields).tool_choice:
        case None:
            return None
        case Named(name=name):
            return ToolChoice.named(name)
        case Allowed(mode=mode, tools=tools):
            return allowed_choice(mode, [tool.name for tool in tools], "tool_choice.tools")
        case mode:
            return ToolChoice(ChoiceMode(mode))
