"""What the collector removes, and what it must not, on SQLite and on a real Redis."""

import asyncio
import json
from dataclasses import replace

import pytest
from clocked_catalogs import catalog_of, collector_of, toolset, usage
from opened_store import keys, opened

from toolspecs import (
    Collected,
    DeletedToolset,
    DroppedRevision,
    StoreFull,
    Toolset,
    UnknownRevision,
)
from toolspecs.revisions import toolset_logs
from toolspecs.revisions.quota import Usage
from toolspecs.revisions.toolset_contents import CONTENTS
from toolspecs.revisions.toolset_logs import DROPPED, HEADS, RECORDS, USED, record_key
from toolspecs.revisions.toolset_records import ToolsetRecords


def large(content):
    tools = [replace(toolset("t", f"{content} {n}", 30_000).tools[0], name=f"f{n}") for n in range(7)]
    return Toolset("t", tuple(tools))


async def test_the_last_revisions_are_kept(store, other, clock):
    catalog = catalog_of(store, clock)
    for number in range(1, 21):
        await catalog.put(toolset("t", number))
    clock.pass_by(hours=2)
    collected = await collector_of(other, clock, revisions=5).collect()
    assert (collected.num_revisions, collected.num_contents, collected.num_young) == (15, 15, 0)
    assert len(await keys(store, CONTENTS)) == 5
    fresh = catalog_of(other, clock)
    assert [item.number for item in (await fresh.revisions("t")).items] == [20, 19, 18, 17, 16]
    for number in (16, 20):
        assert (await fresh.get("t", number)).toolset == toolset("t", number)
    for number in (1, 15):
        with pytest.raises(
            DroppedRevision, match=f"revision {number} .* dropped .* those from 16 on are kept"
        ):
            await fresh.get("t", number)
        with pytest.raises(DroppedRevision):
            await fresh.restore("t", number)
    with pytest.raises(UnknownRevision, match=r"latest is 20") as unknown:
        await fresh.get("t", 21)
    assert not isinstance(unknown.value, DroppedRevision)
    assert (await fresh.put(toolset("t", "more"))).number == 21
    assert await fresh.first_kept("t") == 16


async def test_a_dry_run_removes_nothing_and_says_the_same(store, clock):
    catalog = catalog_of(store, clock)
    for number in range(12):
        await catalog.put(toolset("t", number))
    clock.pass_by(hours=2)
    before = await keys(store, "")
    planned = await collector_of(store, clock, is_dry_run=True, revisions=3).collect()
    assert await keys(store, "") == before
    assert planned.num_bytes > 9 * 100
    assert await collector_of(store, clock, revisions=3).collect() == planned
    assert await collector_of(store, clock, revisions=3).collect() == Collected()


async def test_shared_contents_stay_while_anybody_has_them(store, clock):
    catalog = catalog_of(store, clock)
    await catalog.put(toolset("other", "shared"))
    await catalog.put(toolset("t", "shared"))
    await catalog.put(toolset("t", "next"))
    clock.pass_by(hours=2)
    assert (await collector_of(store, clock, revisions=1).collect()).num_contents == 0
    fresh = catalog_of(store, clock)
    assert (await fresh.get("other")).toolset == toolset("other", "shared")
    await fresh.put(toolset("other", "now alone"))
    clock.pass_by(hours=2)
    assert (await collector_of(store, clock, revisions=1).collect()).num_contents == 1


@pytest.mark.parametrize("many", [3, toolset_logs.MANY_REVISIONS])
async def test_a_revision_that_a_request_named_is_kept(store, clock, monkeypatch, many):
    monkeypatch.setattr(toolset_logs, "MANY_REVISIONS", many)
    catalog = catalog_of(store, clock)
    for number in range(1, 9):
        await catalog.put(toolset("t", number))
    await catalog.get("t", 2)
    clock.pass_by(hours=2)
    await collector_of(store, clock, revisions=3).collect()
    fresh = catalog_of(store, clock)
    if many > 3:
        monkeypatch.setattr(store, "scan", None)  # Redis would look at the keys of all tenants
    assert (await fresh.get("t", 2)).toolset == toolset("t", 2)
    assert [item.number for item in (await fresh.revisions("t")).items] == [8, 7, 6, 2]
    first = await fresh.revisions("t", limit=3)
    assert (await fresh.revisions("t", before=int(first.next_key))).items[0].number == 2
    with pytest.raises(DroppedRevision):
        await fresh.get("t", 3)


async def test_a_revision_that_could_not_be_noted_is_noted_later(store, clock, monkeypatch):
    """Else a store that is full at the first request would have it dropped: the next note is a day later."""
    catalog, write = catalog_of(store, clock), store.set
    for number in range(1, 9):
        await catalog.put(toolset("t", number))

    async def full(*arguments):
        raise StoreFull("a test", "it is full")

    monkeypatch.setattr(store, "set", full)
    await catalog.get("t", 2)
    monkeypatch.setattr(store, "set", write)
    clock.pass_by(minutes=2)
    await catalog.get("t", 2)
    await collector_of(store, clock, revisions=3).collect()
    assert (await catalog_of(store, clock).get("t", 2)).toolset == toolset("t", 2)


