"""A lease: a lock that ends by itself, so that no dead holder keeps anybody waiting for good."""

import asyncio
import random
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
