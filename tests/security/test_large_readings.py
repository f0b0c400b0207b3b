"""What is large to read, and every change of a toolset, is made in a turn of its client."""

import threading
from contextlib import asynccontextmanager

import msgspec
import pytest

from gateway.http.client_pace import ClientPace
from gateway.http.request_bodies import RequestBodies
from gateway.routes.request_context import LARGE_ANSWER
from gateway.toolsets.mcp_front import ToolsetFront

NUMBER = {"type": "integer", "minimum": 1, "maximum": 9}
SMALL = {"name": "small", "inputSchema": {"properties": {"a": NUMBER}}}
LARGE = {
    "name": "large",
    "inputSchema": {
        "description": "x" * LARGE_ANSWER,
        "properties": {f"n{number}": NUMBER for number in range(200)},
    },
}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
READINGS = {
    "toolset": ("GET", "/v1/toolsets/{}", None),
    "revision": ("GET", "/v1/toolsets/{}/revisions/1", None),
    "tool": ("GET", "/v1/toolsets/{0}/tools/{0}", None),
    "search": ("GET", "/v1/toolsets/{}/tools?search=ol", None),
    "report": ("GET", "/v1/toolsets/{}/report", None),
    "differences": ("GET", "/v1/toolsets/{}/differences", None),
    "MCP list": ("POST", "/mcp/{}", LIST),
}


@pytest.fixture
async def client(client):
    client.headers["Accept"] = "application/json, text/event-stream"
    for tool in (SMALL, LARGE):
        for description in ("old", "new"):
            source = {"kind": "test", "location": "here", "tools": [tool | {"description": description}]}
            answer = await client.post(f"/v1/toolsets/{tool['name']}/import", json={"listing": source})
            assert answer.is_success, answer.text
    return client


@pytest.fixture
def lanes(monkeypatch):
    """The lanes in which clients have had turns."""
    lanes, turn = [], RequestBodies.turn

    @asynccontextmanager
    async def noted(bodies, client_id, lane):
        lanes.append(lane)
        async with turn(bodies, client_id, lane) as taken:
            yield taken

    monkeypatch.setattr(RequestBodies, "turn", noted)
    return lanes


@pytest.fixture
def encoded_in(monkeypatch):
    """The names of the threads that have encoded something large."""
    threads, encode = set(), msgspec.json.encode

    def noted(value, **options):
        content = encode(value, **options)
        if len(content) > LARGE_ANSWER:
            threads.add(threading.current_thread().name)
        return content

    monkeypatch.setattr(msgspec.json, "encode", noted)
    return threads


async def read(client, reading, name):
    method, path, body = READINGS[reading]
    answer = await client.request(method, path.format(name), json=body)
    assert answer.status_code == 200, answer.text
    return answer


@pytest.mark.parametrize("reading", READINGS)
async def test_a_large_reading_takes_a_turn_and_a_small_one_does_not(client, lanes, reading):
    """Else eight clients that read a report of 10 MB would make ten tokens of others take 19 times as long."""
    await read(client, reading, "small")
    assert not lanes
    answer = await read(client, reading, "large")
    assert len(answer.content) > LARGE_ANSWER or reading == "search"
    assert lanes == ["stored"]


@pytest.mark.parametrize("reading", ["toolset", "revision", "tool", "differences"])
async def test_a_large_reading_is_encoded_in_the_thread_of_its_turn(client, encoded_in, reading):
    await read(client, reading, "large")
    assert [name.startswith("stored") for name in encoded_in] == [True]


async def test_the_sdk_lists_a_large_toolset_in_the_thread_of_its_turn(client, monkeypatch):
    listed_in, list_tools = [], ToolsetFront.list_tools

    async def noted(front, *arguments):
        listed_in.append(threading.current_thread().name.partition("_")[0])
        return await list_tools(front, *arguments)

    monkeypatch.setattr(ToolsetFront, "list_tools", noted)
    answer = await read(client, "MCP list", "large")
    assert [tool["name"] for tool in answer.json()["result"]["tools"]] == ["check_arguments", "large"]
    assert listed_in == ["stored"]


