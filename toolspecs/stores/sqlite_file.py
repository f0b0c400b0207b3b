"""The file of a SQLite store: opens it, or makes it, and moves what earlier versions wrote into its table.

Several processes may open the file of an earlier version at once, and do this together. In the end, earlier
versions can read the file, but not write to it.
"""

import asyncio
import os
import sqlite3
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiosqlite

BUSY_TIMEOUT_S = 30
INCREMENTAL = 2
"""The mode of SQLite's `auto_vacuum` in which free pages are given back when asked to."""

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

FileIdentity = tuple[int, int]
"""A device, and a file's number on it."""


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file that is open twice, so that nobody who reads waits for a write that waits for other processes.

    A store in memory has one connection for both. `identity` is the file that is open; another one may have
    its name meanwhile.
    """

    reader: aiosqlite.Connection
    writer: aiosqlite.Connection
    identity: FileIdentity | None

    async def close(self) -> None:
        """Close both connections."""
        await self.reader.close()
        await self.writer.close()


async def open_file(path: Path | None) -> OpenFile:
    """Open the file at the path (None: in memory), or make it, and bring it up to date."""
    if path is not None:
        _check_place(path)
        _make_for_owner(path)
    async with AsyncExitStack() as connections:
        writer = await connections.enter_async_context(_connection(path))
        found = identity(path)
        reader = writer if path is None else await connections.enter_async_context(_connection(path))
        await writer.execute_fetchall(f"PRAGMA auto_vacuum = {INCREMENTAL}")  # counts for a new file only
        await _use_write_ahead_log(writer)
        # FULL, because a registration that was acknowledged has to survive a power cut.
        await writer.execute_fetchall("PRAGMA synchronous = FULL")
        await writer.executescript(SCHEMA)
        await _move_former(writer)
        connections.pop_all()
    return OpenFile(reader, writer, found)


def _connection(path: Path | None) -> aiosqlite.Connection:
    connection = aiosqlite.connect(path or ":memory:", timeout=BUSY_TIMEOUT_S, isolation_level=None)
    # Otherwise a program that ends without closing its stores waits for the driver's thread for ever. Until
    # aiosqlite 0.22 the connection itself was the thread.
    thread: Any = getattr(connection, "_thread", connection)
    thread.daemon = True
    return connection


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


def identity(path: Path | None) -> FileIdentity | None:
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
