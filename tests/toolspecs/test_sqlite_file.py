"""The file of a SQLite store: what leaves it, what of it is read, and what earlier versions wrote."""

import asyncio
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from toolspecs.errors import StoreUnavailable
from toolspecs.stores import sqlite, sqlite_file
from toolspecs.stores.sqlite import SQLiteStore


def sql(path, statement, *rows):
    """What a statement gives to another program, which executes it, for each of some rows of parameters."""
    with closing(sqlite3.connect(path)) as connection, connection:
        cursor = connection.executemany(statement, rows) if rows else connection.execute(statement)
        return cursor.fetchall()


OLD = "SELECT count(*) FROM stored WHERE key LIKE 'old/%'"


async def test_what_expired_leaves_the_file(tmp_path, clock, monkeypatch):
    monkeypatch.setattr(sqlite, "SWEEP_EVERY", 8)
    store = SQLiteStore(tmp_path / "s.db", clock=clock.timestamp)
    for number in range(10):
        await store.set(f"old/{number}", b"", ttl_s=10)
    await store.set("kept", b"")
    clock.pass_by(seconds=1000)
    for number in range(10):
        await store.set(f"new/{number}", b"", ttl_s=10)
    await store.close()
    assert sql(tmp_path / "s.db", OLD) == [(0,)]
    assert sql(tmp_path / "s.db", "SELECT count(*) FROM stored") == [(11,)]


