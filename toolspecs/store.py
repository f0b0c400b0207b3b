"""The protocol of stores: bytes under text keys, shared by whoever opens the same URL."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from toolspecs.lease import Lease


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
