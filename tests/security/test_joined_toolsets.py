"""Several toolsets in one request: together they keep the limits of one, and are not hashed again and again."""

import asyncio
import hashlib
import tracemalloc
from dataclasses import replace

import pytest
from litestar.testing import AsyncTestClient

from compiler.cache.grammar_cache import GrammarCache
from compiler.isolation import compile_job
from compiler.prepared_vocabulary import prepare
from compiler.vocabulary import Vocabulary
from gateway.app import create_app
from toolspecs import Catalog, Toolset
from toolspecs.json_value import Limits
from toolspecs.lru_cache import LruCache
from toolspecs.revisions import toolset_contents
from toolspecs.revisions.toolset_contents import (
    CONTENTS,
    ContentCache,
    ContentStore,
    DecodedContents,
    compress,
    decode_toolset,
    encode_toolset,
)
from toolspecs.stores import open_store
from toolspecs.tool import ChoiceMode, Tool, ToolChoice


def tool(name, description=""):
    return {"name": name, "description": description, "inputSchema": {"type": "object"}}


@pytest.fixture
async def app(settings, runtime):
    return create_app(settings, runtime=runtime)


@pytest.fixture
async def client(app):
    async with AsyncTestClient(app, base_url="http://127.0.0.1") as client:
        catalog = app.state.views.whole.registry.catalog
        catalog.limits = replace(catalog.limits, num_tools=4, toolset_bytes=2000)
        for name in ("a", "b", "c"):
            tools = [tool(f"{name}{number}", "x" * 300) for number in range(2)]
            assert (await client.put(f"/v1/toolsets/{name}", json={"tools": tools})).status_code == 201
        yield client


def ask(client, toolsets, tools=()):
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "?"}],
        **({"toolset": toolsets} if toolsets else {}),
    }
    inline = [{"type": "function", "function": {"name": name, "description": text}} for name, text in tools]
    return client.post("/v1/chat/completions", json=body | ({"tools": inline} if inline else {}))


async def test_what_fits_together_is_joined(client):
    assert (await ask(client, ["a", "b"])).status_code == 200


async def test_too_many_tools_together_are_refused_by_name(client):
    answer = await ask(client, ["a", "b", "c"])
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["code"], error["param"]) == ("limit_exceeded", "toolset")
    assert "at most 4 tools" in error["message"]
    assert "2 in toolset 'a@1', 2 in toolset 'b@1'" in error["message"]


@pytest.mark.parametrize("toolsets", [["a"], []])
async def test_too_many_bytes_together_are_refused_by_name(client, toolsets):
    answer = await ask(client, toolsets, [("large", "y" * 2000)])
    assert answer.status_code == 400
    assert "at most 2000 bytes of tools" in answer.json()["error"]["message"]
    assert "in the inline tools" in answer.json()["error"]["message"]


def names_read(catalog, monkeypatch):
    """The names of the toolsets that are read from now on."""
    names = []
    resolve = catalog.resolve

    async def resolve_and_note(reference):
        names.append(reference.name)
        return await resolve(reference)

    monkeypatch.setattr(catalog, "resolve", resolve_and_note)
    return names


async def test_toolsets_beyond_the_limit_are_not_even_read(client, app, monkeypatch):
    read = names_read(app.state.views.whole.registry.catalog, monkeypatch)
    answer = await ask(client, ["a", "b", "c", *(f"d{number}" for number in range(50))])
    assert read == ["a", "b", "c"], answer.text


@pytest.mark.parametrize(
    ("limits", "document", "limit"),
    [
        ({"toolset_bytes": 2000}, {"description": "x" * 700}, "2000 bytes of tools and documents"),
        ({"num_values": 200}, {"enum": [*range(90)]}, "200 JSON values in tools and documents"),
    ],
)
async def test_documents_count_for_what_is_too_large_together(
    client, app, monkeypatch, limits, document, limit
):
    """Else a request of 2 kB held 128 toolsets of 16 MB in memory, or was answered without some of them."""
    catalog = app.state.views.whole.registry.catalog
    catalog.limits = replace(Limits(), **limits)
    for name in "defgh":
        body = {"tools": [tool(name)], "documents": {f"https://a.example/{name}": document}}
        assert (await client.put(f"/v1/toolsets/{name}", json=body)).status_code == 201
    assert (await ask(client, ["d", "e"])).status_code == 200
    read = names_read(catalog, monkeypatch)
    answer = await ask(client, [*"defgh"])
    assert answer.status_code == 400
    assert f"at most {limit}" in answer.json()["error"]["message"]
    assert read == ["d", "e", "f"]


async def test_a_toolset_alone_is_served_as_it_was_registered(client, app):
    catalog = app.state.views.whole.registry.catalog
    catalog.limits = replace(catalog.limits, num_tools=1, toolset_bytes=100)
    assert (await ask(client, "a")).status_code == 200


async def test_a_tool_that_is_kept_is_hashed_once(monkeypatch):
    hashed = []

    sha256 = hashlib.sha256

    def counted(content=b""):
        hashed.append(content)
        return sha256(content)

    cache = GrammarCache(None, secret=b"secret")
    tools = [
        Tool(f"t{number}", "", {"type": "object", "properties": {f"p{number}": {}}}) for number in range(5)
    ]
    monkeypatch.setattr(compile_job.hashlib, "sha256", counted)
    for mode in (ChoiceMode.AUTO, ChoiceMode.REQUIRED):
        await cache.find_toolset(
            tools, prepared=prepare(Vocabulary.of_bytes()), syntax="json", tool_choice=ToolChoice(mode)
        )
    schemas = [content for content in hashed if b'"tool", ' in content]
    assert len(schemas) == len(tools)
    await cache.close()


