"""How toolsets lie in a store: a log of small records for each name, and compressed contents.

The records of a log are numbered from 1: `toolset/record/<name>/<number>`. A writer commits a write by
creating the next record where there is none yet, so one writer wins each number, and the record of a number
never changes. `toolset/head/<name>` is a copy of the last record. If a writer dies between writing the record
and moving the head, the head lags behind by one; the next writer moves it on. A head that cannot be read is
made again from the records.

The contents lie under their digests: `toolset/content/<digest>`. Toolsets with equal content share one. A
content never changes, but the stamp at its end does: it tells when a writer last relied on the content, so
that nobody collects what a writer is about to name in a record (`toolspecs/collector.py`).

The oldest records are dropped in time. `toolset/dropped/<name>` holds the number of the first record that is
kept. `toolset/used/<name>/<number>` stands for a while after a request has named a revision by its number.

Whoever can write to the store can alter entries, and so can a fault. Everything that is read is checked; an
entry that cannot be used raises `DamagedEntry`.
"""

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

import msgspec
import zstandard

from toolspecs.errors import DamagedEntry, StoreUnavailable, ToolspecsError
from toolspecs.lru_cache import LruCache
from toolspecs.store import Store
from toolspecs.tool import CustomInput, KeyOrder, ShownTools, Tool, ToolSearch
from toolspecs.toolset import RevisionSummary, Toolset, ToolsetReference

HEADS = "toolset/head/"
RECORDS = "toolset/record/"
CONTENTS = "toolset/content/"
DROPPED = "toolset/dropped/"
USED = "toolset/used/"

STAMP_AFTER_S = 15 * 60
"""A stamp that is younger is not renewed, so that equal writes in a row do not write a content each time."""
USED_FOR_S = 30 * 24 * 3600
_STAMP_MARK, _STAMP_BYTES = b"used", 16

MAX_BYTES = 64 * 2**20
"""Of a content before compression. `Limits.toolset_bytes` keeps what is written far below it."""

CONTENT_CACHE_BYTES = 64 * 1024 * 1024
"""Decoded contents in memory."""
VALUE_BYTES = 80
"""About what a decoded JSON value takes in memory beside its text, most of all an empty list or object."""

STALE_CACHE_BYTES = 4 * 1024 * 1024
STALE_RECORD_BYTES = 1024
"""About what one record takes in memory."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Record:
    """One entry of a toolset's log: a revision, or (`is_deleted`) the deletion of the toolset."""

    summary: RevisionSummary
    is_deleted: bool = False
    owner: str = ""
    """Whose quota the record counts for."""
    num_bytes: int = 0
    """Of the content as it is stored; 0 where an earlier version wrote the record."""

    @property
    def etag(self) -> str | None:
        """The revision's ETag, None for a deletion."""
        return None if self.is_deleted else self.summary.etag


class _RecordFields(msgspec.Struct):
    """A record's fields. Fields that later versions may add are ignored."""

    name: str
    number: Annotated[int, msgspec.Meta(ge=1)]
    digest: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    created_at: datetime
    num_tools: Annotated[int, msgspec.Meta(ge=0)]
    is_deleted: bool
    owner: str = ""
    num_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0


def encode_record(record: Record) -> bytes:
    """The record as JSON."""
    summary = record.summary
    fields = {
        "name": summary.name,
        "number": summary.number,
        "digest": summary.digest,
        "created_at": summary.created_at.isoformat(),
        "num_tools": summary.num_tools,
        "is_deleted": record.is_deleted,
        "owner": record.owner,
        "num_bytes": record.num_bytes,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_record(content: bytes) -> Record:
    """The record that `encode_record` wrote; raises ValueError."""
    try:
        fields = msgspec.json.decode(content, type=_RecordFields)
    except msgspec.MsgspecError as error:
        raise ValueError(f"it is not a record: {error}") from error
    summary = RevisionSummary(fields.name, fields.number, fields.digest, fields.created_at, fields.num_tools)
    return Record(summary, fields.is_deleted, fields.owner, fields.num_bytes)


def encode_toolset(toolset: Toolset) -> bytes:
    """The content of a toolset as JSON: a list of tools, or an object of tools and all else that there is."""
    rows = [_row(tool) for tool in toolset.tools]
    others: dict[str, Any] = {"documents": toolset.documents} if toolset.documents else {}
    if toolset.prompt_tools:
        others["prompt_tools"] = toolset.prompt_tools
    if toolset.tool_search:
        others["tool_search"] = [toolset.tool_search.limit, *toolset.tool_search.always]
    content = {"tools": rows, **others} if others else rows
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def decode_toolset(name: str, digest: str, content: bytes) -> Toolset:
    """The toolset whose content `encode_toolset` wrote, with the same order of keys; raises ValueError."""
    try:
        fields = json.loads(content)
        fields = {"tools": fields} if isinstance(fields, list) else fields
        shown = fields.get("prompt_tools")
        search = fields.get("tool_search")
        toolset = Toolset(
            name,
            tuple(map(_tool, fields["tools"])),
            fields.get("documents", {}),
            prompt_tools=ShownTools(shown) if shown else None,
            tool_search=ToolSearch(search[0], tuple(search[1:])) if search else None,
        )
        found = toolset.digest
        _ = toolset.num_values  # counted here, in a thread
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, ToolspecsError) as error:
        raise ValueError(f"it is not a toolset: {error}") from error
    if found != digest:
        raise ValueError("it is not the toolset that was written there: its digest differs")
    return toolset


