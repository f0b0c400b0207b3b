"""The shelf: entries in the store, signed, with a lease for whoever compiles one.

A store that fails is left alone for a moment, so that nobody waits for it time and again, then asked again.
An entry compiled meanwhile is not lost to the others: they compile it themselves.
"""

import asyncio
import hashlib
import hmac
import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from compiler.errors import CorruptUnit
from toolspecs.errors import LockTimeout, StoreError
from toolspecs.store import Store

LEASE_S = 10.0
_PATIENCE_S = 4.0
"""Longer than the stores' own: what they do not get they tell, and nobody waits for them again."""
PAUSE_S = 1.0
KEPT_S = 30 * 24 * 3600.0
"""So that a store is not filled for good by tools that clients send once; they are compiled again."""
_log = logging.getLogger(__name__)


class GrammarStore:
    """Contents by key; without a store it is always empty."""

    def __init__(self, store: Store | None, secret: bytes) -> None:
        self._store = store
        self._secret = secret
        self._is_out_until = 0.0

    async def load(self, key: str) -> bytes | None:
        """The content, unless there is none, it is not authentic, or the store fails."""
        return (await self.load_many([key])).get(key)

    async def load_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The contents that there are, in one round trip."""
        store = self._reachable()
        if store is None:
            return {}
        try:
            async with asyncio.timeout(_PATIENCE_S):
                stored = await store.get_many([f"unit:{key}" for key in keys])
        except (StoreError, TimeoutError) as error:
            self._failed(error)
            return {}
        contents = {}
        for key, value in zip(keys, stored, strict=True):
            try:
                if value is not None:
                    contents[key] = verify(value, key, self._secret)
            except CorruptUnit as error:
                self.reject(key, error)
        return contents

    async def save(self, key: str, content: bytes) -> None:
        """Keep a content; a store that fails is only warned of."""
        store = self._reachable()
        if store is None:
            return
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await store.set(f"unit:{key}", sign(content, key, self._secret), KEPT_S)
        except (StoreError, TimeoutError) as error:
            self._failed(error)

    @asynccontextmanager
    async def lease(self, key: str) -> AsyncIterator[None]:
        """Hold the lease of `key`; nothing where the store fails, or another's lease does not end."""
        held = AsyncExitStack()
        store = self._reachable()
        if store is not None:
            try:
                await held.enter_async_context(store.lock(f"lock:{key}", LEASE_S, LEASE_S))
            except LockTimeout as error:
                _log.warning("a grammar is compiled here too: %s", error)
            except StoreError as error:
                self._failed(error)
        try:
            yield
        finally:
            try:
                await held.aclose()
            except StoreError as error:
                self._failed(error)

    def reject(self, key: str, reason: CorruptUnit) -> None:
        """Say that an entry is not used."""
        _log.warning("stored grammar %s is ignored: %s", key, reason)

    def _reachable(self) -> Store | None:
        return None if time.monotonic() < self._is_out_until else self._store

    def _failed(self, error: Exception) -> None:
        if time.monotonic() >= self._is_out_until:
            _log.warning("grammar cache without the store: %s", str(error) or "it does not answer")
        self._is_out_until = time.monotonic() + PAUSE_S


_MAC_BYTES = hashlib.sha256().digest_size


def sign(content: bytes, key: str, secret: bytes) -> bytes:
    """`content` behind an HMAC-SHA-256 over it and the key it is stored under."""
    return _mac(content, key, secret) + content


def verify(stored: bytes, key: str, secret: bytes) -> bytes:
    """What `sign` wrapped.

    Raises:
        CorruptUnit: altered, cut short, or stored under another key or secret.
    """
    mac, content = stored[:_MAC_BYTES], stored[_MAC_BYTES:]
    if not hmac.compare_digest(mac, _mac(content, key, secret)):
        raise CorruptUnit("it is not authentic")
    return content


def _mac(content: bytes, key: str, secret: bytes) -> bytes:
    return hmac.digest(secret, key.encode() + b"\n" + content, "sha256")
