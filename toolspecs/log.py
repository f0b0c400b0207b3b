"""The logs of toolsets in a store, one per name: who writes next, and what was written last.

A log is records numbered from 1: `toolset/record/<name>/<number>`. A write is committed by creating the
next record where none is yet, so one writer wins each number and a number keeps its meaning for good.
`toolset/head/<name>` is a copy of the last record. A writer that died between the two has left a head that
lags by one, which the next writer moves on. A head that cannot be read is made anew from the records.
"""

import logging

from toolspecs.codec import Record, decode_record, encode_record
from toolspecs.errors import DamagedEntry
from toolspecs.store import Store

_log = logging.getLogger(__name__)

HEADS = "toolset/head/"
RECORDS = "toolset/record/"


class ToolsetLogs:
    """Appending to and reading the logs; names are toolset names."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def names(self) -> list[str]:
        """The names that have a log, deleted toolsets among them, sorted."""
        return sorted([key.removeprefix(HEADS) async for key in self._store.scan(HEADS)])

    async def head(self, name: str) -> Record | None:
        """The last record, for readers: one small read. Raises `DamagedEntry`."""
        try:
            return _decode(HEADS + name, name, await self._store.get(HEADS + name))
        except DamagedEntry as error:
            _log.warning("%s; it is made anew", error)
            return await self._walked(name, None)

    async def last(self, name: str) -> Record | None:
        """The last record, for writers: a head that lags is moved on to it. Raises `DamagedEntry`."""
        return await self._walked(name, await self.head(name))

    async def _walked(self, name: str, head: Record | None) -> Record | None:
        last = head
        while record := await self.record(name, last.summary.number + 1 if last else 1):
            last = record
        if last is not None and last is not head:
            await self._move_head(last)
        return last

    async def record(self, name: str, number: int) -> Record | None:
        """The record of that number. Raises `DamagedEntry`."""
        key = _record_key(name, number)
        record = _decode(key, name, await self._store.get(key))
        if record is not None and record.summary.number != number:
            raise DamagedEntry(key, f"it is the record of revision {record.summary.number}")
        return record

    async def append(self, record: Record) -> bool:
        """Commit the record after the last one, by its number; False if another writer was first."""
        key, content = _record_key(record.summary.name, record.summary.number), encode_record(record)
        # A driver that lost the first answer asks again, and then meets its own record.
        if await self._store.compare_and_set(key, None, content) or await self._store.get(key) == content:
            await self._move_head(record)
            return True
        return False

    async def _move_head(self, record: Record) -> None:
        """Make the head `record` unless it is as far; it is well if another writer does so first.

        Nobody appends to a log without having moved the head to its end.
        """
        name = record.summary.name
        content = await self._store.get(HEADS + name)
        try:
            head = _decode(HEADS + name, name, content)
        except DamagedEntry:
            head = None
        if head is None or head.summary.number < record.summary.number:
            await self._store.compare_and_set(HEADS + name, content, encode_record(record))


def _decode(key: str, name: str, content: bytes | None) -> Record | None:
    if content is None:
        return None
    try:
        record = decode_record(content)
    except ValueError as error:
        raise DamagedEntry(key, str(error)) from error
    if record.summary.name != name:
        raise DamagedEntry(key, f"it is a record of {record.summary.name!r}")
    return record


def _record_key(name: str, number: int) -> str:
    return f"{RECORDS}{name}/{number:010}"
