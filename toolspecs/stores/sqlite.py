"""A store in one SQLite file, which is the default. Processes of one machine may share it.

Each operation is a single statement in autocommit mode, so tasks that share a connection never see half of
another's operation. Times of expiry are wall-clock seconds, because other processes read them too.
"""

import asyncio
import json
import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import aiosqlite

from toolspecs.errors import NotACounter, StoreFull, StoreUnavailable
from toolspecs.store import hold_lease
from toolspecs.stores.sqlite_file import BUSY_TIMEOUT_S, INCREMENTAL, OpenFile, identity, open_file

T = TypeVar("T")

_log = logging.getLogger(__name__)

PAGES_AT_ONCE = 1000
"""Free pages that one statement gives back: 4 MB, in about 10 ms."""
BETWEEN_PAGES_S = 0.01
"""The pause after that, in which other processes can write."""
SWEEP_EVERY = 256
"""One of this many writes with an expiry also removes expired entries."""
SWEPT_ENTRIES, SWEPT_BYTES = 1000, 2 << 20
"""About how many one statement removes; 2 MB take some 20 ms."""

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
UPDATE stored SET value = :value, expires_at = :expires_at
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
        self._file: OpenFile | None = None
        self._is_lost = False
        self._opening: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self._num_expiring = 0

    def __repr__(self) -> str:
        return f"SQLiteStore({self._name!r})"

    async def get(self, key: str) -> bytes | None:
        """See `Store.get`."""
        rows = await self._read(GET, key=key)
        return _content(rows[0][0]) if rows else None

    async def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """See `Store.get_many`."""
        rows = await self._read(GET_MANY, keys=json.dumps(keys))
        values = {key: _content(value) for key, value in rows}
        return [values.get(key) for key in keys]

    async def set(self, key: str, value: bytes, ttl_s: float | None = None) -> None:
        """See `Store.set`."""
        if ttl_s is not None:
            await self._sweep()
        await self._write(SET, key=key, value=value, expires_at=self._after(ttl_s))

    async def delete(self, key: str) -> bool:
        """See `Store.delete`."""
        return await self._changed_row(DELETE, key=key)

    async def scan(self, prefix: str) -> AsyncIterator[str]:
        """See `Store.scan`."""
        after, is_whole = b"", False
        while not is_whole:
            # One lower bound: with two, SQLite may begin at the prefix each time.
            rows = await self._read(SCAN, prefix=prefix, first=after or prefix, after=after)
            for (key,) in rows:
                with suppress(UnicodeDecodeError):  # another program wrote that key
                    yield key.decode()
            is_whole = len(rows) < SCAN_COUNT
            after = b"" if is_whole else rows[-1][0]

    async def compare_and_set(
        self, key: str, expected: bytes | None, value: bytes | None, ttl_s: float | None = None
    ) -> bool:
        """See `Store.compare_and_set`."""
        if expected is None and value is None:
            return await self.get(key) is None
        if expected is None:
            return await self._changed_row(INSERT, key=key, value=value, expires_at=self._after(ttl_s))
        if value is None:
            return await self._changed_row(REMOVE, key=key, expected=expected)
        return await self._changed_row(
            REPLACE, key=key, expected=expected, value=value, expires_at=self._after(ttl_s)
        )

    async def increment(self, key: str, by: int = 1, ttl_s: float | None = None) -> int:
        """See `Store.increment`."""
        rows = await self._write(INCREMENT, key=key, by=by, expires_at=self._after(ttl_s))
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
        await self._write(TOUCH, keys=json.dumps(keys), expires_at=self._after(ttl_s))

    async def compact(self) -> None:
        """See `Store.compact`. A file of an earlier version is written anew, once."""
        while await self._write(SWEEP):
            pass  # other calls are answered in between
        if (await self._write("PRAGMA auto_vacuum"))[0][0] != INCREMENTAL:
            await self._write(f"PRAGMA auto_vacuum = {INCREMENTAL}")
            await self._write("VACUUM")
        await self._give_back_pages()
        await self._write("PRAGMA wal_checkpoint(TRUNCATE)")

    async def ping(self) -> None:
        """See `Store.ping`."""
        await self._read("SELECT 1")

    async def close(self) -> None:
        """See `Store.close`."""
        if self._opening is not None:
            await asyncio.wait([self._opening])
        file, self._file = self._file, None
        if file is not None:
            await file.close()

    def _after(self, seconds: float | None) -> float | None:
        return None if seconds is None else self._clock() + seconds

    async def _sweep(self) -> None:
        """Remove some expired entries now and then, so that they do not fill the file.

        As long as there are some, the next write goes on: others wait while entries are removed.
        """
        if self._num_expiring % SWEEP_EVERY == 0 and await self._write(SWEEP):
            return
        self._num_expiring += 1

    async def _give_back_pages(self) -> None:
        """Give back the pages that are free now, a few at a time; other calls are answered in between."""
        num_free = (await self._write("PRAGMA freelist_count"))[0][0]
        for _ in range(0, num_free, PAGES_AT_ONCE):
            await self._execute_script(f"PRAGMA incremental_vacuum({PAGES_AT_ONCE})")
            await self._write("PRAGMA wal_checkpoint(PASSIVE)")
            await asyncio.sleep(BETWEEN_PAGES_S)

    async def _changed_row(self, statement: str, **values: Any) -> bool:
        return bool(await self._write(f"{statement} RETURNING 1", **values))

    async def _read(self, statement: str, **values: Any) -> list[sqlite3.Row]:
        """The rows of a statement that changes nothing."""
        with self._failures():
            return await self._rows((await self._open()).reader, statement, values)

    async def _write(self, statement: str, **values: Any) -> list[sqlite3.Row]:
        """Run a statement that may change something, and return its rows."""
        with self._failures():
            file = await self._open()
            return await self._in_turn(lambda: self._rows(file.writer, statement, values))

    async def _rows(
        self, connection: aiosqlite.Connection, statement: str, values: dict[str, Any]
    ) -> list[sqlite3.Row]:
        """All rows of a statement, fetched at once, so that no cursor stays open over an await."""
        return list(await connection.execute_fetchall(statement, {**values, "now": self._clock()}))

    async def _execute_script(self, statements: str) -> None:
        """Run statements until they are done; `_write` would stop one without rows after its first step."""
        with self._failures():
            file = await self._open()
            await self._in_turn(lambda: file.writer.executescript(statements))

    async def _in_turn(self, write: Callable[[], Awaitable[T]]) -> T:
        """The result of a write, which has the writing connection for itself, also if its caller leaves.

        Writes wait for their turns here and not in the connection. So while another process keeps the file
        locked, those that came together give up together, and not one after another.
        """
        try:
            async with asyncio.timeout(BUSY_TIMEOUT_S):
                await self._turn.acquire()
        except TimeoutError as error:
            raise StoreUnavailable(self._name, f"no write ended within {BUSY_TIMEOUT_S} s") from error
        writing = asyncio.ensure_future(write())
        writing.add_done_callback(self._end_turn)
        return await asyncio.shield(writing)

    def _end_turn(self, writing: "asyncio.Future[Any]") -> None:
        self._turn.release()
        _ = writing.cancelled() or writing.exception()  # retrieved here, since the caller may have left

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

    async def _open(self) -> OpenFile:
        """The open file. A caller that gives up waiting for it leaves at once, and others find it open.

        Opening the file of an earlier version takes as long as moving its entries.
        """
        while self._file is None:
            if self._opening is None:
                self._opening = asyncio.create_task(self._open_file())
                self._opening.add_done_callback(self._end_opening)
            await asyncio.shield(self._opening)
        self._check_name(self._file)
        return self._file

    async def _open_file(self) -> None:
        self._file = await open_file(self._path)

    def _end_opening(self, opening: asyncio.Task[None]) -> None:
        self._opening = None
        if not opening.cancelled():
            opening.exception()  # retrieved here, since all callers may have left

    def _check_name(self, file: OpenFile) -> None:
        """Raise OSError if the open file has lost its name: nobody would ever read what is written to it."""
        is_lost = identity(self._path) != file.identity
        if is_lost and not self._is_lost:
            _log.error("store %s: %s", self._name, _LOST)
        self._is_lost = is_lost
        if is_lost:
            raise FileNotFoundError(_LOST)