async def test_what_expired_leaves_the_file_piece_by_piece(tmp_path, clock):
    """All at once, 300 MB of responses would have all calls wait for 3 s."""
    store = SQLiteStore(tmp_path / "s.db", clock=clock.timestamp)
    for number in range(20):
        await store.set(f"old/{number}", bytes(sqlite.SWEPT_BYTES // 4), ttl_s=10)
    clock.pass_by(seconds=1000)
    store._num_expiring = 0
    left = []
    for _ in range(8):
        await store.set("new", b"", ttl_s=10)
        left += sql(tmp_path / "s.db", OLD)
    assert left == [(16,), (12,), (8,), (4,), (0,), (0,), (0,), (0,)]
    await store.close()


def num_bytes_read():
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"])


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the system does not count what is read")
async def test_large_values_are_not_read_on_the_way_to_others(tmp_path, clock):
    """Else a client with large toolsets would slow the registrations of others."""
    store = SQLiteStore(tmp_path / "s.db", clock=clock.timestamp)
    for number in range(12):
        await store.set(f"content/{number:02}", os.urandom(2_000_000), ttl_s=None if number % 2 else 9999)
    before = num_bytes_read()
    for number in range(12):
        assert await store.get(f"content/{number:02}x") is None
        await store.set(f"content/{number:02}/head", b"1", ttl_s=10)
    assert len([key async for key in store.scan("content/")]) == 24
    clock.pass_by(seconds=1000)
    store._num_expiring = 0
    await store.set("swept", b"", ttl_s=10)
    assert [key async for key in store.scan("content/")] == [f"content/{number:02}" for number in range(12)]
    assert num_bytes_read() - before < 1_000_000
    await store.close()


FORMER = "CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, value BLOB NOT NULL, expires_at REAL) WITHOUT ROWID"
FORMER_CHANGES = (
    "INSERT INTO entries VALUES ('k', x'32', NULL) ON CONFLICT (key) DO UPDATE SET value = x'32', expires_at = NULL",
    "INSERT INTO entries VALUES ('k', x'32', NULL)",
    "UPDATE entries SET value = x'32' WHERE key = 'k' RETURNING 1",
    "DELETE FROM entries WHERE key = 'k' RETURNING 1",
)


@pytest.mark.parametrize("num_processes", [1, 4])
async def test_what_the_former_table_has_is_moved_piece_by_piece(tmp_path, monkeypatch, num_processes):
    path = tmp_path / "s.db"
    rows = [(f"k{number}", os.urandom(9), None if number % 2 else 1e12) for number in range(500)]
    sql(path, FORMER)
    sql(path, "INSERT INTO entries VALUES (?, ?, ?)", *rows)
    monkeypatch.setattr(sqlite_file, "BYTES_AT_ONCE", 100)
    stores = [SQLiteStore(path) for _ in range(num_processes)]
    found = await asyncio.gather(*(store.get_many([key for key, _, _ in rows]) for store in stores))
    assert found == [[value for _, value, _ in rows]] * num_processes
    assert sql(path, "SELECT count(*) FROM stored WHERE expires_at = 1e12") == [(250,)]
    for store in stores:
        await store.close()


async def test_a_move_needs_little_room(tmp_path):
    """Else a disk without room for twice the file would keep every version from opening it."""
    path = tmp_path / "s.db"
    sql(path, FORMER)
    large = [(f"k{number}", os.urandom(2_000_000)) for number in range(30)]
    sql(path, "INSERT INTO entries VALUES (?, ?, NULL)", *large)
    before = path.stat().st_size
    store = SQLiteStore(path)
    await store.ping()
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < before + 5 * sqlite_file.BYTES_AT_ONCE
    assert len([key async for key in store.scan("k")]) == 30
    await store.close()


async def test_an_earlier_version_reads_what_it_cannot_write(tmp_path):
    """Else it would make a table of its own, and answer as if nothing had ever been stored."""
    path = tmp_path / "s.db"
    store = SQLiteStore(path)
    await store.set("k", b"1")
    sql(path, FORMER)
    assert sql(path, "SELECT value FROM entries WHERE key = 'k'") == [(b"1",)]
    for statement in FORMER_CHANGES:
        with pytest.raises(sqlite3.DatabaseError, match=r"view|later version"):
            sql(path, statement)
    assert await store.get("k") == b"1"
    await store.close()


async def test_the_view_of_earlier_versions_is_never_there_without_its_triggers(tmp_path, monkeypatch):
    """A process that is killed between them would leave a view on which changes seem to succeed."""
    path = tmp_path / "s.db"
    monkeypatch.setattr(sqlite_file, "FOR_FORMER", (*sqlite_file.FOR_FORMER[:2], "killed here"))
    with pytest.raises(StoreUnavailable):
        await SQLiteStore(path).ping()
    assert sql(path, "SELECT name FROM sqlite_schema WHERE name LIKE 'entries%'") == []


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_nothing_is_written_into_a_file_that_was_deleted(tmp_path, caplog, is_replaced):
    """Writes into a file without a name would be lost at the next start, although they were acknowledged."""
    path = tmp_path / "s.db"
    store = SQLiteStore(path)
    await store.set("k", b"1")
    path.rename(tmp_path / "elsewhere.db")
    if is_replaced:
        path.touch()
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="deleted or replaced while it was open: put it back"):
            await store.set("k", b"2")
        with pytest.raises(StoreUnavailable, match="deleted or replaced"):
            await store.ping()
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    (tmp_path / "elsewhere.db").replace(path)
    assert await store.get("k") == b"1"
    path.unlink()
    await store.close()
    await store.set("k", b"3")
    assert path.exists(), "an opened store makes its file"
    await store.close()


async def test_nothing_is_written_into_a_file_that_was_replaced_while_it_was_opened(tmp_path, monkeypatch):
    """Moving the entries of an earlier version takes long, and the file is found at its name after that."""
    path = tmp_path / "s.db"
    use_write_ahead_log = sqlite_file._use_write_ahead_log

    async def replaced_meanwhile(connection):
        await use_write_ahead_log(connection)
        path.rename(tmp_path / "elsewhere.db")
        path.touch()

    monkeypatch.setattr(sqlite_file, "_use_write_ahead_log", replaced_meanwhile)
    store = SQLiteStore(path)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="deleted or replaced while it was open"):
            await store.set("k", b"1")
    await store.close()


NOT_UTF8 = "CAST(x'6b2f61ff' AS TEXT)"


