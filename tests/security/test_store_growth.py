"""The store does not grow without bound: revisions are dropped, quotas hold, and a full store says so."""

import asyncio
import time
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from opened_store import opened
from redis_server import running_redis
from sample_tools import TIME
from typer.testing import CliRunner

from compiler.cache.grammar_cache import GrammarCache
from compiler.cache.grammar_store import LIFETIME_S, MAX_CLIENT_BYTES, StoreAllowance
from compiler.prepared_vocabulary import prepare
from compiler.vocabulary import Vocabulary
from gateway.cli import cli
from gateway.settings import Settings
from gateway.store_upkeep import collect_if_due
from toolspecs import Catalog, Collector, DroppedRevision, Retention, StoreFull, Tool, Toolset, UnknownToolset
from toolspecs.revisions import toolset_records
from toolspecs.revisions.collector import READ_AT_ONCE
from toolspecs.revisions.toolset_logs import HEADS, RECORDS, Record, encode_record, record_key
from toolspecs.revisions.toolset_records import READ_AT_ONCE as LISTED_AT_ONCE
from toolspecs.stores import open_store
from toolspecs.stores.sqlite import PAGES_AT_ONCE, SCAN_COUNT
from toolspecs.tool import ToolChoice
from toolspecs.toolset import RevisionSummary

KEYS = ("the first key", "the second key")
NO_GRACE = Retention(revisions=2, grace_s=-1)


def toolset(name, number, size=30_000):
    noise = "".join(chr(0x4E00 + (number * 7919 + i * i * 31) % 20_000) for i in range(size))
    return Toolset(name, (Tool("f", noise, {}),))


@pytest.fixture
def settings(tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("\n".join(key.replace(" ", "-") for key in KEYS))
    return Settings(
        data_dir=str(tmp_path),
        secret="0123456789abcdef",
        compile_workers=0,
        api_key_file=str(keys),
        quota_toolsets=2,
        store_revisions=3,
    )


def authorized(client, key):
    client.headers["Authorization"] = f"Bearer {key.replace(' ', '-')}"
    return client


def tools(number):
    function = TIME["function"] | {"description": f"version {number}"}
    return {"tools": [{"type": "function", "function": function}]}


async def test_quotas_and_dropped_revisions_over_http(client, settings):
    first = authorized(client, KEYS[0])
    for number in range(6):
        assert (await first.put("/v1/toolsets/a", json=tools(number))).is_success
    assert (await first.put("/v1/toolsets/b", json=tools(0))).is_success
    refused = await first.put("/v1/toolsets/c", json=tools(0))
    assert (refused.status_code, refused.json()["limit"]) == (403, "quota_toolsets")
    assert "raise quota_toolsets" in refused.json()["detail"]
    assert (await authorized(client, KEYS[1]).put("/v1/toolsets/c", json=tools(0))).is_success

    async with opened(settings.store_url) as store:
        assert await collect_if_due(store, Retention(settings.store_revisions))
        assert not await collect_if_due(store, Retention(settings.store_revisions))
    listed = (await client.get("/v1/toolsets/a/revisions")).json()
    assert [item["revision"] for item in listed["revisions"]] == [6, 5, 4]
    assert listed["dropped_before"] == 4
    assert (await client.get("/v1/toolsets/b/revisions")).json()["dropped_before"] is None
    for path in ("revisions/2", "report?revision=2"):
        gone = await client.get(f"/v1/toolsets/a/{path}")
        assert (gone.status_code, gone.json()["dropped_before"]) == (410, 4)
        assert "revision 2 of toolset 'a' was dropped" in gone.json()["detail"]
    chat = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "toolset": "a@2"}
    assert (await client.post("/v1/chat/completions", json=chat)).status_code in {404, 410}


