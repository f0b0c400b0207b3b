"""What `docs/frameworks.md` shows is what was run."""

import ast
import re
from textwrap import indent

import httpx
import mcp
from fake_runtime import FakeRuntime
from mcp.server import MCPServer
from serving import served

from clients.client_table import CLIENTS, SNIPPET
from clients.environments import SCRIPTS
from clients.recording import load
from clients.snippets import PAGE, blocks, snippets
from gateway.app import create_app
from gateway.settings import Settings

REGISTERING = "Registered toolsets"


def test_every_snippet_was_run_as_it_stands_there():
    """Whoever edits a snippet runs `make test-clients CLIENTS=…` for its client."""
    by_heading = {client.snippet: client for client in CLIENTS if client.snippet}
    assert by_heading.keys() == snippets().keys() - {REGISTERING}
    for heading, client in by_heading.items():
        told = {"step": SNIPPET, "why": "", "program": snippets()[heading].digest}
        assert load(client)["steps"][-1] == told, heading


def test_a_snippet_for_a_gateway_names_it_once():
    for heading in snippets().keys() - {REGISTERING}:
        assert snippets()[heading].for_gateway("http://a.example").count("http://a.example/v1") == 1


def test_the_models_of_other_clients_are_made_as_their_scripts_make_them():
    section = PAGE.read_text("utf-8").partition("\n## Others\n")[2].partition("\n## ")[0]
    shown = re.findall(r"^\| [\w ]+ \| `([^`]+)`", section, re.MULTILINE)
    assert len(shown) == 5
    made = [
        node
        for script in SCRIPTS.glob("*.py")
        for node in ast.walk(ast.parse(script.read_text("utf-8")))
        if isinstance(node, ast.Call)
    ]
    for expression in shown:
        assert any(is_begun_by(ast.parse(expression, mode="eval").body, call) for call in made), expression


def is_begun_by(shown, call):
    """Whether a call is the one shown, with more options perhaps."""
    names = [ast.unparse(each.func).rpartition(".")[2] for each in (shown, call)]
    options = [{keyword.arg for keyword in each.keywords} for each in (shown, call)]
    arguments = [[*map(ast.unparse, each.args)] for each in (shown, call)]
    return names[0] == names[1] and arguments[0] == arguments[1] and options[0] <= options[1]


async def test_the_tools_of_an_mcp_server_are_registered_as_it_lists_them(tmp_path):
    server = MCPServer("clock")

    @server.tool()
    def now(zone: str) -> str:
        """The time in a zone."""
        return zone

    [program] = [text for heading, (_, text) in blocks() if heading == REGISTERING]
    names = {"mcp": mcp, "httpx": httpx, "server": server}
    exec(f"async def register(URL):\n{indent(program, '    ')}", names)
    app = create_app(Settings(data_dir=str(tmp_path), compile_workers=0), runtime=FakeRuntime())
    with served(app) as client:
        await names["register"](f"{client.base_url}/v1")
        [tool] = client.get("/v1/toolsets/clock").json()["tools"]
    assert (tool["function"]["name"], tool["function"]["description"]) == ("now", "The time in a zone.")
