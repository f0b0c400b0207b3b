"""The catalog: toolsets and their revisions, over a store.

>>> catalog = Catalog(open_store("sqlite://:memory:"))
>>> (await catalog.put(Toolset("mail", (send,)))).number
1
>>> (await catalog.put_tool("mail", read)).number
2
>>> (await catalog.get("mail", 1)).toolset.tool_names
('send',)

`toolspecs/toolset_logs.py` says how they are stored. The catalog writes a content before the record that
names it.
"""

import asyncio
import copy
import logging
import math
import random
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from weakref import WeakValueDictionary

from toolspecs.errors import (
    DamagedEntry,
    DeletedToolset,
    DroppedRevision,
    InvalidTools,
    StoreError,
    StoreUnavailable,
    UnknownRevision,
    UnknownToolset,
)
from toolspecs.json_value import Limits
from toolspecs.lru_cache import LruCache
from toolspecs.nearest import near_matches
from toolspecs.preconditions import UNCONDITIONAL, Precondition
from toolspecs.quota import RECORD_BYTES, Quota, Usage, UsageCounters
from toolspecs.store import Store
from toolspecs.submission import CheckedToolset, check_size, check_toolset
from toolspecs.tool import Tool
from toolspecs.tool_parser import check_tool
from toolspecs.toolset import (
    TOOLSET_NAME,
    Page,
    Revision,
    RevisionSummary,
    Toolset,
    ToolsetReference,
)
from toolspecs.toolset_contents import ContentStore, DecodedContents, compress
from toolspecs.toolset_logs import NarrowedLogs, Record, StaleCache, ToolsetLogs

_log = logging.getLogger(__name__)

_MAX_MARKED = 10_000
_MARK_AGAIN_S = 24 * 3600
"""How often a catalog notes that requests name a revision."""

_NAMES_FOR_S = 5.0
"""How long the names of all toolsets are cached for error messages: there may be very many of them."""

READ_AT_ONCE = 500
"""Heads that a listing reads together."""

_MAX_SUGGESTIONS = 8
"""Toolsets that an error names at most."""


