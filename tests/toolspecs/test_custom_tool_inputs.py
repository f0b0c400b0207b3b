"""Custom tools, whose input is a text: in the shapes that have them, and in those of other tools."""

import pytest

from toolspecs import InvalidTools, Limits, Shape, check_tool, detect_shape, parse_tools, write_tool
from toolspecs.tool import CustomInput, custom_tool
from toolspecs.tool_parser import read_tool


def read(document):
    return read_tool(document, limits=Limits()).tool


SQL = custom_tool("sql", "Runs SQL.", CustomInput("lark", 'start: "SELECT"'))


@pytest.mark.parametrize(
    ("shape", "document"),
    [
        (
            Shape.OPENAI,
            {
                "type": "custom",
                "custom": {
                    "name": "sql",
                    "description": "Runs SQL.",
                    "format": {
                        "type": "grammar",
                        "grammar": {"syntax": "lark", "definition": 'start: "SELECT"'},
                    },
                },
            },
        ),
        (
            Shape.OPENAI_RESPONSES,
            {
                "type": "custom",
                "name": "sql",
                "description": "Runs SQL.",
                "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "SELECT"'},
            },
        ),
        (
            Shape.MCP,
            {
                "name": "sql",
                "description": "Runs SQL.",
                "inputSchema": SQL.parameters,
                "callgate": {"input": {"syntax": "lark", "definition": 'start: "SELECT"'}},
            },
        ),
    ],
)
def test_a_custom_tool_is_read_and_written(shape, document):
    assert write_tool(SQL, shape) == document
    assert detect_shape(document) is shape
    assert read(document) == SQL


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("custom", [CustomInput(), CustomInput("regex", ""), CustomInput("regex", "a+")])
def test_custom_tools_survive_every_shape(shape, custom):
    tool = custom_tool("t", "", custom)
    assert read(write_tool(tool, shape)) == tool
    assert check_tool(tool) == []


FORMAT = {"type": "grammar", "syntax": "regex", "definition": "a"}


@pytest.mark.parametrize(
    ("document", "pointer", "said"),
    [
        ({"type": "custom", "format": FORMAT}, "/tools/0", "missing required field `name`"),
        ({"type": "custom", "name": "a b", "format": FORMAT}, "/tools/0/name", "is not a tool name"),
        ({"type": "custom", "custom": {"name": "a/../b"}}, "/tools/0/custom/name", "is not a tool name"),
        ({"type": "custom", "name": "a", "formt": FORMAT}, "/tools/0", "did you mean 'format'?"),
        ({"type": "custom", "name": "a", "x - at `$.y": FORMAT}, "/tools/0", "unknown field `x - at `$.y`"),
        ({"type": "custom", "name": "a", "format": FORMAT | {"syntax": "ebnf"}}, "/tools/0/format/syntax", "Invalid enum value 'ebnf'"),
        ({"type": "custom", "custom": {"name": "a", "format": FORMAT}}, "/tools/0/custom/format", "unknown field `syntax`"),
        ({"name": "a", "callgate": {"input": {"syntax": "yacc"}}}, "/tools/0/callgate/input/syntax", "Invalid enum value 'yacc'"),
        ({"name": "a", "callgate": {"input": "lark"}}, "/tools/0/callgate/input", "Expected `object`"),
        ({"name": "a", "inputSchema": {"type": "object"}, "callgate": {"input": {"syntax": "text"}}}, "/tools/0/inputSchema", "made from its input"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_wrong_with_a_custom_tool(document, pointer, said):
    with pytest.raises(InvalidTools) as caught:
        parse_tools([document])
    [fault] = caught.value.faults
    assert fault.pointer == pointer
    assert said in str(fault)
