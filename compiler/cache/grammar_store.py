"""The second tier of the grammar cache: signed entries in the store, and a lease for compiling one.

When the store fails, nobody asks it for a moment (`PAUSE_S`), so that not every request waits for it. An
entry that is compiled meanwhile is not stored; other replicas compile it themselves. A store that is full
gives what it has, so it is asked all the same.
"""

import asyncio
import hashlib
import hmac
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from compiler.errors import CorruptUnit
from toolspecs.errors import LockTimeout, StoreError, StoreFull, StoreUnavailable
from toolspecs.store import Store

LEASE_S = 10.0
UNIT_PREFIX = "unit:"
_TIMEOUT_S = 4.0
"""Longer than the stores' own timeouts, so that a store reports its own failure first."""
PAUSE_S = 1.0
LIFETIME_S = 30 * 24 * 3600.0
"""After its last use an entry expires: clients send some tools only once, and the store must not fill up."""
MAX_CLIENT_BYTES = 256 << 20
"""Bytes that the schemas of one client add in `LIFETIME_S`; what is beyond is compiled, but not stored."""
_MAX_CLIENTS = 4096
_log = logging.getLogger(__name__)


class GrammarStore:
    """Signed contents by key. Without a store it is always empty."""

    def __init__(self, store: Store | None, secret: bytes) -> None:
        self._store = store
        self._secret = secret
        self._paused_until = 0.0
        self._has_failed = False
        self._is_full = False
        self._allowance = StoreAllowance()

    @property
    def is_used(self) -> bool:
        """Whether there is a store."""
        return self._store is not None

    async def load(self, key: str) -> bytes | None:
        """The content; None if there is none, its signature is wrong, or the store fails."""
        return (await self.load_many([key])).get(key)

    async def load_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The contents of those keys that have one, in one round trip; they live on for `LIFETIME_S`."""
        store = self._reachable()
        if store is None:
            return {}
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                stored = await store.get_many([UNIT_PREFIX + key for key in keys])
                stored_keys = [UNIT_PREFIX + key for key, value in zip(keys, stored, strict=True) if value]
                if stored_keys:
                    with suppress(StoreError):  # of a full disk, or a replica: they were read all the same
                        await store.touch(stored_keys, LIFETIME_S)
        except (StoreError, TimeoutError) as error:
            self._note_failure(error)
            return {}
        self._note_answer()
        signed_by_key = {key: value for key, value in zip(keys, stored, strict=True) if value is not None}
        return await asyncio.to_thread(self._verified, signed_by_key) if signed_by_key else {}

    def _verified(self, stored: Mapping[str, bytes]) -> dict[str, bytes]:
        """The contents whose signatures are right; takes 2 ms for each megabyte."""
        contents = {}
        for key, value in stored.items():
            try:
                contents[key] = verify(value, key, self._secret)
            except CorruptUnit as error:
                self.log_rejected(key, error)
        return contents

    async def missing(self, keys: Sequence[str]) -> list[str]:
        """The keys that have no content; without a store, none of them.

        Raises:
            StoreUnavailable: the store fails.
        """
        if self._store is None:
            return []
        contents = await self.load_many(keys)
        self.check()
        return [key for key in keys if key not in contents]

    def check(self) -> None:
        """Raise StoreUnavailable if the store has just failed."""
        if self._store is not None and self._reachable() is None:
            raise StoreUnavailable("of grammars", "it does not answer")

    async def save(self, key: str, content: bytes, client_id: str | None) -> bool:
        """Store a content, and return whether the client may add so much; if the store fails, log a warning.

        The client None is the gateway itself, which has no limit. Raises StoreFull.
        """
        store = self._reachable()
        if store is None:
            return True
        if client_id is not None and not self._allowance.take(client_id, len(content)):
            return False
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                await store.set(UNIT_PREFIX + key, sign(content, key, self._secret), LIFETIME_S)
        except StoreFull as error:
            self._note_failure(error)
            if client_id is not None:
                self._allowance.give_back(client_id, len(content))
            raise
        except (StoreError, TimeoutError) as error:
            self._note_failure(error)
        else:
            self._is_full = False
        return True

    @asynccontextmanager
    async def lease(self, key: str) -> AsyncIterator[None]:
        """Hold the lease of `key`; go on without it if the store fails or another holder keeps it."""
        stack = AsyncExitStack()
        store = self._reachable()
        if store is not None:
            try:
                await stack.enter_async_context(store.lock(f"lock:{key}", LEASE_S, LEASE_S))
            except LockTimeout as error:
                _log.warning("another replica holds the lease of a grammar; compiling it here too: %s", error)
            except StoreError as error:
                self._note_failure(error)
        try:
            yield
        finally:
            try:
                await stack.aclose()
            except StoreError as error:
                self._note_failure(error)

    def log_rejected(self, key: str, reason: CorruptUnit) -> None:
        """Log that a stored entry is not used."""
        _log.warning("stored grammar %s is ignored: %s", key, reason)

    def _reachable(self) -> Store | None:
        return None if time.monotonic() < self._paused_until else self._store

    def _note_answer(self) -> None:
        if self._has_failed:
            self._has_failed = False
            _log.warning("the store answers again: the grammar cache uses it")

    def _note_failure(self, error: Exception) -> None:
        if isinstance(error, StoreFull):  # it gives what it has
            if not self._is_full:
                self._is_full = True
                _log.warning("compiled grammars are not stored for now: %s", error)
            return
        if not self._has_failed:
            self._has_failed = True
            _log.warning(
                "the grammar cache works without the store for now: %s", str(error) or "it does not answer"
            )
        self._paused_until = time.monotonic() + PAUSE_S


class StoreAllowance:
    """How much each client may add to the store: `MAX_CLIENT_BYTES`, which come back over `LIFETIME_S`.

    Each process counts for itself. A client that has not added for long is forgotten.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._used: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client_id: str, num_bytes: int) -> bool:
        """Count bytes for a client; False, and nothing is counted, if it has added too much."""
        now = self._clock()
        used, since = self._used.pop(client_id, (0.0, now))
        used = max(0.0, used - (now - since) * MAX_CLIENT_BYTES / LIFETIME_S)
        is_admitted = used + num_bytes <= MAX_CLIENT_BYTES
        self._used[client_id] = (used + num_bytes if is_admitted else used, now)
        if len(self._used) > _MAX_CLIENTS:
            self._used.popitem(last=False)
        return is_admitted

    def give_back(self, client_id: str, num_bytes: int) -> None:
        """Count bytes of a client no longer, since the store refused them."""
        used, since = self._used.get(client_id, (0.0, 0.0))
        if used:
            self._used[client_id] = (max(0.0, used - num_bytes), since)


_MAC_BYTES = hashlib.sha256().digest_size


def sign(content: bytes, key: str, secret: bytes) -> bytes:
    """`content` after an HMAC-SHA-256 over it and the key that it is stored under."""
    return _mac(content, key, secret) + content


def verify(stored: bytes, key: str, secret: bytes) -> bytes:
    """The content that `sign` signed.

    Raises:
        CorruptUnit: the bytes were altered or cut short, or signed for another key or with another secret.
    """
    mac, content = stored[:_MAC_BYTES], stored[_MAC_BYTES:]
    if not hmac.compare_digest(mac, _mac(content, key, secret)):
        raise CorruptUnit("its signature is wrong: it was altered, or signed with another secret")
    return content


def _mac(content: bytes, key: str, secret: bytes) -> bytes:
    return hmac.digest(secret, key.encode() + b"\n" + content, "sha256")
