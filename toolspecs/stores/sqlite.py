"""A store in one SQLite file, which is the default. Processes of one machine may share it.

Each operation is a single statement in autocommit mode, so tasks that share the connection never see half of
another's operation. Times of expiry are wall-clock seconds, because other processes read them too.
"""

import asyncio
import json
import logging
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import aiosqlite

from toolspecs.errors import NotACounter, StoreFull, StoreUnavailable
from toolspecs.store import hold_lease

_log = logging.getLogger(__name__)

BUSY_TIMEOUT_S = 30
INCREMENTAL = 2
"""The mode of SQLite's `auto_vacuum` in which free pages are given back when asked to."""
PAGES_AT_ONCE = 1000
"""Free pages that one statement gives back: 4 MB, in about 10 ms."""
BETWEEN_PAGES_S = 0.01
"""The pause after that, in which other processes can write."""
SWEEP_EVERY = 256
"""One of this many writes with an expiry also removes expired entries."""
SWEPT_ENTRIES, SWEPT_BYTES = 1000, 2 << 20
"""About how many one statement removes; 2 MB take some 20 ms."""

# A table with row ids: where values are part of the tree of keys, as they were in `entries`, a look-up reads
# the large ones that it passes. The expiry comes before the value, to be read without it.
SCHEMA = """
CREATE TABLE IF NOT EXISTS stored (key TEXT NOT NULL PRIMARY KEY, expires_at REAL, value BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS stored_expiring ON stored (expires_at) WHERE expires_at IS NOT NULL;
"""
HAS_FORMER = "SELECT 1 FROM sqlite_schema WHERE name = 'entries' AND type = 'table'"
FORMER_SIZES = "SELECT length(value) FROM entries ORDER BY key LIMIT 1000"
MOVE_FORMER = """
INSERT OR IGNORE INTO stored (key, expires_at, value)
SELECT key, expires_at, value FROM entries ORDER BY key LIMIT :count
"""
DELETE_FORMER = "DELETE FROM entries WHERE key IN (SELECT key FROM entries ORDER BY key LIMIT :count)"
BYTES_AT_ONCE = 8_000_000
"""What one transaction moves: little, since the file grows by so much until the next one. The log is used
anew only if no other process reads at that moment."""
FOR_FORMER = (
    "CREATE VIEW IF NOT EXISTS entries AS SELECT key, value, expires_at FROM stored",
    *(
        f"CREATE TRIGGER IF NOT EXISTS entries_{change} INSTEAD OF {change} ON entries"
        " BEGIN SELECT RAISE(ABORT, 'a later version of Callgate has this file'); END"
        for change in ("INSERT", "UPDATE", "DELETE")
    ),
)
"""What earlier versions see: they read it, and fail to write. Without the triggers, statements with RETURNING
change nothing and return the rows as if they had."""
IS_MOVED = "SELECT 1 FROM sqlite_schema WHERE name = 'entries_DELETE'"
"""Whether the last of these is there; they are made in one transaction."""

# The statements below are made of constants only.
# ruff: noqa: S608
_FRESH = "(expires_at IS NULL OR expires_at > :now)"

GET = f"SELECT value FROM stored WHERE key = :key AND {_FRESH}"
GET_MANY = f"""
SELECT key, value FROM stored
WHERE key IN (SELECT json_each.value FROM json_each(:keys)) AND {_FRESH}
"""
SET = """
INSERT INTO stored (key, expires_at, value) VALUES (:key, :expires_at, :value)
ON CONFLICT (key) DO UPDATE SET value = :value, expires_at = :expires_at
"""
INSERT = f"{SET} WHERE NOT {_FRESH}"
REPLACE = f"""
UPDATE stored SET value = :value, expires_at = NULL
WHERE key = :key AND value = :expected AND {_FRESH}
"""
DELETE = f"DELETE FROM stored WHERE key = :key AND {_FRESH}"
REMOVE = f"{DELETE} AND value = :expected"
SCAN_COUNT = 1000
# Keys as bytes, since another program may have written some that are not UTF-8.
SCAN = f"""
SELECT CAST(key AS BLOB) FROM stored
WHERE key >= CAST(:first AS TEXT) AND key < :prefix || char(0x10FFFF) AND key <> CAST(:after AS TEXT)
AND {_FRESH}
ORDER BY key LIMIT {SCAN_COUNT}
"""
TOUCH = """
UPDATE stored SET expires_at = :expires_at
WHERE key IN (SELECT json_each.value FROM json_each(:keys)) AND expires_at > :now
"""
SWEEP = f"""
WITH expired AS (
    SELECT rowid, length(value) AS size FROM stored
    WHERE expires_at <= :now ORDER BY expires_at LIMIT {SWEPT_ENTRIES}
), summed AS (SELECT rowid, sum(size) OVER (ROWS UNBOUNDED PRECEDING) - size AS before FROM expired)
DELETE FROM stored WHERE rowid IN (SELECT rowid FROM summed WHERE before < {SWEPT_BYTES}) RETURNING 1
"""
ACQUIRE = f"{SET} WHERE NOT {_FRESH} OR value = :value"

