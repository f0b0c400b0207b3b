"""The protocol of stores, and the leases that every store locks with.

A store holds bytes under text keys. Everybody who opens the same URL shares them. A lease is a lock that
expires, so that a holder that died does not keep others waiting for good.

>>> store = open_store("sqlite://:memory:")
>>> await store.set("greeting", b"hello")
>>> await store.compare_and_set("greeting", b"hello", b"goodbye")
True
>>> async with store.lock("job", lease_s=30, wait_s=5):
...     await do_the_job()  # by one process at a time
"""

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from toolspecs.errors import LockTimeout

FIRST_PAUSE_S = 0.005
LONGEST_PAUSE_S = 0.25


class Store(Protocol):
    """Every method is atomic and safe between tasks and processes.

    A key that has expired counts as absent. Methods raise `StoreUnavailable` if the store fails; it is then
    unknown whether the operation took effect. The store connects when it is first used.
    """

    async def get(self, key: str) -> bytes | None:
        """The value, or None if the key is absent."""

    async def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """The values of several keys, as `get` gives them, in one round trip."""

    async def set(self, key: str, value: bytes, ttl_s: float | None = None) -> None:
        """Write a value, for `ttl_s` seconds or (None) for good. It replaces the old value and its expiry."""

    async def delete(self, key: str) -> bool:
        """Remove a key; returns whether it was there."""

    def scan(self, prefix: str) -> AsyncIterator[str]:
        """The keys that begin with `prefix`, each once, in no particular order.

        A key that is written or removed during the scan may or may not be among them.
        """

    async def compare_and_set(
        self, key: str, expected: bytes | None, value: bytes | None, ttl_s: float | None = None
    ) -> bool:
        """Write `value` (None: remove the key) if the key holds `expected` (None: is absent).

        Returns whether it wrote. The value expires after `ttl_s` seconds or (None) never.
        """

    async def increment(self, key: str, by: int = 1, ttl_s: float | None = None) -> int:
        """Add to the decimal number at `key`, from 0 if the key is absent, and return the sum.

        A key that was absent expires after `ttl_s` seconds or (None) never; else its expiry stays. Raises
        `NotACounter` if the value or the sum is not a 64-bit integer.
        """

    def lock(self, key: str, lease_s: float, wait_s: float) -> AbstractAsyncContextManager[None]:
        """Hold the lease of `key`; wait up to `wait_s` seconds for it.

        The lease expires after `lease_s` seconds; somebody else may then hold it. Leaving the block does not
        take it away from them. Raises `LockTimeout`.
        """

    async def touch(self, keys: Sequence[str], ttl_s: float) -> None:
        """Make those of the keys that have an expiry expire `ttl_s` seconds from now."""

    async def compact(self) -> None:
        """Return the space of removed entries to the system, as far as the store can."""

    async def ping(self) -> None:
        """Raise `StoreUnavailable` unless the store can be reached."""

    async def close(self) -> None:
        """Close every connection. Using the store afterwards opens it again."""


async def commit(
    store: Store, key: str, expected: bytes | None, value: bytes, ttl_s: float | None = None
) -> bool:
    """`compare_and_set` with a value that no other caller writes; returns whether the key holds it now.

    A driver that lost the answer to its first attempt repeats it. The repeated attempt fails, because the
    first one took effect, so the value is looked for.
    """
    return await store.compare_and_set(key, expected, value, ttl_s) or await store.get(key) == value


class LeaseStore(Protocol):
    """What a store implements for `hold_lease`; the random `token` identifies the holder."""

    async def acquire(self, key: str, token: str, lease_s: float) -> bool:
        """Take the lease for `lease_s` seconds if it is free or already `token`'s; returns whether it did."""

    async def release(self, key: str, token: str) -> bool:
        """Free the lease if it is still `token`'s; returns whether it was."""


@asynccontextmanager
async def hold_lease(store: LeaseStore, key: str, lease_s: float, wait_s: float) -> AsyncIterator[None]:
    """Hold a lease for the length of a block, as `Store.lock` says. Raises `LockTimeout`."""
    token = secrets.token_hex(16)
    try:
        await _acquire(store, key, token, lease_s, wait_s)
        yield
    finally:
        # If acquiring was cancelled on the way, the store may have given out the lease all the same.
        await store.release(key, token)


async def _acquire(store: LeaseStore, key: str, token: str, lease_s: float, wait_s: float) -> None:
    """Ask for the lease again and again, with growing, jittered pauses."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + wait_s
    pause = FIRST_PAUSE_S
    while not await store.acquire(key, token, lease_s):
        if (remaining := deadline - clock()) <= 0:
            raise LockTimeout(key, wait_s)
        await asyncio.sleep(min(remaining, pause * random.uniform(0.5, 1)))  # noqa: S311 (spreads waiters)
        pause = min(2 * pause, LONGEST_PAUSE_S)
