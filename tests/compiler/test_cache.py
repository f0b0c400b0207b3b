"""The grammar cache: its tiers, single flight, and stored entries that must not be trusted."""

import asyncio
import inspect
import json

import pytest
from grammar_caches import PREPARED, SECRET, Counting, failing, find, tool
from redis_server import redis_url  # noqa: F401 - a fixture
from vocabularies import BYTES
from whole_outputs import admits

from compiler.cache import grammar_store
from compiler.cache.grammar_cache import GrammarCache
from compiler.cache.grammar_store import sign, verify
from compiler.cache_entry import CacheEntry
from compiler.errors import UnsupportedToolset
from compiler.isolation import compile_job
from compiler.isolation.compile_job import CompileJob
from compiler.isolation.limits import CompileLimits
from compiler.isolation.pools import ThreadPool
from compiler.response_format import ResponseFormat
from compiler.syntaxes import SYNTAXES
from compiler.units import stored
from compiler.vocabulary import Vocabulary
from toolspecs.errors import StoreFull, StoreUnavailable
from toolspecs.stores import SQLiteStore, open_store
from toolspecs.tool import Tool

KEYS = {
    "deepseek_v3": "e12466fd",
    "deepseek_v3_1": "e13bb88a",
    "deepseek_v3_2": "4a7bb13b",
    "deepseek_v4": "71fd433d",
    "deepseek_v4_1": "046ac99d",
    "exaone": "f4285204",
    "glm_4_5": "81bdd305",
    "glm_4_7": "d4c423a2",
    "harmony": "f98e0800",
    "hermes": "d8eb1686",
    "json": "988bfed0",
    "kimi": "2ee611d9",
    "llama3": "97cdf2f7",
    "mimo": "e0a29b08",
    "minimax": "26b44769",
    "mistral": "28552451",
    "mistral_v13": "3b0dd21e",
    "qwen3_coder": "be01fe65",
}
"""The beginning of the key of one tool in each syntax, if LOWERING_VERSION were 0."""


@pytest.fixture
async def store(tmp_path):
    store = open_store(f"sqlite://{tmp_path}/store.sqlite3")
    yield store
    await store.close()


async def test_compiled_then_memory_then_store(store):
    first, second = (GrammarCache(store, secret=SECRET) for _ in range(2))
    assert (await find(first, [tool("f")])).source == "compiled"
    assert (await find(first, [tool("f")])).source == "memory"
    found = await find(second, [tool("f")])
    assert found.source == "store"
    assert admits(found.grammar, '[{"name": "f", "arguments": {"a": 1}}]')
    assert not admits(found.grammar, '[{"name": "f", "arguments": {"a": "s"}}]')


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
async def test_many_requests_to_two_replicas_compile_each_tool_once(kind, tmp_path, request):
    is_redis = kind == "redis"
    url = request.getfixturevalue("redis_url") if is_redis else f"sqlite://{tmp_path}/store.sqlite3"
    stores, compile_pool = [open_store(url) for _ in range(2)], Counting()
    caches = [GrammarCache(store, secret=SECRET, compile_pool=compile_pool) for store in stores]
    tools = [tool(f"f{number}", once={"const": number}) for number in range(5)]
    found = await asyncio.gather(*(find(cache, tools) for cache in caches for _ in range(6)))
    assert len(compile_pool.jobs) == len(tools)
    assert len({each.grammar.digest for each in found}) == 1
    for store in stores:
        await store.close()


def keys_in_version(monkeypatch, version):
    """The beginnings of the keys of one tool, for each row of `SYNTAXES`."""
    monkeypatch.setattr(compile_job, "LOWERING_VERSION", version)
    monkeypatch.setattr(compile_job, "_rules", inspect.unwrap(compile_job._rules))  # without its cache
    plain = Tool("f", "", {"type": "object"})
    return {name: CompileJob.tool(plain, name).key(BYTES)[:8] for name in SYNTAXES}


