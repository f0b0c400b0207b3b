"""The records of toolsets, as the catalog reads and appends them.

A record says what a revision is, and where its content lies; the head of a toolset is its last record. While
the store is down, `ToolsetRecords.read` answers with what it last read.
"""

import asyncio
import copy
import logging
import math
import random
import time
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from itertools import chain, islice

from toolspecs.errors import (
    DamagedEntry,
    DeletedToolset,
    DroppedRevision,
    StoreError,
    StoreUnavailable,
    UnknownRevision,
    UnknownToolset,
)
from toolspecs.lru_cache import LruCache
from toolspecs.nearest import near_matches
from toolspecs.revisions.toolset_logs import Record, ToolsetLogs
from toolspecs.store import Store
from toolspecs.toolset import TOOLSET_NAME, Page, RevisionSummary, ToolsetReference

_log = logging.getLogger(__name__)

_MAX_MARKED = 10_000
_MARK_AGAIN_S = 24 * 3600
"""How often a catalog notes that requests name a revision."""
_MARK_RETRIED_S = 60
"""How soon a note that the store refused is written again."""

_NAMES_FOR_S = 5.0
"""How long the names of all toolsets are cached at least, unless one is known to have been added."""
_NAMES_SHARE = 0.05
"""The most of the time in which they are read again: Redis looks at all its keys for them."""
_NAMES_AT_MOST_S = 120.0
"""How long they are cached at most, also where Redis stood still while they were read."""

READ_AT_ONCE = 500
"""Heads, or records, that a listing reads together."""

MAX_MISSING = 1000
"""Missing records after which a listing of revisions ends. Few are missing, unless the head is forged."""

_STALE_CACHE_BYTES = 4 * 1024 * 1024
_STALE_RECORD_BYTES = 1024
"""About what one record takes in memory."""

_MAX_SUGGESTIONS = 8
"""Toolsets that an error names at most."""


class ToolsetRecords:
    """Reads records and appends new ones; says which toolset or revision is missing, and what was meant."""

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock
        self._logs = ToolsetLogs(store)
        self._stale_cache = StaleCache()
        self._marked: LruCache[datetime] = LruCache(_MAX_MARKED)
        self._names = _Names(self._logs)

    def restricted_to(self, names: Collection[str]) -> "ToolsetRecords":
        """A view of only the toolsets with these names; of others, it raises `ForbiddenToolset`."""
        view = copy.copy(self)
        view._logs = ToolsetLogs(self._store, names)  # noqa: SLF001 - of this class
        view._names = _Names(view._logs)  # noqa: SLF001
        return view

    async def append(self, record: Record) -> bool:
        """Append to the log. If another writer was first, wait a moment and return False."""
        is_first = await self._logs.append(record)
        if is_first:
            self._stale_cache.put(ToolsetReference(record.summary.name, None), record)
        else:
            await asyncio.sleep(random.uniform(0, 0.01))  # noqa: S311 (spreads writers)
        return is_first

    async def last(self, name: str) -> Record | None:
        """The last record of a toolset, for writers: read from the store, never from a cache."""
        return await self._logs.last(name)

    async def last_existing(self, name: str) -> Record:
        """As `last`, but raises `UnknownToolset` or `DeletedToolset` if there is no such toolset."""
        last = await self._logs.last(name) if TOOLSET_NAME.fullmatch(name) else None
        if last is None or last.is_deleted:
            raise await self._unknown(name, last)
        return last

    async def read(self, reference: ToolsetReference) -> Record:
        """The record of a revision; while the store is down, the one that was last read or written.

        Raises what `Catalog.get` raises.
        """
        name, number = reference.name, reference.number
        try:
            record = await self._existing_head(name)
            if number is not None and number != record.summary.number:
                record = await self.of_revision(name, number)
        except StoreUnavailable as error:
            record = self._stale_cache.get(reference, error)
        else:
            if number is not None:
                self._stale_cache.put(reference, record)
                await self._mark_used(reference)
        return record

    async def of_revision(self, name: str, number: int) -> Record:
        """The record of a revision; raises `UnknownRevision` or `DroppedRevision`."""
        head = await self._head(name)
        if head is None:
            raise await self._unknown(name, None)
        record = await self._logs.record(name, number) if 0 < number <= head.summary.number else None
        if record is None and 0 < number < (first := await self._logs.first_kept(name)):
            raise DroppedRevision(name, number, head.summary.number, first)
        if record is None or record.is_deleted:
            raise UnknownRevision(name, number, head.summary.number)
        return record

    async def list(self, after: str | None, limit: int, search: str) -> Page[RevisionSummary]:
        """The current revisions of the toolsets whose names come after `after`, sorted by name.

        With `search`, only of those whose names contain this text, in upper or lower case.
        """
        items: list[RevisionSummary] = []
        part = search.casefold()
        names = [
            name
            for name in await self._names.read()
            if (after is None or name > after) and part in name.casefold()
        ]
        for at in range(0, len(names), READ_AT_ONCE):
            for head in await self._listed_heads(names[at : at + READ_AT_ONCE]):
                if len(items) == limit:
                    return Page(tuple(items), items[-1].name if items else after)
                items.append(head.summary)
        return Page(tuple(items))

    async def revisions(self, name: str, before: int | None, limit: int) -> Page[RevisionSummary]:
        """The revisions with numbers below `before`, the newest first; also those of a deleted toolset."""
        head = await self._head(name)
        if head is None:
            raise await self._unknown(name, None)
        items: list[RevisionSummary] = []
        num_missing = 0
        last = head.summary.number if before is None else min(before - 1, head.summary.number)
        first = await self._logs.first_kept(name)
        older = await self._logs.used_before(name, first)
        numbers = chain(range(last, first - 1, -1), (number for number in reversed(older) if number <= last))
        while together := tuple(islice(numbers, min(READ_AT_ONCE, limit + 1 - len(items)))):
            records = await self._logs.records(name, together)
            items += [record.summary for record in records if record and not record.is_deleted]
            if len(items) > limit:
                return Page(tuple(items[:limit]), str(items[limit].number + 1))
            num_missing += records.count(None)
            if num_missing > MAX_MISSING:
                _log.warning("over %d revisions of toolset %r are missing before %d", MAX_MISSING, name, last)
                break
        return Page(tuple(items))

    async def is_deleted(self, name: str) -> bool:
        """Whether there was a toolset of this name, and it was deleted."""
        head = await self._head(name)
        return head is not None and head.is_deleted

    async def first_kept(self, name: str) -> int:
        """The number from which on all revisions are kept; older ones may have been dropped."""
        return await self._logs.first_kept(name)

    async def _mark_used(self, reference: ToolsetReference) -> None:
        """Note, once a day, that requests name a revision by its number; a failing store does no harm."""
        now, key = self._clock(), str(reference)
        marked = self._marked.get(key)
        if marked is None or (now - marked).total_seconds() >= _MARK_AGAIN_S:
            self._marked.put(key, now, 1)
            try:
                await self._logs.mark_used(reference.name, reference.number or 1)
            except StoreError as error:
                _log.warning("that requests name %s could not be noted: %s", key, error)
                self._marked.put(key, now - timedelta(seconds=_MARK_AGAIN_S - _MARK_RETRIED_S), 1)

    async def _existing_head(self, name: str) -> Record:
        head = await self._head(name)
        self._stale_cache.note_head(name, head)
        if head is None or head.is_deleted:
            raise await self._unknown(name, head)
        return head

    async def _listed_heads(self, names: Sequence[str]) -> Sequence[Record]:
        """The heads of toolsets in one read, without those that are deleted, which may be very many.

        A head that is damaged is read alone, which makes it again from the records.
        """
        heads = []
        for name, read in zip(names, await self._logs.heads(names), strict=True):
            head = read
            if isinstance(read, DamagedEntry):
                try:
                    head = await self._head(name)
                except DamagedEntry as error:
                    _log.warning("toolset %r is left out: %s", name, error)
                    continue
            if isinstance(head, Record) and not head.is_deleted:
                heads.append(head)
        self._stale_cache.end_outage()
        return heads

    async def _head(self, name: str) -> Record | None:
        if not TOOLSET_NAME.fullmatch(name):
            return None
        head = await self._logs.head(name)
        self._stale_cache.end_outage()
        return head

    async def _unknown(self, name: str, deletion: Record | None) -> UnknownToolset:
        """The error for a missing toolset: names its deletion, or other toolsets, the most similar first."""
        if deletion is not None:
            return DeletedToolset(name, deletion.summary.number - 1, deletion.summary.created_at)
        names = await self._names.read()
        near = near_matches(name, names, _MAX_SUGGESTIONS)
        suggested = list(dict.fromkeys([*near, *names[:_MAX_SUGGESTIONS]]))[:_MAX_SUGGESTIONS]
        heads = await self._listed_heads(suggested)
        return UnknownToolset(name, [head.summary.name for head in heads])


