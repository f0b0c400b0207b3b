"""The catalog: toolsets and their revisions, over a store.

>>> catalog = Catalog(open_store("sqlite://:memory:"))
>>> (await catalog.put(Toolset("mail", (send,)))).number
1
>>> (await catalog.put_checked_tool("mail", read)).number
2
>>> (await catalog.get("mail", 1)).toolset.tool_names
('send',)

`toolset_records.py` reads records, and `toolset_logs.py` says how they are stored. The catalog writes
a content before the record that names it.
"""

import asyncio
import copy
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from weakref import WeakValueDictionary

from toolspecs.fairness.thread_time import in_thread
from toolspecs.json_value import Limits
from toolspecs.revisions.preconditions import UNCONDITIONAL, Precondition
from toolspecs.revisions.quota import RECORD_BYTES, Quota, Usage, UsageCounters
from toolspecs.revisions.submission import CheckedToolset, check_size, check_toolset
from toolspecs.revisions.toolset_contents import ContentStore, DecodedContents, compress
from toolspecs.revisions.toolset_logs import Record
from toolspecs.revisions.toolset_records import ToolsetRecords
from toolspecs.store import Store
from toolspecs.tool import Tool
from toolspecs.toolset import Page, Revision, RevisionSummary, Toolset, ToolsetReference, check_toolset_name


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
        self._records = ToolsetRecords(store, clock)
        self._contents = ContentStore(store, lambda: clock().timestamp(), decoded, self.limits)
        self._usage = UsageCounters(store, quota)

    def restricted_to(self, names: Collection[str]) -> "Catalog":
        """A view of this catalog that contains only the toolsets with these names.

        Its methods raise `ForbiddenToolset` for other names, whether such toolsets exist or not.
        """
        view = copy.copy(self)
        view._records = self._records.restricted_to(names)  # noqa: SLF001 - a catalog of this class
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
        checked = await in_thread(check_toolset, toolset, self.limits)
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
                last = await self._records.last(name)
                precondition.check(name, last.etag if last else None)
                if revision := await self._append(checked, last, owner):
                    return Write(revision, is_created=last is None or last.is_deleted)

    async def check_precondition(
        self, name: str, precondition: Precondition, *, must_exist: bool = False
    ) -> None:
        """Raise what a write under the precondition would raise now, before its body is read.

        A write without a precondition is not checked.

        Raises:
            InvalidName: no toolset can have this name.
            StaleRevision: the precondition does not hold.
            UnknownToolset: there is no such toolset, and it must exist.
        """
        if precondition == UNCONDITIONAL:
            return
        if must_exist:
            last: Record | None = await self._records.last_existing(name)
        else:
            check_toolset_name(name)
            last = await self._records.last(name)
        precondition.check(name, last.etag if last else None)

    async def put_checked_tool(
        self, name: str, tool: Tool, precondition: Precondition = UNCONDITIONAL, *, owner: str = ""
    ) -> Revision:
        """Add a checked tool to a toolset; it replaces a tool of the same name.

        Raises:
            LimitExceeded: the toolset would be too large.
            StaleRevision: the precondition does not hold.
        """

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
                last = await self._records.last_existing(name)
                precondition.check(name, last.etag)
                revision = _revision(last, await self._contents.get(last.summary))
                checked = await in_thread(changed, revision)
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
        record = await self._records.of_revision(name, number)
        toolset = await self._contents.get(record.summary)
        return await self.put(toolset, precondition, owner=owner)

    async def get(self, name: str, number: int | None = None) -> Revision:
        """The current revision, or the one with this number; raises `UnknownRevision`.

        A revision that is read by its number is kept for 30 more days.
        """
        record = await self._records.read(ToolsetReference(name, number))
        return _revision(record, await self._contents.get(record.summary))

    async def last(self, name: str) -> Revision:
        """The current revision, for writers: raises `StoreUnavailable` while the store is down."""
        record = await self._records.last_existing(name)
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
        return await self._records.list(after, limit, search)

    async def revisions(
        self, name: str, before: int | None = None, limit: int = 100
    ) -> Page[RevisionSummary]:
        """The revisions with numbers below `before`, the newest first; also those of a deleted toolset."""
        return await self._records.revisions(name, before, limit)

    async def is_deleted(self, name: str) -> bool:
        """Whether there was a toolset of this name, and it was deleted."""
        return await self._records.is_deleted(name)

    async def first_kept(self, name: str) -> int:
        """The number from which on all revisions are kept; older ones may have been dropped."""
        return await self._records.first_kept(name)

    def _turn(self, name: str) -> asyncio.Lock:
        return self._turns.setdefault(name, asyncio.Lock())

    async def _append_deletion(self, name: str, precondition: Precondition) -> bool:
        """Append the deletion of a toolset; False if another writer was first."""
        last = await self._records.last_existing(name)
        precondition.check(name, last.etag)
        deletion = RevisionSummary(name, last.summary.number + 1, last.summary.digest, self._clock(), 0)
        is_first = await self._records.append(Record(deletion, is_deleted=True, owner=last.owner))
        if is_first:
            await self._usage.release(last.owner, Usage(num_toolsets=1))
        return is_first

    async def _append(self, checked: CheckedToolset, last: Record | None, owner: str) -> Revision | None:
        """Append this content after `last` and return its revision; None if another writer was first."""
        packed = await in_thread(compress, checked.content)
        if last is not None and not last.is_deleted and last.summary.digest == checked.digest:
            await self._contents.put(checked.toolset, checked.digest, checked.content, packed)
            return _revision(last, checked.toolset)
        number = last.summary.number + 1 if last else 1
        revision = Revision(checked.toolset, number, checked.digest, self._clock())
        record = Record(revision.summary, owner=owner, num_bytes=len(packed))
        # A toolset counts for the owner of its last revision.
        former = None if last is None or last.is_deleted else last.owner
        usage = Usage(len(packed) + RECORD_BYTES, int(owner != former))
        async with self._usage.reserved(owner, usage):
            await self._contents.put(checked.toolset, checked.digest, checked.content, packed)
            is_first = await self._records.append(record)
        if not is_first:
            await self._usage.release(owner, usage)
        elif former is not None and former != owner:
            await self._usage.release(former, Usage(num_toolsets=1))
        return revision if is_first else None


def _revision(record: Record, toolset: Toolset) -> Revision:
    summary = record.summary
    return Revision(toolset, summary.number, summary.digest, summary.created_at)