async def test_items_of_stored_responses_are_encoded_in_the_thread_of_their_turn(client, encoded_in):
    body = {"model": "tiny", "input": "x" * LARGE_ANSWER}
    stored = (await client.post("/v1/responses", json=body)).json()
    encoded_in.clear()
    answer = await client.get(f"/v1/responses/{stored['id']}/input_items")
    assert answer.json()["first_id"] == answer.json()["last_id"]
    assert [name.startswith("stored") for name in encoded_in] == [True]


async def test_a_long_page_of_tools_takes_a_turn(client, lanes, encoded_in):
    """Else it would be made and encoded on the event loop, 1.9 MB at a time."""
    tools = [{"name": f"t{number}", "description": "\u0001" * 300, "inputSchema": {}} for number in range(60)]
    assert (await client.put("/v1/toolsets/many", json={"tools": tools})).status_code == 201
    lanes.clear()
    encoded_in.clear()
    page = await client.get("/v1/toolsets/many/tools")
    assert len(page.json()["tools"]) == 60
    assert lanes == ["stored"]
    assert [name.startswith("stored") for name in encoded_in] == [True]


async def test_the_tools_that_differ_at_sources_are_counted_in_a_turn(client, lanes):
    """All that the sources offer is read for it, although the page has one tool."""
    source = {"kind": "test", "tools": [SMALL | {"description": "x" * LARGE_ANSWER}]}
    for location in ("here", "there"):
        listing = source | {"location": location}
        answer = await client.post("/v1/toolsets/many/import", json={"listing": listing})
        assert answer.is_success, answer.text
    lanes.clear()
    assert (await client.get("/v1/toolsets/many/tools?limit=1")).is_success
    assert lanes == ["stored"]


async def test_an_import_with_many_differences_is_written_in_a_turn(client, lanes, encoded_in):
    """A dry run without tools names all that would go, which may be 4 MB."""
    tools = [{"name": f"t{number}", "description": "x" * 900, "inputSchema": {}} for number in range(40)]
    source = {"kind": "test", "location": "there", "tools": tools}
    assert (await client.post("/v1/toolsets/many/import", json={"listing": source})).status_code == 201
    lanes.clear()
    encoded_in.clear()
    dry_run = {"listing": source | {"tools": []}, "dry_run": True}
    answer = await client.post("/v1/toolsets/many/import", json=dry_run)
    assert len(answer.json()["differences"]) == 40
    assert lanes == ["stored"]
    assert [name.startswith("stored") for name in encoded_in] == [True]


LISTING = {"kind": "test", "location": "here", "tools": [SMALL]}
WORKS = {
    "PUT toolset": ("PUT", "", {"tools": [SMALL]}),
    "check": ("POST", "/check", {"tools": [SMALL]}),
    "PUT tool": ("PUT", "/tools/small", SMALL),
    "DELETE tool": ("DELETE", "/tools/large", None),
    "restore": ("POST", "/revisions/1/restore", None),
    "changes": ("GET", "/revisions/1/changes", None),
    "import": ("POST", "/import", {"listing": LISTING}),
    "dry run of an import": ("POST", "/import", {"listing": LISTING, "dry_run": True}),
    "differences": ("GET", "/differences", None),
    "accept": ("POST", "/accept", None),
    "decline": ("POST", "/decline", None),
}


@pytest.mark.parametrize("work", WORKS)
async def test_the_thread_time_of_the_registry_counts_for_its_client(client, monkeypatch, work):
    """The smallest change writes the whole toolset, megabytes, and its client never rested."""
    counted, charge = [], ClientPace.charge

    def noted(pace, lane, seconds):
        if lane[1] == "registry":
            counted.append(seconds)
        charge(pace, lane, seconds)

    monkeypatch.setattr(ClientPace, "charge", noted)
    method, path, body = WORKS[work]
    answer = await client.request(method, f"/v1/toolsets/large{path}", json=body)
    assert answer.is_success, answer.text
    assert sum(counted) > 0