class _Names:
    """The names of all toolsets, sorted, which one of many readers at once finds: there may be very many."""

    def __init__(self, logs: ToolsetLogs) -> None:
        self._logs = logs
        self._reading = asyncio.Lock()
        self._names: Sequence[str] = ()
        self._state: bytes | None = None
        self._fresh_until = -math.inf

    async def read(self) -> Sequence[str]:
        """All names; those that an earlier version, or a writer that died, added lately may be missing."""
        async with self._reading:
            state = await self._logs.state_of_names()
            began_at = time.monotonic()
            if state != self._state or began_at >= self._fresh_until:
                self._names = await self._logs.names()
                now = time.monotonic()
                self._state = state
                kept_s = max(_NAMES_FOR_S, (now - began_at) / _NAMES_SHARE)
                self._fresh_until = now + min(kept_s, _NAMES_AT_MOST_S)
            return self._names


class StaleCache:
    """The records that references had when the store last answered, to be served while it is down.

    It logs one warning at the beginning of an outage and one at its end.
    """

    def __init__(self) -> None:
        self._records: LruCache[Record] = LruCache(_STALE_CACHE_BYTES)
        self._is_out = False

    def put(self, reference: ToolsetReference, record: Record) -> None:
        """Keep a record that the store has just answered or stored."""
        self.end_outage()
        self._records.put(str(reference), record, _STALE_RECORD_BYTES)

    def note_head(self, name: str, head: Record | None) -> None:
        """Keep the last record of a toolset, a deletion too; None forgets the former one."""
        reference = ToolsetReference(name, None)
        if head is None:
            self._records.drop(str(reference))
        else:
            self.put(reference, head)

    def end_outage(self) -> None:
        """The store has answered, also if it knows no such toolset: one that comes back may be empty."""
        if self._is_out:
            self._is_out = False
            _log.warning("the store answers again: toolsets are read from it")

    def get(self, reference: ToolsetReference, error: StoreUnavailable) -> Record:
        """The last known record; raises `error` if none is known, or if the toolset was deleted."""
        record, head = self._records.get(str(reference)), self._records.get(reference.name)
        if record is None or (head is not None and head.is_deleted):
            raise error
        if not self._is_out:
            self._is_out = True
            _log.warning("the store is out, toolsets are served as they were last read: %s", error)
        return record
