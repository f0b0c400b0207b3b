"""What every store promises, on SQLite and on a real Redis."""

import asyncio
import sqlite3
import sys
from contextlib import closing

import pytest
from opened_store import keys, opened

from toolspecs import LockTimeout, NotACounter
from toolspecs.stores.sqlite import SCAN_COUNT, SQLiteStore

BYTES = [b"", b"text", b"\x00\xff\x80 binary \r\n", b"x" * 2_000_000]
KEYS = ["k", "with/slash", "glob*?[a]\\", "naïve \U0001f600", "'; DROP TABLE entries; --", "%_"]


@pytest.mark.parametrize("value", BYTES, ids=len)
async def test_a_value_comes_back_as_it_was(store, other, value):
    await store.set("k", value)
    assert await store.get("k") == value
    assert await other.get("k") == value


@pytest.mark.parametrize("key", KEYS)
async def test_any_text_is_a_key(store, key):
    await store.set(key, b"1")
    assert await store.get(key) == b"1"
    assert await keys(store, key) == [key]
    assert await store.delete(key)


async def test_an_absent_key_has_nothing_to_get_or_delete(store):
    assert await store.get("k") is None
    assert await store.delete("k") is False


async def test_many_values_come_in_the_order_of_their_keys(store, other):
    for at, key in enumerate(KEYS):
        await store.set(key, b"%d" % at)
    await store.set("gone", b"1", ttl_s=0.05)
    await asyncio.sleep(0.1)
    wanted = ["absent", *reversed(KEYS), "gone", KEYS[0]]
    expected = [None, *(b"%d" % at for at in reversed(range(len(KEYS)))), None, b"0"]
    assert await other.get_many(wanted) == expected
    assert await other.get_many([]) == []
    assert await other.get_many([f"absent{n}" for n in range(5_000)]) == [None] * 5_000


async def test_the_last_value_counts(store):
    await store.set("k", b"1")
    await store.set("k", b"2")
    assert await store.get("k") == b"2"
    assert await store.delete("k") is True
    assert await store.get("k") is None


async def test_what_has_a_time_to_live_expires_unless_it_is_written_anew(store, other):
    await store.set("short", b"1", ttl_s=0.5)
    await store.set("long", b"1", ttl_s=60)
    assert await other.get("short") == b"1"
    for key in ("set anew", "compared anew"):
        await store.set(key, b"1", ttl_s=0.5)
    await store.set("set anew", b"2")
    assert await store.compare_and_set("compared anew", b"1", b"2")
    assert await store.compare_and_set("compared", None, b"1", 0.5)
    assert await store.compare_and_set("compared twice", None, b"1", 60)
    assert await store.compare_and_set("compared twice", b"1", b"2", 0.5)
    assert await store.increment("counter", 2, ttl_s=0.5) == 2
    assert await store.increment("counter", 2, ttl_s=60) == 4
    await store.set("set counter", b"41", ttl_s=0.5)
    assert await store.increment("set counter") == 42
    await store.set("kept counter", b"1")
    assert await store.increment("kept counter", 1, ttl_s=0.5) == 2
    assert await other.get_many(["compared", "compared twice"]) == [b"1", b"2"]
    await asyncio.sleep(0.6)
    gone = ["short", "compared", "compared twice", "counter", "set counter"]
    assert await other.get_many(gone) == [None] * len(gone)
    kept = {"compared anew": b"2", "kept counter": b"2", "long": b"1", "set anew": b"2"}
    assert sorted(await keys(store, "")) == [*kept]
    assert await other.get_many([*kept]) == [*kept.values()]
    assert await store.delete("short") is False
    assert await store.increment("set counter") == 1


async def test_scan_yields_the_keys_of_a_prefix_once(store):
    wanted = {f"a/{number}" for number in range(SCAN_COUNT + 50)}
    await asyncio.gather(*(store.set(key, b"") for key in (*wanted, "a", "b/1", "A/1", "a0")))
    found = [key async for key in store.scan("a/")]
    assert len(found) == len(wanted)
    assert set(found) == wanted


async def test_a_prefix_is_taken_literally(store):
    for key in ("a*b", "axb", "a[b", "a%b", "a_b", "a\\b", "a?b"):
        await store.set(key, b"")
    for prefix in ("a*", "a[", "a%", "a_", "a\\", "a?"):
        assert await keys(store, prefix) == [prefix + "b"]