@pytest.mark.parametrize("is_last_of_a_page", [False, True])
async def test_a_key_that_is_not_utf8_is_passed_over(tmp_path, is_last_of_a_page):
    """Another program may have written it; the lists of toolsets can still be read."""
    path = tmp_path / "s.db"
    store = SQLiteStore(path)
    await store.ping()
    keys = [f"k/{number:04}" for number in range(sqlite.SCAN_COUNT - is_last_of_a_page)]
    sql(path, "INSERT INTO stored VALUES (?, NULL, x'31')", *((key,) for key in (*keys, "k0")))
    sql(path, f"INSERT INTO stored VALUES ({NOT_UTF8}, NULL, x'00')")
    assert [key async for key in store.scan("k")] == [*keys, "k0"]
    await store.close()


@pytest.mark.parametrize("key", [NOT_UTF8, "x'00'"])
async def test_a_key_that_is_no_text_is_moved_as_it_is(tmp_path, monkeypatch, key):
    path = tmp_path / "s.db"
    sql(path, FORMER)
    sql(path, f"INSERT INTO entries VALUES ({key}, x'00', NULL), ('k/1', x'31', NULL)")
    monkeypatch.setattr(sqlite_file, "BYTES_AT_ONCE", 1)
    store = SQLiteStore(path)
    assert await store.get("k/1") == b"1"
    await store.close()
    assert sql(path, f"SELECT value FROM stored WHERE key = {key}") == [(b"\0",)]


SLOWLY = (
    "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 5000000) SELECT max(i) FROM n) > 0"
)


async def test_a_caller_with_a_deadline_does_not_wait_for_a_move(tmp_path, monkeypatch):
    """Large entries take many seconds to move."""
    path = tmp_path / "s.db"
    sql(path, FORMER)
    sql(path, "INSERT INTO entries VALUES ('k', x'31', NULL)")
    monkeypatch.setattr(
        sqlite_file, "MOVE_FORMER", sqlite_file.MOVE_FORMER.replace("ORDER", f"WHERE {SLOWLY} ORDER")
    )
    store = SQLiteStore(path)
    start = time.perf_counter()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await store.get("k")
    left_s = time.perf_counter() - start
    assert await store.get("k") == b"1"
    moved_s = time.perf_counter() - start
    assert left_s < moved_s / 4
    await store.close()


async def test_who_reads_does_not_wait_for_a_write_that_waits_for_another_process(tmp_path):
    """A backup, or a collector that writes an old file anew, may keep writers waiting for many seconds."""
    path = tmp_path / "s.db"
    store = SQLiteStore(path)
    await store.set("k", b"1")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writing = asyncio.create_task(store.set("k", b"2"))
    await asyncio.sleep(0.1)
    async with asyncio.timeout(5):
        assert await store.get("k") == b"1"
        assert await store.get_many(["k"]) == [b"1"]
        assert [key async for key in store.scan("")] == ["k"]
    assert not writing.done()
    other.execute("COMMIT")
    other.close()
    await writing
    assert await store.get("k") == b"2"
    await store.close()


async def test_writes_that_wait_for_another_process_give_up_together(tmp_path, monkeypatch):
    """Also if the first one's caller has left meanwhile: then the connection goes on waiting."""
    for module in (sqlite, sqlite_file):
        monkeypatch.setattr(module, "BUSY_TIMEOUT_S", 0.5)
    path = tmp_path / "s.db"
    store = SQLiteStore(path)
    await store.set("k", b"1")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    start = time.perf_counter()
    leaving, *writing = (asyncio.create_task(store.set("k", b"2")) for _ in range(8))
    await asyncio.sleep(0.1)
    leaving.cancel()
    errors = await asyncio.gather(*writing, return_exceptions=True)
    assert time.perf_counter() - start < 2.5, "and not eight times half a second"
    assert {type(error) for error in errors} == {StoreUnavailable}
    other.execute("COMMIT")
    other.close()
    await store.set("k", b"3")
    assert await store.get("k") == b"3"
    await store.close()


async def test_a_store_that_could_not_be_opened_is_tried_again(tmp_path):
    store = SQLiteStore(tmp_path / "folder" / "s.db")
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="create it first"):
            await store.get("k")
    (tmp_path / "folder").mkdir()
    assert await asyncio.gather(store.get("k"), store.get("k")) == [None, None]
    await store.close()
