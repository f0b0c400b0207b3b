"""The MCP front, over a real server, with the SDK's own client in both eras of the protocol."""

import json
import sys
from collections import Counter
from contextlib import asynccontextmanager
from itertools import cycle

import httpx2
import pytest
from fake_runtime import FakeRuntime
from keys import ADMIN, bearer
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from sample_tools import TIME, WEATHER
from serving import served

from gateway.app import create_app
from gateway.settings import Settings
from gateway.toolsets.mcp_front import PAGE

DEEP = json.loads("[" * 220 + "]" * 220)
ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
HEADERS = {"Accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def front(tmp_path_factory):
    """A gateway with keys, and the toolsets of a tenant."""
    settings = Settings(
        data_dir=str(tmp_path_factory.mktemp("front")),
        secret="0123456789abcdef",
        compile_workers=0,
        api_key=ADMIN,
        max_body_bytes=100_000,
    )
    with served(create_app(settings, runtime=FakeRuntime())) as client:
        client.headers.update(bearer(ADMIN))
        put(client, "weather", [WEATHER, TIME])
        yield client


def put(client, name, tools, **fields):
    answer = client.put(f"/v1/toolsets/{name}", json={"tools": tools, **fields})
    assert answer.is_success, answer.text


def key_of(client, **terms):
    made = client.post("/v1/keys", json={"name": "agent", "scopes": ["invoke"], **terms})
    assert made.status_code == 201, made.text
    return made.json()["key"]


@asynccontextmanager
async def connected(front, toolset, key=ADMIN, *, mode="auto"):
    url = f"{front.base_url}/mcp/{toolset}"
    headers = bearer(key) if key else {}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


async def refusal(front, toolset, key=ADMIN, *, mode="auto"):
    """The reason why a client cannot connect."""
    with pytest.raises((MCPError, ExceptionGroup)) as failed:
        async with connected(front, toolset, key, mode=mode) as client:
            await client.list_tools()
    error = failed.value
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return str(error)


@ERAS
async def test_a_toolset_is_listed_as_it_is_registered(front, mode):
    async with connected(front, "weather", mode=mode) as client:
        assert client.server_info.name == "weather"
        assert "check_arguments" in client.instructions
        own, weather, clock = (await client.list_tools()).tools
    assert own.name == "check_arguments"
    assert own.annotations.read_only_hint is True
    assert (weather.name, weather.description) == ("get_weather", "The weather of a place.")
    assert weather.input_schema == WEATHER["function"]["parameters"]
    assert clock.name == "clock.now"


class TakingTurns(httpx2.AsyncHTTPTransport):
    """Sends each request to the next of some ports, as a load balancer without sticky sessions does."""

    def __init__(self, *ports):
        super().__init__()
        self.ports = cycle(ports)
        self.asked = Counter()

    async def handle_async_request(self, request):
        port = next(self.ports)
        self.asked[port] += 1
        request.url = request.url.copy_with(port=port)
        return await super().handle_async_request(request)


@ERAS
async def test_replicas_answer_requests_of_one_client_in_turns(app_with, mode):
    tools = [{"name": f"tool.{number}", "inputSchema": {"type": "object"}} for number in range(PAGE + 1)]
    with served(app_with()) as one, served(app_with()) as other:
        put(one, "many", [WEATHER, *tools])
        turns = TakingTurns(one.base_url.port, other.base_url.port)
        url = f"{one.base_url}/mcp/many"
        async with (
            httpx2.AsyncClient(transport=turns) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            first = await client.list_tools()
            second = await client.list_tools(cursor=first.next_cursor)
            assert [tool.name for tool in first.tools + second.tools][2:] == [each["name"] for each in tools]
            for _ in range(2):  # each replica checks
                asked = {"tool": "get_weather", "arguments": {"days": "2"}}
                result = await client.call_tool("check_arguments", asked)
                assert result.structured_content["valid"] is False
            other.put("/v1/toolsets/many", json={"tools": [TIME]}).raise_for_status()
            for _ in range(2):
                assert [tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools][1:] == [
                    "clock.now"
                ]
    assert min(turns.asked[each.base_url.port] for each in (one, other)) >= 3


@ERAS
@pytest.mark.parametrize(
    ("arguments", "faults"),
    [
        ({"place": "Ulm", "days": 2}, []),
        ({"days": "2"}, [("/days", "type"), ("", "required")]),
        ({"place": "Ulm", "day": 2}, [("", "additionalProperties")]),
        ([], [("", "type")]),
    ],
)
async def test_arguments_are_checked_and_faults_have_places(front, mode, arguments, faults):
    async with connected(front, "weather@1", mode=mode) as client:
        asked = {"tool": "get_weather", "arguments": arguments}
        result = await client.call_tool("check_arguments", asked)
    assert not result.is_error
    told = result.structured_content
    assert told["valid"] is (not faults)
    assert sorted((fault["pointer"], fault["keyword"]) for fault in told["faults"]) == sorted(faults)
    [content] = result.content
    assert all(pointer in content.text for pointer, _ in faults)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"tool": "get_wether", "arguments": {}}, "did you mean 'get_weather'?"),
        ({"tool": "get_weather"}, 'send {"tool": NAME, "arguments": {…}}'),
        ({"tool": 1, "arguments": {}}, 'send {"tool": NAME'),
        ({"tool": "get_weather", "arguments": {}, "extra": 1}, 'send {"tool": NAME'),
    ],
)  # fmt: skip
async def test_what_cannot_be_checked_is_told_to_the_model(front, asked, said):
    async with connected(front, "weather") as client:
        result = await client.call_tool("check_arguments", asked)
    assert result.is_error
    assert said in result.content[0].text


