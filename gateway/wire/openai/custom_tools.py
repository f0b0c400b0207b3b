"""OpenAI's custom tools: the model writes free text for them, or a text of a grammar.

A custom tool is a tool with one string, the argument `input`, so that every call syntax can write it. Its
grammar applies to the decoded string (see `gateway.generation.custom_inputs`). Chat Completions nests the
fields of a tool under `custom`, Responses does not; each API takes both.

>>> tool = {"type": "custom", "name": "run", "format": {"type": "text"}}
>>> read_tools([tool], FieldReader())[0].custom
CustomInput(syntax='text', definition='')
"""

from typing import Any

from gateway.errors import InvalidField
from gateway.wire.field_reader import FieldReader
from gateway.wire.tools_and_calls import read_inline_tools
from toolspecs.custom_shapes import CustomTool, NestedCustomTool, is_custom, tool_of
from toolspecs.tool import Tool


def read_tools(documents: list[Any], reader: FieldReader) -> tuple[Tool, ...]:
    """Tools in the shape of any API, custom tools among them.

    Raises:
        InvalidField, InvalidTools: a tool is not well-formed.
        LimitExceeded: there are too many.
    """
    custom = {i: _read(document, i, reader) for i, document in enumerate(documents) if is_custom(document)}
    plain = [_as_function(custom[i]) if i in custom else document for i, document in enumerate(documents)]
    return tuple(custom.get(i, tool) for i, tool in enumerate(read_inline_tools(plain, reader)))


def _as_function(tool: Tool) -> dict[str, Any]:
    """A custom tool as a function, so that its name and description are checked like any other tool's."""
    return {"type": "function", "name": tool.name, "description": tool.description}


def _read(document: dict[str, Any], index: int, reader: FieldReader) -> Tool:
    try:
        if "custom" in document:
            return tool_of(reader.convert(document, NestedCustomTool))
        return tool_of(reader.convert(document, CustomTool))
    except InvalidField as error:
        path = f"tools[{index}]" + (f".{error.param}" if error.param else "")
        raise InvalidField(path, error.reason) from error
