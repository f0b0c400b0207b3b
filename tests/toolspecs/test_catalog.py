"""The catalog over both stores: revisions, preconditions, history, pages."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from troubled_stores import OutageStore, RepeatingStore

from toolspecs import (
    Catalog,
    DeletedToolset,
    InvalidTools,
    LimitExceeded,
    Limits,
    StaleRevision,
    StoreUnavailable,
    Tool,
    Toolset,
    ToolsetReference,
    UnknownRevision,
    UnknownTool,
    UnknownToolset,
)
from toolspecs.revisions.preconditions import Precondition

OBJECT = {"type": "object"}


def tool(name, **parameters):
    return Tool(name, f"does {name}", {**OBJECT, **parameters})


def toolset(name, *tool_names):
    return Toolset(name, tuple(tool(tool_name) for tool_name in tool_names))


def names(revision):
    return list(revision.toolset.tool_names)


@pytest.fixture
def catalog(store):
    return Catalog(store)


@pytest.fixture
def elsewhere(other):
    """A catalog of another process, as it were: it shares the store and nothing else."""
    return Catalog(other)


async def test_what_was_put_comes_back(catalog, elsewhere):
    parameters = {"properties": {"z": {"const": 10**30}, "a": {"default": -0.5, "title": "naïve 😀"}}}
    put = await catalog.put(Toolset("mail", (Tool("send", "", {**OBJECT, **parameters}, {"title": "Send"}),)))
    got = await elsewhere.get("mail")
    assert got == put
    assert (got.number, got.digest) == (1, got.toolset.digest)
    assert list(got.toolset["send"].parameters["properties"]) == ["z", "a"]
    assert got.toolset["send"].extras == {"title": "Send"}
    assert (await elsewhere.get("mail")).summary == put.summary


async def test_the_order_in_which_keys_may_be_written_is_content(catalog, elsewhere):
    send = Tool("send", "", OBJECT)
    await catalog.put(Toolset("mail", (send,)))
    await catalog.put(Toolset("mail", (replace(send, key_order="any"),)))
    got = await elsewhere.get("mail")
    assert (got.number, got.toolset["send"].key_order) == (2, "any")
    assert (await elsewhere.get("mail", 1)).toolset["send"].key_order == "declared"


async def test_an_empty_toolset_is_a_toolset(catalog, elsewhere):
    await catalog.put(Toolset("empty"))
    assert names(await elsewhere.get("empty")) == []


async def test_every_change_is_a_revision_and_equal_content_is_none(catalog):
    first = await catalog.put(toolset("t", "a"))
    assert await catalog.put(toolset("t", "a")) == first
    second = await catalog.put(toolset("t", "a", "b"))
    third = await catalog.put(toolset("t", "b", "a"))
    assert [first.number, second.number, third.number] == [1, 2, 3]
    assert second.digest != third.digest, "the order is content"
    back = await catalog.put(toolset("t", "a"))
    assert (back.number, back.digest) == (4, first.digest)


async def test_the_clock_dates_revisions(store):
    now = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
    catalog = Catalog(store, clock=lambda: now)
    await catalog.put(toolset("t", "a"))
    assert (await catalog.get("t")).created_at == now
    now += timedelta(days=1)
    await catalog.put(toolset("t", "b"))
    assert (await catalog.get("t")).created_at == now
    assert (await catalog.get("t", 1)).created_at == now - timedelta(days=1)


async def test_a_fresh_precondition_holds(catalog):
    first = await catalog.put(toolset("t", "a"), Precondition(if_none_match=True))
    second = await catalog.put(toolset("t", "b"), Precondition(first.etag))
    third = await catalog.put_checked_tool("t", tool("c"), Precondition(f'"x", {second.etag}'))
    fourth = await catalog.delete_tool("t", "b", Precondition("*"))
    await catalog.delete("t", Precondition(fourth.etag))
    assert [r.number for r in (first, second, third, fourth)] == [1, 2, 3, 4]


async def test_a_stale_precondition_changes_nothing_and_tells_the_current_etag(catalog):
    stale = (await catalog.put(toolset("t", "a"))).etag
    current = await catalog.put(toolset("t", "b"))
    attempts = [
        lambda: catalog.put(toolset("t", "c"), Precondition(stale)),
        lambda: catalog.put(toolset("t", "c"), Precondition("W/" + current.etag)),
        lambda: catalog.put(toolset("t", "c"), Precondition(if_none_match=True)),
        lambda: catalog.put_checked_tool("t", tool("c"), Precondition(stale)),
        lambda: catalog.delete_tool("t", "b", Precondition(stale)),
        lambda: catalog.delete("t", Precondition(stale)),
        lambda: catalog.restore("t", 1, Precondition(stale)),
    ]
    for attempt in attempts:
        with pytest.raises(StaleRevision) as caught:
            await attempt()
        assert caught.value.current_etag == current.etag
    assert await catalog.get("t") == current


async def test_a_precondition_on_what_is_not_there(catalog):
    for condition in ("*", '"1-abc"'):
        with pytest.raises(StaleRevision) as caught:
            await catalog.put(toolset("t", "a"), Precondition(condition))
        assert caught.value.current_etag is None
    with pytest.raises(UnknownToolset):
        await catalog.get("t")


async def test_one_tool_is_added_replaced_and_taken_out(catalog):
    await catalog.put(toolset("t", "a", "b", "c"))
    await catalog.put_checked_tool("t", tool("d"))
    replaced = await catalog.put_checked_tool("t", tool("b", minProperties=1))
    assert names(replaced) == ["a", "b", "c", "d"]
    assert replaced.toolset["b"].parameters["minProperties"] == 1
    assert names(await catalog.delete_tool("t", "a")) == ["b", "c", "d"]
    with pytest.raises(UnknownTool) as caught:
        await catalog.delete_tool("t", "a")
    assert caught.value.name == "a"
    assert (await catalog.get("t")).number == 4


async def test_what_is_not_there_is_named_with_what_is_near(catalog):
    for name in ("calendar", "calendars", "payments"):
        await catalog.put(toolset(name, "get_event", "list_events"))
    await catalog.delete("calendars")
    for attempt in (
        lambda: catalog.get("calender"),
        lambda: catalog.get("Calendar"),
        lambda: catalog.put_checked_tool("calender", tool("a")),
        lambda: catalog.delete_tool("calender", "a"),
        lambda: catalog.delete("calender"),
        lambda: catalog.revisions("calender"),
        lambda: catalog.restore("calender", 1),
    ):
        with pytest.raises(UnknownToolset, match="did you mean 'calendar'") as caught:
            await attempt()
        assert caught.value.near == ("calendar",)
    with pytest.raises(UnknownToolset) as caught:
        await catalog.get("x" * 100_000)
    assert caught.value.near == ()
    with pytest.raises(UnknownTool) as caught:
        await catalog.delete_tool("payments", "get_evnt")
    assert caught.value.near[0] == "get_event"


@pytest.mark.parametrize("number", [-1, 0, 3, 10**30])
async def test_an_unknown_revision_is_named_with_the_latest(catalog, number):
    await catalog.put(toolset("t", "a"))
    await catalog.put(toolset("t", "b"))
    for attempt in (catalog.get, catalog.restore):
        with pytest.raises(UnknownRevision) as caught:
            await attempt("t", number)
        assert (caught.value.number, caught.value.latest) == (number, 2)


async def test_any_revision_can_be_got_and_restored(catalog, elsewhere):
    for letter in "abc":
        await catalog.put(toolset("t", letter))
    assert names(await elsewhere.get("t", 1)) == ["a"]
    assert names(await elsewhere.resolve(ToolsetReference.parse("t@2"))) == ["b"]
    assert names(await elsewhere.resolve(ToolsetReference.parse("t"))) == ["c"]
    restored = await elsewhere.restore("t", 1)
    assert (restored.number, names(restored)) == (4, ["a"])
    assert await elsewhere.restore("t", 1) == restored, "it is current already"


async def test_a_deleted_toolset_is_gone_but_not_lost(catalog, elsewhere):
    """Nor is it taken for one that never was."""
    await catalog.put(toolset("t", "a"))
    await catalog.put(toolset("t", "b"))
    await catalog.delete("t")
    for attempt in (
        lambda: elsewhere.get("t"),
        lambda: elsewhere.get("t", 1),
        lambda: elsewhere.put_checked_tool("t", tool("a")),
        lambda: elsewhere.delete("t"),
    ):
        with pytest.raises(DeletedToolset, match="toolset 't' was deleted") as caught:
            await attempt()
        assert caught.value.latest == 2
    assert (await elsewhere.list()).items == ()
    assert [item.number for item in (await elsewhere.revisions("t")).items] == [2, 1]
    restored = await elsewhere.restore("t", 1)
    assert (restored.number, names(restored)) == (4, ["a"])


async def test_numbers_go_on_after_a_deletion(catalog):
    await catalog.put(toolset("t", "a"))
    await catalog.delete("t")
    again = await catalog.put(toolset("t", "b"), Precondition(if_none_match=True))
    assert again.number == 3
    assert names(await catalog.get("t", 1)) == ["a"]
    with pytest.raises(UnknownRevision):
        await catalog.get("t", 2)
    assert [item.number for item in (await catalog.revisions("t")).items] == [3, 1]


async def all_pages(page_after, limit):
    """The items of all pages, of which none has more than `limit`."""
    found, key = [], None
    while True:
        page = await page_after(key, limit)
        assert len(page.items) <= limit
        found += page.items
        key = page.next_key
        if key is None:
            return found


async def test_toolsets_are_listed_by_name_in_pages(catalog):
    everything = sorted(["b", "a", "a-b", "a.b", "z9", "0", "a_b"])
    for name in everything:
        await catalog.put(toolset(name, "x", "y"))
    await catalog.put(toolset("gone", "x"))
    await catalog.delete("gone")
    for limit in (1, 2, 3, 7, 100):
        found = await all_pages(catalog.list, limit)
        assert [item.name for item in found] == everything
        assert {item.num_tools for item in found} == {2}
    assert [item.name for item in (await catalog.list(after="a.b", limit=2)).items] == ["a_b", "b"]


async def test_revisions_are_listed_newest_first_in_pages(catalog):
    for letter in "abcde":
        await catalog.put(toolset("t", letter))

    def page_before(key, limit):
        return catalog.revisions("t", int(key) if key else None, limit)

    for limit in (1, 2, 5, 9):
        assert [item.number for item in await all_pages(page_before, limit)] == [5, 4, 3, 2, 1]
    assert [item.number for item in (await catalog.revisions("t", 3)).items] == [2, 1]
    assert (await catalog.revisions("t", 1)).items == ()
    assert (await catalog.revisions("t", 0)).items == ()
    assert len((await catalog.revisions("t", 99)).items) == 5


async def test_a_page_of_revisions_is_read_together(catalog, monkeypatch):
    """Not record by record, which would take the gateway's threads and event loop 30 ms for 400."""
    for number in range(30):
        await catalog.put(toolset("t", f"t{number}"))
    reads, get, get_many = [], catalog.store.get, catalog.store.get_many
    monkeypatch.setattr(catalog.store, "get", lambda key: reads.append(key) or get(key))
    monkeypatch.setattr(catalog.store, "get_many", lambda keys: reads.append(keys) or get_many(keys))
    page = await catalog.revisions("t", limit=20)
    assert [item.number for item in page.items] == [*range(30, 10, -1)]
    assert page.next_key == "11"
    assert len(reads) < 5