def utc_now() -> datetime:
    """The current time in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Write:
    """What a write did: the revision that is current now, and whether the write created the toolset."""

    revision: Revision
    is_created: bool


class Catalog:
    """Puts, gets and lists toolsets. Any number of catalogs may share a store.

    While the store is down, `get` and `resolve` answer with what this catalog last read or wrote. That may be
    out of date, but it is a revision that was current.

    A write whose precondition does not hold raises `StaleRevision`. Without a precondition, writers of the
    same toolset take turns and no write is lost: each adds a revision. A write counts for the quota of
    `owner`.

    Every method may raise `StoreUnavailable` and `DamagedEntry`. Methods that need an existing toolset raise
    `UnknownToolset`, or `DeletedToolset` if there was one.
    """

    def __init__(
        self,
        store: Store,
        *,
        limits: Limits | None = None,
        quota: Quota | None = None,
        clock: Callable[[], datetime] = utc_now,
        decoded: DecodedContents | None = None,
    ) -> None:
        self.store = store
        self.limits = limits or Limits()
        self._clock = clock
        # Writers in this process take turns, which saves retries. The log keeps them right without that.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._logs = ToolsetLogs(store)
        self._contents = ContentStore(store, lambda: clock().timestamp(), decoded)
        self._stale_cache = StaleCache()
        self._usage = UsageCounters(store, quota)
        self._marked: LruCache[datetime] = LruCache(_MAX_MARKED)
        self._names: tuple[float, Sequence[str]] = (-math.inf, ())

    def narrowed(self, names: Collection[str]) -> "Catalog":
        """A view of this catalog that contains only the toolsets with these names.

        Its methods raise `ForbiddenToolset` for other names, whether such toolsets exist or not.
        """
        view = copy.copy(self)
        view._logs = NarrowedLogs(self.store, names)  # noqa: SLF001 - a catalog of this class
        view._names = (-math.inf, ())  # noqa: SLF001
        return view

    async def put(
        self, toolset: Toolset, precondition: Precondition = UNCONDITIONAL, *, owner: str = ""
    ) -> Revision:
        """Check `toolset` and make it the current content of its name; see `put_checked`.

        Raises:
            InvalidTools: with every fault of every tool or document; nothing is written.
            LimitExceeded: there are too many tools or documents, or the toolset is too large.
            StaleRevision: the precondition does not hold.
            QuotaExceeded: the owner has stored as much as it may.
        """
        checked = await asyncio.to_thread(check_toolset, toolset, self.limits)
        return (await self.put_checked(checked, precondition, owner=owner)).revision

    async def put_checked(
        self, checked: CheckedToolset, precondition: Precondition = UNCONDITIONAL, *, owner: str = ""
    ) -> Write:
        """Make a checked toolset the current content of its name.

        Equal content leaves the current revision as it is. If several writers create the same toolset at
        once, `is_created` is true for exactly one.

        Raises:
            StaleRevision: the precondition does not hold.
        """
        name = checked.toolset.name
        async with self._turn(name):
            while True:
                last = await self._logs.last(name)
                precondition.check(name, last.etag if last else None)
                if revision := await self._append(checked, last, owner):
                    return Write(revision, is_created=last is None or last.is_deleted)

    async def put_tool(
        self, name: str, tool: Tool, precondition: Precondition = UNCONDITIONAL, *, owner: str = ""
    ) -> Revision:
        """Check a tool and add it to a toolset; it replaces a tool of the same name.

        Raises:
            InvalidTools: with every fault of the tool.
            LimitExceeded: the toolset would be too large.
            StaleRevision: the precondition does not hold.
        """
        if faults := await asyncio.to_thread(check_tool, tool, self.limits):
            raise InvalidTools(faults)
        return await self.put_checked_tool(name, tool, precondition, owner=owner)

    async def put_checked_tool(
        self, name: str, tool: Tool, precondition: Precondition = UNCONDITIONAL, *, owner: str = ""
    ) -> Revision:
        """As `put_tool`, for a checked tool."""

        def with_tool(revision: Revision) -> Toolset:
            precondition.check_tool(revision, tool.name)
            return revision.toolset.with_tool(tool)

        return await self.change(name, with_tool, owner=owner)

    async def delete_tool(
        self, name: str, tool_name: str, precondition: Precondition = UNCONDITIONAL, *, owner: str = ""
    ) -> Revision:
        """Remove a tool from a toolset. Raises `UnknownTool` and `StaleRevision`."""

        def without_tool(revision: Revision) -> Toolset:
            return revision.toolset.without_tool(tool_name)

        return await self.change(name, without_tool, precondition, owner=owner)

    async def change(
        self,
        name: str,
        change: Callable[[Revision], Toolset],
        precondition: Precondition = UNCONDITIONAL,
        *,
        owner: str = "",
    ) -> Revision:
        """Append the toolset that `change` makes from the last revision.

        If another writer is first, `change` is applied again, to that writer's revision. Tools that `change`
        adds must have been checked. If it raises, nothing is written.

        Raises:
            LimitExceeded: the toolset would be too large.
            StaleRevision: the precondition does not hold.
        """

        def changed(revision: Revision) -> CheckedToolset:
            return check_size(change(revision), self.limits)

        async with self._turn(name):
            while True:
                last = await self._existing(name)
                precondition.check(name, last.etag)
                revision = _revision(last, await self._contents.get(last.summary))
                checked = await asyncio.to_thread(changed, revision)
                if appended := await self._append(checked, last, owner):
                    return appended

    async def delete(self, name: str, precondition: Precondition = UNCONDITIONAL) -> None:
        """Delete a toolset: its revisions can no longer be read, only listed and restored.

        If a toolset of that name is created again, its revision numbers continue. Raises `StaleRevision`.
        """
        async with self._turn(name):
            while not await self._append_deletion(name, precondition):
                pass

    async def restore(
        self, name: str, number: int, precondition: Precondition = UNCONDITIONAL, *, owner: str = ""
    ) -> Revision:
        """Make an earlier revision's content current again; this also works for a deleted toolset.

        Raises:
            UnknownRevision: there is no such revision, or it was dropped.
            StaleRevision: the precondition does not hold.
        """
        record = await self._record(name, number)
        toolset = await self._contents.get(record.summary)
        return await self.put(toolset, precondition, owner=owner)

    async def get(self, name: str, number: int | None = None) -> Revision:
        """The current revision, or the one with this number; raises `UnknownRevision`.

        A revision that is read by its number is kept for 30 more days.
        """
        reference = ToolsetReference(name, number)
        try:
            record = await self._existing_head(name)
            if number is not None and number != record.summary.number:
                record = await self._record(name, number)
        except StoreUnavailable as error:
            record = self._stale_cache.get(reference, error)
        else:
            self._stale_cache.put(reference, record)
            if number is not None:
                await self._mark_used(reference)
        return _revision(record, await self._contents.get(record.summary))

    async def last(self, name: str) -> Revision:
        """The current revision, for writers: raises `StoreUnavailable` while the store is down."""
        record = await self._existing(name)
        return _revision(record, await self._contents.get(record.summary))

    async def resolve(self, reference: ToolsetReference) -> Revision:
        """The revision that a reference such as `name@revision` means; see `get`."""
        return await self.get(reference.name, reference.number)

    async def list(
        self, after: str | None = None, limit: int = 100, search: str = ""
    ) -> Page[RevisionSummary]:
        """The current revisions of the toolsets whose names come after `after`, sorted by name.

        With `search`, only of those whose names contain this text, in upper or lower case.
        """
        items: list[RevisionSummary] = []
        part = search.casefold()
        names = [
            name
            for name in await self._logs.names()
            if (after is None or name > after) and part in name.casefold()
        ]
        for at in range(0, len(names), READ_AT_ONCE):
            for head in await self._listed_heads(names[at : at + READ_AT_ONCE]):
                if len(items) == limit:
                    return Page(tuple(items), items[-1].name if items else after)
                items.append(head.summary)
        return Page(tuple(items))

    async def revisions(
        self, name: str, before: int | None = None, limit: int = 100
    ) -> Page[RevisionSummary]:
        """The revisions with numbers below `before`, the newest first; also those of a deleted toolset."""
        head = await self._head(name)
        if head is None:
            raise await self._unknown(name, None)
        items: list[RevisionSummary] = []
        last = head.summary.number if before is None else min(before - 1, head.summary.number)
        first = await self._logs.first_kept(name)
        older = [number for number in await self._logs.used(name) if number < first] if first > 1 else []
        for number in chain(range(last, first - 1, -1), reversed(older)):
            if number > last:
                continue
            record = await self._logs.record(name, number)
            if record is None or record.is_deleted:
                continue
            if len(items) == limit:
                return Page(tuple(items), str(number + 1))
            items.append(record.summary)
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

    def _turn(self, name: str) -> asyncio.Lock:
        return self._turns.setdefault(name, asyncio.Lock())

    async def _append_deletion(self, name: str, precondition: Precondition) -> bool:
        """Append the deletion of a toolset; False if another writer was first."""
        last = await self._existing(name)
        precondition.check(name, last.etag)
        deletion = RevisionSummary(name, last.summary.number + 1, last.summary.digest, self._clock(), 0)
        is_first = await self._commit(Record(deletion, is_deleted=True, owner=last.owner))
        if is_first:
            await self._usage.release(last.owner, Usage(num_toolsets=1))
        return is_first

    async def _append(self, checked: CheckedToolset, last: Record | None, owner: str) -> Revision | None:
        """Append this content after `last` and return its revision; None if another writer was first."""
        packed = await asyncio.to_thread(compress, checked.content)
        if last is not None and not last.is_deleted and last.summary.digest == checked.digest:
            await self._contents.put(checked.toolset, checked.digest, checked.content, packed)
            return _revision(last, checked.toolset)
        number = last.summary.number + 1 if last else 1
        revision = Revision(checked.toolset, number, checked.digest, self._clock())
        record = Record(revision.summary, owner=owner, num_bytes=len(packed))
        is_new = last is None or last.is_deleted
        usage = Usage(len(packed) + RECORD_BYTES, int(is_new))
        async with self._usage.reserved(owner, usage):
            await self._contents.put(checked.toolset, checked.digest, checked.content, packed)
            is_first = await self._commit(record)
        if not is_first:
            await self._usage.release(owner, usage)
        return revision if is_first else None

    async def _commit(self, record: Record) -> bool:
        """Append to the log. If another writer was first, wait a moment and return False."""
        is_first = await self._logs.append(record)
        if is_first:
            self._stale_cache.put(ToolsetReference(record.summary.name, None), record)
            self._names = (-math.inf, ())
        else:
            await asyncio.sleep(random.uniform(0, 0.01))  # noqa: S311 (spreads writers)
        return is_first

    async def _existing(self, name: str) -> Record:
        last = await self._logs.last(name) if TOOLSET_NAME.fullmatch(name) else None
        if last is None or last.is_deleted:
            raise await self._unknown(name, last)
        return last

    async def _existing_head(self, name: str) -> Record:
        head = await self._head(name)
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

    async def _record(self, name: str, number: int) -> Record:
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

    async def _unknown(self, name: str, deletion: Record | None) -> UnknownToolset:
        """The error for a missing toolset: names its deletion, or other toolsets, the most similar first."""
        if deletion is not None:
            return DeletedToolset(name, deletion.summary.number - 1, deletion.summary.created_at)
        names = await self._recent_names()
        near = near_matches(name, names, _MAX_SUGGESTIONS)
        suggested = list(dict.fromkeys([*near, *names[:_MAX_SUGGESTIONS]]))[:_MAX_SUGGESTIONS]
        heads = await self._listed_heads(suggested)
        return UnknownToolset(name, [head.summary.name for head in heads])

    async def _recent_names(self) -> Sequence[str]:
        """The names of all toolsets, sorted, from a cache of a few seconds."""
        read_at, names = self._names
        if time.monotonic() >= read_at + _NAMES_FOR_S:
            names = await self._logs.names()
            self._names = (time.monotonic(), names)
        return names


def _revision(record: Record, toolset: Toolset) -> Revision:
    summary = record.summary
    return Revision(toolset, summary.number, summary.digest, summary.created_at)
