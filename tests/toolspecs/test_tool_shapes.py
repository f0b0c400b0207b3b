"""Tools in the shapes of every API: in, out, and refused with every fault named."""

import copy
import json
from dataclasses import replace

import pytest
from corpus import corpus, json_lines
from hypothesis import given
from hypothesis import strategies as st

from toolspecs import (
    InvalidTools,
    LimitExceeded,
    Limits,
    Shape,
    Tool,
    check_tool,
    detect_shape,
    parse_tools,
    write_tool,
)
from toolspecs.tool_parser import read_tool

SCHEMA = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "at": {"type": "integer"}},
    "required": ["to"],
}

BY_SHAPE = {
    Shape.OPENAI: {
        "type": "function",
        "function": {"name": "send", "description": "Sends.", "parameters": SCHEMA},
    },
    Shape.OPENAI_RESPONSES: {
        "type": "function",
        "name": "send",
        "description": "Sends.",
        "parameters": SCHEMA,
    },
    Shape.ANTHROPIC: {"name": "send", "description": "Sends.", "input_schema": SCHEMA},
    Shape.MCP: {"name": "send", "description": "Sends.", "inputSchema": SCHEMA},
    Shape.FUNCTION: {"name": "send", "description": "Sends.", "parameters": SCHEMA},
}

SEND = Tool("send", "Sends.", SCHEMA)


def one_tool(document):
    return read_tool(document, limits=Limits()).tool


def faults(documents, **options):
    """The faults of a list of tools as rows: tool, pointer, keyword."""
    with pytest.raises(InvalidTools) as caught:
        parse_tools(documents, **options)
    for fault in caught.value.faults:
        assert fault.message
        assert str(fault) in str(caught.value)
    return [(fault.tool, fault.pointer, fault.keyword) for fault in caught.value.faults]


@pytest.mark.parametrize(("shape", "document"), BY_SHAPE.items())
def test_every_shape_is_read_and_written(shape, document):
    before = copy.deepcopy(document)
    assert detect_shape(document) is shape
    assert one_tool(document) == SEND
    assert write_tool(SEND, shape) == document
    assert document == before


def test_shapes_mix_in_one_list():
    documents = copy.deepcopy(list(BY_SHAPE.values()))
    for index, document in enumerate(documents):
        document.get("function", document)["name"] = f"send_{index}"
    assert [tool.name for tool in parse_tools(documents)] == [f"send_{index}" for index in range(5)]


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("missing", [{}, None])
def test_what_may_be_missing(shape, missing):
    """No description, no parameters: left out or null."""
    document = write_tool(Tool("now", "", {}), shape)
    fields = document.get("function", document)
    for field in [field for field in fields if field not in {"name", "type"}]:
        if missing is None:
            fields[field] = None
        else:
            del fields[field]
    assert one_tool(document) == Tool("now", "", {"type": "object", "properties": {}})


@pytest.mark.parametrize("schema", [{}, {"properties": {}}, {"type": ["object", "null"]}, {"anyOf": [{}]}])
def test_parameters_that_admit_objects(schema):
    assert one_tool({"name": "a", "parameters": schema}).parameters == schema


@pytest.mark.parametrize(
    ("document", "shapes"),
    [
        (
            {
                "name": "a",
                "title": "A",
                "inputSchema": {},
                "annotations": {"readOnlyHint": True},
                "outputSchema": {"type": "object"},
                "icons": [],
                "execution": {"taskSupport": "optional"},
                "_meta": {"x/y": 1},
            },
            {Shape.MCP},
        ),
        (
            {"type": "custom", "name": "a", "input_schema": {}, "cache_control": {"type": "ephemeral"}},
            {Shape.ANTHROPIC},
        ),
        ({"type": "function", "function": {"name": "a", "strict": True}}, set(Shape) - {Shape.MCP}),
        ({"type": "function", "name": "a", "strict": False}, set(Shape) - {Shape.MCP}),
    ],
)
def test_informational_fields_are_kept_and_given_back_to_their_shape(document, shapes):
    tool = one_tool(document)
    given_fields = document.get("function", document)
    kept = {field for field in given_fields if field not in {"name", "type", "inputSchema", "input_schema"}}
    assert set(tool.extras) == kept
    for shape in Shape:
        written = write_tool(tool, shape)
        fields = set(written.get("function", written))
        assert fields & kept == (kept if shape in shapes else set())
        assert one_tool(written).parameters == tool.parameters
    assert tool.digest != Tool(tool.name, tool.description, tool.parameters).digest