async def test_many_toolsets_take_no_more_scans_than_one(store, clock, monkeypatch):
    """Redis looks at all keys of all tenants in each scan: a scan each for 100 toolsets would take it 45 s."""
    scanned, scan = [], store.scan

    def counting(prefix):
        scanned.append(prefix)
        return scan(prefix)

    monkeypatch.setattr(store, "scan", counting)
    num_scans = []
    for num_toolsets in (1, 20):
        for number in range(num_toolsets):
            for content in range(3):
                await catalog_of(store, clock).put(toolset(f"t{number}", content))
        scanned.clear()
        await collector_of(store, clock, revisions=1).collect()
        num_scans.append(len(scanned))
    assert num_scans[0] == num_scans[1]


async def test_a_deleted_toolset_can_be_restored_for_a_while(store, clock):
    catalog = catalog_of(store, clock)
    await catalog.put(toolset("t", 1))
    await catalog.put(toolset("t", 2))
    await catalog.delete("t")
    clock.pass_by(days=29)
    assert await collector_of(store, clock).collect() == Collected()
    assert (await catalog_of(store, clock).restore("t", 1)).number == 4
    await catalog.delete("t")
    clock.pass_by(days=31)
    collected = await collector_of(store, clock).collect()
    assert (collected.num_revisions, collected.num_contents) == (3, 2)
    assert (await keys(store, CONTENTS), len(await keys(store, RECORDS))) == ([], 1)
    fresh = catalog_of(store, clock)
    with pytest.raises(DeletedToolset):
        await fresh.get("t")
    with pytest.raises(DroppedRevision, match=r"revision 1 .* was dropped"):
        await fresh.restore("t", 1)
    assert (await fresh.put(toolset("t", 3))).number == 6, "no number is used twice"


async def test_a_content_that_a_writer_is_about_to_name_stays(store, other, clock, monkeypatch):
    """A writer found an old, unused content, and has not appended its record yet."""
    catalog = catalog_of(store, clock)
    await catalog.put(toolset("t", "old"))
    await catalog.put(toolset("t", "new"))
    clock.pass_by(hours=2)
    collector = collector_of(other, clock, revisions=1)
    append = ToolsetRecords.append

    async def collect_first(self, record):
        collected.append(await collector.collect())
        return await append(self, record)

    collected = []
    monkeypatch.setattr(ToolsetRecords, "append", collect_first)
    await catalog.put(toolset("u", "old"))
    assert (collected[0].num_revisions, collected[0].num_contents, collected[0].num_young) == (1, 0, 1)
    assert (await catalog_of(other, clock).get("u")).toolset == toolset("u", "old")


async def test_a_content_that_a_writer_renews_under_the_collector_stays(store, other, clock, monkeypatch):
    """The writer comes between the collector's look at the content and its removal."""
    catalog = catalog_of(store, clock)
    await catalog.put(toolset("t", "old"))
    await catalog.put(toolset("t", "new"))
    clock.pass_by(hours=2)
    remove = type(other).compare_and_set

    async def write_first(self, key, expected, value, ttl_s=None):
        if self is other and value is None and key.startswith(CONTENTS):
            await catalog.put(toolset("u", "old"))
        return await remove(self, key, expected, value, ttl_s)

    monkeypatch.setattr(type(other), "compare_and_set", write_first)
    assert (await collector_of(other, clock, revisions=1).collect()).num_contents == 0
    assert (await catalog_of(other, clock).get("u")).toolset == toolset("u", "old")


async def test_writers_and_collectors_at_once_lose_nothing(store_url, clock):
    """Every toolset is at its writer's last content, and every kept revision can be read."""

    async def write(number):
        async with opened(store_url) as store:
            catalog = catalog_of(store, clock)
            for step in range(25):
                await catalog.put(toolset(f"t{number % 3}", step % 4))
                clock.pass_by(minutes=1)

    async def collect():
        async with opened(store_url) as store:
            for _ in range(12):
                await collector_of(store, clock, revisions=2, grace_s=1800).collect()
                await asyncio.sleep(0)

    await asyncio.gather(*(write(number) for number in range(6)), collect(), collect())
    async with opened(store_url) as store:
        catalog = catalog_of(store, clock)
        for name in ("t0", "t1", "t2"):
            for item in (await catalog.revisions(name)).items:
                await catalog.get(name, item.number)


async def test_a_lost_head_is_found_again_behind_dropped_revisions(store, clock):
    catalog = catalog_of(store, clock)
    for number in range(1, 11):
        await catalog.put(toolset("t", number))
    await collector_of(store, clock, revisions=3).collect()
    await store.set(HEADS + "t", b"damaged")
    assert (await catalog_of(store, clock).get("t")).number == 10
    await store.delete(HEADS + "t")
    assert (await catalog_of(store, clock).put(toolset("t", 11))).number == 11


