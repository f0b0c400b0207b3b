"""Entries under the catalog's keys that it did not write, or that were cut short."""

import json

import pytest

from toolspecs import Catalog, DamagedEntry, Tool, Toolset, UnknownToolset
from toolspecs.revisions.toolset_contents import compress
from toolspecs.revisions.toolset_logs import MAX_NUMBER
from toolspecs.revisions.toolset_records import MAX_MISSING

TOOL = Tool("a", "does a", {"type": "object"})
GARBAGE = [b"", b"\xff\x00", b"[1]", b'{"version": 2}', b'{"name": "t"', b"null"]


def record(content, **changes):
    return json.dumps({**json.loads(content), **changes}).encode()


@pytest.fixture
async def catalog(store):
    """A catalog with two toolsets; `t` has two revisions."""
    catalog = Catalog(store)
    for tools in ((), (TOOL,)):
        await catalog.put(Toolset("t", tools))
    await catalog.put(Toolset("other"))
    return catalog


@pytest.mark.parametrize("garbage", GARBAGE)
async def test_a_head_is_made_anew(catalog, store, caplog, garbage):
    head = await store.get("toolset/head/t")
    await store.set("toolset/head/t", garbage)
    assert (await catalog.get("t")).number == 2
    assert "toolset/head/t" in caplog.text
    assert await store.get("toolset/head/t") == head
    await store.set("toolset/head/t", garbage)
    assert (await catalog.put(Toolset("t"))).number == 3
    assert [item.number for item in (await catalog.list()).items] == [1, 3]


@pytest.mark.parametrize(
    "changes", [{"number": 0}, {"number": "x"}, {"name": "u"}, {"digest": "../x"}, {"created_at": "now"}]
)
async def test_a_head_with_a_bad_field_is_made_anew(catalog, store, changes):
    head = await store.get("toolset/head/t")
    await store.set("toolset/head/t", record(head, **changes))
    assert (await catalog.get("t")).number == 2


async def test_fields_of_later_versions_are_passed_over(catalog, store):
    key = "toolset/record/t/0000000001"
    await store.set(key, record(await store.get(key), later=True))
    assert (await catalog.get("t", 1)).number == 1


@pytest.mark.parametrize("garbage", GARBAGE)
async def test_a_damaged_record_is_named_and_hides_no_others(catalog, store, caplog, garbage):
    await store.set("toolset/record/t/0000000001", garbage)
    with pytest.raises(DamagedEntry, match="toolset/record/t/0000000001"):
        await catalog.get("t", 1)
    assert (await catalog.get("t")).number == 2
    await store.set("toolset/head/t", garbage)
    with pytest.raises(DamagedEntry, match="toolset/record/t/0000000001"):
        await catalog.get("t")
    assert [item.name for item in (await catalog.list()).items] == ["other"]
    assert "'t' is left out" in caplog.text
    with pytest.raises(UnknownToolset):
        await catalog.get("tt")


async def test_a_record_in_the_place_of_another_is_none(catalog, store):
    await store.set("toolset/record/t/0000000001", await store.get("toolset/record/t/0000000002"))
    with pytest.raises(DamagedEntry, match="record of revision 2"):
        await catalog.get("t", 1)


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"garbage",
        compress(b""),
        compress(b"[["),
        compress(b"[" * 100_000),
        compress(b'[["a"]]'),
        compress(b'{"tools": 1, "documents": {}}'),
        compress(b'[["b", "another", {"type": "object"}, {}]]'),
        compress(b"[" + b" " * (65 << 20) + b"]"),
        bytes(30 << 20),
        compress(json.dumps([["a", "does a", {"type": "object"}, {}]]).encode())[:-5],
    ],
)
async def test_a_damaged_content_is_named_and_put_again(catalog, store, content):
    head = json.loads(await store.get("toolset/head/t"))
    key = f"toolset/content/{head['digest']}"
    if content is None:
        await store.delete(key)
    else:
        await store.set(key, content)
    with pytest.raises(DamagedEntry, match=f"{key}.*toolset 't'"):
        await Catalog(store).get("t")
    assert (await catalog.put(Toolset("t", (TOOL,)))).number == 2
    assert (await Catalog(store).get("t")).toolset.tools == (TOOL,)


async def test_a_listing_ends_although_a_head_is_far_ahead_of_its_records(
    catalog, store, monkeypatch, caplog
):
    """Else it would look for a thousand million revisions, one after the other."""
    key = "toolset/head/t"
    await store.set(key, record(await store.get(key), number=10**9))
    get_many, num_read = store.get_many, 0

    def counted(keys):
        nonlocal num_read
        num_read += len(keys)
        assert num_read < 2 * MAX_MISSING
        return get_many(keys)

    monkeypatch.setattr(store, "get_many", counted)
    assert (await catalog.revisions("t")).items == ()
    assert "toolset 't' are missing" in caplog.text
    page = await catalog.revisions("t", before=500)
    assert [item.number for item in page.items] == [2, 1]


async def test_no_revision_follows_the_highest_number(catalog, store):
    key = "toolset/head/t"
    await store.set(key, record(await store.get(key), number=MAX_NUMBER))
    with pytest.raises(DamagedEntry, match=key):
        await catalog.put(Toolset("t"))
    assert (await catalog.put(Toolset("other", (TOOL,)))).number == 2
