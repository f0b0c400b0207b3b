"""A part of a store that acts as a store of its own: its keys have a prefix that its users do not see.

>>> acme = NamespacedStore(open_store("sqlite://:memory:"), "tenant/acme/")
>>> await acme.set("greeting", b"hello")  # under tenant/acme/greeting
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager

from toolspecs.store import Store

PAGE_KEYS = 1000


class NamespacedStore:
    """The keys of `store` that begin with `prefix`, without it."""

    def __init__(self, store: Store, prefix: str) -> None:
        self._store = store
        self._prefix = prefix

    def __repr__(self) -> str:
        return f"NamespacedStore({self._store!r}, {self._prefix!r})"

    async def get(self, key: str) -> bytes | None:
        """See `Store.get`."""
        return await self._store.get(self._prefix + key)

    async def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """See `Store.get_many`."""
        return await self._store.get_many(self._inside(keys))

    async def set(self, key: str, value: bytes, ttl_s: float | None = None) -> None:
        """See `Store.set`."""
        await self._store.set(self._prefix + key, value, ttl_s)

    async def delete(self, key: str) -> bool:
        """See `Store.delete`."""
        return await self._store.delete(self._prefix + key)

    async def scan(self, prefix: str) -> AsyncIterator[str]:
        """See `Store.scan`."""
        async for key in self._store.scan(self._prefix + prefix):
            yield key.removeprefix(self._prefix)

    async def compare_and_set(
        self, key: str, expected: bytes | None, value: bytes | None, ttl_s: float | None = None
    ) -> bool:
        """See `Store.compare_and_set`."""
        return await self._store.compare_and_set(self._prefix + key, expected, value, ttl_s)

    async def increment(self, key: str, by: int = 1, ttl_s: float | None = None) -> int:
        """See `Store.increment`."""
        return await self._store.increment(self._prefix + key, by, ttl_s)

    def lock(self, key: str, lease_s: float, wait_s: float) -> AbstractAsyncContextManager[None]:
        """See `Store.lock`."""
        return self._store.lock(self._prefix + key, lease_s, wait_s)

    async def touch(self, keys: Sequence[str], ttl_s: float) -> None:
        """See `Store.touch`."""
        await self._store.touch(self._inside(keys), ttl_s)

    async def compact(self) -> None:
        """See `Store.compact`: of the whole store."""
        await self._store.compact()

    async def ping(self) -> None:
        """See `Store.ping`."""
        await self._store.ping()

    async def close(self) -> None:
        """See `Store.close`: of the whole store."""
        await self._store.close()

    def _inside(self, keys: Sequence[str]) -> list[str]:
        return [self._prefix + key for key in keys]


class ListedStore(NamespacedStore):
    """A part of a store whose `keys` were listed before: `scan` yields those, and asks the store for none."""

    def __init__(self, store: Store, prefix: str, keys: Sequence[str]) -> None:
        super().__init__(store, prefix)
        self._keys = keys

    async def scan(self, prefix: str) -> AsyncIterator[str]:
        """See `Store.scan`. As with a real store, others run between two pages of keys."""
        for number, key in enumerate(self._keys):
            if number % PAGE_KEYS == 0:
                await asyncio.sleep(0)
            if key.startswith(prefix):
                yield key