async def test_a_damaged_record_keeps_the_current_content(store, clock):
    catalog = catalog_of(store, clock)
    await catalog.put(toolset("t", 1))
    await store.set(record_key("t", 1), b"damaged")
    clock.pass_by(hours=2)
    assert (await collector_of(store, clock).collect()).num_contents == 0
    assert (await catalog_of(store, clock).get("t")).toolset == toolset("t", 1)


async def test_space_is_given_back(tmp_path, clock):
    """Of rewritten toolsets, and of deleted ones."""
    path = tmp_path / "callgate.db"
    async with opened(f"sqlite://{path}") as store:
        catalog = catalog_of(store, clock)
        for number in range(20):
            await catalog.put(large(number))
        await store.compact()
        full = path.stat().st_size
        clock.pass_by(hours=2)
        collected = await collector_of(store, clock, revisions=2).collect()
        assert collected.num_bytes > 18 * 100_000
        assert path.stat().st_size < full / 5
        await catalog.delete("t")
        await collector_of(store, clock, deleted_days=0).collect()
        assert path.stat().st_size < full / 50


FORGED_NUMBER = 10**9
FORGED = {
    "a note that is no number": (DROPPED + "bad", b"x"),
    "a note with very many digits": (DROPPED + "bad", b"9" * 5_000),
    "a used number with very many digits": (USED + "bad/" + "9" * 5_000, b""),
    "a record's number with very many digits": (RECORDS + "bad/" + "9" * 5_000, b""),
    "a number in other digits": (RECORDS + "bad/\u0661", b""),
    "a record's number in another spelling": (RECORDS + "bad/1", b""),
    "a head before all times": (HEADS + "bad", {"created_at": "0001-01-01T00:00:00"}),
    "a head before the year 1": (HEADS + "bad", {"created_at": "0001-01-01T00:00:00+14:00"}),
    "a record of very many bytes": (record_key("bad", 4), {"num_bytes": 10**30}),
    "a record that is no record": (record_key("worse", 1), b"x"),
    "a head far ahead of its log": (HEADS + "bad", {"number": FORGED_NUMBER}),
    "a counter that is no number": ("toolset/usage/bytes/me", b"x"),
    "a counter that is too large": ("toolset/usage/bytes/me", b"-9223372036854775808"),
}


@pytest.mark.parametrize(("key", "forged"), FORGED.values(), ids=FORGED)
async def test_a_forged_entry_does_not_end_collecting(store, clock, key, forged):
    """Else each hourly run would end at it, for all tenants."""
    catalog = catalog_of(store, clock)
    for number in range(4):
        for name in ("a", "bad", "z"):
            await catalog.put(toolset(name, f"{name} {number}"), owner="me")
    if isinstance(forged, dict):
        forged = json.dumps({**json.loads(await store.get(HEADS + "bad")), **forged}).encode()
    await store.set(key, forged)
    clock.pass_by(hours=2)
    collected = await collector_of(store, clock, revisions=2).collect()
    assert collected.num_revisions >= 4
    fresh = catalog_of(store, clock)
    for name in ("a", "z", "bad"):
        for number in (3, 4):
            assert (await fresh.get(name, number)).toolset == toolset(name, f"{name} {number - 1}")
    if "usage" in key:
        assert await usage(store, "me") == Usage(6 * 512 + sum(await sizes(store)), 3)


async def sizes(store):
    return [json.loads(await store.get(key))["num_bytes"] for key in await keys(store, RECORDS)]


@pytest.mark.parametrize("damaged", [(DROPPED + "t",), (record_key("t", 1), record_key("t", 2), HEADS + "t")])
async def test_what_an_unreadable_log_may_name_is_kept(store, clock, damaged, caplog):
    """A person who mends the log finds all contents."""
    catalog = catalog_of(store, clock)
    for name, content in [("t", "t 1"), ("t", "t 2"), ("u", "u 1"), ("u", "u 2")]:
        await catalog.put(toolset(name, content), owner="me")
    before = {key: await store.get(key) for key in damaged}
    counted = await usage(store, "me")
    for key in damaged:
        await store.set(key, b"damaged")
    clock.pass_by(hours=2)
    assert (await collector_of(store, clock, revisions=1).collect()).num_revisions == 1
    assert "nothing that toolset 't' may need is removed" in caplog.text
    assert len(await keys(store, CONTENTS)) == 4
    assert await usage(store, "me") == counted
    for key, content in before.items():
        await (store.set(key, content) if content else store.delete(key))
    assert (await catalog_of(store, clock).get("t", 1)).toolset == toolset("t", "t 1")
    assert (await collector_of(store, clock, revisions=1).collect()).num_contents == 1
