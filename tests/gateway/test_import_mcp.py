"""`callgate tools import` of a real MCP server on loopback."""

import asyncio
import json
from base64 import b64encode
from functools import partial
from itertools import count

import pytest
from corpus import corpus
from mcp.server import MCPServer
from mcp.server.lowlevel import Server
from mcp_types import ListToolsResult, Tool
from serving import served
from source_server import printed

from toolspecs.imports.imported import import_listing
from toolspecs.json_value import Limits


@pytest.fixture
def run(run):
    """Runs `callgate tools import`."""
    return partial(run, "tools", "import")


@pytest.fixture
def import_from(run):
    """Runs it with a server, and prints what it would register."""

    def imported(app, *options):
        with served(app) as client:
            return run("--mcp", f"{client.base_url}/mcp", "--print", *options)

    return imported


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
    assert tool["_meta"]["callgate/source"] == {"from": f"mcp {client.base_url}/mcp"}


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
    assert {tool["_meta"]["callgate/source"]["from"] for tool in toolset["tools"]} == {
        f"mcp {client.base_url}/mcp"
    }
    assert seen == {"Bearer secret"}


def test_a_tool_that_clients_must_refuse_is_named(run):
    """The SDK leaves it out, as if it were gone at its source."""

    def listed(name, kind):
        header = {"type": kind, "x-mcp-header": "A"}
        return Tool(name=name, input_schema={"type": "object", "properties": {"a": header}})

    async def list_tools(context, params):
        return ListToolsResult(tools=[listed("bad", "object"), listed("good", "string")])

    server = Server("headers", on_list_tools=list_tools)
    with served(server.streamable_http_app(host="127.0.0.1")) as client:
        refused = run("--mcp", f"{client.base_url}/mcp", "--print")
        kept = printed(run("--mcp", f"{client.base_url}/mcp", "--print", "--skip-refused"))
    assert refused.exit_code == 1
    assert "tool 'bad' at /tools/0/inputSchema: property 'a': x-mcp-header is only" in refused.stderr
    assert [tool["name"] for tool in kept["tools"]] == ["good"]


def only_answering(result, *, listing_takes_s=0.0):
    """An MCP server that answers each list of tools with this result, which may be malformed."""

    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        message, status, answer = json.loads((await receive()).get("body") or b"{}"), 200, b""
        about = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
        about["serverInfo"] = {"name": "odd", "version": "1"}
        results = {"initialize": about, "tools/list": result}
        if message.get("method") == "tools/list":
            await asyncio.sleep(listing_takes_s)
        if message.get("method") in results:
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}
            answer = json.dumps(reply).encode()
        else:
            status = 404 if "id" in message else 202
        content = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": content})
        await send({"type": "http.response.body", "body": answer})

    return app


GOOD = {"name": "a", "inputSchema": {"type": "object"}}


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"tools": [GOOD], "nextCursor": "x"}, "its list of tools has no end: the cursor 'x' comes again"),
        ({"tools": [], "nextCursor": ""}, "its list of tools has no end: the cursor '' comes again"),
        ({"tools": {}}, "its answer is not as the protocol says: at /tools: Input should be a valid list"),
        ({"tools": [GOOD], "nextCursor": 5}, "at /nextCursor: Input should be a valid string"),
        (
            {"tools": [{"name": "a"}]},
            "tool 'a' at /tools/0/inputSchema: it is not as the protocol says: Field",
        ),
        ({"tools": [GOOD, "b"]}, "tool #1 at /tools/1: it is not as the protocol says: Input should be a"),
    ],
)
def test_what_is_wrong_with_a_list_is_told(import_from, result, said):
    failed = import_from(only_answering(result))
    assert failed.exit_code == 1
    assert said in " ".join(failed.stderr.split())
    assert "pydantic" not in failed.stderr


def test_a_tool_that_breaks_the_protocol_costs_only_itself(import_from):
    """The SDK alone refuses its whole page."""
    odd = {"name": "odd", "annotations": {"readOnlyHint": "perhaps"}, "inputSchema": {"type": "object"}}
    unnamed = {"name": 5, "inputSchema": {"type": "object"}}
    refused = {"name": "refused", "inputSchema": {"type": "object", "required": 5}}
    server = only_answering({"tools": [odd, unnamed, GOOD, refused]})
    failed = import_from(server)
    kept = printed(import_from(server, "--skip-refused"))
    assert failed.exit_code == 1
    said = " ".join(failed.stderr.split())
    assert "tool 'odd' at /tools/0/annotations/readOnlyHint: it is not as the protocol says: Input" in said
    assert "tool #1 at /tools/1/name: it is not as the protocol says: Input should be a valid string" in said
    assert said.count("tool #1") == 1, "it has one fault"
    assert "tool 'refused' at /tools/3/inputSchema/required" in said
    assert [tool["name"] for tool in kept["tools"]] == ["a"]


