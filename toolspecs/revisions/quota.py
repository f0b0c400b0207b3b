"""Quotas: what one client may store. Without API keys, all clients together are one *owner*.

Each owner has two counters in the store. A write raises them before it stores anything, so that two
concurrent writes cannot exceed the quota together. They may drift, because a writer can die between the two
steps; the collector corrects them (`toolspecs/revisions/collector.py`).
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from toolspecs.errors import NotACounter, QuotaExceeded, StoreUnavailable
from toolspecs.store import Store

USAGE = "toolset/usage/"

RECORD_BYTES = 512
"""About what a record takes in a store, apart from its content."""
_MAX_COUNTED = 2**62
"""Beyond it, what is added may not fit into 64 bits."""


@dataclass(frozen=True, slots=True)
class Quota:
    """The most that one owner may store: bytes of all kept revisions, compressed, and toolsets."""

    num_bytes: int = 2**30
    num_toolsets: int = 1000


@dataclass(frozen=True, slots=True)
class Usage:
    """What an owner has stored."""

    num_bytes: int = 0
    num_toolsets: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.num_bytes + other.num_bytes, self.num_toolsets + other.num_toolsets)


class UsageCounters:
    """The counters of all owners in a store."""

    def __init__(self, store: Store, quota: Quota | None = None) -> None:
        self._store = store
        self._quota = quota or Quota()

    @asynccontextmanager
    async def reserved(self, owner: str, usage: Usage) -> AsyncIterator[None]:
        """Count `usage` for the length of a write; if the block raises, it is not counted.

        Raises:
            QuotaExceeded: the owner would have stored more than it may.
        """
        total = await self._count(owner, usage)
        try:
            self._check(usage, total)
            yield
        except BaseException:
            await self.release(owner, usage)
            raise

    def _check(self, usage: Usage, total: Usage) -> None:
        if usage.num_toolsets and total.num_toolsets > self._quota.num_toolsets:
            raise QuotaExceeded("quota_toolsets", self._quota.num_toolsets)
        if usage.num_bytes and total.num_bytes > self._quota.num_bytes:
            raise QuotaExceeded("quota_bytes", self._quota.num_bytes)

    async def release(self, owner: str, usage: Usage) -> None:
        """Stop counting `usage`. If the store fails, the collector corrects the counters later."""
        with suppress(StoreUnavailable):
            await self._count(owner, Usage(-usage.num_bytes, -usage.num_toolsets))

    async def correct(self, owner: str, usage: Usage) -> None:
        """Set the counters to `usage`, also if they hold something else than numbers."""
        await self._set(f"{USAGE}bytes/{owner}", usage.num_bytes)
        await self._set(f"{USAGE}toolsets/{owner}", usage.num_toolsets)

    async def _set(self, key: str, number: int) -> None:
        """Set a counter in such a way that what a writer adds meanwhile is not lost; 0 removes it."""
        with suppress(NotACounter):
            counted = await self._store.increment(key, 0)
            if abs(counted) <= _MAX_COUNTED:
                if not await self._store.increment(key, number - counted):
                    await self._store.compare_and_set(key, b"0", None)
                return
        await self._store.set(key, str(number).encode())

    async def owners(self) -> set[str]:
        """All owners that have counters."""
        return {key.removeprefix(USAGE).partition("/")[2] async for key in self._store.scan(USAGE)}

    async def _count(self, owner: str, usage: Usage) -> Usage:
        num_bytes = await self._store.increment(f"{USAGE}bytes/{owner}", usage.num_bytes)
        return Usage(num_bytes, await self._store.increment(f"{USAGE}toolsets/{owner}", usage.num_toolsets))