async def test_a_toolset_that_grows_tool_by_tool_keeps_the_limit_of_values(client, app):
    """Else a short name stands for millions of values: decoding them stops the gateway for seconds."""
    catalog = app.state.views.whole.registry.catalog
    catalog.limits = replace(catalog.limits, toolset_bytes=100_000, num_tools=100, num_values=1000)
    statuses = []
    for number in range(4):
        many = tool(f"t{number}") | {"_meta": {"many": [[]] * 300}}
        path = "/v1/toolsets/grown" + (f"/tools/t{number}" if number else "")
        answer = await client.put(path, json=many if number else {"tools": [many]})
        statuses.append(answer.status_code)
    assert statuses == [201, 200, 200, 422]
    assert answer.json()["detail"].startswith("a toolset may have at most 1000 JSON values")


async def test_too_many_values_together_are_refused_by_name(client, app):
    catalog = app.state.views.whole.registry.catalog
    catalog.limits = replace(catalog.limits, toolset_bytes=100_000, num_tools=100, num_values=1000)
    for name in ("d", "e"):
        many = tool(name) | {"_meta": {"many": [[]] * 600}}
        assert (await client.put(f"/v1/toolsets/{name}", json={"tools": [many]})).status_code == 201
    answer = await ask(client, ["d", "e"])
    assert answer.status_code == 400
    assert "at most 1000 JSON values in tools" in answer.json()["error"]["message"]


async def test_toolsets_in_memory_count_for_what_they_take():
    """Millions of empty lists take 25 times the memory of their text."""
    decoded = DecodedContents()
    contents = ContentStore(open_store("sqlite://:memory:"), decoded=decoded)
    toolset = Toolset("many", (Tool("t", "", {}, extras={"_meta": {"many": [[]] * 50_000}}),))
    packed = compress(encode_toolset(toolset))
    await contents.put(toolset, toolset.digest, encode_toolset(toolset), packed)
    tracemalloc.start()
    read = decode_toolset("many", toolset.digest, encode_toolset(toolset))
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert read.num_values > 50_000
    assert decoded.large.toolsets.num_bytes > taken / 2


async def test_contents_are_decoded_once_and_one_after_the_other(monkeypatch):
    store = open_store("sqlite://:memory:")
    catalog = Catalog(store)
    for name in ("a", "b"):
        await catalog.put(Toolset(name, (Tool(name, "", {}),)))
    decoding = 0

    def decode(name, *rest):
        nonlocal decoding
        decoding += 1
        decoded.append(name)
        assert decoding == 1
        found = decode_toolset(name, *rest)
        decoding -= 1
        return found

    decoded = []
    monkeypatch.setattr(toolset_contents, "decode_toolset", decode)
    fresh = Catalog(store)
    await asyncio.gather(*(fresh.get(name) for name in ("a", "b") * 10))
    assert sorted(decoded) == ["a", "b"]


async def test_small_contents_wait_for_no_large_ones_and_stay_in_memory():
    """Else who reads revisions of 15 MB, one after another, would make a toolset of one tool take two seconds."""
    store = open_store("sqlite://:memory:")
    await Catalog(store).put(Toolset("small", (Tool("small", "", {}),)))
    large = Tool("large", "", {}, extras={"_meta": {"text": "x" * 200_000}})
    await Catalog(store).put(Toolset("large", (large,)))
    decoded = DecodedContents()
    fresh = Catalog(store, decoded=decoded)
    async with decoded.large.turns.of("another"):
        waiting = asyncio.create_task(fresh.get("large"))
        assert len((await asyncio.wait_for(fresh.get("small"), 5)).toolset) == 1
        assert not waiting.done()
    await waiting
    assert decoded.small.toolsets.num_bytes < 1_000 < decoded.large.toolsets.num_bytes


async def test_a_large_content_is_read_from_the_store_when_it_is_its_turn(monkeypatch):
    """Else a hundred reads of 12 MB each would stand before the read of a small toolset, and in memory."""
    store = open_store("sqlite://:memory:")
    decoded = DecodedContents(large=ContentCache(toolsets=LruCache(0)))
    catalog = Catalog(store, decoded=decoded)
    large = Tool("large", "", {}, extras={"_meta": {"text": "x" * 200_000}})
    await catalog.put(Toolset("large", (large,)))
    read = []
    get = store.get
    monkeypatch.setattr(store, "get", lambda key: read.append(key) or get(key))
    async with decoded.large.turns.of("another"):
        waiting = [asyncio.create_task(catalog.get("large")) for _ in range(5)]
        await asyncio.sleep(0.1)
        assert not [key for key in read if key.startswith(CONTENTS)]
    assert {len((await each).toolset) for each in waiting} == {1}


async def test_tenants_take_turns_at_large_contents():
    """Else who reads many revisions of 15 MB would make everybody's large toolsets wait for all of them."""
    decoded = DecodedContents(large=ContentCache(toolsets=LruCache(0)))
    large = Tool("large", "", {}, extras={"_meta": {"text": "x" * 200_000}})
    catalogs = [Catalog(open_store("sqlite://:memory:"), decoded=decoded) for _ in range(2)]
    for catalog in catalogs:
        await catalog.put(Toolset("large", (large,)))
    order = []

    async def read(number):
        await catalogs[number].get("large")
        order.append(number)

    async with decoded.large.turns.of("another"):
        reading = [asyncio.create_task(read(number)) for number in (0, 0, 0, 0, 0, 1)]
        await asyncio.sleep(0.1)
    await asyncio.gather(*reading)
    assert order.index(1) < 3
