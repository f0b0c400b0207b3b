"""The tools and the tool choice of a Responses request."""

from typing import Any, Literal

import msgspec

from gateway.body import convert
from gateway.errors import InvalidField
from gateway.wire.fields import allowed_choice
from toolspecs.nearest import MAX_NAME, shorten
from toolspecs.shapes import parse_tools
from toolspecs.tool import ChoiceMode, Tool, ToolChoice


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


def read_tools(documents: list[Any]) -> tuple[Tool, ...]:
    """`tools`; raises InvalidField where one is no function, InvalidTools, LimitExceeded."""
    for number, document in enumerate(documents):
        kind = document.get("type") if isinstance(document, dict) else None
        if kind not in (None, "function"):
            shown = shorten(repr(kind), MAX_NAME)
            reason = (
                f"{shown} is not supported: only functions are called, and it is the client that runs them"
            )
            raise InvalidField(f"tools[{number}].type", reason)
    return parse_tools(documents, base="/tools")
