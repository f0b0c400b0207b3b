"""The catalog: toolsets and their revisions, over a store.

What is current and what was is in the toolsets' logs (toolspecs/log.py). Contents (toolspecs/contents.py) are
written before the records that name them.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from datetime import UTC, datetime
from weakref import WeakValueDictionary

from toolspecs.errors import (
    DamagedEntry,
    DeletedToolset,
    InvalidTools,
    LimitExceeded,
    StaleRevision,
    StoreUnavailable,
    UnknownRevision,
    UnknownToolset,
)
from toolspecs.json_value import Limits
from toolspecs.nearest import near_matches
from toolspecs.revision_store import Contents, Record, StaleCache, ToolsetLogs, encode_toolset
from toolspecs.schema_check import check_documents
from toolspecs.shapes import check_tool
from toolspecs.store import Store
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

_FEW = 8
"""Toolsets that an error names at most."""

Change = Callable[[Toolset], Toolset]


def utc_now() -> datetime:
    """The time of now, in UTC."""
    return datetime.now(UTC)


class Catalog:
    """Puts, gets and lists toolsets. Any number of catalogs may share a store.

    While the store is out, `get` and `resolve` answer with what this catalog last read or wrote: it may be
    behind what others write, but it is a revision that was current, and whoever uses it is served.

    `if_match` is the value of an HTTP If-Match header; a write whose precondition does not hold raises
    `StaleRevision`. Without one, writers of the same toolset take turns and none is lost: each leaves a
    revision. Every method may raise `StoreUnavailable` and `DamagedEntry`, `get` and all writes to a toolset
    that has to be there `UnknownToolset`, or `DeletedToolset`.
    """

    def __init__(
        self, store: Store, *, limits: Limits | None = None, clock: Callable[[], datetime] = utc_now
    ) -> None:
        self.store = store
        self.limits = limits or Limits()
        self._clock = clock
        # Writers in this process take turns, which saves them each other's retries; the log keeps them right.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._logs = ToolsetLogs(store)
        self._contents = Contents(store)
        self._last_seen = StaleCache()

    async def put(
        self, toolset: Toolset, *, if_match: str | None = None, if_none_match: bool = False
    ) -> Revision:
        """Make `toolset` the current content of its name; equal content leaves the revision as it is.

        `if_none_match` requires that there is no such toolset.

        Raises:
            InvalidTools: with every fault of every tool or document; nothing is written.
            LimitExceeded: there are too many tools or documents, or too much of them.
            StaleRevision: the precondition does not hold.
        """
        await asyncio.to_thread(self._check_all, toolset)
        async with self._turn(toolset.name):
            while True:
                last = await self._logs.last(toolset.name)
                _check_precondition(toolset.name, last, if_match, if_none_match=if_none_match)
                if revision := await self._append(toolset, last):
                    return revision

    async def put_tool(self, name: str, tool: Tool, *, if_match: str | None = None) -> Revision:
        """Add a tool to a toolset, or put it in the place of its namesake.

        Raises:
            InvalidTools: with every fault of the tool.
            LimitExceeded: the toolset would be too large.
            StaleRevision: the precondition does not hold.
        """
        return await self._change(name, lambda toolset: toolset.with_tool(tool), if_match, (tool,))

    async def delete_tool(self, name: str, tool_name: str, *, if_match: str | None = None) -> Revision:
        """Take a tool out of a toolset. Raises `UnknownTool` and `StaleRevision`."""
        return await self._change(name, lambda toolset: toolset.without_tool(tool_name), if_match, ())

    async def delete(self, name: str, *, if_match: str | None = None) -> None:
        """End a toolset: it and its revisions can no longer be got, only listed and restored.

        Numbers go on from there if a toolset of that name comes back. Raises `StaleRevision`.
        """
        async with self._turn(name):
            while not await self._end(name, if_match):
                pass

    async def restore(self, name: str, number: int, *, if_match: str | None = None) -> Revision:
        """Make an earlier revision's content current again, of a deleted toolset too.

        Raises:
            UnknownRevision: there is no such revision.
            StaleRevision: the precondition does not hold.
        """
        record = await self._record(name, number)
        toolset = await self._contents.get(record.summary)
        return await self.put(toolset, if_match=if_match)

    async def get(self, name: str, number: int | None = None) -> Revision:
        """The current revision, or the one of that number. Raises `UnknownRevision`."""
        key = ToolsetReference(name, number)
        try:
            record = await self._existing_head(name)
            if number is not None and number != record.summary.number:
                record = await self._record(name, number)
        except StoreUnavailable as error:
            record = self._last_seen.get(key, error)
        else:
            self._last_seen.keep(key, record)
        return _revision(record, await self._contents.get(record.summary))

    async def resolve(self, reference: ToolsetReference) -> Revision:
        """The revision that a reference such as `name@revision` means; see `get`."""
        return await self.get(reference.name, reference.number)

    async def head(self, name: str) -> RevisionSummary:
        """The current revision without its tools: one small read."""
        return (await self._existing_head(name)).summary

    async def list(self, after: str | None = None, limit: int = 100) -> Page[RevisionSummary]:
        """The current revisions of the toolsets whose names come after `after`, by name."""
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
        """The revisions numbered below `before`, the newest first; of a deleted toolset too."""
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

    def _check_all(self, toolset: Toolset) -> None:
        """Refuse a toolset for its documents, its tools or its size."""
        check_documents(toolset.documents, limits=self.limits)
        self._check(toolset, toolset.tools, "/tools/{}")

    def _check(self, toolset: Toolset, tools: tuple[Tool, ...], base: str) -> None:
        """Refuse `tools`, the new ones of a toolset, or the toolset for its size."""
        limits = self.limits
        if len(toolset) > limits.num_tools:
            raise LimitExceeded("num_tools", limits.num_tools, len(toolset))
        faults = [
            fault
            for index, tool in enumerate(tools)
            for fault in check_tool(tool, limits, index=index, base=base.format(index))
        ]
        if faults:
            raise InvalidTools(faults)
        num_bytes = len(encode_toolset(toolset))
        if num_bytes > limits.toolset_bytes:
            raise LimitExceeded("toolset_bytes", limits.toolset_bytes, num_bytes)

    async def _change(
        self, name: str, change: Change, if_match: str | None, new_tools: tuple[Tool, ...]
    ) -> Revision:
        """Append `change` of the last revision, again on the newer one where another writer was first."""
        async with self._turn(name):
            while True:
                last = await self._existing(name)
                _check_precondition(name, last, if_match)
                toolset = await asyncio.to_thread(change, await self._contents.get(last.summary))
                await asyncio.to_thread(self._check, toolset, new_tools, "")
                if revision := await self._append(toolset, last):
                    return revision

    async def _end(self, name: str, if_match: str | None) -> bool:
        """Append the toolset's end; False if another writer was first."""
        last = await self._existing(name)
        _check_precondition(name, last, if_match)
        end = RevisionSummary(name, last.summary.number + 1, last.summary.digest, self._clock(), 0)
        return await self._commit(Record(end, is_deleted=True))

    async def _append(self, toolset: Toolset, last: Record | None) -> Revision | None:
        """The revision of this content after `last`; None if another writer was first."""
        await self._contents.put(toolset)
        if last is not None and not last.is_deleted and last.summary.digest == toolset.digest:
            return _revision(last, toolset)
        number = last.summary.number + 1 if last else 1
        revision = Revision(toolset, number, toolset.digest, self._clock())
        return revision if await self._commit(Record(revision.summary)) else None

    async def _commit(self, record: Record) -> bool:
        """Append to the log; False, after a moment, if another writer was first."""
        is_first = await self._logs.append(record)
        if is_first:
            self._last_seen.keep(ToolsetReference(record.summary.name, None), record)
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
        """The head of a toolset that is there; one that is damaged hides no others."""
        try:
            head = await self._head(name)
        except DamagedEntry as error:
            _log.warning("toolset %r is left out: %s", name, error)
            return None
        return None if head is None or head.is_deleted else head

    async def _head(self, name: str) -> Record | None:
        return await self._logs.head(name) if TOOLSET_NAME.fullmatch(name) else None

    async def _record(self, name: str, number: int) -> Record:
        """The revision's record; numbers of deletions are no revisions."""
        head = await self._head(name)
        if head is None:
            raise await self._unknown(name, None)
        record = await self._logs.record(name, number) if 0 < number <= head.summary.number else None
        if record is None or record.is_deleted:
            raise UnknownRevision(name, number, head.summary.number)
        return record

    async def _unknown(self, name: str, end: Record | None) -> UnknownToolset:
        """The error that tells of the toolset's end, or names a few others, the nearest first."""
        if end is not None:
            return DeletedToolset(name, end.summary.number - 1, end.summary.created_at)
        names = await self._logs.names()
        few = list(dict.fromkeys([*near_matches(name, names, _FEW), *names[:_FEW]]))[:_FEW]
        heads = [await self._listed_head(name) for name in few]
        return UnknownToolset(name, [head.summary.name for head in heads if head])


def _revision(record: Record, toolset: Toolset) -> Revision:
    summary = record.summary
    return Revision(toolset, summary.number, summary.digest, summary.created_at)


def _check_precondition(
    name: str, last: Record | None, if_match: str | None, *, if_none_match: bool = False
) -> None:
    """Raise `StaleRevision` where the precondition does not hold."""
    etag = last.etag if last else None
    if if_match is not None and not etag_matches(if_match, etag):
        raise StaleRevision(name, f"If-Match: {if_match}", etag)
    if if_none_match and etag is not None:
        raise StaleRevision(name, "that there is none", etag)