async def test_nothing_invalid_is_stored_and_every_fault_is_told(catalog):
    await catalog.put(toolset("t", "a"))
    bad = Toolset("t", (tool("fine"), tool("no", properties=5), Tool("a b", "", {"type": "string"})))
    with pytest.raises(InvalidTools) as caught:
        await catalog.put(bad)
    assert [fault.pointer for fault in caught.value.faults] == [
        "/tools/1/parameters/properties",
        "/tools/2/name",
        "/tools/2/parameters/type",
    ]
    with pytest.raises(InvalidTools):
        await catalog.put(Toolset("u", bad.tools))
    assert names(await catalog.get("t")) == ["a"]
    assert [item.name for item in (await catalog.list()).items] == ["t"]


async def test_a_toolset_too_large_is_refused_whole(store):
    catalog = Catalog(store, limits=Limits(num_tools=2, toolset_bytes=300))
    await catalog.put(toolset("t", "a", "b"))
    for attempt in (
        lambda: catalog.put(toolset("t", "a", "b", "c")),
        lambda: catalog.put_checked_tool("t", tool("c")),
    ):
        with pytest.raises(LimitExceeded) as caught:
            await attempt()
        assert (caught.value.limit, caught.value.maximum, caught.value.actual) == ("num_tools", 2, 3)
    with pytest.raises(LimitExceeded) as caught:
        await catalog.put_checked_tool("t", tool("b", title="x" * 300))
    assert caught.value.limit == "toolset_bytes"
    assert (await catalog.get("t")).number == 1