def test_keys_stay_what_they_were(monkeypatch):
    """Otherwise everything that is stored already becomes a miss."""
    assert keys_in_version(monkeypatch, 0) == KEYS, "a new row is added to KEYS; the others keep their keys"


def test_another_version_of_the_lowering_has_other_keys(monkeypatch):
    later = keys_in_version(monkeypatch, 1)
    assert [name for name, key in KEYS.items() if later[name] == key] == []


async def test_an_entry_leaves_the_store_a_while_after_its_last_use(tmp_path):
    now = 1000.0
    store = SQLiteStore(tmp_path / "s.db", clock=lambda: now)
    await find(GrammarCache(store, secret=SECRET), [tool("f")])
    for _ in range(2):
        now += 20 * 24 * 3600
        assert (await find(GrammarCache(store, secret=SECRET), [tool("f")])).source == "store"
    now += 31 * 24 * 3600
    assert (await find(GrammarCache(store, secret=SECRET), [tool("f")])).source == "compiled"
    await store.close()


CUTS = {f"cut to {end} bytes": slice(end) for end in (0, 1, 31, 32, 33, 60, -5)}
DAMAGES = {name: lambda entry, cut=cut: entry[cut] for name, cut in CUTS.items()}
DAMAGES["another byte"] = lambda entry: entry[:40] + b"x" + entry[41:]


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
async def test_a_damaged_entry_is_a_miss(store, damage, caplog):
    await find(GrammarCache(store, secret=SECRET), [tool("f")])
    (key,) = [key async for key in store.scan("unit:")]
    await store.set(key, damage(await store.get(key)))
    found = await find(GrammarCache(store, secret=SECRET), [tool("f")])
    assert found.source == "compiled"
    assert "ignored" in caplog.text


async def test_an_entry_of_another_secret_or_key_is_a_miss(store):
    await find(GrammarCache(store, secret=b"other"), [tool("f")])
    assert (await find(GrammarCache(store, secret=SECRET), [tool("f")])).source == "compiled"
    (key,) = [key async for key in store.scan("unit:")]
    entry = await store.get(key)
    await find(GrammarCache(store, secret=SECRET), [tool("g", b={"type": "string"})])
    (other,) = [k async for k in store.scan("unit:") if k != key]
    await store.set(other, entry)
    found = await find(GrammarCache(store, secret=SECRET), [tool("g", b={"type": "string"})])
    assert found.source == "compiled"


async def test_another_vocabulary_of_equal_size_is_another_grammar(store):
    swapped = list(BYTES.tokens)
    swapped[ord("0")], swapped[ord("x")] = swapped[ord("x")], swapped[ord("0")]
    other = Vocabulary.from_tokens(swapped, stop_ids=BYTES.stop_ids)
    cache = GrammarCache(store, secret=SECRET)
    await find(cache, [tool("f")])
    assert (await find(cache, [tool("f")], other)).source == "compiled"


async def test_every_bad_tool_is_named():
    item = {"anyOf": [{"type": "null"}, {"$ref": "#/properties/p"}]}
    bad = {"type": "array", "uniqueItems": True, "items": item, "minItems": 2}
    tools = [tool("good"), tool("bad", p=bad), tool("worse", q={"$ref": "#/nowhere"})]
    cache = GrammarCache(None, secret=SECRET)
    with pytest.raises(UnsupportedToolset) as refused:
        await cache.check(tools, prepared=PREPARED, syntax="hermes", budget=cache.compile_budget())
    assert [(name, error.keyword) for name, error in refused.value.refusals] == [
        ("bad", "uniqueItems"),
        ("worse", "$ref"),
    ]


async def test_a_store_that_fails_does_not_stop_compiling(store, monkeypatch):
    failing(monkeypatch, store, StoreUnavailable("sqlite", "gone"), "get", "set")
    assert (await find(GrammarCache(store, secret=SECRET), [tool("f")])).source == "compiled"


