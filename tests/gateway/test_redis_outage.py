"""Redis dies and comes back: what is known is served, nothing registered is lost, readiness says how it is."""

import asyncio
import shutil
import time

import pytest
from chat import ask
from redis.asyncio import Redis
from redis_server import running_redis
from sample_tools import TIME, WEATHER

from compiler.cache import grammar_store
from gateway.errors import SettingsError
from gateway.server import STORE_PAUSE_S, reach_store
from gateway.settings import Settings
from gateway.telemetry.engine_measures import FRESH_S


@pytest.fixture
def server(tmp_path):
    with running_redis(tmp_path, keeps=True) as server:
        yield server


@pytest.fixture
def gateway(server, client_with):
    def make():
        return client_with(store=server.url)

    return make


async def source_of(client, **fields) -> str:
    return (await ask(client, **fields))["callgate"]["grammar_source"]


async def readiness(client) -> tuple[int, str]:
    answer = await client.get("/readyz")
    return answer.status_code, answer.json().get("reason", "")


async def test_the_gateway_outlives_redis(server, gateway, caplog):
    async with gateway() as client:
        etag = (await client.put("/v1/toolsets/weather", json={"tools": [WEATHER]})).json()["etag"]
        assert await readiness(client) == (200, "")

        server.kill()
        assert await source_of(client, toolset="weather") == "memory"
        assert await source_of(client, toolset="weather", tools=[TIME]) == "compiled"
        assert await source_of(client, toolset="weather", tools=[TIME]) == "memory"
        shown = await client.get("/v1/toolsets/weather")
        assert (shown.status_code, shown.json()["etag"]) == (200, etag)
        status, reason = await readiness(client)
        assert status == 503
        assert reason == "the store cannot be used; the gateway's log says why"
        assert "callgate_store_ready 0.0" in (await client.get("/metrics")).text
        refused = await client.put("/v1/toolsets/weather", json={"tools": [TIME]})
        assert refused.status_code == 503
        assert "Traceback" not in caplog.text
        assert "grammar cache works without the store" in caplog.text
        assert "as they were last read" in caplog.text

        server.start()
        assert await readiness(client) == (200, "")
        await asyncio.sleep(FRESH_S)
        assert "callgate_store_ready 1.0" in (await client.get("/metrics")).text
        shown = await client.get("/v1/toolsets/weather")
        assert (shown.status_code, shown.json()["etag"]) == (200, etag)
        changed = await client.put("/v1/toolsets/weather", json={"tools": [TIME]}, headers={"If-Match": etag})
        assert changed.status_code == 200
        await asyncio.sleep(grammar_store.PAUSE_S)
        assert await source_of(client, tools=[renamed(WEATHER, "later")]) == "memory"
        fresh = renamed(WEATHER, "fresh", sunny={"type": "boolean"})
        assert await source_of(client, tools=[fresh]) == "compiled"
        assert caplog.text.count("the store answers again: the grammar cache uses it") == 1
        assert caplog.text.count("the store answers again: toolsets are read from it") == 1
    async with gateway() as client:
        assert await source_of(client, tools=[fresh]) == "store"
        tools = (await client.get("/v1/toolsets/weather")).json()["tools"]
        assert [tool["function"]["name"] for tool in tools] == ["clock.now"]


async def test_a_store_that_takes_no_writes_is_not_ready(gateway, server):
    """A full Redis answers pings, but registrations fail."""
    async with gateway() as client, Redis.from_url(server.url) as redis:
        assert "callgate_store_ready 1.0" in (await client.get("/metrics")).text
        await redis.config_set("maxmemory", "100kb")
        await asyncio.sleep(FRESH_S)
        assert "callgate_store_ready 0.0" in (await client.get("/metrics")).text
        assert (await client.put("/v1/toolsets/weather", json={"tools": [WEATHER]})).status_code == 507
        assert await readiness(client) == (200, ""), "it still answers with what it has"
        await redis.config_set("maxmemory", "0")
        await asyncio.sleep(FRESH_S)
        assert "callgate_store_ready 1.0" in (await client.get("/metrics")).text


async def test_an_outage_is_told_even_where_nothing_is_cached(server, gateway, caplog):
    async with gateway() as client:
        assert (await client.get("/v1/toolsets")).status_code == 200
        server.kill()
        for _ in range(2):
            answer = await client.get("/v1/toolsets")
            assert answer.status_code == 503
        assert "the store cannot be used now; the gateway's log says why" in answer.json()["detail"]
        server.start()
        for _ in range(2):
            assert (await client.get("/v1/toolsets")).status_code == 200
    name = server.url.rstrip("/")
    assert caplog.text.count(f"store {name} cannot be used: it cannot be reached (Connection refused)") == 1
    assert caplog.text.count(f"store {name} answers again") == 1


async def test_a_store_that_comes_back_empty_is_told_too(server, gateway, caplog, tmp_path):
    async with gateway() as client:
        await client.put("/v1/toolsets/weather", json={"tools": [WEATHER]})
        server.kill()
        assert (await client.get("/v1/toolsets/weather")).status_code == 200
        shutil.rmtree(tmp_path / "appendonlydir")
        server.start()
        assert (await client.get("/v1/toolsets/weather")).status_code == 404
    assert caplog.text.count("the store answers again: toolsets are read from it") == 1


async def test_a_gateway_that_starts_before_redis_waits_for_it(server, caplog):
    server.kill()
    waiting = asyncio.create_task(reach_store(Settings(store=server.url, store_wait_seconds=30)))
    await asyncio.sleep(2 * STORE_PAUSE_S)
    assert not waiting.done()
    server.start()
    await asyncio.wait_for(waiting, 20)
    assert caplog.text.count("(Connection refused); waiting for it, for 30 s at most") == 1


@pytest.mark.parametrize("seconds", [0, 2.5 * STORE_PAUSE_S])
async def test_a_gateway_does_not_wait_longer_than_it_is_told_to(server, seconds):
    server.kill()
    began = time.monotonic()
    with pytest.raises(SettingsError, match=r"Connection refused\); start it, or choose another"):
        await reach_store(Settings(store=server.url, store_wait_seconds=seconds))
    assert (time.monotonic() - began > 2 * STORE_PAUSE_S) == bool(seconds)


async def test_a_gateway_does_not_wait_for_another_password(tmp_path):
    with (
        running_redis(tmp_path, requirepass="hunter2") as server,
        pytest.raises(SettingsError, match="asks for a password"),
    ):
        await asyncio.wait_for(reach_store(Settings(store=server.url, store_wait_seconds=60)), 10)


async def test_a_gateway_that_starts_without_redis_finds_it_later(server, gateway):
    server.kill()
    async with gateway() as client:
        assert (await readiness(client))[0] == 503
        assert await source_of(client, tools=[WEATHER]) == "compiled"
        assert (await client.get("/v1/toolsets/weather")).status_code == 503
        server.start()
        assert await readiness(client) == (200, "")
        assert (await client.put("/v1/toolsets/weather", json={"tools": [WEATHER]})).status_code == 201


def renamed(tool, name, **properties):
    parameters = tool["function"]["parameters"]
    parameters = {**parameters, "properties": {**parameters["properties"], **properties}}
    return {**tool, "function": {**tool["function"], "name": name, "parameters": parameters}}
