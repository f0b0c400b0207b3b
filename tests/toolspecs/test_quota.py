"""How much an owner may store, on SQLite and on a real Redis."""

import asyncio

import pytest
from clocked_catalogs import catalog_of, collector_of, toolset, usage
from opened_store import keys

from toolspecs import Quota, QuotaExceeded
from toolspecs.revisions.quota import Usage, UsageCounters
from toolspecs.revisions.toolset_contents import CONTENTS
from toolspecs.revisions.toolset_logs import HEADS


async def test_a_quota_holds_for_each_owner(store, other, clock):
    catalog = catalog_of(store, clock, quota=Quota(num_bytes=10_000, num_toolsets=3))
    for name in "abc":
        await catalog.put(toolset(name, name), owner="key 1")
    with pytest.raises(QuotaExceeded, match=r"3 toolsets.*quota_toolsets"):
        await catalog.put(toolset("d", "d"), owner="key 1")
    assert await keys(store, HEADS) == [HEADS + name for name in "abc"]
    await catalog.put(toolset("d", "d"), owner="key 2")
    await catalog.put(toolset("a", "again"), owner="key 1")
    with pytest.raises(QuotaExceeded, match=r"10000 bytes.*quota_bytes"):
        await catalog.put(toolset("a", "large", size=20_000), owner="key 1")
    assert len(await keys(store, CONTENTS)) == 5, "what was refused was not stored"
    await catalog.delete("b")
    await catalog.put(toolset("e", "e"), owner="key 1")
    first = await usage(other, "key 1")
    await UsageCounters(store).correct("key 1", Usage(5, 5))
    await collector_of(other, clock).collect()
    counted = await usage(other, "key 1")
    assert counted.num_toolsets == first.num_toolsets == 3
    assert first.num_bytes <= counted.num_bytes <= first.num_bytes + 600, "a deletion is a record too"


async def test_an_owner_who_has_nothing_leaves_no_counters(store, clock):
    """Else those of each key that ever registered something would stay for good."""
    catalog = catalog_of(store, clock)
    await catalog.put(toolset("t", 1), owner="first")
    await catalog.put(toolset("t", 2), owner="second")
    await collector_of(store, clock, revisions=1).collect()
    assert {key.rpartition("/")[2] for key in await keys(store, "toolset/usage/")} == {"second"}
    await catalog.put(toolset("u", 1), owner="first")
    assert (await usage(store, "first")).num_toolsets == 1


async def test_a_toolset_counts_for_the_owner_of_its_last_revision(store, clock):
    """As it is written, and as it is deleted."""
    catalog = catalog_of(store, clock, quota=Quota(num_toolsets=1))
    await catalog.put(toolset("t", 1), owner="first")
    await catalog.put(toolset("t", 2), owner="second")
    assert [(await usage(store, owner)).num_toolsets for owner in ("first", "second")] == [0, 1]
    await catalog.put(toolset("u", 1), owner="first")
    with pytest.raises(QuotaExceeded):
        await catalog.put(toolset("t", 3), owner="first")
    await catalog.delete("t")
    assert [(await usage(store, owner)).num_toolsets for owner in ("first", "second")] == [1, 0]
    await collector_of(store, clock).collect()
    assert [(await usage(store, owner)).num_toolsets for owner in ("first", "second")] == [1, 0]


async def test_writers_at_once_do_not_exceed_a_quota_together(store, clock):
    catalog = catalog_of(store, clock, quota=Quota(num_toolsets=4))
    writes = [catalog.put(toolset(f"t{number}", number)) for number in range(12)]
    results = await asyncio.gather(*writes, return_exceptions=True)
    assert sum(isinstance(result, QuotaExceeded) for result in results) >= 8
    assert 1 <= len(await keys(store, HEADS)) <= 4