@pytest.mark.parametrize(
    ("present", "expected", "value", "is_done"),
    [
        (None, None, b"new", True),
        (None, None, None, True),
        (None, b"", b"new", False),
        (None, b"old", None, False),
        (b"old", b"old", b"new", True),
        (b"old", b"old", b"", True),
        (b"old", b"old", None, True),
        (b"old", b"other", b"new", False),
        (b"old", b"other", None, False),
        (b"old", None, b"new", False),
        (b"old", None, None, False),
        (b"", b"", b"new", True),
        (b"", None, b"new", False),
        (b"0", b"00", b"new", False),
    ],
)
async def test_compare_and_set_writes_only_over_what_was_expected(store, present, expected, value, is_done):
    if present is not None:
        await store.set("k", present)
    assert await store.compare_and_set("k", expected, value) is is_done
    assert await store.get("k") == (value if is_done else present)


async def test_an_expired_value_compares_as_absent(store):
    await store.set("a", b"1", ttl_s=0.03)
    await store.set("b", b"1", ttl_s=0.03)
    await asyncio.sleep(0.08)
    assert not await store.compare_and_set("a", b"1", b"2")
    assert await store.compare_and_set("b", None, b"2")
    assert await store.get("b") == b"2"


async def test_one_of_many_wins_a_compare_and_set(store, other):
    attempts = [
        connection.compare_and_set("k", None, str(number).encode())
        for number in range(20)
        for connection in (store, other)
    ]
    assert sum(await asyncio.gather(*attempts)) == 1


async def test_increment_counts_from_zero_and_gives_the_sum(store):
    assert await store.increment("n") == 1
    assert await store.increment("n", 41) == 42
    assert await store.increment("n", -50) == -8
    assert await store.get("n") == b"-8"
    await store.set("n", b"7")
    assert await store.increment("n", 0) == 7


async def test_increments_of_many_all_count(store, other):
    sums = await asyncio.gather(
        *[connection.increment("n") for _ in range(50) for connection in (store, other)]
    )
    assert sorted(sums) == list(range(1, 101))


@pytest.mark.parametrize("value", [b"text", b"1.5", b"", b"9223372036854775807", b"99999999999999999999"])
async def test_what_is_no_counter_is_left_alone(store, value):
    await store.set("n", value)
    for options in ({}, {"ttl_s": 1}):
        with pytest.raises(NotACounter) as caught:
            await store.increment("n", **options)
        assert caught.value.key == "n"
    assert await store.get("n") == value


async def test_a_lock_excludes(store, other):
    num_inside = 0
    most = 0

    async def enter(connection):
        nonlocal num_inside, most
        async with connection.lock("l", lease_s=30, wait_s=30):
            num_inside += 1
            most = max(most, num_inside)
            await asyncio.sleep(0.002)
            num_inside -= 1

    await asyncio.gather(*[enter(connection) for _ in range(5) for connection in (store, other)])
    assert most == 1


async def test_waiting_for_a_lock_ends(store, other):
    async with store.lock("l", lease_s=30, wait_s=0):
        with pytest.raises(LockTimeout) as caught:
            async with other.lock("l", lease_s=30, wait_s=0.05):
                pytest.fail("two holders")
        assert caught.value.key == "l"
        with pytest.raises(LockTimeout):
            async with store.lock("l", lease_s=30, wait_s=0):
                pytest.fail("the failed attempt freed it")
    async with other.lock("l", lease_s=30, wait_s=0):
        pass


async def test_a_dead_holder_is_taken_over_and_cannot_free_it_late(store, other):
    dead = store.lock("l", lease_s=0.05, wait_s=0)
    await dead.__aenter__()
    async with other.lock("l", lease_s=30, wait_s=10):
        await dead.__aexit__(None, None, None)
        with pytest.raises(LockTimeout):
            async with store.lock("l", lease_s=30, wait_s=0):
                pytest.fail("a late release freed somebody else's lease")


async def test_an_error_inside_frees_the_lock(store, other):
    with pytest.raises(ZeroDivisionError):
        async with store.lock("l", lease_s=30, wait_s=0):
            raise ZeroDivisionError
    async with other.lock("l", lease_s=30, wait_s=0):
        pass