class Dying:
    """A store whose writer dies at the n-th write."""

    def __init__(self, store, num_writes):
        self.store = store
        self.num_writes = num_writes

    def __getattr__(self, name):
        return getattr(self.store, name)

    async def compare_and_set(self, *arguments):
        if self.num_writes == 0:
            raise StoreUnavailable("dying", "the writer died")
        self.num_writes -= 1
        return await self.store.compare_and_set(*arguments)


@pytest.mark.parametrize("num_writes", range(4))
@pytest.mark.parametrize("is_new", [True, False])
async def test_a_writer_that_dies_half_way_loses_nothing(store, num_writes, is_new):
    """Content, record, head: wherever it ends, what was acknowledged stays and others can write."""
    catalog = Catalog(store)
    if not is_new:
        await catalog.put(toolset("t", "kept"))
    try:
        await Catalog(Dying(store, num_writes)).put(toolset("t", "dying"))
    except StoreUnavailable:
        assert num_writes < 3
    else:
        assert num_writes == 3
    is_committed = num_writes >= 2
    after = await catalog.put(toolset("t", "after"))
    history = [
        names(await catalog.get("t", item.number)) for item in (await catalog.revisions("t")).items[::-1]
    ]
    assert history == [*([["kept"]] * (not is_new)), *([["dying"]] * is_committed), ["after"]]
    assert await catalog.get("t") == after


