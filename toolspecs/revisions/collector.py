"""The collector: removes old revisions, and contents that no revision has any more.

It may run while gateways read and write, and in several processes at once:

- A record is dropped only if its log has newer ones. `toolset/dropped/<name>` is written first, if the store
  has room.
- A content is removed only if no record names it and its stamp is older than `Retention.grace_s`. A writer
  renews the stamp before it appends a record. The removal is a compare-and-set on what was looked at, so it
  fails if a writer was there in between.

If the log of a toolset cannot be read, it may name any content, so all contents of this store are kept.

A revision is kept if it is one of the last `Retention.revisions`, or if a request named it by its number in
the last 30 days. What a deleted toolset held can be restored for `Retention.deleted_days`.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from toolspecs.errors import DamagedEntry, StoreFull
from toolspecs.revisions.quota import RECORD_BYTES, Usage, UsageCounters
from toolspecs.revisions.toolset_contents import CONTENTS, stamp_of
from toolspecs.revisions.toolset_logs import DROPPED, RECORDS, Record, ToolsetLogs, number_in, record_key
from toolspecs.store import Store

_log = logging.getLogger(__name__)

_DAY_S = 24 * 3600

READ_AT_ONCE = 500
"""Records of a log that are read together."""


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept. `grace_s` is longer than any write takes and than the clocks of gateways differ."""

    revisions: int = 50
    deleted_days: float = 30
    grace_s: float = 3600


@dataclass(frozen=True, slots=True)
class Collected:
    """What was removed: revisions, contents and their bytes. `num_young` contents are still too new."""

    num_revisions: int = 0
    num_contents: int = 0
    num_bytes: int = 0
    num_young: int = 0

    def __add__(self, other: "Collected") -> "Collected":
        return Collected(
            self.num_revisions + other.num_revisions,
            self.num_contents + other.num_contents,
            self.num_bytes + other.num_bytes,
            self.num_young + other.num_young,
        )


@dataclass(slots=True)
class _References:
    """The contents and the usage that the kept records refer to."""

    digests: set[str] = field(default_factory=set)
    usage: dict[str, Usage] = field(default_factory=dict)

    def refer(self, record: Record) -> None:
        if not record.is_deleted:  # a deletion names the content of the revision before it
            self.digests.add(record.summary.digest)

    def add(self, record: Record) -> None:
        self.refer(record)
        self.count(record.owner, Usage(num_bytes=record.num_bytes + RECORD_BYTES))

    def count(self, owner: str, usage: Usage) -> None:
        self.usage[owner] = self.usage.get(owner, Usage()) + usage


