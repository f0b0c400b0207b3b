"""The logs of toolsets in a store, one per name: who writes next, and what was written last.

A log is records numbered from 1: `toolset/record/<name>/<number>`. A write is committed by creating the
next record where none is yet, so one writer wins each number and a number keeps its meaning for good.
`toolset/head/<name>` is a copy of the last record. A writer that died between the two has left a head that
lags by one, which the next writer moves on.
"""

from toolspecs.codec import Record, decode_record, encode_record
from toolspecs.store import Store

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
        """The last record, for readers: one small read."""
        return _decode(await self._store.get(HEADS + name))

    async def last(self, name: str) -> Record | None:
        """The last record, for writers: a head that lags is moved on to it."""
        last = await self.head(name)
        while record := await self.record(name, last.summary.number + 1 if last else 1):
            await self._move_head(record)
            last = record
        return last

    async def record(self, name: str, number: int) -> Record | None:
        """The record of that number."""
        return _decode(await self._store.get(_record_key(name, number)))

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

        The head is at most one record behind here, as nobody appends to a log without having moved it.
        """
        key = HEADS + record.summary.name
        content = await self._store.get(key)
        head = _decode(content)
        if head is None or head.summary.number < record.summary.number:
            await self._store.compare_and_set(key, content, encode_record(record))


def _decode(content: bytes | None) -> Record | None:
    return None if content is None else decode_record(content)


def _record_key(name: str, number: int) -> str:
    return f"{RECORDS}{name}/{number:010}"
