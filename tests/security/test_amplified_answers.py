"""A short request has no answer of gigabytes, and what nobody reads does not fill the memory."""

from contextlib import ExitStack

import pytest
from fake_runtime import FakeRuntime
from serving import connection_to, served, server_of, wait_for

from compiler.frontend.keywords import MAX_POINTER, short_pointer
from compiler.prepared_vocabulary import prepare
from compiler.report import EnforcementReport, ReportEntry, ToolReport, Verdict
from compiler.syntaxes import find_syntax
from compiler.toolset_compiler import lower_tool
from compiler.vocabulary import Vocabulary
from gateway import connections
from gateway.app import create_app
from gateway.routes import toolset_json
from gateway.toolsets import tool_imports
from toolspecs.tool import Tool

VOCABULARY = prepare(Vocabulary.of_bytes())


def long_names(num_keywords, length=5_000, depth=3):
    """A schema with so many keywords under long names: each has a pointer of its own in the report."""
    schema = {"type": "string", **{f"x-{i}": 0 for i in range(num_keywords)}}
    for level in range(depth):
        schema = {"type": "object", "properties": {f"{'k' * length}{level}": schema}}
    return schema


def test_a_report_is_not_much_longer_than_its_schema():
    lowered = lower_tool(Tool("t", "", long_names(500)), find_syntax("hermes"), VOCABULARY.vocabulary)
    assert len(lowered.report.entries) > 500
    assert max(len(entry.pointer) for entry in lowered.report) <= MAX_POINTER
    assert lowered.report.num_characters < 500_000


@pytest.mark.parametrize("length", range(MAX_POINTER - 20, MAX_POINTER + 20))
def test_a_long_pointer_is_that_of_what_is_around_it(length):
    pointer = "/properties/" + "k" * (length - 20) + "/items/a"
    shown = short_pointer(pointer)
    assert pointer == shown or pointer[len(shown)] == "/"
    assert len(shown) <= MAX_POINTER


LONG = "k" * 30_000


@pytest.mark.parametrize(
    "parameters",
    [
        {"properties": {"a": {"type": "string", "pattern": f"({LONG})*"}}},
        {"properties": {LONG: {"type": "string", "pattern": "(?<!a)b"}}},
        {"properties": {"a": {"$ref": f"#/{LONG}"}}},
    ],
)
async def test_a_refusal_does_not_repeat_a_long_text_of_its_schema(client, parameters):
    tools = {"tools": [{"name": "t", "inputSchema": {"type": "object", **parameters}}]}
    refused = await client.post("/v1/toolsets/x/check", json=tools)
    assert refused.status_code == 422
    assert len(refused.content) < 6_000


def report_of(name, num_entries):
    entries = tuple(ReportEntry("/a", "x", Verdict.ANNOTATION, "ignored") for _ in range(num_entries))
    return ToolReport(name, "digest", EnforcementReport(entries), 1, 1.0)


def test_the_entries_of_one_answer_are_bounded(monkeypatch):
    reports = [report_of(f"t{i}", 100) for i in range(5)]
    monkeypatch.setattr(toolset_json, "MAX_REPORT", 2 * reports[0].report.num_characters)
    told = toolset_json.reports_json(reports)
    assert [each["name"] for each in told] == ["t0", "t1", "t2", "t3", "t4"]
    assert [each["entries"] is None for each in told] == [False, False, True, True, True]


async def test_the_warnings_of_one_answer_are_bounded(client, monkeypatch):
    monkeypatch.setattr(toolset_json, "MAX_WARNINGS", 7)
    parameters = {"type": "object", **{f"unheard{i}": 0 for i in range(20)}}
    tools = {"tools": [{"name": "t", "inputSchema": parameters}]}
    answer = await client.put("/v1/toolsets/many", json=tools)
    assert len(answer.json()["warnings"]) == 7


async def test_sources_do_not_repeat_a_large_tool_without_end(client, monkeypatch):
    """Each source that offers another tool of its name is told beside the tool that is served."""
    monkeypatch.setattr(tool_imports, "MAX_DIFFERENCES", 50_000)
    large = {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": {"description": "d" * 9_000}}
    offered = {"name": "t", "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}}}
    await client.put("/v1/toolsets/desk", json={"tools": [large]})
    for number in range(6):
        listing = {"kind": "mcp", "location": f"s{number}", "tools": [offered]}
        answer = await client.post("/v1/toolsets/desk/import", json={"listing": listing})
        assert answer.status_code == 200, answer.text
    refused = await client.get("/v1/toolsets/desk/differences")
    one = await client.get("/v1/toolsets/desk/differences", params={"source": "mcp s3"})
    none = await client.get("/v1/toolsets/desk/differences", params={"source": "mcp s9"})
    assert (refused.status_code, refused.json()["field"]) == (400, "source")
    assert [each["source"] for each in one.json()["differences"]] == ["mcp s3"]
    assert none.json()["differences"] == []


def test_answers_that_nobody_reads_do_not_fill_the_memory(settings, monkeypatch):
    monkeypatch.setattr(connections, "MAX_UNREAD_BYTES", 40_000_000)
    server = server_of(create_app(settings, runtime=FakeRuntime()), settings)
    large = {"inputSchema": {"type": "object"}, "annotations": {"title": "d" * 900_000}}
    with served(server) as client, ExitStack() as opened:
        client.put("/v1/toolsets/l", json={"tools": []}).raise_for_status()
        for name in (f"t{i}" for i in range(12)):
            client.put(f"/v1/toolsets/l/tools/{name}", json={"name": name, **large}).raise_for_status()
        num_before = len(server.server_state.connections)
        for _ in range(16):
            connection = opened.enter_context(connection_to(client))
            connection.sendall(b"GET /v1/toolsets/l?shape=mcp HTTP/1.1\r\nHost: localhost\r\n\r\n")

        def num_unread():
            found = list(server.server_state.connections)
            return sum(each.transport.get_write_buffer_size() for each in found)

        wait_for(lambda: num_unread() > 10_000_000)
        wait_for(lambda: len(server.server_state.connections) < num_before + 16)
        assert num_unread() <= 40_000_000
        answer = client.get("/v1/toolsets/l", params={"shape": "mcp"})
        assert len(answer.json()["tools"]) == 12
