"""The protocol of stores: bytes under text keys, shared by whoever opens the same URL."""

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from toolspecs.errors import LockTimeout

FIRST_WAIT_S = 0.005


LONGEST_WAIT_S = 0.25


class LeaseStore(Protocol):
    """What a store has to offer for leases; `token` tells the holder."""

    async def acquire(self, key: str, token: str, lease_s: float) -> bool:
        """Take the lease if it is free or already `token`'s; it then ends in `lease_s` seconds."""

    async def renew(self, key: str, token: str, lease_s: float) -> bool:
        """Move the end if the lease is still `token`'s."""

    async def release(self, key: str, token: str) -> bool:
        """Free the lease if it is still `token`'s."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease that was held when it was given out."""

    store: LeaseStore
    key: str
    token: str
    lease_s: float

    async def renew(self) -> bool:
        """Hold on for another `lease_s` seconds from now; False if the lease was lost meanwhile."""
        return await self.store.renew(self.key, self.token, self.lease_s)


@asynccontextmanager
async def hold_lease(store: LeaseStore, key: str, lease_s: float, wait_s: float) -> AsyncIterator[Lease]:
    """Acquire, polling with growing, jittered pauses; release on the way out. Raises `LockTimeout`."""
    lease = Lease(store, key, secrets.token_hex(16), lease_s)
    try:
        await _wait_for(lease, wait_s)
        yield lease
    finally:
        # Also where acquiring was cancelled half way: the store may have given the lease out already.
        await store.release(key, lease.token)


async def _wait_for(lease: Lease, wait_s: float) -> None:
    clock = asyncio.get_running_loop().time
    deadline = clock() + wait_s
    pause = FIRST_WAIT_S
    while not await lease.store.acquire(lease.key, lease.token, lease.lease_s):
        if (remaining := deadline - clock()) <= 0:
            raise LockTimeout(lease.key, wait_s)
        await asyncio.sleep(min(remaining, pause * random.uniform(0.5, 1)))  # noqa: S311 (spreads waiters)
        pause = min(2 * pause, LONGEST_WAIT_S)


class Store(Protocol):
    """Every method is atomic on its own and safe between tasks and processes.

    An expired key is an absent key. Methods raise `StoreUnavailable` where the store fails; whether the
    operation took effect is then not known. Opening happens at the first use.
    """

    async def get(self, key: str) -> bytes | None:
        """The value, or None where the key is absent."""

    async def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """The values of several keys, as `get` gives them, in one round trip."""

    async def set(self, key: str, value: bytes, ttl_s: float | None = None) -> None:
        """Write a value, for `ttl_s` seconds or for good; what was there goes, its expiry too."""

    async def delete(self, key: str) -> bool:
        """Remove a key; whether it was there."""

    def scan(self, prefix: str) -> AsyncIterator[str]:
        """The keys that begin with `prefix`, each once, in no promised order.

        Keys written or removed while it runs may or may not be among them.
        """

    async def compare_and_set(self, key: str, expected: bytes | None, value: bytes | None) -> bool:
        """Write `value` (None: remove the key) if the key holds `expected` (None: is absent).

        Returns whether it did. A value so written does not expire.
        """

    async def increment(self, key: str, by: int = 1) -> int:
        """Add to the decimal number at `key`, from 0 where it is absent, and return the sum.

        An expiry stays as it was. Raises `NotACounter` where the value or the sum is no 64-bit number.
        """

    def lock(self, key: str, lease_s: float, wait_s: float) -> AbstractAsyncContextManager[Lease]:
        """Hold the lease of `key`, waiting up to `wait_s` seconds for it.

        It ends after `lease_s` seconds unless renewed, so that a dead holder is taken over. Releasing a
        lease that has passed to somebody else leaves it alone. Raises `LockTimeout`.
        """

    async def ping(self) -> None:
        """Return if the store can be reached, else raise `StoreUnavailable`."""

    async def close(self) -> None:
        """Let go of every connection. Using the store afterwards opens it anew."""
