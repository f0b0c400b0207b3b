"""How toolsets are stored: a log of small records for each name, and contents that the records name.

The records of a log are numbered from 1: `toolset/record/<name>/<number>`. A writer commits a write by
creating the next record where there is none yet, so one writer wins each number, and the record of a number
never changes. `toolset/head/<name>` is a copy of the last record. If a writer dies between writing the record
and moving the head, the head lags behind by one, and the next writer moves it. A head that cannot be read is
rebuilt from the records. `toolset/named` has other bytes whenever a head of a new name was written, so that
readers know whether the names they have read are still all.

A record names its content by the digest (`toolset_contents.py`). The oldest records are dropped in time.
`toolset/dropped/<name>` holds the number of the first record that is kept. `toolset/used/<name>/<number>`
stands for a while after a request has named a revision by its number.

A fault can damage entries, and so can anyone who may write to the store. Everything that is read is checked;
an entry that cannot be used raises `DamagedEntry`.
"""

import json
import logging
import re
import secrets
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import msgspec

from toolspecs.errors import DamagedEntry, ForbiddenToolset, StoreError
from toolspecs.resolved_types import resolved
from toolspecs.store import Store, commit
from toolspecs.toolset import RevisionSummary

HEADS = "toolset/head/"
NAMED = "toolset/named"
RECORDS = "toolset/record/"
DROPPED = "toolset/dropped/"
USED = "toolset/used/"

USED_FOR_S = 30 * 24 * 3600
MARKS_AT_ONCE = 500
"""Marks of used revisions that are read together."""
MANY_REVISIONS = 20_000
"""Up to so many, the mark of each is asked for. Beyond, marks are looked for among all keys of the store."""
MAX_NUMBER = 10**10 - 1
"""The highest number of a revision, which keys have room for."""
_DIGITS = re.compile("[0-9]{1,10}")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Record:
    """One entry of a toolset's log: a revision, or (`is_deleted`) the deletion of the toolset."""

    summary: RevisionSummary
    is_deleted: bool = False
    owner: str = ""
    """Whose quota the record counts for."""
    num_bytes: int = 0
    """The size of the content as it is stored; 0 if an earlier version wrote the record."""

    @property
    def etag(self) -> str | None:
        """The revision's ETag, None for a deletion."""
        return None if self.is_deleted else self.summary.etag


class _RecordFields(msgspec.Struct):
    """A record's fields. Fields that later versions may add are ignored."""

    name: str
    number: Annotated[int, msgspec.Meta(ge=1, le=MAX_NUMBER)]
    digest: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    created_at: datetime
    num_tools: Annotated[int, msgspec.Meta(ge=0, le=2**31)]
    is_deleted: bool
    owner: str = ""
    num_bytes: Annotated[int, msgspec.Meta(ge=0, le=2**31)] = 0


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
        fields = msgspec.json.decode(content, type=resolved(_RecordFields))
        created_at = _in_utc(fields.created_at)
    except (msgspec.MsgspecError, OverflowError) as error:
        raise ValueError(f"it is not a record: {error}") from error
    summary = RevisionSummary(fields.name, fields.number, fields.digest, created_at, fields.num_tools)
    return Record(summary, fields.is_deleted, fields.owner, fields.num_bytes)


def _in_utc(time: datetime) -> datetime:
    """The same time in UTC; raises OverflowError if it is not between the years 1 and 9999 there."""
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


