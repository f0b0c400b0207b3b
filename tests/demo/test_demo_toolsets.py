"""The toolsets that ship: enough of them, well-formed, and such that every one compiles."""

import jsonschema_rs
import pytest

from compiler import compile_schema
from gateway.demo.scenarios import TOOLSETS, parameters_by_tool, read_document

TOOLS = [
    (toolset, tool, parameters)
    for toolset in TOOLSETS
    for tool, parameters in parameters_by_tool(read_document(toolset)).items()
]


def test_there_are_at_least_24_tools_in_four_toolsets_and_no_name_twice():
    assert len(TOOLSETS) == 4
    names = [tool for _, tool, _ in TOOLS]
    assert len(names) == len(set(names)) >= 24


def test_both_shapes_are_shown():
    documents = [tool for name in TOOLSETS for tool in read_document(name)["tools"]]
    assert any("inputSchema" in tool for tool in documents)
    assert any(tool.get("type") == "function" for tool in documents)


@pytest.mark.parametrize(("toolset", "tool", "parameters"), TOOLS, ids=[tool for _, tool, _ in TOOLS])
def test_parameters_are_a_json_schema_of_an_object(toolset, tool, parameters):
    jsonschema_rs.meta.validate(parameters)
    assert parameters["type"] == "object"


@pytest.mark.parametrize(("toolset", "tool", "parameters"), TOOLS, ids=[tool for _, tool, _ in TOOLS])
def test_parameters_compile_to_a_grammar_that_upholds_them(toolset, tool, parameters):
    compiled = compile_schema(parameters)
    assert list(compiled.report)
    assert not compiled.accepts("null")
    assert not compiled.accepts('{"no such argument": 1}')
