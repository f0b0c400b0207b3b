"""A part of a store knows nothing of what is beside it."""

import asyncio

from toolspecs.stores.namespaces import ListedStore, NamespacedStore


async def test_parts_with_the_same_keys_do_not_meet(store):
    first, second = NamespacedStore(store, "a/"), NamespacedStore(store, "b/")
    await first.set("k", b"1")
    assert await second.get("k") is None
    assert await second.get_many(["k", "a/k"]) == [None, None]
    assert await second.delete("k") is False
    assert await second.compare_and_set("k", None, b"2")
    assert [await first.get("k"), await second.get("k")] == [b"1", b"2"]
    assert [await first.increment("n"), await second.increment("n", 5, ttl_s=60)] == [1, 5]
    assert sorted([key async for key in first.scan("")]) == ["k", "n"]
    assert sorted([key async for key in store.scan("b/")]) == ["b/k", "b/n"]
    async with first.lock("l", lease_s=30, wait_s=1), second.lock("l", lease_s=30, wait_s=1):
        pass


async def test_others_run_while_listed_keys_are_read(store):
    """Else the keys of a large tenant would keep the event loop, and all streams, for a tenth of a second."""
    listed = ListedStore(store, "a/", [f"k{number}" for number in range(100_000)])
    other = asyncio.create_task(asyncio.sleep(0))
    async for _ in listed.scan("k"):
        pass
    assert other.done()