async def test_a_grammar_that_cannot_be_stored_is_compiled_once(store, monkeypatch):
    compile_pool = Counting()
    failing(monkeypatch, store, StoreUnavailable("sqlite", "full"), "set")
    await find(GrammarCache(store, secret=SECRET, compile_pool=compile_pool), [tool("f")])
    assert len(compile_pool.jobs) == 1


@pytest.mark.parametrize("of_lease", ["acquire", "release"])
async def test_a_full_store_gives_what_it_has(store, monkeypatch, caplog, of_lease):
    """It is asked on after a grammar that it refuses, so that not all are compiled again."""
    first, second = (GrammarCache(store, secret=SECRET) for _ in range(2))
    await find(first, [tool("stored", a={"const": 1})])
    failing(monkeypatch, store, StoreFull("a test", "it is full"), "set", "touch", of_lease)
    for number in range(3):
        fresh = await find(second, [tool("fresh", a={"const": f"fresh{number}"})])
        assert fresh.source == "compiled"
    assert (await find(second, [tool("stored", a={"const": 1})])).source == "store"
    assert caplog.text.count("compiled grammars are not stored for now") == 1
    with pytest.raises(StoreUnavailable):
        await second.publish(list(fresh.recipe.keys), "a client")


async def test_reports_carry_size_and_time():
    cache = GrammarCache(None, secret=SECRET)
    budget = cache.compile_budget()
    (report,) = await cache.check([tool("f")], prepared=PREPARED, syntax="hermes", budget=budget)
    assert report.name == "f"
    assert report.grammar_bytes > 0
    assert report.compile_ms > 0
    assert {entry.keyword for entry in report.report} == {"type", "properties"}


async def test_the_lease_of_one_that_died_is_taken_over(store):
    key = CompileJob.tool(tool("f"), "json").key(BYTES)
    assert await store.acquire(f"lock:{key}", "a replica that died", 0.3)
    assert (await find(GrammarCache(store, secret=SECRET), [tool("f")])).source == "compiled"


async def test_a_lease_that_does_not_end_is_not_waited_for_forever(store, monkeypatch):
    monkeypatch.setattr(grammar_store, "LEASE_S", 0.2)
    key = CompileJob.tool(tool("f"), "json").key(BYTES)
    assert await store.acquire(f"lock:{key}", "another replica", 60)
    assert (await find(GrammarCache(store, secret=SECRET), [tool("f")])).source == "compiled"


async def test_response_schemas_are_shared_like_tools(store):
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    compile_pool = Counting()
    first, second = (GrammarCache(store, secret=SECRET, compile_pool=compile_pool) for _ in range(2))
    found = await asyncio.gather(
        *(first.find_format(ResponseFormat("schema", schema), prepared=PREPARED) for _ in range(4))
    )
    assert {one.source for one in found} == {"compiled"}
    assert len(compile_pool.jobs) == 1
    assert (await first.find_format(ResponseFormat("schema", schema), prepared=PREPARED)).source == "memory"
    shared = await second.find_format(ResponseFormat("schema", schema), prepared=PREPARED)
    assert shared.source == "store"
    assert shared.grammar.digest == found[0].grammar.digest
    assert shared.grammar.report == found[0].grammar.report
    assert shared.grammar.accepts('{"a": 1}')
    assert not shared.grammar.accepts('{"a": "1"}')


async def test_an_entry_of_a_tool_is_no_entry_of_a_schema(store, caplog):
    """An entry signed for another key is not authentic; one that was stored under the wrong key is not used."""
    cache = GrammarCache(store, secret=SECRET)
    await find(cache, [tool("f")])
    key = CompileJob.tool(tool("f"), "json").key(BYTES)
    content = verify(await store.get(f"unit:{key}"), key, SECRET)
    other = CompileJob.format(ResponseFormat("schema", {"type": "integer"})).key(BYTES)
    for kind in (content, content.replace(b"tool", b"schema", 1)):
        await store.set(f"unit:{other}", sign(kind, other, SECRET))
        fresh = GrammarCache(store, secret=SECRET)
        found = await fresh.find_format(ResponseFormat("schema", {"type": "integer"}), prepared=PREPARED)
        assert found.source == "compiled"
        assert found.grammar.accepts("1")
        assert "ignored" in caplog.text
        caplog.clear()