async def test_a_cancelled_holder_frees_the_lock(store, other):
    held = asyncio.Event()

    async def hold():
        async with store.lock("l", lease_s=30, wait_s=0):
            held.set()
            await asyncio.sleep(30)

    task = asyncio.create_task(hold())
    await held.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    async with other.lock("l", lease_s=30, wait_s=0):
        pass


async def test_a_cancelled_operation_leaves_the_store_usable(store, other):
    tasks = [asyncio.create_task(store.increment("n")) for _ in range(20)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    before = int(await other.get("n") or 0)
    assert await store.increment("n") == before + 1


async def test_a_closed_store_opens_anew(store):
    await store.ping()
    await store.set("k", b"1")
    await store.close()
    await store.close()
    await store.ping()
    assert await store.get("k") == b"1"


WRITER = """
import asyncio, sys
from toolspecs import open_store

async def main(url, name):
    store = open_store(url)
    for number in range(40):
        await store.increment("n")
        async with store.lock("l", lease_s=20, wait_s=60):
            await store.set("sum", str(int(await store.get("sum") or 0) + 1).encode())
        while True:
            before = await store.get("list")
            if await store.compare_and_set("list", before, (before or b"") + f"{name}{number} ".encode()):
                break
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_processes_share_a_store(store, store_url):
    """Opened at once where there is no file yet: counters, locks and compare-and-set lose nothing."""
    names = "abc"
    run = asyncio.create_subprocess_exec
    writers = [await run(sys.executable, "-c", WRITER, store_url, name) for name in names]
    assert [await writer.wait() for writer in writers] == [0, 0, 0]
    assert await store.get("n") == b"120"
    assert await store.get("sum") == b"120"
    written = (await store.get("list")).decode().split()
    assert sorted(written) == sorted(f"{name}{number}" for name in names for number in range(40))
    for name in names:
        assert [w for w in written if w[0] == name] == [f"{name}{number}" for number in range(40)]


async def test_touched_entries_live_longer(store, other):
    await store.set("short", b"1", ttl_s=0.3)
    await store.set("long", b"2", ttl_s=0.3)
    await store.set("for good", b"3")
    await other.touch(["long", "for good", "absent"], 60)
    await asyncio.sleep(0.5)
    assert await other.get_many(["short", "long", "for good", "absent"]) == [None, b"2", b"3", None]
    await store.touch([], 60)
    await store.touch(["long", "for good"], 0.2)
    await asyncio.sleep(0.4)
    assert await other.get_many(["long", "for good"]) == [None, b"3"]


async def test_compacting_keeps_every_entry(store, other):
    for number in range(50):
        await store.set(f"k{number}", b"%d" % number * 1000)
    for number in range(40):
        await store.delete(f"k{number}")
    await asyncio.gather(store.compact(), other.get("k45"), store.set("new", b"1"))
    assert await other.get("k45") == b"45" * 1000
    assert await keys(other, "k4") == [f"k{number}" for number in range(40, 50)]
    assert await other.get("new") == b"1"


@pytest.mark.parametrize("value", [2_000_000_000, 1.5, "text"])
async def test_a_value_that_another_program_wrote_with_another_type_is_empty(tmp_path, value):
    """Of a number, `bytes` would make as many zeros."""
    path = tmp_path / "store.db"
    store = SQLiteStore(path)
    await store.set("a", b"1")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE stored SET value = ? WHERE key = 'a'", (value,))
    assert await store.get("a") == b""
    assert await store.get_many(["a", "b"]) == [b"", None]
    await store.close()


async def test_a_value_of_redis_with_another_type_is_empty_too(redis_url):
    """Such a head is no outage of the store, and its toolset can be read and written."""
    import redis

    async with opened(redis_url) as store:
        with redis.Redis.from_url(redis_url) as client:
            client.flushdb()
            client.rpush("callgate:a", "1", "2")
        assert await store.get("a") == b""
        with pytest.raises(NotACounter):
            await store.increment("a")
        with pytest.raises(NotACounter):
            await store.increment("a", ttl_s=60)
        assert not await store.compare_and_set("a", None, b"1")
        assert await store.compare_and_set("a", b"", b"1")
        assert await store.get("a") == b"1"