def test_the_command_frees_and_says_what(settings, tmp_path):
    async def write():
        async with opened(settings.store_url) as store:
            for number in range(9):
                await Catalog(store).put(toolset("t", number))

    asyncio.run(write())

    def run(*options):
        done = CliRunner().invoke(cli, ["store", "gc", "--data-dir", str(tmp_path), *options])
        assert done.exit_code == 0, done.output
        kept, collected = done.output.splitlines()
        assert kept == (
            "kept: 2 revisions of each toolset (from the command line), deleted toolsets for 30 days (the default)"
        )
        return collected

    assert run("--store-revisions", "2", "--dry-run").startswith(
        "7 revisions and 0 contents would be removed"
    )
    removed = run("--store-revisions", "2")
    assert removed.startswith("7 revisions and 0 contents were removed: 0.0 MB; 7 unused contents wait")
    assert run("--store-revisions", "2").startswith("0 revisions")


def test_the_command_removes_nothing_by_a_mere_default(settings, tmp_path):
    async def write():
        async with opened(settings.store_url) as store:
            for number in range(53):
                await Catalog(store).put(toolset("t", number, size=10))

    asyncio.run(write())

    def run(*options, **environment):
        arguments = ["store", "gc", "--data-dir", str(tmp_path), *options]
        return CliRunner().invoke(cli, arguments, env={f"CALLGATE_{n}": v for n, v in environment.items()})

    dry = run("--dry-run").stdout.splitlines()
    assert dry[0].startswith("kept: 50 revisions of each toolset (the default)")
    assert dry[1].startswith("3 revisions and 0 contents would be removed")
    refused = run()
    assert refused.exit_code == 1
    reason = "setting 'store_revisions': nothing sets it here, and its default, 50, would remove 3 revisions"
    assert reason in refused.stderr
    assert "or add --yes" in refused.stderr
    assert "\n0 revisions" in run(STORE_REVISIONS="60").stdout
    assert "(from the environment)" in run(STORE_REVISIONS="60").stdout
    assert "\n3 revisions" in run("--yes").stdout
    assert "\n0 revisions" in run().stdout


@pytest.mark.parametrize(
    ("options", "setting"),
    [(["--store", "sqlite://{}/no.db"], "store"), (["--data-dir", "{}/no"], "data_dir")],
)
def test_the_command_makes_no_store(tmp_path, options, setting):
    options = [option.format(tmp_path) for option in options]
    done = CliRunner().invoke(cli, ["store", "gc", *options], env={"COLUMNS": "300"})
    assert done.exit_code == 1
    assert done.output.startswith(f"callgate: setting '{setting}': there is no store {tmp_path}/no")
    assert list(tmp_path.iterdir()) == []


async def until_full(write):
    """How many writes a store takes before it is full."""
    for number in range(10_000):
        try:
            await write(number)
        except StoreFull:
            return number
    raise AssertionError("the store is not full")


async def test_a_full_redis_says_so_and_loses_nothing(tmp_path):
    with running_redis(tmp_path, maxmemory="3mb", **{"maxmemory-policy": "noeviction"}) as server:
        async with opened(server.url) as store:
            catalog = Catalog(store)
            stored = await until_full(lambda number: catalog.put(toolset("t", number)))
            assert 3 < stored < 1000
            assert (await catalog.get("t")).toolset == toolset("t", stored - 1)
            assert (await Catalog(store).get("t", 1)).toolset == toolset("t", 0)
            await until_full(lambda number: store.set(f"unit:{number}", b"x" * 1000))
            with pytest.raises(StoreFull, match="raise maxmemory"):
                await store.set("more", b"x" * 1000)
            collected = await Collector(store, NO_GRACE, time.time()).collect()
            assert collected.num_bytes > 10_000
            assert (await Catalog(store).put(toolset("t", 101))).number == stored + 1
            with pytest.raises(DroppedRevision):
                await Catalog(store).get("t", 2)