class ToolsetLogs:
    """Appends to the logs and reads them; names are names of toolsets.

    With `allowed`, they are the logs of these toolsets alone, for a catalog that must not see others: methods
    that name another one raise `ForbiddenToolset`.
    """

    def __init__(self, store: Store, allowed: Collection[str] | None = None) -> None:
        self._store = store
        self._allowed = None if allowed is None else frozenset(allowed)

    async def names(self) -> list[str]:
        """The names that have a log, sorted; names of deleted toolsets are among them.

        Redis looks at all its keys for this, those of other tenants included, unless some names are allowed.
        """
        if self._allowed is None:
            return sorted([key.removeprefix(HEADS) async for key in self._store.scan(HEADS)])
        allowed = sorted(self._allowed)
        heads = await self._store.get_many([HEADS + name for name in allowed])
        return [name for name, head in zip(allowed, heads, strict=True) if head is not None]

    async def state_of_names(self) -> bytes | None:
        """Bytes that differ once a toolset of a new name was created; those of an earlier version may not."""
        return await self._store.get(NAMED)

    async def head(self, name: str) -> Record | None:
        """The last record, for readers, by one small read; raises `DamagedEntry`."""
        self._check(name)
        try:
            return _decode(HEADS + name, name, await self._store.get(HEADS + name))
        except DamagedEntry as error:
            _log.warning("%s; the head is made again from the records", error)
            return await self._follow(name, None)

    async def heads(self, names: Sequence[str]) -> list[Record | DamagedEntry | None]:
        """The last record of each name, read in one round trip; errors instead of damaged ones."""
        self._check(*names)
        keys = [HEADS + name for name in names]
        heads: list[Record | DamagedEntry | None] = []
        for key, name, content in zip(keys, names, await self._store.get_many(keys), strict=True):
            try:
                heads.append(_decode(key, name, content))
            except DamagedEntry as error:
                heads.append(error)
        return heads

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
        self._check(name)
        return _numbered(name, number, await self._store.get(record_key(name, number)))

    async def records(self, name: str, numbers: Sequence[int]) -> list[Record | None]:
        """The records of these numbers, read in one round trip. Raises `DamagedEntry`."""
        self._check(name)
        contents = await self._store.get_many([record_key(name, number) for number in numbers])
        return [_numbered(name, number, content) for number, content in zip(numbers, contents, strict=True)]

    async def readable(self, name: str, numbers: Sequence[int]) -> list[Record]:
        """The records with these numbers, without missing ones; a damaged record is logged and left out."""
        self._check(name)
        keys = [record_key(name, number) for number in numbers]
        contents = await self._store.get_many(keys)
        read = (_readable(key, name, content) for key, content in zip(keys, contents, strict=True))
        return [record for record in read if record is not None]

    async def readable_head(self, name: str) -> Record | None:
        """The copy of the last record; None if it is not there, or damaged, which is logged."""
        self._check(name)
        return _readable(HEADS + name, name, await self._store.get(HEADS + name))

    async def first_kept(self, name: str) -> int:
        """The number from which on all records are kept. Raises `DamagedEntry`."""
        self._check(name)
        key = DROPPED + name
        content = await self._store.get(key)
        if content is None:
            return 1
        number = number_in(content.decode(errors="replace"))
        if number is None:
            raise DamagedEntry(key, "it is not the number of a revision")
        return max(1, number)

    async def mark_used(self, name: str, number: int) -> None:
        """Note that a request named this revision, so that it is kept for now."""
        self._check(name)
        await self._store.set(f"{USED}{name}/{number}", b"", USED_FOR_S)

    async def used_among(self, name: str, numbers: Sequence[int]) -> set[int]:
        """Those of these revisions that requests named lately."""
        self._check(name)
        used: set[int] = set()
        for at in range(0, len(numbers), MARKS_AT_ONCE):
            together = numbers[at : at + MARKS_AT_ONCE]
            marks = await self._store.get_many([f"{USED}{name}/{number}" for number in together])
            used |= {number for number, mark in zip(together, marks, strict=True) if mark is not None}
        return used

    async def used_before(self, name: str, first: int) -> list[int]:
        """The numbers below `first` of the revisions that requests named lately, sorted."""
        self._check(name)
        if first <= MANY_REVISIONS:
            return sorted(await self.used_among(name, range(1, first)))
        prefix = f"{USED}{name}/"
        numbers = [number_in(key.removeprefix(prefix)) async for key in self._store.scan(prefix)]
        return sorted(number for number in numbers if number and number < first)

    async def append(self, record: Record) -> bool:
        """Commit the record after the last one, by its number; False if another writer was first.

        Raises `DamagedEntry` if the head claims the highest number.
        """
        self._check(record.summary.name)
        if record.summary.number > MAX_NUMBER:
            raise DamagedEntry(HEADS + record.summary.name, "no revision can follow its number")
        key, content = record_key(record.summary.name, record.summary.number), encode_record(record)
        if await commit(self._store, key, None, content):
            await self._move_head(record)
            return True
        return False

    async def _move_head(self, record: Record) -> None:
        """Make `record` the head, unless the head is already at this record or a later one.

        Another writer may be first; every writer moves the head to the end of the log before it appends.
        """
        name = record.summary.name
        content = await self._store.get(HEADS + name)
        try:
            head = _decode(HEADS + name, name, content)
        except DamagedEntry:
            head = None
        if head is None or head.summary.number < record.summary.number:
            await self._store.compare_and_set(HEADS + name, content, encode_record(record))
        if content is None:
            # The record is committed: without this, readers find the new name some seconds later.
            with suppress(StoreError):
                await self._store.set(NAMED, secrets.token_bytes(8))

    def _check(self, *names: str) -> None:
        for name in names:
            if self._allowed is not None and name not in self._allowed:
                raise ForbiddenToolset(name, self._allowed)


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


def _readable(key: str, name: str, content: bytes | None) -> Record | None:
    """As `_decode`, but logs that a record is damaged, and returns None."""
    try:
        return _decode(key, name, content)
    except DamagedEntry as error:
        _log.warning("%s", error)
        return None


def record_key(name: str, number: int) -> str:
    """The key of a record."""
    return f"{RECORDS}{name}/{number:010}"


def _numbered(name: str, number: int, content: bytes | None) -> Record | None:
    """The record of that number; raises `DamagedEntry`."""
    key = record_key(name, number)
    record = _decode(key, name, content)
    if record is not None and record.summary.number != number:
        raise DamagedEntry(key, f"it is the record of revision {record.summary.number}")
    return record


def number_in(text: str) -> int | None:
    """The number that a text consists of; None if it is not one that a revision may have, or 0."""
    return int(text) if _DIGITS.fullmatch(text) else None