def _row(tool: Tool) -> list[Any]:
    """What is stored of a tool; its order of keys and its custom input only if they are not the default."""
    row: list[Any] = [tool.name, tool.description, tool.parameters, tool.extras]
    if tool.custom:
        return [*row, tool.key_order, [tool.custom.syntax, tool.custom.definition]]
    return row if tool.key_order == "declared" else [*row, tool.key_order]


def _tool(row: list[Any]) -> Tool:
    name, description, parameters, extras, *others = row
    order: KeyOrder = others[0] if others else "declared"
    custom = CustomInput(*others[1]) if len(others) > 1 else None
    return Tool(name, description, parameters, extras, custom=custom, key_order=order)


def compress(content: bytes) -> bytes:
    """`content` in the format of zstd."""
    return zstandard.ZstdCompressor().compress(content)


def decompress(content: bytes) -> bytes:
    """What `compress` was given; raises ValueError."""
    try:
        if zstandard.frame_content_size(content) > MAX_BYTES:
            raise ValueError(f"it is larger than {MAX_BYTES} bytes")
        return zstandard.ZstdDecompressor().decompress(content)
    except zstandard.ZstdError as error:
        raise ValueError(f"{error}") from error


class ToolsetLogs:
    """Appends to the logs and reads them; names are names of toolsets."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def names(self) -> list[str]:
        """The names that have a log, sorted; names of deleted toolsets are among them."""
        return sorted([key.removeprefix(HEADS) async for key in self._store.scan(HEADS)])

    async def head(self, name: str) -> Record | None:
        """The last record, for readers: one small read. Raises `DamagedEntry`."""
        try:
            return _decode(HEADS + name, name, await self._store.get(HEADS + name))
        except DamagedEntry as error:
            _log.warning("%s; the head is made again from the records", error)
            return await self._follow(name, None)

    async def last(self, name: str) -> Record | None:
        """The last record, for writers: a head that lags is moved on to it. Raises `DamagedEntry`."""
        return await self._follow(name, await self.head(name))

    async def _follow(self, name: str, head: Record | None) -> Record | None:
        """The last record, searched from `head` on (None: from the first); the head is moved to it."""
        last = head
        first = last.summary.number if last else await self.first_kept(name) - 1
        while record := await self.record(name, last.summary.number + 1 if last else first + 1):
            last = record
        if last is not None and last is not head:
            await self._move_head(last)
        return last

    async def record(self, name: str, number: int) -> Record | None:
        """The record of that number. Raises `DamagedEntry`."""
        key = record_key(name, number)
        record = _decode(key, name, await self._store.get(key))
        if record is not None and record.summary.number != number:
            raise DamagedEntry(key, f"it is the record of revision {record.summary.number}")
        return record

    async def readable(self, name: str, numbers: Sequence[int]) -> list[Record]:
        """Those records of these numbers that are there. One that is damaged is logged and left out."""
        keys = [record_key(name, number) for number in numbers]
        found = []
        for key, content in zip(keys, await self._store.get_many(keys), strict=True):
            try:
                record = _decode(key, name, content)
            except DamagedEntry as error:
                _log.warning("%s", error)
            else:
                found += [record] if record else []
        return found

    async def readable_head(self, name: str) -> Record | None:
        """The copy of the last record; None if it is not there or damaged."""
        try:
            return _decode(HEADS + name, name, await self._store.get(HEADS + name))
        except DamagedEntry as error:
            _log.warning("%s", error)
            return None

    async def first_kept(self, name: str) -> int:
        """The number from which on all records are kept. Raises `DamagedEntry`."""
        key = DROPPED + name
        content = await self._store.get(key)
        if content is None:
            return 1
        try:
            return max(1, int(content))
        except ValueError as error:
            raise DamagedEntry(key, str(error)) from error

    async def mark_used(self, name: str, number: int) -> None:
        """Note that a request named this revision, so that it is kept for now."""
        await self._store.set(f"{USED}{name}/{number}", b"", USED_FOR_S)

    async def used(self, name: str) -> list[int]:
        """The numbers of the revisions that requests named lately."""
        prefix = f"{USED}{name}/"
        numbers = [key.removeprefix(prefix) async for key in self._store.scan(prefix)]
        return sorted(int(number) for number in numbers if number.isdecimal())

    async def append(self, record: Record) -> bool:
        """Commit the record after the last one, by its number; False if another writer was first."""
        key, content = record_key(record.summary.name, record.summary.number), encode_record(record)
        # A driver that lost the answer to its first attempt asks again, and then finds its own record there.
        if await self._store.compare_and_set(key, None, content) or await self._store.get(key) == content:
            await self._move_head(record)
            return True
        return False

    async def _move_head(self, record: Record) -> None:
        """Make `record` the head, unless the head is at it or beyond.

        Another writer may do so first. Every writer moves the head to the end of the log before it appends.
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


