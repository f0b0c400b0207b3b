"""`callgate tools import` of Python functions, and of a real MCP server on loopback."""

import json
import sys

import pytest
from corpus import corpus
from mcp.server import MCPServer
from mcp.server.lowlevel import Server
from mcp_types import ListToolsResult, Tool
from serving import served
from typer.testing import CliRunner

from compiler import compile_schema
from gateway.cli import cli
from toolspecs.imports.mcp_listing import import_listing

SOURCE = '''
from typing import Annotated, Literal
from pydantic import BaseModel, Field

class Address(BaseModel):
    """Where a parcel goes."""
    city: str
    zip: Annotated[str, Field(pattern=r"^[0-9]{5}$")]

async def ship(order: int, to: Address, speed: Literal["slow", "fast"] = "slow"):
    """Ship an order.

    The parcel leaves today.

    Args:
        order: Number of the order.
        to: Where it goes.
    """

class Desk:
    @staticmethod
    def call(number: Annotated[str, Field(max_length=5, description="Whom.")]):
        """Call somebody."""

def anything(*args): ...
def strange(x: type(ship)): ...
VALUE = 3
'''


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    (tmp_path / "shop_functions.py").write_text(SOURCE)

    def invoke(*arguments):
        return CliRunner().invoke(
            cli, ["tools", "import", *arguments], env={"COLUMNS": "200", "NO_COLOR": "1"}
        )

    yield invoke
    sys.modules.pop("shop_functions", None)


def printed(result):
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_functions_and_models_become_tools(run):
    toolset = printed(
        run("shop_functions:ship", "shop_functions:Desk.call", "shop_functions:Address", "--print")
    )
    assert toolset["name"] == "shop_functions"
    ship, call, address = toolset["tools"]
    assert [tool["name"] for tool in toolset["tools"]] == ["ship", "call", "Address"]
    assert ship["description"] == "Ship an order.\n\nThe parcel leaves today."
    properties = ship["inputSchema"]["properties"]
    assert properties["order"] == {"type": "integer", "description": "Number of the order."}
    assert properties["to"]["description"] == "Where it goes."
    assert call["inputSchema"]["properties"]["number"]["description"] == "Whom."
    assert address["description"] == "Where a parcel goes."
    assert ship["_meta"]["callgate/source"] == {"object": "ship", "from": "python shop_functions"}
    compiled = compile_schema(ship["inputSchema"])
    assert compiled.accepts('{"order":1,"to":{"city":"Ulm","zip":"12345"}}')
    assert not compiled.accepts('{"order":1,"to":{"city":"Ulm","zip":"1234"}}')
    assert not compiled.accepts('{"order":1,"to":{"city":"Ulm","zip":"12345"},"speed":"none"}')


@pytest.mark.parametrize("name", ["anything", "strange", "VALUE"])
def test_what_cannot_be_a_tool_is_told(run, name):
    result = run(f"shop_functions:{name}", "shop_functions:ship", "--print")
    assert result.exit_code == 1
    assert f"tool '{name}'" in result.stderr
    toolset = printed(run(f"shop_functions:{name}", "shop_functions:ship", "--print", "--skip-refused"))
    assert [tool["name"] for tool in toolset["tools"]] == ["ship"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("shop_functions",), "module:name"),
        (("no_such_module:f",), "ModuleNotFoundError"),
        (("shop_functions:nothing",), "AttributeError"),
        (("shop_functions:ship", "--mcp", "http://x"), "name one source"),
        (("shop_functions:ship", "--tag", "x"), "are for --openapi"),
    ],
)
def test_what_is_no_source_is_told(run, arguments, message):
    result = run(*arguments)
    assert result.exit_code == 1
    assert message in result.stderr


def test_the_tools_of_a_server_are_imported_with_all_their_fields(run):
    server = MCPServer("Weather Desk")

    @server.tool(title="Forecast", annotations={"readOnlyHint": True})
    def forecast(city: str, days: int = 1) -> dict[str, float]:
        """Tells the weather."""
        return {}

    with served(server.streamable_http_app(host="127.0.0.1")) as client:
        toolset = printed(run("--mcp", f"{client.base_url}/mcp", "--print"))
    assert toolset["name"] == "weather-desk"
    [tool] = toolset["tools"]
    assert (tool["name"], tool["title"], tool["description"]) == (
        "forecast",
        "Forecast",
        "Tells the weather.",
    )
    assert tool["annotations"]["readOnlyHint"] is True
    assert tool["outputSchema"]["type"] == "object"
    assert tool["_meta"]["callgate/source"] == {"from": "mcp Weather Desk"}


def test_every_page_is_read_and_the_token_is_sent(run, monkeypatch):
    seen = set()

    async def list_tools(context, params):
        page = int(params.cursor or 0) if params else 0
        seen.add(context.request.headers.get("authorization"))
        forged = {"callgate/source": {"from": "python shop"}}
        tools = [Tool(name=f"tool_{page}", input_schema={"type": "object"}, _meta=forged)]
        return ListToolsResult(tools=tools, next_cursor=str(page + 1) if page < 2 else None)

    monkeypatch.setenv("CALLGATE_SOURCE_TOKEN", "secret")
    server = Server("pages", on_list_tools=list_tools)
    with served(server.streamable_http_app(host="127.0.0.1")) as client:
        toolset = printed(run("--mcp", f"{client.base_url}/mcp", "--print"))
    assert [tool["name"] for tool in toolset["tools"]] == ["tool_0", "tool_1", "tool_2"]
    assert {tool["_meta"]["callgate/source"]["from"] for tool in toolset["tools"]} == {"mcp pages"}
    assert seen == {"Bearer secret"}


def test_every_real_listing_is_imported_whole():
    files = sorted(set(corpus("mcp").glob("*.json")) - {corpus("mcp", "SOURCES.json")})
    listings = [json.loads(file.read_text()) for file in files]
    imported = [import_listing("server", listing) for listing in listings]
    assert not [fault for each in imported for fault in each.faults]
    assert [len(each.tools) for each in imported] == [len(listing) for listing in listings]


@pytest.mark.parametrize(
    ("module", "arguments", "extra"),
    [("mcp", ("--mcp", "http://x/mcp"), "mcp"), ("docstring_parser", ("shop_functions:ship",), "functions")],
)
def test_a_missing_extra_is_named(run, monkeypatch, module, arguments, extra):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "toolspecs.imports.functions", raising=False)
    result = run(*arguments)
    assert result.exit_code == 1
    assert f"pip install 'callgate[{extra}]'" in result.stderr


def test_a_server_that_does_not_answer_is_told(run):
    result = run("--mcp", "http://127.0.0.1:1/mcp")
    assert result.exit_code == 1
    assert result.stderr.startswith("http://127.0.0.1:1/mcp: ")