class Collector:
    """Removes once what is old from one store; in a dry run, it only says what would be removed.

    `now` is a time before the first key is looked at, in seconds.

    A full store refuses the note about dropped revisions. It is written at the end, since there is more room
    then, or by the next collector; until then, dropped revisions are reported as unknown.
    """

    def __init__(self, store: Store, retention: Retention, now: float, *, is_dry_run: bool = False) -> None:
        self._store = store
        self._retention = retention
        self._now = now
        self._is_dry_run = is_dry_run
        self._logs = ToolsetLogs(store)
        self._references = _References()
        self._unnoted: dict[str, int] = {}

    async def collect(self) -> Collected:
        """Remove what is old.

        Raises:
            StoreUnavailable: the store failed; what was removed before stays removed.
        """
        num_revisions = 0
        are_all_read = True
        for name, numbers in (await self._numbers()).items():
            try:
                num_revisions += await self._collect_log(name, numbers)
            except DamagedEntry as error:
                are_all_read = False
                _log.warning("nothing that toolset %r may need is removed: %s", name, error)
        collected = await self._collect_contents() if are_all_read else Collected()
        if not self._is_dry_run:
            with suppress(StoreFull):  # the next time, then
                for name, first in self._unnoted.items():
                    await self._store.set(DROPPED + name, str(first).encode())
                if are_all_read:
                    await self._correct_counters()
            await self._store.compact()
        return replace(collected, num_revisions=num_revisions)

    async def _correct_counters(self) -> None:
        """Write what each owner has stored."""
        counters, usage = UsageCounters(self._store), self._references.usage
        for owner in usage.keys() | await counters.owners():
            await counters.correct(owner, usage.get(owner, Usage()))

    async def _numbers(self) -> Mapping[str, list[int]]:
        """The numbers of all records, by name."""
        numbers: dict[str, list[int]] = {}
        async for key in self._store.scan(RECORDS):
            name, _, digits = key.removeprefix(RECORDS).rpartition("/")
            number = number_in(digits)
            if number and key == record_key(name, number):
                numbers.setdefault(name, []).append(number)
        return numbers

    async def _collect_log(self, name: str, numbers: Sequence[int]) -> int:
        """Drop the old records of one log, and refer to what the others hold; returns how many were dropped.

        A client may write one toolset very often, so a log is read piece by piece. Raises `DamagedEntry`
        before anything is dropped.
        """
        newest = await self._newest(name, numbers)
        if newest is None:
            raise DamagedEntry(RECORDS + name, "none of its records can be read")
        first = self._first_kept(newest)
        used = await self._logs.used_among(name, [number for number in numbers if number < first])
        is_any_old = any(number < first and number not in used for number in numbers)
        if not self._is_dry_run and (is_any_old or 1 not in numbers):
            await self._note_dropped(name, first)
        num_dropped = 0
        for at in range(0, len(numbers), READ_AT_ONCE):
            for record in await self._logs.readable(name, numbers[at : at + READ_AT_ONCE]):
                number = record.summary.number
                if number >= first or number in used:
                    self._references.add(record)
                    continue
                num_dropped += not record.is_deleted
                if not self._is_dry_run:
                    await self._store.delete(record_key(name, number))
        self._references.refer(newest)
        if not newest.is_deleted:
            self._references.count(newest.owner, Usage(num_toolsets=1))
        return num_dropped

    async def _newest(self, name: str, numbers: Sequence[int]) -> Record | None:
        """The last record that can be read, in the log or as its head.

        The last record of a log is never dropped, so a head without one is forged.
        """
        head = await self._logs.readable_head(name)
        if head is not None and head.summary.number > max(numbers):
            head = next(iter(await self._logs.readable(name, [head.summary.number])), None)
        for number in sorted(numbers, reverse=True):
            if head is not None and head.summary.number >= number:
                break
            if records := await self._logs.readable(name, [number]):
                return records[0]
        return head

    def _first_kept(self, head: Record) -> int:
        """The number from which on every record is kept."""
        deleted_s = self._now - head.summary.created_at.timestamp()
        if head.is_deleted and deleted_s >= self._retention.deleted_days * _DAY_S:
            return head.summary.number
        return head.summary.number - self._retention.revisions + 1

    async def _note_dropped(self, name: str, first: int) -> None:
        """Note that the records before `first` may be missing, before any of them is removed."""
        if first > await self._logs.first_kept(name):
            try:
                await self._store.set(DROPPED + name, str(first).encode())
            except StoreFull:
                self._unnoted[name] = first

    async def _collect_contents(self) -> Collected:
        """Remove the contents that no record names."""
        digests = self._references.digests
        unused = [
            key async for key in self._store.scan(CONTENTS) if key.removeprefix(CONTENTS) not in digests
        ]
        num_contents = num_bytes = num_young = 0
        for key in unused:
            content = await self._store.get(key)
            if content is None:
                continue
            if stamp_of(content) > self._now - self._retention.grace_s:
                num_young += 1
            elif self._is_dry_run or await self._store.compare_and_set(key, content, None):
                num_contents += 1
                num_bytes += len(content)
        return Collected(num_contents=num_contents, num_bytes=num_bytes, num_young=num_young)