@pytest.mark.parametrize("shape", Shape)
def test_the_order_of_keys_is_read_and_written_in_every_shape(shape):
    document = write_tool(replace(SEND, key_order="any"), shape)
    assert document.get("function", document)["callgate"] == {"key_order": "any"}
    tool = one_tool(document)
    assert tool.key_order == "any"
    assert tool.digest != SEND.digest
    for default in ({"key_order": "declared"}, {"key_order": None}, {}, None):
        document.get("function", document)["callgate"] = default
        assert one_tool(document) == SEND


def test_a_null_informational_field_counts_as_left_out():
    assert one_tool({"name": "a", "inputSchema": {}, "annotations": None, "title": None}).extras == {}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (5, [(0, "/tools/0", "")]),
        (None, [(0, "/tools/0", "")]),
        ([], [(0, "/tools/0", "")]),
        ({}, [(0, "/tools/0", "name")]),
        ({"name": 5}, [(0, "/tools/0/name", "name")]),
        ({"name": ""}, [("", "/tools/0/name", "name")]),
        ({"name": "a b"}, [("a b", "/tools/0/name", "name")]),
        ({"name": "a\n"}, [("a\n", "/tools/0/name", "name")]),
        ({"name": "x" * 129}, [("x" * 129, "/tools/0/name", "name")]),
        ({"name": "a", "description": 5}, [("a", "/tools/0/description", "description")]),
        ({"name": "a", "description": "x" * 40_000}, [("a", "/tools/0/description", "description")]),
        ({"name": "a", "parameters": True}, [("a", "/tools/0/parameters", "parameters")]),
        ({"name": "a", "parameters": []}, [("a", "/tools/0/parameters", "parameters")]),
        ({"name": "a", "inputSchema": "{}"}, [("a", "/tools/0/inputSchema", "inputSchema")]),
        ({"name": "a", "parameters": {"type": "string"}}, [("a", "/tools/0/parameters/type", "type")]),
        (
            {"name": "a", "input_schema": {"type": ["array", "null"]}},
            [("a", "/tools/0/input_schema/type", "type")],
        ),
        ({"name": "a", "params": {}}, [("a", "/tools/0/params", "params")]),
        ({"name": "a", "a/b~c": 1}, [("a", "/tools/0/a~1b~0c", "a/b~c")]),
        ({"name": "a", "inputSchema": {}, "parameters": {}}, [("a", "/tools/0/parameters", "parameters")]),
        ({"name": "a", "inputSchema": {}, "title": 5}, [("a", "/tools/0/title", "title")]),
        ({"name": "a", "inputSchema": {}, "strict": True}, [("a", "/tools/0/strict", "strict")]),
        ({"name": "a", "parameters": {}, "strict": "yes"}, [("a", "/tools/0/strict", "strict")]),
        ({"name": "a", "parameters": {}, "callgate": "any"}, [("a", "/tools/0/callgate", "callgate")]),
        (
            {"name": "a", "parameters": {}, "callgate": {"key_order": "some", "order": "any"}},
            [("a", "/tools/0/callgate/key_order", "key_order"), ("a", "/tools/0/callgate/order", "order")],
        ),
        (
            {"type": "function", "function": {"name": "a", "callgate": {"key_order": ["any"]}}},
            [("a", "/tools/0/function/callgate/key_order", "key_order")],
        ),
        ({"type": "web_search_20250305", "name": "a"}, [("a", "/tools/0/type", "type")]),
        ({"type": "web_search", "search_context_size": "low"}, [(0, "/tools/0/type", "type")]),
        ({"type": 5, "name": "a"}, [("a", "/tools/0/type", "type")]),
        ({"type": "function"}, [(0, "/tools/0", "function")]),
        ({"function": {"name": "a"}}, [("a", "/tools/0", "type")]),
        ({"type": "function", "function": None}, [(0, "/tools/0", "function")]),
        (
            {"type": "function", "function": {"name": "a", "x": 1}, "strict": True},
            [("a", "/tools/0/strict", "strict"), ("a", "/tools/0/function/x", "x")],
        ),
        ({"name": "a", "parameters": {"const": float("nan")}}, [("a", "/tools/0/parameters/const", "const")]),
        ({"name": "a", "description": "\ud800"}, [("a", "/tools/0/description", "description")]),
        ({"name": "a", "parameters": {"const": (1,)}}, [("a", "/tools/0/parameters/const", "const")]),
        ({"name": "a", "parameters": {1: 2}}, [("a", "/tools/0/parameters", "")]),
    ],
)
def test_a_fault_is_named_with_its_place(document, expected):
    assert faults([document]) == expected


@pytest.mark.parametrize(
    "name", [".", "..", "/a", "a/", "a//b", "a/../b", "./a", "a/.", "a\n", "..\n", "a/.\n"]
)
def test_a_name_that_a_path_would_not_keep_is_refused(name):
    """A tool has a URL of its own, which ends with its name."""
    [fault] = faults([{"name": name, "parameters": {}}])
    assert fault[2] == "name"