async def test_a_policy_that_evicts_registrations_is_warned_of(tmp_path, caplog):
    with running_redis(tmp_path, **{"maxmemory-policy": "allkeys-lru"}) as server:
        async with opened(server.url) as store:
            await store.ping()
            await store.ping()
    assert caplog.text.count("allkeys-lru, which removes registered toolsets") == 1


def test_what_one_client_adds_in_grammars_is_bounded():
    now = 0.0
    allowance = StoreAllowance(lambda: now)
    assert all(allowance.take("a", MAX_CLIENT_BYTES // 4) for _ in range(4))
    assert not allowance.take("a", 1_000_000)
    assert allowance.take("b", 1_000_000)
    now = LIFETIME_S / 2
    assert allowance.take("a", MAX_CLIENT_BYTES // 2)
    assert not allowance.take("a", 1_000_000)


async def test_a_grammar_that_is_not_stored_is_used_all_the_same(monkeypatch):
    monkeypatch.setattr("compiler.cache.grammar_store.MAX_CLIENT_BYTES", 2_000)
    store, vocabulary = open_store("sqlite://:memory:"), prepare(Vocabulary.of_bytes())
    cache = GrammarCache(store, secret=b"0123456789abcdef")
    for number in range(20):
        tool = Tool("f", "", {"properties": {f"name_{number}": {"type": "integer"}}})
        found = await cache.find_toolset(
            [tool], prepared=vocabulary, syntax="json", tool_choice=ToolChoice(), client_id="a"
        )
        assert found.source == "compiled"
    stored = [await store.get(key) async for key in store.scan("unit:")]
    assert 1 <= len(stored) < 20
    assert sum(map(len, stored)) < 2_000 + 32 * len(stored) + 1
    await cache.close()
    await store.close()


async def test_names_are_read_once_for_many_slips():
    store = open_store("sqlite://:memory:")
    catalog = Catalog(store)
    await catalog.put(toolset("mail", 1, size=10))
    num_scans = 0
    scan = store.scan

    def counted(prefix):
        nonlocal num_scans
        num_scans += 1
        return scan(prefix)

    store.scan = counted
    for _ in range(30):
        with pytest.raises(UnknownToolset, match="did you mean 'mail'"):
            await catalog.get("mial")
    assert num_scans < 10  # in 5 s there is one, whatever the machine does beside it
    await catalog.put(toolset("post", 1, size=10))
    with pytest.raises(UnknownToolset, match="did you mean 'post'"):
        await catalog.get("posts")
    await store.close()


async def test_many_listings_read_the_names_a_few_times(tmp_path, monkeypatch):
    """Redis looks at the keys of all tenants for that, which takes 0.3 s beside 300,000 keys."""
    num_scans = 0

    def counted(prefix):
        nonlocal num_scans
        num_scans += 1
        return scan(prefix)

    with running_redis(tmp_path) as server:
        async with opened(server.url) as store, opened(server.url) as other_store:
            scan = store.scan
            monkeypatch.setattr(store, "scan", counted)
            catalogs = [Catalog(store), Catalog(other_store)]
            for number in range(6):
                await catalogs[number % 2].put(toolset(f"t{number}", number, size=10))
                pages = await asyncio.gather(*(catalogs[0].list() for _ in range(30)))
                listed = {tuple(item.name for item in page.items) for page in pages}
                assert listed == {tuple(f"t{each}" for each in range(number + 1))}
    assert num_scans < 18  # one for each new name, and one in 5 s


@pytest.mark.parametrize(
    ("scan_s", "waits"),
    [(4.0, ((0, 1), (6, 1), (73, 1), (2, 2))), (60.0, ((0, 1), (119, 1), (2, 2)))],
)
async def test_names_that_take_long_to_read_are_read_less_often(monkeypatch, scan_s, waits):
    """Else they could take most of Redis's time, beside a million keys of others."""
    store = open_store("sqlite://:memory:")
    catalog = Catalog(store)
    await catalog.put(toolset("mail", 1, size=10))
    now, num_scans, scan = 100.0, 0, store.scan

    async def slow(prefix):
        nonlocal now, num_scans
        num_scans += 1
        now += scan_s
        async for key in scan(prefix):
            yield key

    monkeypatch.setattr(store, "scan", slow)
    monkeypatch.setattr(toolset_records, "time", SimpleNamespace(monotonic=lambda: now))
    for waited_s, expected in waits:
        now += waited_s
        assert [item.name for item in (await catalog.list()).items] == ["mail"]
        assert num_scans == expected
    await store.close()


async def test_very_many_revisions_are_collected_piece_by_piece(monkeypatch):
    """To compare them with each other would stop the event loop for 7 s, for 6,000 of one toolset."""

    def compared(*_):
        raise AssertionError("records are told apart by their numbers")

    number = 3 * READ_AT_ONCE
    async with opened("sqlite://:memory:") as store:
        for n in range(1, number + 1):
            summary = RevisionSummary("t", n, f"{n:064x}", datetime.now(UTC), 1)
            await store.set(record_key("t", n), encode_record(Record(summary)))
        sizes = []
        get_many = store.get_many
        monkeypatch.setattr(store, "get_many", lambda keys: sizes.append(len(keys)) or get_many(keys))
        monkeypatch.setattr(Record, "__eq__", compared)
        assert (
            await Collector(store, Retention(revisions=2), time.time()).collect()
        ).num_revisions == number - 2
        assert max(sizes) == READ_AT_ONCE
        assert len([key async for key in store.scan(RECORDS)]) == 2


async def test_a_listing_reads_many_toolsets_together(monkeypatch, caplog):
    """Deleted ones keep their names: one after the other, 20,000 would take each listing 2 s."""
    store, reads = open_store("sqlite://:memory:"), []
    catalog = Catalog(store)
    for name in ("kept", "moved"):
        await catalog.put(toolset(name, 1, size=1))
    await store.set(HEADS + "moved", b"damaged")
    await store.set(HEADS + "lost", b"damaged")
    for number in range(LISTED_AT_ONCE + 5):
        summary = RevisionSummary(f"gone{number}", 2, "0" * 64, datetime.now(UTC), 0)
        await store.set(HEADS + summary.name, encode_record(Record(summary, is_deleted=True)))
    get, get_many = store.get, store.get_many
    monkeypatch.setattr(store, "get", lambda key: reads.append(key) or get(key))
    monkeypatch.setattr(store, "get_many", lambda keys: reads.append(keys) or get_many(keys))
    page = await catalog.list()
    assert [summary.name for summary in page.items] == ["kept", "moved"]
    assert len(reads) < 20
    assert (await catalog.list(limit=1)).next_key == "kept"
    assert "moved" in caplog.text


async def test_a_scan_of_many_keys_finds_each_once():
    async with opened("sqlite://:memory:") as store:
        names = [f"a/{i}" for i in range(2 * SCAN_COUNT)]
        for name in ("a/", *names, "b"):
            await store.set(name, b"")
        assert sorted([key async for key in store.scan("a/")]) == sorted(["a/", *names])


async def test_calls_go_on_while_much_space_is_given_back(tmp_path):
    """In one statement, 0.4 GB would keep all other calls waiting for 1.5 s."""
    path = tmp_path / "callgate.db"
    async with opened(f"sqlite://{path}") as store:
        await store.set("k", b"1")
        for number in range(40):
            await store.set(f"large {number}", b"x" * 2**20)
        for number in range(40):
            await store.delete(f"large {number}")
        compacting, num_calls = asyncio.create_task(store.compact()), 0
        while not compacting.done():
            assert await store.get("k") == b"1"
            num_calls += 1
        await compacting
        assert path.stat().st_size < 2**20
        assert num_calls > 40 * 2**20 // (4096 * PAGES_AT_ONCE)
