"""How toolsets lie in a store: a log of small records for each name, and compressed contents.

A log is records numbered from 1: `toolset/record/<name>/<number>`. A write is committed by creating the
next record where none is yet, so one writer wins each number and a number keeps its meaning for good.
`toolset/head/<name>` is a copy of the last record. A writer that died between the two has left a head that
lags by one, which the next writer moves on. A head that cannot be read is made anew from the records.

The contents lie under their digests: `toolset/content/<digest>`. Toolsets of equal content share one, and it
never changes.

Whoever can write to the store can alter them, and so can a fault: what is read is checked, and refused with a
ValueError that says what is wrong.
"""

import asyncio
import json
import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import msgspec
import zstandard

from toolspecs.errors import DamagedEntry, StoreUnavailable, ToolspecsError
from toolspecs.lru_cache import LruCache
from toolspecs.store import Store
from toolspecs.tool import Tool
from toolspecs.toolset import RevisionSummary, Toolset, ToolsetReference

MAX_BYTES = 64 * 2**20
"""Of a content, before compression; none that was written is nearly as large."""


@dataclass(frozen=True, slots=True)
class Record:
    """One entry of a toolset's log: a revision, or (`is_deleted`) the toolset's end at that number."""

    summary: RevisionSummary
    is_deleted: bool = False

    @property
    def etag(self) -> str | None:
        """The revision's ETag, None after the toolset's end."""
        return None if self.is_deleted else self.summary.etag


class _Fields(msgspec.Struct):
    """A record's fields; those that later versions may add are passed over."""

    name: str
    number: Annotated[int, msgspec.Meta(ge=1)]
    digest: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    created_at: datetime
    num_tools: Annotated[int, msgspec.Meta(ge=0)]
    is_deleted: bool


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
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_record(content: bytes) -> Record:
    """The record that `encode_record` wrote; raises ValueError."""
    try:
        fields = msgspec.json.decode(content, type=_Fields)
    except msgspec.MsgspecError as error:
        raise ValueError(f"it is no record: {error}") from error
    summary = RevisionSummary(fields.name, fields.number, fields.digest, fields.created_at, fields.num_tools)
    return Record(summary, fields.is_deleted)


def encode_toolset(toolset: Toolset) -> bytes:
    """The content of a toolset as JSON, before compression: a list of tools, or an object with documents."""
    rows = [[tool.name, tool.description, tool.parameters, tool.extras] for tool in toolset.tools]
    content = {"tools": rows, "documents": toolset.documents} if toolset.documents else rows
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def decode_toolset(name: str, digest: str, content: bytes) -> Toolset:
    """The toolset whose content `encode_toolset` wrote, key order kept; raises ValueError."""
    try:
        fields = json.loads(content)
        rows, documents = (fields, {}) if isinstance(fields, list) else (fields["tools"], fields["documents"])
        toolset = Toolset(name, tuple(Tool(*row) for row in rows), documents)
        found = toolset.digest
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, ToolspecsError) as error:
        raise ValueError(f"it is no toolset: {error}") from error
    if found != digest:
        raise ValueError("it is another toolset than was written there")
    return toolset


def compress(content: bytes) -> bytes:
    """`content` in zstd's format."""
    return zstandard.ZstdCompressor().compress(content)


def decompress(content: bytes) -> bytes:
    """What `compress` was given; raises ValueError."""
    try:
        if zstandard.frame_content_size(content) > MAX_BYTES:
            raise ValueError(f"it is larger than {MAX_BYTES} bytes")
        return zstandard.ZstdDecompressor().decompress(content)
    except zstandard.ZstdError as error:
        raise ValueError(f"{error}") from error


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


CONTENTS = "toolset/content/"

RECENT_BYTES = 64 * 1024 * 1024
"""Decoded contents kept at hand, in bytes of their JSON."""


class Contents:
    """Reads and writes contents; those used lately are at hand. Both may raise `StoreUnavailable`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._recent: LruCache[Toolset] = LruCache(RECENT_BYTES)

    async def put(self, toolset: Toolset) -> None:
        """Write a content, where it is not yet, or not whole."""
        key = CONTENTS + toolset.digest
        content = await asyncio.to_thread(encode_toolset, toolset)
        packed = await asyncio.to_thread(compress, content)
        if not await self._store.compare_and_set(key, None, packed) and await self._store.get(key) != packed:
            await self._store.set(key, packed)
        self._recent.keep(_recent_key(toolset.name, toolset.digest), toolset, len(content))

    async def get(self, summary: RevisionSummary) -> Toolset:
        """The content of a revision, from what is at hand or the store; raises `DamagedEntry`."""
        recent_key = _recent_key(summary.name, summary.digest)
        toolset = self._recent.get(recent_key)
        if toolset is None:
            key = CONTENTS + summary.digest
            packed = await self._store.get(key)
            if packed is None:
                raise DamagedEntry(key, f"it is missing, and toolset {summary.name!r} is in it")
            try:
                content = await asyncio.to_thread(decompress, packed)
                toolset = await asyncio.to_thread(decode_toolset, summary.name, summary.digest, content)
            except ValueError as error:
                raise DamagedEntry(key, f"{error}; put toolset {summary.name!r} again") from error
            self._recent.keep(recent_key, toolset, len(content))
        return toolset


def _recent_key(name: str, digest: str) -> str:
    return f"{name}/{digest}"


SEEN_BYTES = 4 * 1024 * 1024


SEEN_RECORD_BYTES = 1024
"""What one takes, about."""

_log = logging.getLogger(__name__)


class StaleCache:
    """Records by reference, as many as there is room for; warns once an outage."""

    def __init__(self) -> None:
        self._seen: LruCache[Record] = LruCache(SEEN_BYTES)
        self._is_out = False

    def keep(self, reference: ToolsetReference, record: Record) -> None:
        """The store has answered."""
        self._is_out = False
        self._seen.keep(str(reference), record, SEEN_RECORD_BYTES)

    def get(self, reference: ToolsetReference, error: StoreUnavailable) -> Record:
        """What a reference meant last; raises `error` where that is not known."""
        record = self._seen.get(str(reference))
        if record is None or record.is_deleted:
            raise error
        if not self._is_out:
            self._is_out = True
            _log.warning("toolsets are served as they were last seen: %s", error)
        return record