# An INTEGER that overflows becomes a REAL; the last condition refuses that.
_COUNT = "CAST(CAST(value AS TEXT) AS INTEGER)"
INCREMENT = f"""
INSERT INTO stored (key, expires_at, value) VALUES (:key, :expires_at, CAST(CAST(:by AS TEXT) AS BLOB))
ON CONFLICT (key) DO UPDATE SET
    value = CASE WHEN {_FRESH} THEN CAST(CAST({_COUNT} + :by AS TEXT) AS BLOB) ELSE excluded.value END,
    expires_at = CASE WHEN {_FRESH} THEN expires_at ELSE :expires_at END
WHERE NOT {_FRESH} OR (CAST({_COUNT} AS TEXT) = CAST(value AS TEXT) AND typeof({_COUNT} + :by) = 'integer')
RETURNING value
"""


_FileIdentity = tuple[int, int]
"""A device, and a file's number on it."""
_LOST = "its file was deleted or replaced while it was open: put it back, or restart with what is there now"


def _content(value: Any) -> bytes:
    """A value; one that another program wrote as a text or a number is none that can be read."""
    return value if isinstance(value, bytes) else b""


class SQLiteStore:
    """A `Store` in the file `path` (None: in memory). It creates the file, but not its folder."""

    def __init__(self, path: Path | None, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._name = f"sqlite://{path or ':memory:'}"
        self._clock = clock
        self._connection: aiosqlite.Connection | None = None
        self._file: _FileIdentity | None = None
        """The file that the connection has open."""
        self._is_lost = False
        self._opening: asyncio.Task[None] | None = None
        self._num_expiring = 0

    def __repr__(self) -> str:
        return f"SQLiteStore({self._name!r})"

    async def get(self, key: str) -> bytes | None:
        """See `Store.get`."""
        rows = await self._execute(GET, key=key)
        return _content(rows[0][0]) if rows else None

    async def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """See `Store.get_many`."""
        rows = await self._execute(GET_MANY, keys=json.dumps(keys))
        values = {key: _content(value) for key, value in rows}
        return [values.get(key) for key in keys]

    async def set(self, key: str, value: bytes, ttl_s: float | None = None) -> None:
        """See `Store.set`."""
        if ttl_s is not None:
            await self._sweep()
        await self._execute(SET, key=key, value=value, expires_at=self._after(ttl_s))

    async def delete(self, key: str) -> bool:
        """See `Store.delete`."""
        return await self._changed_row(DELETE, key=key)

    async def scan(self, prefix: str) -> AsyncIterator[str]:
        """See `Store.scan`."""
        after, is_whole = b"", False
        while not is_whole:
            # One lower bound: with two, SQLite may begin at the prefix each time.
            rows = await self._execute(SCAN, prefix=prefix, first=after or prefix, after=after)
            for (key,) in rows:
                with suppress(UnicodeDecodeError):  # another program wrote that key
                    yield key.decode()
            is_whole = len(rows) < SCAN_COUNT
            after = b"" if is_whole else rows[-1][0]

    async def compare_and_set(self, key: str, expected: bytes | None, value: bytes | None) -> bool:
        """See `Store.compare_and_set`."""
        if expected is None and value is None:
            return await self.get(key) is None
        if expected is None:
            return await self._changed_row(INSERT, key=key, value=value, expires_at=None)
        if value is None:
            return await self._changed_row(REMOVE, key=key, expected=expected)
        return await self._changed_row(REPLACE, key=key, expected=expected, value=value)

    async def increment(self, key: str, by: int = 1, ttl_s: float | None = None) -> int:
        """See `Store.increment`."""
        rows = await self._execute(INCREMENT, key=key, by=by, expires_at=self._after(ttl_s))
        if ttl_s is not None:
            await self._sweep()
        if not rows:
            raise NotACounter(key)
        return int(rows[0][0])

    def lock(self, key: str, lease_s: float, wait_s: float) -> AbstractAsyncContextManager[None]:
        """See `Store.lock`."""
        return hold_lease(self, key, lease_s, wait_s)

    async def acquire(self, key: str, token: str, lease_s: float) -> bool:
        """See `LeaseStore.acquire`."""
        return await self._changed_row(
            ACQUIRE, key=key, value=token.encode(), expires_at=self._after(lease_s)
        )

    async def release(self, key: str, token: str) -> bool:
        """See `LeaseStore.release`."""
        return await self._changed_row(REMOVE, key=key, expected=token.encode())

    async def touch(self, keys: Sequence[str], ttl_s: float) -> None:
        """See `Store.touch`."""
        await self._execute(TOUCH, keys=json.dumps(keys), expires_at=self._after(ttl_s))

    async def compact(self) -> None:
        """See `Store.compact`. A file of an earlier version is written anew, once."""
        while await self._execute(SWEEP):
            pass  # other calls are answered in between
        if (await self._execute("PRAGMA auto_vacuum"))[0][0] != INCREMENTAL:
            await self._execute(f"PRAGMA auto_vacuum = {INCREMENTAL}")
            await self._execute("VACUUM")
        await self._give_back_pages()
        await self._execute("PRAGMA wal_checkpoint(TRUNCATE)")

    async def ping(self) -> None:
        """See `Store.ping`."""
        await self._execute("SELECT 1")

    async def close(self) -> None:
        """See `Store.close`."""
        if self._opening is not None:
            await asyncio.wait([self._opening])
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def _after(self, seconds: float | None) -> float | None:
        return None if seconds is None else self._clock() + seconds

    async def _sweep(self) -> None:
        """Remove some expired entries now and then, so that they do not fill the file.

        As long as there are some, the next write goes on: others wait while entries are removed.
        """
        if self._num_expiring % SWEEP_EVERY == 0 and await self._execute(SWEEP):
            return
        self._num_expiring += 1

    async def _give_back_pages(self) -> None:
        """Give back the pages that are free now, a few at a time; other calls are answered in between."""
        num_free = (await self._execute("PRAGMA freelist_count"))[0][0]
        for _ in range(0, num_free, PAGES_AT_ONCE):
            await self._execute_script(f"PRAGMA incremental_vacuum({PAGES_AT_ONCE})")
            await self._execute("PRAGMA wal_checkpoint(PASSIVE)")
            await asyncio.sleep(BETWEEN_PAGES_S)

    async def _changed_row(self, statement: str, **values: Any) -> bool:
        return bool(await self._execute(f"{statement} RETURNING 1", **values))

    async def _execute(self, statement: str, **values: Any) -> list[sqlite3.Row]:
        """Run a statement and fetch all rows at once, so that no cursor stays open over an await."""
        values["now"] = self._clock()
        with self._failures():
            connection = await self._open()
            return list(await connection.execute_fetchall(statement, values))

    async def _execute_script(self, statements: str) -> None:
        """Run statements until they are done; `_execute` would stop one without rows after its first step."""
        with self._failures():
            connection = await self._open()
            await connection.executescript(statements)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Raise what the driver raises as this package's errors."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if "is full" in str(error):
                reason = f"{error}: make room on its disk; then `callgate store gc` removes what is too old"
                raise StoreFull(self._name, reason) from error
            raise StoreUnavailable(self._name, str(error)) from error
        except (sqlite3.Error, OSError, ValueError) as error:
            raise StoreUnavailable(self._name, str(error)) from error

    async def _open(self) -> aiosqlite.Connection:
        """The connection. A caller that gives up waiting for it leaves at once, and others find it open.

        Opening the file of an earlier version takes as long as moving its entries.
        """
        while self._connection is None:
            if self._opening is None:
                self._opening = asyncio.create_task(self._connect())
                self._opening.add_done_callback(self._end_opening)
            await asyncio.shield(self._opening)
        self._check_file()
        return self._connection

    async def _connect(self) -> None:
        self._connection, self._file = await _connect(self._path)

    def _end_opening(self, opening: asyncio.Task[None]) -> None:
        self._opening = None
        if not opening.cancelled():
            opening.exception()  # retrieved here, since all callers may have left

    def _check_file(self) -> None:
        """Raise OSError if the open file has lost its name: nobody would ever read what is written to it."""
        is_lost = _identity(self._path) != self._file
        if is_lost and not self._is_lost:
            _log.error("store %s: %s", self._name, _LOST)
        self._is_lost = is_lost
        if is_lost:
            raise FileNotFoundError(_LOST)


async def _connect(path: Path | None) -> tuple[aiosqlite.Connection, _FileIdentity | None]:
    """A connection, and the file that it has open; another one may have its name when all is prepared."""
    if path is not None:
        _check_place(path)
        _make_for_owner(path)
    connection = aiosqlite.connect(path or ":memory:", timeout=BUSY_TIMEOUT_S, isolation_level=None)
    # Otherwise a program that ends without closing its stores waits for the driver's thread for ever. Until
    # aiosqlite 0.22 the connection itself was the thread.
    thread: Any = getattr(connection, "_thread", connection)
    thread.daemon = True
    await connection
    file = _identity(path)
    try:
        await connection.execute_fetchall(f"PRAGMA auto_vacuum = {INCREMENTAL}")  # counts for a new file only
        await _use_write_ahead_log(connection)
        # FULL, because a registration that was acknowledged has to survive a power cut.
        await connection.execute_fetchall("PRAGMA synchronous = FULL")
        await connection.executescript(SCHEMA)
        await _move_former(connection)
    except BaseException:
        await connection.close()
        raise
    return connection, file


async def _move_former(connection: aiosqlite.Connection) -> None:
    """Move what earlier versions wrote, piece by piece, until they may only read.

    Processes that open the file at once do it together.
    """
    while not await connection.execute_fetchall(IS_MOVED):
        await connection.execute_fetchall("BEGIN IMMEDIATE")
        if not await connection.execute_fetchall(IS_MOVED):  # no other process was first
            await _move_some(connection)
        await connection.execute_fetchall("COMMIT")


async def _move_some(connection: aiosqlite.Connection) -> None:
    """Move the first entries; if there are none any more, put the view in the place of their table."""
    has_former = bool(await connection.execute_fetchall(HAS_FORMER))
    count, num_bytes = 0, 0
    for (size,) in await connection.execute_fetchall(FORMER_SIZES) if has_former else ():
        num_bytes += size
        if count and num_bytes > BYTES_AT_ONCE:
            break
        count += 1
    if count:
        await connection.execute_fetchall(MOVE_FORMER, {"count": count})
        await connection.execute_fetchall(DELETE_FORMER, {"count": count})
        return
    for statement in ("DROP TABLE entries", *FOR_FORMER) if has_former else FOR_FORMER:
        await connection.execute_fetchall(statement)


def _identity(path: Path | None) -> _FileIdentity | None:
    """Which file is at the path; None if there is none, or the store is in memory."""
    try:
        status = None if path is None else path.stat()
    except OSError:
        return None
    return None if status is None else (status.st_dev, status.st_ino)


def _check_place(path: Path) -> None:
    """Raise OSError with the reason if there can be no store: SQLite would not say what is wrong."""
    folder = str(path.parent.absolute())
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {folder!r}; create it first")
    if path.is_dir():
        raise IsADirectoryError("it is a folder, and a store is a file")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"this process may not write to the folder {folder!r}")
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError("this process may not write to the file")


def _make_for_owner(path: Path) -> None:
    """Make the file, which SQLite would let everyone read. SQLite's other files get the mode of this one."""
    with suppress(OSError):  # the file exists, or SQLite says what is wrong
        path.touch(mode=0o600, exist_ok=False)


async def _use_write_ahead_log(connection: aiosqlite.Connection) -> None:
    """Switch to the write-ahead log; retry while other processes do too, as SQLite does not wait here."""
    for attempt in range(50):
        try:
            await connection.execute_fetchall("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if attempt == 49:
                raise
            await asyncio.sleep(0.02)
        else:
            return