def record_key(name: str, number: int) -> str:
    """The key of a record."""
    return f"{RECORDS}{name}/{number:010}"


@dataclass(frozen=True, slots=True)
class DecodedContents:
    """Contents in memory, by their digests, and whose turn it is to decode: the event loop waits meanwhile.

    The catalogs of a process may share them, even if their stores are not the same.
    """

    cache: LruCache[Toolset] = field(default_factory=lambda: LruCache(CONTENT_CACHE_BYTES))
    turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))


class ContentStore:
    """Reads and writes contents, through a cache. Both may raise `StoreUnavailable`."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float] = time.time,
        decoded: "DecodedContents | None" = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._decoded_contents = decoded or DecodedContents()

    async def put(self, toolset: Toolset, digest: str, content: bytes, packed: bytes) -> None:
        """Write the content of `toolset` unless it is there, whole and stamped lately.

        `content` is the encoded toolset, `packed` the same compressed.
        """
        key, now = CONTENTS + digest, self._clock()
        stored = await self._store.get(key)
        is_there = stored is not None and unstamped(stored) == packed
        if stored is None or not is_there or stamp_of(stored) < now - STAMP_AFTER_S:
            renewed = stamped(packed, now)
            if not await self._store.compare_and_set(key, stored, renewed):
                await self._store.set(key, renewed)  # another writer or the collector was there
        self._keep(toolset, digest, content)

    async def get(self, summary: RevisionSummary) -> Toolset:
        """The content of a revision, from the cache or the store; raises `DamagedEntry`."""
        toolset = self._cached(summary)
        if toolset is not None:
            return toolset
        key = CONTENTS + summary.digest
        packed = await self._store.get(key)
        if packed is None:
            raise DamagedEntry(key, f"it is missing; put toolset {summary.name!r} again")
        async with self._decoded_contents.turn:
            return self._cached(summary) or await self._decoded(summary, packed)

    async def _decoded(self, summary: RevisionSummary, packed: bytes) -> Toolset:
        try:
            content = await asyncio.to_thread(decompress, unstamped(packed))
            toolset = await asyncio.to_thread(decode_toolset, summary.name, summary.digest, content)
        except ValueError as error:
            key = CONTENTS + summary.digest
            raise DamagedEntry(key, f"{error}; put toolset {summary.name!r} again") from error
        self._keep(toolset, summary.digest, content)
        return toolset

    def _cached(self, summary: RevisionSummary) -> Toolset | None:
        return self._decoded_contents.cache.get(_cache_key(summary.name, summary.digest))

    def _keep(self, toolset: Toolset, digest: str, content: bytes) -> None:
        num_bytes = len(content) + VALUE_BYTES * toolset.num_values
        self._decoded_contents.cache.put(_cache_key(toolset.name, digest), toolset, num_bytes)


def stamped(packed: bytes, now: float) -> bytes:
    """A content with the time behind it, and random bytes: no two writers write the same."""
    return packed + _STAMP_MARK + round(now).to_bytes(8) + secrets.token_bytes(4)


def stamp_of(stored: bytes) -> float:
    """When a writer last relied on a stored content; 0 where an earlier version wrote it."""
    stamp = stored[-_STAMP_BYTES:]
    return int.from_bytes(stamp[4:12]) if stamp.startswith(_STAMP_MARK) else 0


def unstamped(stored: bytes) -> bytes:
    """The compressed content alone."""
    return stored[:-_STAMP_BYTES] if stored[-_STAMP_BYTES:].startswith(_STAMP_MARK) else stored


def _cache_key(name: str, digest: str) -> str:
    return f"{name}/{digest}"


class StaleCache:
    """The records that references had when the store last answered, to serve while the store is out.

    It logs one warning per outage, and its end.
    """

    def __init__(self) -> None:
        self._records: LruCache[Record] = LruCache(STALE_CACHE_BYTES)
        self._is_out = False

    def put(self, reference: ToolsetReference, record: Record) -> None:
        """Keep a record that the store has just answered or stored."""
        if self._is_out:
            self._is_out = False
            _log.warning("the store answers again: toolsets are read from it")
        self._records.put(str(reference), record, STALE_RECORD_BYTES)

    def get(self, reference: ToolsetReference, error: StoreUnavailable) -> Record:
        """The last known record; raises `error` if none is known, or if it is a deletion."""
        record = self._records.get(str(reference))
        if record is None or record.is_deleted:
            raise error
        if not self._is_out:
            self._is_out = True
            _log.warning("the store is out, toolsets are served as they were last read: %s", error)
        return record