@pytest.mark.parametrize("version", ["0.0.1", "99"])
async def test_an_entry_of_another_xgrammar_is_a_miss(store, version, monkeypatch, caplog):
    await find(GrammarCache(store, secret=SECRET), [tool("f")])
    monkeypatch.setattr(stored, "VERSIONS", (version, "1"))
    assert (await find(GrammarCache(store, secret=SECRET), [tool("f")])).source == "compiled"
    assert "another xgrammar" in caplog.text


async def test_an_entry_moved_to_another_vocabularys_key_is_a_miss(store, caplog):
    """Even if it was signed with the secret: the bytes name their vocabulary."""
    other = Vocabulary.from_tokens(BYTES.tokens[:-1], stop_ids=(0,), width=257)
    await find(GrammarCache(store, secret=SECRET), [tool("f")])
    keys = [CompileJob.tool(tool("f"), "json").key(v) for v in (BYTES, other)]
    content = verify(await store.get(f"unit:{keys[0]}"), keys[0], SECRET)
    await store.set(f"unit:{keys[1]}", sign(content, keys[1], SECRET))
    assert (await find(GrammarCache(store, secret=SECRET), [tool("f")], other)).source == "compiled"
    assert "another vocabulary" in caplog.text


async def test_a_schema_that_makes_the_compiler_fail_is_a_refusal(monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr(CacheEntry, "of_tool", fail)
    with pytest.raises(UnsupportedToolset, match=r"the compiler failed on it \(ZeroDivisionError"):
        await find(GrammarCache(None, secret=SECRET), [tool("f")])


async def test_a_grammar_too_large_to_keep_is_refused():
    limits = CompileLimits(grammar_bytes=10_000)
    cache = GrammarCache(None, secret=SECRET, compile_pool=ThreadPool(limits=limits))
    listed = tool("f", p={"enum": [f"value {i}" for i in range(500)]})
    with pytest.raises(UnsupportedToolset, match="at most 10000 are allowed"):
        await find(cache, [listed])


async def test_tools_are_compiled_when_they_are_first_called(store):
    """A new replica compiles the units that are called; slow ones it compiles before generation starts."""
    tools = [tool(f"t{i}", **{f"p{i}": {"type": "integer"}}) for i in range(5)]
    await find(GrammarCache(store, secret=SECRET), tools)
    async for key in store.scan("unit:"):
        await store.set(key, timed(await store.get(key), key.removeprefix("unit:"), 1.0))
    slow = CompileJob.tool(tools[4], "json").key(BYTES)
    await store.set(f"unit:{slow}", timed(await store.get(f"unit:{slow}"), slow, 300.0))
    grammar = (await find(GrammarCache(store, secret=SECRET), tools)).grammar
    assert compiled_names(grammar) == {"t4"}
    assert admits(grammar, '[{"name": "t1", "arguments": {"p1": 1}}]')
    assert compiled_names(grammar) == {"t1", "t4"}


def compiled_names(grammar) -> set[str]:
    return {name for name, unit in grammar.units.items() if "compiled" in vars(unit)}


def timed(entry: bytes, key: str, compile_ms: float) -> bytes:
    """The entry, as if it had taken `compile_ms` to compile."""
    head, rest = verify(entry, key, SECRET).split(b"\n", 1)
    kind, _, num_bytes = json.loads(head)
    return sign(json.dumps([kind, compile_ms, num_bytes]).encode() + b"\n" + rest, key, SECRET)