async def test_a_message_that_is_too_deep_is_refused(front):
    """The SDK reads at most 200 levels in one era of the protocol, and more in the other."""
    async with connected(front, "weather") as client:
        with pytest.raises(MCPError, match="nested more than 200 deep"):
            await client.call_tool("check_arguments", {"tool": "get_weather", "arguments": {"place": DEEP}})


@ERAS
async def test_no_other_tool_is_run(front, mode):
    async with connected(front, "weather", mode=mode) as client:
        result = await client.call_tool("get_weather", {"place": "Ulm"})
        assert result.is_error
        assert (
            "Callgate does not run tools: call 'get_weather' at the server that owns it"
            in result.content[0].text
        )
        with pytest.raises(MCPError, match=r"did you mean 'clock\.now'"):
            await client.call_tool("clock.no", {})


async def test_our_own_tool_gives_way_to_a_namesake_and_other_fields_to_the_protocol(front):
    documents = {"https://a.example/money": {"type": "number"}}
    odd = {"annotations": {"readOnlyHint": "perhaps"}, "_meta": {"a": 1}, "outputSchema": {"type": "array"}}
    schema = {"properties": {"a": {"$ref": "https://a.example/money"}}}
    tools = [
        {
            "name": "check_arguments",
            "inputSchema": schema,
            "title": "Theirs",
            "outputSchema": {"type": "array"},
        },
        {"name": "odd", "inputSchema": {}, **odd},
    ]
    put(front, "own", tools, documents=documents)
    async with connected(front, "own", mode="legacy") as client:
        own, theirs, other = (await client.list_tools()).tools
        assert own.name == "callgate_check_arguments"
        asked = {"tool": "check_arguments", "arguments": {"a": "1"}}
        result = await client.call_tool(own.name, asked)
    assert (theirs.title, theirs.output_schema, other.annotations) == ("Theirs", None, None)
    assert theirs.input_schema["$defs"]["https://a.example/money"]["type"] == "number"
    assert theirs.input_schema["type"] == "object"
    assert [fault["pointer"] for fault in result.structured_content["faults"]] == ["/a"]


async def test_large_tools_come_one_a_page_and_each_once(front):
    large = [
        {"name": f"t{i}", "description": "x" * 30_000, "inputSchema": {"title": "x" * 50_000}}
        for i in range(9)
    ]
    put(front, "large", [])
    for tool in large:
        assert front.put(f"/v1/toolsets/large/tools/{tool['name']}", json=tool).is_success
    cursor, names = None, []
    async with connected(front, "large") as client:
        while cursor is not None or not names:
            page = await client.list_tools(cursor=cursor)
            names += [tool.name for tool in page.tools]
            assert len(page.tools) <= 4
            cursor = page.next_cursor
    assert names == ["check_arguments", *(tool["name"] for tool in large)]
    put(front, "empty", [])
    async with connected(front, "empty") as client:
        [own] = (await client.list_tools()).tools
    assert own.name == "check_arguments"


async def test_long_lists_come_in_pages(front):
    put(front, "many", [{"name": f"t{i}", "inputSchema": {}} for i in range(PAGE + 1)])
    async with connected(front, "many") as client:
        first = await client.list_tools()
        last = await client.list_tools(cursor=first.next_cursor)
        with pytest.raises(MCPError, match="the cursor is of another list"):
            await client.list_tools(cursor="elsewhere")
    assert len(first.tools) == PAGE + 1
    assert [tool.name for tool in last.tools] == [f"t{PAGE}"]
    assert last.next_cursor is None


