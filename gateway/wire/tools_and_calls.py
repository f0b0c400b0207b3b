"""The tools that a request carries, the choice among some of them, and checks of earlier calls.

For OpenAI's custom tools, the model writes free text, or a text of a grammar. A custom tool is a tool with
one string, the argument `input`, so that every call syntax can write it. Its grammar applies to the decoded
string (see `gateway.generation.custom_inputs`). Chat Completions nests the fields of a tool under `custom`,
Responses does not; each API takes both.

>>> tool = {"type": "custom", "name": "run", "format": {"type": "text"}}
>>> read_openai_tools([tool], FieldReader())[0].custom
CustomInput(syntax='text', definition='')
"""

from collections.abc import Collection
from typing import Any, Literal

from gateway.errors import InvalidField
from gateway.http.json_body import read_inner_json
from gateway.wire.field_reader import FieldReader
from toolspecs.custom_shapes import CustomTool, NestedCustomTool, is_custom, tool_of
from toolspecs.errors import TooManyValues
from toolspecs.nearest import MAX_NAME, instead, shorten
from toolspecs.shapes import EXTRAS, SHAPES
from toolspecs.tool import ChoiceMode, Tool, ToolChoice
from toolspecs.tool_parser import parse_tools

_TOOL_FIELDS = frozenset(
    {
        "type",
        "function",
        "name",
        "description",
        "callgate",
        *EXTRAS,
        *(row.schema_field for row in SHAPES.values()),
    }
) - {"cache_control"}
"""Fields of tools in the shape of any API, without the hint that clients put at any place."""


def read_inline_tools(documents: list[Any], reader: FieldReader) -> tuple[Tool, ...]:
    """The tools of a request, in the shape of any API; raises InvalidTools, LimitExceeded."""
    return parse_tools([_own_fields(document, reader) for document in documents])


def _own_fields(tool: Any, reader: FieldReader) -> Any:
    """A tool without the fields that other servers' clients add to it."""
    if not isinstance(tool, dict):
        return tool
    own_fields = {
        name: value
        for name, value in tool.items()
        if name in _TOOL_FIELDS or not reader.ignore_unknown(name, value, _TOOL_FIELDS, f"tools[].{name}")
    }
    if isinstance(inner := own_fields.get("function"), dict):
        own_fields["function"] = _own_fields(inner, reader)
    return own_fields


def check_types(documents: list[Any], known: tuple[str, ...], reason: str) -> None:
    """Raise InvalidField if a tool has a type that is not `known`. A server would have to run such a tool."""
    for number, document in enumerate(documents):
        kind = document.get("type") if isinstance(document, dict) else None
        if kind is not None and kind not in known:
            shown = shorten(repr(kind), MAX_NAME)
            raise InvalidField(f"tools[{number}].type", f"{shown} is not supported: {reason}")


def read_openai_tools(documents: list[Any], reader: FieldReader) -> tuple[Tool, ...]:
    """Tools in the shape of any API, custom tools among them.

    Raises:
        InvalidField, InvalidTools: a tool is of another type, or not well-formed.
        LimitExceeded: there are too many.
    """
    reason = "only functions and custom tools are called, and it is the client that runs them"
    check_types(documents, ("custom", "function"), reason)
    custom = {
        i: _custom_tool(document, i, reader) for i, document in enumerate(documents) if is_custom(document)
    }
    plain = [_as_function(custom[i]) if i in custom else document for i, document in enumerate(documents)]
    return tuple(custom.get(i, tool) for i, tool in enumerate(read_inline_tools(plain, reader)))


def _custom_tool(document: dict[str, Any], index: int, reader: FieldReader) -> Tool:
    try:
        if "custom" in document:
            return tool_of(reader.convert(document, NestedCustomTool))
        return tool_of(reader.convert(document, CustomTool))
    except InvalidField as error:
        path = f"tools[{index}]" + (f".{error.param}" if error.param else "")
        raise InvalidField(path, error.reason) from error


def _as_function(tool: Tool) -> dict[str, Any]:
    """A custom tool as a function, so that its name and description are checked like any other tool's."""
    return {"type": "function", "name": tool.name, "description": tool.description}


def choice_of_mode(mode: Literal["none", "auto", "required", "any"] | None) -> ToolChoice | None:
    """The choice among all tools; `any` is Anthropic's word for `required`, and None the API's default."""
    if mode is None:
        return None
    return ToolChoice(ChoiceMode.REQUIRED if mode == "any" else ChoiceMode(mode))


def allowed_choice(mode: str, names: Collection[str], param: str) -> ToolChoice:
    """The choice among some functions, which the request lists at `param`; raises InvalidField."""
    if not names:
        raise InvalidField(param, "the list is empty; use `none` for no tool at all")
    return ToolChoice(ChoiceMode(mode), tuple(dict.fromkeys(names)))


def check_result(call_id: str, called: Collection[str], param: str) -> None:
    """Raise InvalidField unless an earlier call has this id: a result must belong to a call."""
    if call_id not in called:
        reason = f"no call before it has the id {shorten(call_id, MAX_NAME)!r}{instead(call_id, called)}"
        raise InvalidField(param, f"{reason}; send the assistant's message with its calls first")


def check_arguments(arguments: str, param: str) -> None:
    """Raise InvalidField unless the arguments of a call are JSON or empty, which templates read as none."""
    try:
        read_inner_json(arguments or "{}")
    except TooManyValues as error:
        raise InvalidField(param, f"the arguments of a call cannot be read: {error}") from error
    except ValueError as error:
        raise InvalidField(
            param, f"the arguments of a call must be a JSON text; this is not one: {error}"
        ) from error