async def test_a_repeated_command_whose_answer_was_lost_is_known_again(store):
    catalog = Catalog(RepeatingStore(store))
    first = await catalog.put(toolset("t", "a"))
    second = await catalog.put(toolset("t", "b"), Precondition(first.etag))
    assert (second.number, names(await Catalog(store).get("t"))) == (2, ["b"])


async def test_in_an_outage_what_another_gateway_deleted_stays_deleted(store):
    """A gateway that knows of the deletion does not serve what it served before."""
    outage, other = OutageStore(store), Catalog(store)
    catalog = Catalog(outage)
    await other.put(toolset("t", "a"))
    await other.put(toolset("t", "b"))
    assert names(await catalog.get("t")) == ["b"]
    assert names(await catalog.get("t", 1)) == ["a"]
    await other.delete("t")
    with pytest.raises(DeletedToolset):
        await catalog.get("t")
    outage.is_out = True
    for number in (None, 1):
        with pytest.raises(StoreUnavailable):
            await catalog.get("t", number)
    outage.is_out = False
    await other.restore("t", 2)
    assert names(await catalog.get("t", 1)) == ["a"]
    outage.is_out = True
    assert names(await catalog.get("t", 1)) == ["a"]
    assert names(await catalog.get("t")) == ["b"]


async def test_in_an_outage_a_toolset_that_was_lost_is_not_served(store):
    outage = OutageStore(store)
    catalog = Catalog(outage)
    await Catalog(store).put(toolset("t", "a"))
    await catalog.get("t")
    for key in [key async for key in store.scan("toolset/")]:
        await store.delete(key)
    with pytest.raises(UnknownToolset):
        await catalog.get("t")
    outage.is_out = True
    with pytest.raises(StoreUnavailable):
        await catalog.get("t")