@pytest.mark.parametrize("name", ["a/b", "a..b", ".a", "...", "math.factorial", "ns:a/b.c"])
def test_names_with_dots_and_slashes_are_names(name):
    [tool] = parse_tools([{"name": name, "parameters": {}}])
    assert tool.name == name


def test_every_fault_of_every_tool_is_told_at_once():
    documents = [
        {"name": "fine", "parameters": {}},
        {"name": "a b", "inputSchema": {"properties": {"x": {"type": "dict"}, "y": 5}}, "extra": 1},
        7,
        {"name": "fine", "input_schema": {}},
        {"name": "dup", "inputSchema": {}},
        {"name": "dup", "inputSchema": {"type": "array"}},
    ]
    assert faults(documents) == [
        ("a b", "/tools/1/extra", "extra"),
        ("a b", "/tools/1/name", "name"),
        ("a b", "/tools/1/inputSchema/properties/x/type", "type"),
        ("a b", "/tools/1/inputSchema/properties/y", "properties"),
        (2, "/tools/2", ""),
        ("dup", "/tools/5/inputSchema/type", "type"),
        ("fine", "/tools/3", "name"),
        ("dup", "/tools/5", "name"),
    ]


@pytest.mark.parametrize("documents", [None, {}, "tools", 5])
def test_tools_are_a_list(documents):
    assert faults(documents) == [(None, "/tools", "")]


def test_the_number_of_tools_and_of_faults_is_bounded():
    with pytest.raises(LimitExceeded, match="at most 2 tools"):
        parse_tools([{"name": f"a{index}"} for index in range(3)], limits=Limits(num_tools=2))
    many = {"name": "a", **{f"x{index}": 1 for index in range(1000)}}
    assert len(faults([many], limits=Limits(num_faults_per_tool=7))) == 7


@pytest.mark.parametrize(
    ("written", "meant"), [("input_shema", "input_schema"), ("paramters", "parameters"), ("titel", "title")]
)
def test_a_misspelt_field_gets_the_right_one_suggested(written, meant):
    with pytest.raises(InvalidTools) as caught:
        one_tool({"name": "a", written: {}})
    assert f"'{meant}'" in caught.value.faults[0].suggestion


def test_a_tool_made_in_code_is_checked_alike():
    assert check_tool(Tool("send", "", SCHEMA, {"title": "Send", "strict": True})) == []
    bad = Tool("send", "", {"type": "strng"}, {"title": 5, "colour": "red"})
    assert [fault.pointer for fault in check_tool(bad)] == ["/colour", "/title", "/parameters/type"]


def real_servers():
    for path in sorted(corpus("mcp").glob("*.json")):
        if path.name != "SOURCES.json":
            yield json.loads(path.read_text())


def test_real_mcp_tools_are_read_and_survive_every_shape():
    """All 473: one has no $schema and a keyword of draft-04, in which it is read."""
    num_read = 0
    for documents in real_servers():
        for document in documents:
            tool = one_tool(document)
            num_read += 1
            assert write_tool(tool, Shape.MCP) == document
            for shape in Shape:
                again = one_tool(json.loads(json.dumps(write_tool(tool, shape))))
                assert again.digest == tool.digest, "the order of keys is kept too"
    assert num_read == 473


def test_real_bfcl_names_are_names():
    names = set()
    for path in sorted(corpus("bfcl").glob("*.jsonl.gz")):
        for item in json_lines(path):
            names |= {function["name"] for function in item["function"]}
    assert len(names) > 1000
    for name in names:
        one_tool({"name": name})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
FIELDS = st.sampled_from(
    [
        "type",
        "function",
        "name",
        "description",
        "parameters",
        "input_schema",
        "inputSchema",
        "strict",
        "title",
        "custom",
        "format",
        "callgate",
    ]
)
REGEX = {"type": "grammar", "syntax": "regex", "definition": "a"}
VALUES = st.sampled_from(["function", "custom", "a", REGEX, {"type": "text"}, {"input": {"syntax": "text"}}])


@given(st.lists(st.dictionaries(FIELDS, JSON | VALUES) | JSON, max_size=4))
def test_anything_is_either_read_or_refused(documents):
    try:
        tools = parse_tools(documents)
    except InvalidTools as error:
        pointers = [fault.pointer for fault in error.faults]
    else:
        pointers = None
    if pointers is not None:
        assert pointers
        assert all(pointer.startswith("/tools/") for pointer in pointers)
        return
    assert len(tools) == len(documents)
    for tool in tools:
        assert check_tool(tool) == []
        for shape in Shape:
            again = one_tool(write_tool(tool, shape))
            assert (again.parameters, again.custom) == (tool.parameters, tool.custom)
