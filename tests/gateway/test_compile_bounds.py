"""What one request may compile: it is told which tools were not reached, and others are served."""

import asyncio

import chat
import pytest
from sample_tools import TIME, WEATHER

from compiler.isolation.pools import ThreadPool
from runtime.errors import PromptTooLong

URL = "/v1/toolsets/large"


@pytest.fixture
async def client(client_with):
    """A gateway whose requests have no time to compile; another has compiled the toolset `known`."""
    async with client_with() as unbounded:
        assert (await unbounded.put("/v1/toolsets/known", json={"tools": [TIME]})).status_code == 201
    async with client_with(compile_request_seconds=1e-9) as client:
        yield client


@pytest.mark.parametrize(
    ("method", "url", "body"),
    [
        ("PUT", URL, {"tools": [TIME, WEATHER]}),
        ("POST", f"{URL}/check", {"tools": [TIME, WEATHER]}),
        ("PUT", "/v1/toolsets/known/tools/get_weather", WEATHER),
    ],
)
async def test_what_was_not_reached_is_told(client, method, url, body):
    response = await client.request(method, url, json=body)
    assert response.status_code == 503, response.text
    assert response.json()["type"] == "urn:callgate:compiling-unfinished"
    assert response.json()["not_reached"] == ["get_weather"]
    assert "Send it again" in response.json()["detail"]
    assert response.headers["retry-after"] == "1"
    assert (await client.get(URL)).status_code == 404
    assert (await client.get("/v1/toolsets/known")).json()["revision"] == 1


async def test_faults_that_are_known_are_told_first(client):
    bad = {"name": "bad", "inputSchema": {"type": "objekt"}}
    response = await client.put(URL, json={"tools": [bad, WEATHER]})
    assert response.status_code == 422
    assert [error["tool"] for error in response.json()["errors"]] == ["bad"]


async def test_what_is_compiled_is_served(client):
    assert (await client.put(URL, json={"tools": [TIME]})).status_code == 201
    assert (await client.post(chat.URL, json=chat.body(toolset="known"))).status_code == 200
    unknown = await client.post(chat.URL, json=chat.body(tools=[WEATHER]))
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (503, "compiling_unfinished")


@pytest.mark.parametrize("is_tokenized", [False, True])
async def test_nothing_more_is_compiled_for_a_prompt_that_is_too_long(
    client_with, runtime, monkeypatch, is_tokenized
):
    """Otherwise a thousand tools would be compiled for half a minute before the client is told."""
    num_stopped = 0

    async def compile_for_ever(*_, **__):
        nonlocal num_stopped
        try:
            await asyncio.Event().wait()
        finally:
            num_stopped += 1

    async def prompt_ids(request):
        if is_tokenized:
            return [7] * 512  # as many as the context has
        raise PromptTooLong(900 * len(request.tools), 512)

    monkeypatch.setattr(ThreadPool, "run", compile_for_ever)
    runtime.prompt_ids = prompt_ids
    async with client_with() as client, asyncio.timeout(20):
        refused = await client.post(chat.URL, json=chat.body(tools=[TIME, WEATHER]))
    assert refused.json()["error"]["code"] == "context_length_exceeded"
    assert "it shows 2 tools of the request" in refused.json()["error"]["message"]
    assert (num_stopped, runtime.requests) == (1, [])  # a worker for one client at a time
