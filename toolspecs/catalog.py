"""The catalog: toolsets and their revisions, over a store.

>>> catalog = Catalog(open_store("sqlite://:memory:"))
>>> (await catalog.put(Toolset("mail", (send,)))).number
1
>>> (await catalog.put_tool("mail", read)).number
2
>>> (await catalog.get("mail", 1)).toolset.tool_names
('send',)

`toolspecs/revision_store.py` says how they lie in the store. The catalog writes a content before the record
that names it.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from weakref import WeakValueDictionary

from toolspecs.errors import (
    DamagedEntry,
    DeletedToolset,
    InvalidTools,
    StaleRevision,
    StoreUnavailable,
    UnknownRevision,
    UnknownToolset,
)
from toolspecs.json_value import Limits
from toolspecs.nearest import near_matches
from toolspecs.revision_store import ContentStore, Record, StaleCache, ToolsetLogs
from toolspecs.shapes import check_tool
from toolspecs.store import Store
from toolspecs.submission import CheckedToolset, check_size, check_toolset
from toolspecs.tool import Tool
from toolspecs.toolset import (
    TOOLSET_NAME,
    Page,
    Revision,
    RevisionSummary,
    Toolset,
    ToolsetReference,
    etag_matches,
)

_log = logging.getLogger(__name__)

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

    While the store is out, `get` and `resolve` answer with what this catalog last read or wrote. That may be
    older than what others wrote since, but it is a revision that was current.

    `if_match` is the value of an HTTP If-Match header. A write whose precondition does not hold raises
    `StaleRevision`. Without a precondition, writers of the same toolset take turns and no write is lost: each
    leaves a revision.

    Every method may raise `StoreUnavailable` and `DamagedEntry`. Methods that need an existing toolset raise
    `UnknownToolset`, or `DeletedToolset` if there was one.
    """

    def __init__(
        self, store: Store, *, limits: Limits | None = None, clock: Callable[[], datetime] = utc_now
    ) -> None:
        self.store = store
        self.limits = limits or Limits()
        self._clock = clock
        # Writers in this process take turns, which saves retries. The log keeps them right without that.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._logs = ToolsetLogs(store)
        self._contents = ContentStore(store)
        self._stale_cache = StaleCache()

    async def put(
        self, toolset: Toolset, *, if_match: str | None = None, if_none_match: bool = False
    ) -> Revision:
        """Check `toolset` and make it the current content of its name; see `put_checked`.

        Raises:
            InvalidTools: with every fault of every tool or document; nothing is written.
            LimitExceeded: there are too many tools or documents, or the toolset is too large.
            StaleRevision: the precondition does not hold.
        """
        checked = await asyncio.to_thread(check_toolset, toolset, self.limits)
        return (await self.put_checked(checked, if_match=if_match, if_none_match=if_none_match)).revision

    async def put_checked(
        self, checked: CheckedToolset, *, if_match: str | None = None, if_none_match: bool = False
    ) -> Write:
        """Make a checked toolset the current content of its name.

        Equal content leaves the current revision as it is. `if_none_match` requires that there is no such
        toolset. If several writers create the same toolset at once, `is_created` is true for exactly one.

        Raises:
            StaleRevision: the precondition does not hold.
        """
        name = checked.toolset.name
        async with self._turn(name):
            while True:
                last = await self._logs.last(name)
                _check_precondition(name, last.etag if last else None, if_match, if_none_match=if_none_match)
                if revision := await self._append(checked, last):
                    return Write(revision, is_created=last is None or last.is_deleted)

    async def put_tool(self, name: str, tool: Tool, *, if_match: str | None = None) -> Revision:
        """Check a tool and add it to a toolset; it replaces a tool of the same name.

        Raises:
            InvalidTools: with every fault of the tool.
            LimitExceeded: the toolset would be too large.
            StaleRevision: the precondition does not hold.
        """
        if faults := await asyncio.to_thread(check_tool, tool, self.limits):
            raise InvalidTools(faults)
        return await self.put_checked_tool(name, tool, if_match=if_match)

    async def put_checked_tool(
        self, name: str, tool: Tool, *, if_match: str | None = None, if_none_match: bool = False
    ) -> Revision:
        """As `put_tool`, for a tool that was checked; see `check_tool_precondition`."""

        def with_tool(revision: Revision) -> Toolset:
            check_tool_precondition(revision, tool.name, if_match=if_match, if_none_match=if_none_match)
            return revision.toolset.with_tool(tool)

        return await self._change(name, with_tool, if_match)

    async def delete_tool(self, name: str, tool_name: str, *, if_match: str | None = None) -> Revision:
        """Remove a tool from a toolset. Raises `UnknownTool` and `StaleRevision`."""
        return await self._change(name, lambda revision: revision.toolset.without_tool(tool_name), if_match)

    async def delete(self, name: str, *, if_match: str | None = None) -> None:
        """Delete a toolset: it and its revisions can no longer be got, only listed and restored.

        If a toolset of that name comes back, its numbers go on from there. Raises `StaleRevision`.
        """
        async with self._turn(name):
            while not await self._append_deletion(name, if_match):
                pass

    async def restore(self, name: str, number: int, *, if_match: str | None = None) -> Revision:
        """Make an earlier revision's content current again; this also works for a deleted toolset.

        Raises:
            UnknownRevision: there is no such revision.
            StaleRevision: the precondition does not hold.
        """
        record = await self._record(name, number)
        toolset = await self._contents.get(record.summary)
        return await self.put(toolset, if_match=if_match)

    async def get(self, name: str, number: int | None = None) -> Revision:
        """The current revision, or the one of that number. Raises `UnknownRevision`."""
        reference = ToolsetReference(name, number)
        try:
            record = await self._existing_head(name)
            if number is not None and number != record.summary.number:
                record = await self._record(name, number)
        except StoreUnavailable as error:
            record = self._stale_cache.get(reference, error)
        else:
            self._stale_cache.put(reference, record)
        return _revision(record, await self._contents.get(record.summary))

    async def last(self, name: str) -> Revision:
        """The current revision, for writers: while the store is out this raises `StoreUnavailable`."""
        record = await self._existing(name)
        return _revision(record, await self._contents.get(record.summary))

    async def resolve(self, reference: ToolsetReference) -> Revision:
        """The revision that a reference such as `name@revision` means; see `get`."""
        return await self.get(reference.name, reference.number)

    async def list(self, after: str | None = None, limit: int = 100) -> Page[RevisionSummary]:
        """The current revisions of the toolsets whose names come after `after`, sorted by name."""
        items: list[RevisionSummary] = []
        for name in await self._logs.names():
            if after is not None and name <= after:
                continue
            head = await self._listed_head(name)
            if head is None:
                continue
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
        number = head.summary.number + 1 if before is None else min(before, head.summary.number + 1)
        while number > 1:
            number -= 1
            record = await self._logs.record(name, number)
            if record is None or record.is_deleted:
                continue
            if len(items) == limit:
                return Page(tuple(items), str(number + 1))
            items.append(record.summary)
        return Page(tuple(items))

    def _turn(self, name: str) -> asyncio.Lock:
        return self._turns.setdefault(name, asyncio.Lock())

    async def _change(
        self, name: str, change: Callable[[Revision], Toolset], if_match: str | None
    ) -> Revision:
        """Append `change` of the last revision. Where another writer was first, apply it to theirs."""

        def changed(revision: Revision) -> CheckedToolset:
            return check_size(change(revision), self.limits)

        async with self._turn(name):
            while True:
                last = await self._existing(name)
                _check_precondition(name, last.etag, if_match)
                revision = _revision(last, await self._contents.get(last.summary))
                checked = await asyncio.to_thread(changed, revision)
                if appended := await self._append(checked, last):
                    return appended

    async def _append_deletion(self, name: str, if_match: str | None) -> bool:
        """Append the deletion of a toolset; False if another writer was first."""
        last = await self._existing(name)
        _check_precondition(name, last.etag, if_match)
        deletion = RevisionSummary(name, last.summary.number + 1, last.summary.digest, self._clock(), 0)
        return await self._commit(Record(deletion, is_deleted=True))

    async def _append(self, checked: CheckedToolset, last: Record | None) -> Revision | None:
        """The revision of this content after `last`; None if another writer was first."""
        await self._contents.put(checked.toolset, checked.digest, checked.content)
        if last is not None and not last.is_deleted and last.summary.digest == checked.digest:
            return _revision(last, checked.toolset)
        number = last.summary.number + 1 if last else 1
        revision = Revision(checked.toolset, number, checked.digest, self._clock())
        return revision if await self._commit(Record(revision.summary)) else None

    async def _commit(self, record: Record) -> bool:
        """Append to the log. If another writer was first, wait a moment and return False."""
        is_first = await self._logs.append(record)
        if is_first:
            self._stale_cache.put(ToolsetReference(record.summary.name, None), record)
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

    async def _listed_head(self, name: str) -> Record | None:
        """The head of an existing toolset, else None; also None for a damaged one, which hides no others."""
        try:
            head = await self._head(name)
        except DamagedEntry as error:
            _log.warning("toolset %r is left out: %s", name, error)
            return None
        return None if head is None or head.is_deleted else head

    async def _head(self, name: str) -> Record | None:
        return await self._logs.head(name) if TOOLSET_NAME.fullmatch(name) else None

    async def _record(self, name: str, number: int) -> Record:
        """The record of a revision; the number of a deletion is unknown."""
        head = await self._head(name)
        if head is None:
            raise await self._unknown(name, None)
        record = await self._logs.record(name, number) if 0 < number <= head.summary.number else None
        if record is None or record.is_deleted:
            raise UnknownRevision(name, number, head.summary.number)
        return record

    async def _unknown(self, name: str, deletion: Record | None) -> UnknownToolset:
        """The error for a missing toolset: it tells of the deletion, or names a few others, nearest first."""
        if deletion is not None:
            return DeletedToolset(name, deletion.summary.number - 1, deletion.summary.created_at)
        names = await self._logs.names()
        near = near_matches(name, names, _MAX_SUGGESTIONS)
        suggested = list(dict.fromkeys([*near, *names[:_MAX_SUGGESTIONS]]))[:_MAX_SUGGESTIONS]
        heads = [await self._listed_head(name) for name in suggested]
        return UnknownToolset(name, [head.summary.name for head in heads if head])


def _revision(record: Record, toolset: Toolset) -> Revision:
    summary = record.summary
    return Revision(toolset, summary.number, summary.digest, summary.created_at)


def check_tool_precondition(
    revision: Revision, tool_name: str, *, if_match: str | None = None, if_none_match: bool = False
) -> None:
    """Raise `StaleRevision` if the precondition of a write of one tool does not hold at `revision`.

    `if_match` is about the toolset; `if_none_match` requires that the toolset has no such tool.
    """
    name = revision.toolset.name
    _check_precondition(name, revision.etag, if_match)
    if if_none_match and tool_name in revision.toolset:
        raise StaleRevision(name, f"that it has no tool {tool_name!r}", revision.etag)


def _check_precondition(
    name: str, etag: str | None, if_match: str | None, *, if_none_match: bool = False
) -> None:
    """Raise `StaleRevision` if the precondition does not hold at `etag`; None: there is no such toolset."""
    if if_match is not None and not etag_matches(if_match, etag):
        raise StaleRevision(name, f"If-Match: {if_match}", etag)
    if if_none_match and etag is not None:
        raise StaleRevision(name, "that there is none", etag)