def test_a_list_of_empty_pages_without_end_is_told(import_from, monkeypatch):
    """No cursor comes again."""
    monkeypatch.setattr("gateway.sources.mcp_source.Limits", lambda: Limits(num_tools=3))
    cursors = map(str, count())

    async def list_tools(context, params):
        return ListToolsResult(tools=[], next_cursor=next(cursors))

    server = Server("endless", on_list_tools=list_tools)
    failed = import_from(server.streamable_http_app(host="127.0.0.1"))
    assert failed.exit_code == 1
    assert "it has more pages than a toolset has tools" in " ".join(failed.stderr.split())


def test_a_server_that_lists_too_slowly_is_told(import_from, monkeypatch):
    monkeypatch.setattr("gateway.sources.mcp_source._TIMEOUT_S", 0.3)
    failed = import_from(only_answering({"tools": [GOOD]}, listing_takes_s=1))
    assert failed.exit_code == 1
    assert "it did not list its tools within 0.3 s" in failed.stderr


def test_a_server_that_lists_too_slowly_is_told_whatever_the_sdk_raises(run, monkeypatch):
    """Cancelled between two messages, the SDK may raise an error of its own."""

    class Interrupted:
        def __init__(self, _transport):
            pass

        async def __aenter__(self):
            try:
                await asyncio.sleep(3)
            except asyncio.CancelledError:
                raise OSError("broken") from None

        async def __aexit__(self, *_):
            pass

    monkeypatch.setattr("gateway.sources.mcp_source._TIMEOUT_S", 0.1)
    monkeypatch.setattr("gateway.sources.mcp_source.Client", Interrupted)
    failed = run("--mcp", "http://127.0.0.1:1/mcp", "--print")
    assert failed.exit_code == 1
    assert "it did not list its tools within 0.1 s" in failed.stderr


def test_a_server_that_wants_a_key_is_told_with_its_status(import_from):
    failed = import_from(behind_oauth(only_answering({}), []))
    assert failed.exit_code == 1
    assert "HTTP 401 Unauthorized" in failed.stderr


def behind_oauth(app, seen):
    """An MCP server that wants a token, and beside it the issuer that gives an OAuth client one."""

    async def guarded(scope, receive, send):
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        own = f"http://{headers[b'host'].decode()}"
        answers = {
            "/.well-known/oauth-protected-resource/mcp": {
                "resource": f"{own}/mcp",
                "authorization_servers": [own],
            },
            "/.well-known/oauth-authorization-server": {
                "issuer": own,
                "authorization_endpoint": f"{own}/authorize",
                "token_endpoint": f"{own}/token",
                "response_types_supported": ["code"],
                "grant_types_supported": ["client_credentials"],
            },
            "/token": {"access_token": "given", "token_type": "Bearer", "expires_in": 60},
        }
        path = scope["path"]
        seen.append((path, headers.get(b"authorization", b"").decode()))
        if path == "/mcp" and headers.get(b"authorization") == b"Bearer given":
            await app(scope, receive, send)
            return
        metadata = f'Bearer resource_metadata="{own}/.well-known/oauth-protected-resource/mcp"'
        status = 401 if path == "/mcp" else 200 if path in answers else 404
        content = [(b"content-type", b"application/json"), (b"www-authenticate", metadata.encode())]
        await send({"type": "http.response.start", "status": status, "headers": content})
        await send({"type": "http.response.body", "body": json.dumps(answers.get(path, {})).encode()})

    return guarded


def test_an_oauth_client_gets_a_token_from_its_issuer_and_sends_it(run, monkeypatch):
    server, seen = MCPServer("Guarded"), []

    @server.tool()
    def tell() -> str:
        """Tells."""
        return ""

    with served(behind_oauth(server.streamable_http_app(host="127.0.0.1"), seen)) as client:
        base = str(client.base_url).rstrip("/")
        monkeypatch.setenv("CALLGATE_SOURCE_CLIENT_ID", "callgate")
        monkeypatch.setenv("CALLGATE_SOURCE_CLIENT_SECRET", "of-the-client")
        monkeypatch.setenv("CALLGATE_SOURCE_ISSUER", base)
        assert [tool["name"] for tool in printed(run("--mcp", f"{base}/mcp", "--print"))["tools"]] == ["tell"]
        basic = b64encode(b"callgate:of-the-client").decode()
        assert ("/token", f"Basic {basic}") in seen
        monkeypatch.setenv("CALLGATE_SOURCE_ISSUER", "https://login.example")
        del seen[:]
        assert run("--mcp", f"{base}/mcp", "--print").exit_code == 1
        assert "/token" not in {path for path, _ in seen}


def test_every_real_listing_is_imported_whole():
    files = sorted(set(corpus("mcp").glob("*.json")) - {corpus("mcp", "SOURCES.json")})
    listings = [json.loads(file.read_text()) for file in files]
    imported = [import_listing("server", listing) for listing in listings]
    assert not [fault for each in imported for fault in each.faults]
    assert [len(each.tools) for each in imported] == [len(listing) for listing in listings]


def test_a_server_that_does_not_answer_is_told(run):
    result = run("--mcp", "http://127.0.0.1:1/mcp")
    assert result.exit_code == 1
    assert result.stderr.startswith("http://127.0.0.1:1/mcp: ")
