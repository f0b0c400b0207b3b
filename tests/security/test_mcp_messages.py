"""Messages to the MCP front: the SDK reads and writes them on the event loop, so what they hold is bounded."""

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from compiler.argument_faults import argument_faults
from gateway.routes.mcp_routes import MAX_VALUES
from gateway.toolsets.mcp_front import PAGE_VALUES, ToolsetFront
from toolspecs.tool import Tool

HEADERS = {"Accept": "application/json, text/event-stream"}


@pytest.fixture
async def client(client):
    client.headers.update(HEADERS)
    return client


def message(method, **params):
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


async def put(client, **tools):
    listed = [{"name": name, "inputSchema": schema} for name, schema in tools.items()]
    answer = await client.put("/v1/toolsets/x", json={"tools": listed})
    assert answer.is_success, answer.text


async def test_a_message_of_very_many_values_is_refused_before_the_sdk_reads_it(client):
    await put(client, a={"type": "object"})
    for number, status in ((MAX_VALUES - 100, 200), (MAX_VALUES, 400)):
        answer = await client.post("/mcp/x", json=message("ping", _meta={"x": [0] * number}))
        assert answer.status_code == status
    assert f"more than {MAX_VALUES} values" in answer.json()["error"]["message"]


async def test_a_tool_of_very_many_values_is_listed_without_its_schema(client):
    small, large = ({"type": "object", "default": [[]] * number} for number in (9, PAGE_VALUES))
    await put(client, first=small, second=large, third=small)
    tools, cursor = [], {}
    for _ in range(3):
        result = (await client.post("/mcp/x", json=message("tools/list", **cursor))).json()["result"]
        tools += result["tools"]
        cursor = {"cursor": result["nextCursor"]} if "nextCursor" in result else None
    assert cursor is None
    _, first, second, third = tools
    assert first["inputSchema"] == third["inputSchema"] == small
    assert second["inputSchema"] == {"type": "object"}
    assert f"{PAGE_VALUES + 6} JSON values" in second["description"]


async def test_an_error_that_nobody_foresaw_is_told_by_the_log_alone(client, monkeypatch, caplog):
    """The SDK sends its text to the client."""

    def fail(*_):
        raise RuntimeError("the file /etc/secret")

    await put(client, a={"type": "object"})
    monkeypatch.setattr(ToolsetFront, "list_tools", fail)
    answer = await client.post("/mcp/x", json=message("tools/list"))
    assert answer.json()["error"]["message"] == "the gateway failed; its log says why"
    assert "secret" not in answer.text
    assert "/etc/secret" in caplog.text


async def test_no_span_is_made_of_what_a_message_says(client, monkeypatch):
    """The SDK makes spans of methods, ids and trace contexts that clients choose."""
    tracing, made = TracerProvider(), InMemorySpanExporter()
    tracing.add_span_processor(SimpleSpanProcessor(made))
    monkeypatch.setattr("mcp.shared._otel._tracer", tracing.get_tracer("mcp"))
    await put(client, a={"type": "object"})
    assert (await client.post("/mcp/x", json=message("tools/list"))).is_success
    assert made.get_finished_spans() == ()


def test_pointers_of_faults_are_short():
    """Whole, those of 50 faults under a key of a megabyte would be 50 MB."""
    numbers = {"type": "object", "additionalProperties": {"type": "integer"}}
    tool = Tool("a", "", {"type": "object", "additionalProperties": numbers})
    short, long = "k" * 900, "k" * 100_000
    faults = argument_faults(tool, {key: {"n": "", "m" * 200: ""} for key in (short, long)})
    assert {fault.pointer for fault in faults} == {f"/{short}/n", f"/{short}", ""}