@ERAS
async def test_a_key_sees_the_toolsets_of_its_tenant_and_its_own(front, mode):
    tenant = key_of(front, tenant="acme")
    bound = key_of(front, toolsets=["other"])
    assert "no toolset 'weather'" in await refusal(front, "weather", tenant, mode=mode)
    assert "'other'" in await refusal(front, "weather", bound, mode=mode)
    assert "a valid API key is required" in await refusal(front, "weather", None, mode=mode)
    assert "a valid API key is required" in await refusal(front, "weather", "wrong", mode=mode)
    assert "no toolset 'wether'; did you mean 'weather'?" in await refusal(front, "wether", mode=mode)
    assert "revision" in await refusal(front, "weather@9", mode=mode)
    assert "reference" in await refusal(front, "weather@x", mode=mode)
    register = key_of(front, scopes=["register"])
    async with connected(front, "weather", register, mode=mode) as client:
        assert len((await client.list_tools()).tools) == 3


async def test_requests_count_against_the_limits_of_a_key(front):
    key = key_of(front, requests_per_minute=1)
    front_headers = bearer(key) | HEADERS
    answers = [front.post("/mcp/weather", json=PING, headers=front_headers) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 429]
    error = answers[1].json()["error"]
    assert error["data"] == {"code": "rate_limit_exceeded"}
    assert "requests a minute" in error["message"]
    assert int(answers[1].headers["retry-after"]) > 0


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": NaN}}', 400, -32700),
        (b"[" * 5000 + b"]" * 5000, 400, -32600),
        (b" " * 100_001, 413, -32600),
        (b"[]", 400, -32600),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', 400, -32600),
        (b'{"id": 1, "method": "ping"}', 400, -32600),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', 400, -32600),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', 400, -32600),
        (b'{"jsonrpc": "2.0", "id": 1}', 400, -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "result": {}}', 400, -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "error": 5}', 400, -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": []}', 400, -32600),
        (b'{"jsonrpc": "2.0", "method": "notifications/initialized", "params": 5}', 400, -32600),
    ],
)
def test_bodies_are_read_within_our_limits(front, body, status, code):
    headers = {"Content-Type": "application/json", **HEADERS}
    answer = front.post("/mcp/weather", content=body, headers=headers)
    assert answer.status_code == status, answer.text
    error = answer.json()
    assert error["jsonrpc"] == "2.0"
    assert error["error"]["code"] == code
    assert "pydantic" not in answer.text


def test_a_body_of_another_type_is_refused_by_name(front):
    headers = {**HEADERS, "Content-Type": "text/plain"}
    answer = front.post("/mcp/weather", content=json.dumps(PING), headers=headers)
    assert answer.status_code == 415
    assert "application/json" in answer.json()["error"]["message"]


def test_there_are_no_sessions_so_any_replica_answers(front):
    answer = front.post("/mcp/weather", json={**PING, "method": "tools/list"}, headers=HEADERS)
    assert answer.status_code == 200
    assert "mcp-session-id" not in answer.headers
    assert len(answer.json()["result"]["tools"]) == 3
    for method in ("GET", "DELETE"):
        refused = front.request(method, "/mcp/weather", headers=HEADERS)
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST, OPTIONS")
    bare = front.post("/mcp", json=PING, headers=HEADERS)
    assert bare.status_code == 404
    assert "POST /mcp/TOOLSET" in bare.json()["error"]["message"]


async def test_without_keys_no_page_and_no_foreign_name_comes_in(client, weather):
    for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
        answer = await client.post("/mcp/weather", json=PING, headers={**HEADERS, **headers})
        assert answer.status_code == 403
        assert answer.json()["error"]["code"] == -32600
    assert (await client.post("/mcp/weather", json=PING, headers=HEADERS)).json()["result"] == {}


async def test_who_accepts_no_json_is_told_so_as_the_document_says(client, weather):
    """`client` compares each answer with the gateway's own OpenAPI document."""
    answer = await client.post("/mcp/weather", json=PING, headers={"Accept": "text/html"})
    assert answer.status_code == 406
    assert answer.json()["error"]["code"] < 0


async def test_without_the_extra_the_route_says_what_to_install(client, monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp.server.lowlevel", None)
    monkeypatch.delitem(sys.modules, "gateway.toolsets.mcp_front", raising=False)
    monkeypatch.delattr("gateway.toolsets.mcp_front", raising=False)
    answer = await client.post("/mcp/weather", json=PING, headers=HEADERS)
    assert answer.status_code == 501
    assert "pip install 'callgate[mcp]'" in answer.json()["error"]["message"]
