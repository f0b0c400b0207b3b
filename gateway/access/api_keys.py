"""Makes, looks up, rotates and revokes the API keys in the store.

A key is `cg_ID_SECRET`. Its record lies under its id and holds the SHA-256 of the key, never the key, which
is shown once. So one read finds a key, one compare-and-set rotates it, and one removal revokes it.

    keys = ApiKeys(store)
    made = await keys.create(KeyTerms(name="agent", scopes=("invoke",)))
    await keys.find(made.text.encode())            # its grant
    await keys.rotate(made.record.key_id, 3600)    # a new secret; the old one is good for an hour more

A gateway caches a key's record for `FRESH_S` seconds, so a key that another gateway revoked stays valid that
long. A key that the cached record does not admit may be the secret of a later rotation, so the record is read
again. While the store is down, a gateway uses a cached record for up to `STALE_S` seconds.

Keys may belong to a tenant. Each tenant has its own part of the store for its toolsets.
"""

import hashlib
import hmac
import logging
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gateway.access.grants import ALL_SCOPES, Grant, KeyScope
from gateway.errors import InvalidField, KeysUnavailable, TooManyKeys, UnknownKey
from gateway.http.plain_reasons import TENANT_PATTERN, TOOLSET_PATTERN
from toolspecs.errors import StoreUnavailable
from toolspecs.lru_cache import LruCache
from toolspecs.nearest import MAX_NAME, shorten
from toolspecs.resolved_types import resolved
from toolspecs.revisions.catalog import utc_now
from toolspecs.store import Store, commit
from toolspecs.stores.namespaces import ListedStore, NamespacedStore
from toolspecs.toolset import Page

RECORDS = "apikey/record/"
TENANT_PARTS = "tenant/"
"""Below it, and below the name of a tenant, are the toolsets of this tenant."""

FRESH_S = 5.0
"""How long a cached record is used without reading the store."""
STALE_S = 600.0
"""How long a cached record is used while the store is down."""
MAX_KEYS = 10_000
"""The most keys that may exist; each listing reads all of them."""
MAX_GRACE_S = 30 * 24 * 3600
DEFAULT_GRACE_S = 24 * 3600

_KEY_ID = re.compile(r"[0-9a-f]{16}")
_KEY = re.compile(rb"cg_(?P<key_id>[0-9a-f]{16})_[\w-]{43}", re.ASCII)

_log = logging.getLogger(__name__)

Limit = Annotated[int, Meta(ge=1, le=10**12)]
Instant = Annotated[datetime, Meta(tz=True)]
ToolsetName = Annotated[str, Meta(pattern=TOOLSET_PATTERN)]
ModelName = Annotated[str, Meta(min_length=1, max_length=200)]
TenantName = Annotated[str, Meta(pattern=TENANT_PATTERN)]


class KeyTerms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a key is for. None means no restriction: all toolsets, all models, no limit, no expiry."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    scopes: Annotated[tuple[Literal["invoke", "register", "admin"], ...], Meta(min_length=1, max_length=3)]
    tenant: TenantName | None = None
    toolsets: Annotated[tuple[ToolsetName, ...], Meta(min_length=1, max_length=100)] | None = None
    models: Annotated[tuple[ModelName, ...], Meta(min_length=1, max_length=100)] | None = None
    requests_per_minute: Limit | None = None
    tokens_per_minute: Limit | None = None
    expires_at: Instant | None = None

    def check(self, now: datetime) -> None:
        """Raise InvalidField if the terms contradict each other."""
        for name in ("tenant", "toolsets", "models"):
            if "admin" in self.scopes and getattr(self, name) is not None:
                reason = "a key with the scope admin can make keys without it; give such a key other scopes"
                raise InvalidField(name, reason)
        if self.expires_at is not None and self.expires_at <= now:
            raise InvalidField("expires_at", f"{self.expires_at.isoformat()} has passed")


class KeySecret(msgspec.Struct, frozen=True):
    """The SHA-256 of a key that is valid until `ends_at`; None is as long as the record is valid."""

    digest: str
    ends_at: datetime | None = None


class KeyRecord(msgspec.Struct, frozen=True):
    """A key as it is stored; the newest secret comes first."""

    key_id: str
    terms: KeyTerms
    created_at: datetime
    secrets: tuple[KeySecret, ...]

    def is_expired(self, now: datetime) -> bool:
        """Whether the key has expired."""
        return self.terms.expires_at is not None and self.terms.expires_at <= now

    def admits(self, sent: bytes, now: datetime) -> bool:
        """Whether the sent key is this key and still valid."""
        if self.is_expired(now):
            return False
        digest = _digest(sent)
        good = [secret for secret in self.secrets if secret.ends_at is None or secret.ends_at > now]
        return any(hmac.compare_digest(digest, secret.digest) for secret in good)

    @property
    def grant(self) -> Grant:
        """What the key may do. All keys of a tenant count as one client in queues."""
        terms = self.terms
        scopes = ALL_SCOPES if "admin" in terms.scopes else frozenset(map(KeyScope, terms.scopes))
        return Grant(
            scopes,
            self.key_id,
            client_id=f"tenant {terms.tenant}" if terms.tenant else f"key {self.key_id}",
            owner=f"key-{self.key_id}",
            tenant=terms.tenant,
            toolsets=None if terms.toolsets is None else frozenset(terms.toolsets),
            models=None if terms.models is None else frozenset(terms.models),
            requests_per_minute=terms.requests_per_minute,
            tokens_per_minute=terms.tokens_per_minute,
        )


@dataclass(frozen=True, slots=True)
class MadeKey:
    """A key that was just made; its text cannot be read again."""

    record: KeyRecord
    text: str


@dataclass(frozen=True, slots=True)
class _CachedRecord:
    """A cached record, and when it was read, in seconds of a clock that is never set."""

    record: KeyRecord
    read_at: float


class ApiKeys:
    """The keys of a store. All methods may raise StoreError.

    `clock` says when keys expire, and `timer` how old a cached record is, in seconds.
    """

    def __init__(
        self,
        store: Store,
        clock: Callable[[], datetime] = utc_now,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._clock = clock
        self._timer = timer
        self._cache: LruCache[_CachedRecord] = LruCache(MAX_KEYS)
        self._num_forgotten = 0

    async def create(self, terms: KeyTerms) -> MadeKey:
        """Make a key; raises InvalidField, TooManyKeys."""
        now = self._clock()
        terms.check(now)
        if len(await self._ids()) >= MAX_KEYS:
            raise TooManyKeys(MAX_KEYS)
        key_id = secrets.token_hex(8)
        text = _new_text(key_id)
        record = KeyRecord(key_id, terms, now, (KeySecret(_digest(text.encode())),))
        is_new = await commit(self._store, RECORDS + key_id, None, msgspec.json.encode(record))
        assert is_new, "64 random bits are not drawn twice"
        return MadeKey(record, text)

    async def records(self) -> list[KeyRecord]:
        """All keys, the oldest first; expired ones are among them until they are revoked."""
        ids = await self._ids()
        contents = await self._store.get_many([RECORDS + key_id for key_id in ids])
        records = [_decoded(key_id, content) for key_id, content in zip(ids, contents, strict=True)]
        return sorted(
            (record for record in records if record), key=lambda record: (record.created_at, record.key_id)
        )

    async def page(self, after: str | None, limit: int) -> Page[KeyRecord]:
        """Up to `limit` keys after the key `after`, the oldest first; raises UnknownKey."""
        records = await self.records()
        ids = [record.key_id for record in records]
        if after is not None and after not in ids:
            raise UnknownKey(shorten(after, MAX_NAME))
        first = 0 if after is None else ids.index(after) + 1
        items = tuple(records[first : first + limit])
        return Page(items, items[-1].key_id if len(records) > first + limit else None)

    async def get(self, key_id: str) -> KeyRecord:
        """A key by its id; raises UnknownKey."""
        record, _ = await self._read(key_id)
        return record

    async def revoke(self, key_id: str) -> None:
        """Remove a key, also one whose record is damaged; raises UnknownKey."""
        if not _KEY_ID.fullmatch(key_id) or await self._store.get(RECORDS + key_id) is None:
            raise UnknownKey(shorten(key_id, MAX_NAME))
        # What this returns says nothing: a driver that lost the answer to its first attempt repeats it.
        await self._store.delete(RECORDS + key_id)
        self._forget(key_id)

    async def rotate(self, key_id: str, grace_s: float = DEFAULT_GRACE_S) -> MadeKey:
        """Give a key a new secret. The last secret stays valid for `grace_s` seconds; earlier ones end now.

        Raises UnknownKey.
        """
        while True:
            record, content = await self._read(key_id)
            text = _new_text(key_id)
            ends_at = self._clock() + timedelta(seconds=grace_s)
            last = KeySecret(record.secrets[0].digest, ends_at)
            rotated = msgspec.structs.replace(record, secrets=(KeySecret(_digest(text.encode())), last))
            if await commit(self._store, RECORDS + key_id, content, msgspec.json.encode(rotated)):
                self._forget(key_id)
                return MadeKey(rotated, text)

    async def find(self, sent: bytes) -> Grant | None:
        """The grant of the key that a client sent; None if there is no such key.

        Raises:
            KeysUnavailable: the store is down, and the key was not seen lately.
        """
        matched = _KEY.fullmatch(sent)
        if matched is None:
            return None
        key_id = matched["key_id"].decode()
        if grant := self._cached_grant(key_id, sent, FRESH_S):
            return grant
        try:
            record = await self._read_and_cache(key_id)
        except StoreUnavailable as error:
            if grant := self._cached_grant(key_id, sent, STALE_S):
                return grant
            raise KeysUnavailable from error
        return record.grant if record is not None and record.admits(sent, self._clock()) else None

    async def has_any(self) -> bool:
        """Whether there are keys, expired ones included."""
        async for _ in self._store.scan(RECORDS):
            return True
        return False

    def _cached_grant(self, key_id: str, sent: bytes, max_age_s: float) -> Grant | None:
        """The grant of the sent key by a cached record that was read less than `max_age_s` seconds ago."""
        cached = self._cache.get(key_id)
        if cached is None or self._timer() - cached.read_at >= max_age_s:
            return None
        return cached.record.grant if cached.record.admits(sent, self._clock()) else None

    async def _read_and_cache(self, key_id: str) -> KeyRecord | None:
        """The record of a key in the store; it is cached."""
        read_at, num_forgotten = self._timer(), self._num_forgotten
        record = _decoded(key_id, await self._store.get(RECORDS + key_id))
        if record is None:
            self._cache.drop(key_id)
        elif num_forgotten == self._num_forgotten:  # else it may have been revoked while it was read
            self._cache.put(key_id, _CachedRecord(record, read_at), 1)
        return record

    async def _read(self, key_id: str) -> tuple[KeyRecord, bytes]:
        """A record and its bytes; raises UnknownKey."""
        content = await self._store.get(RECORDS + key_id) if _KEY_ID.fullmatch(key_id) else None
        record = _decoded(key_id, content)
        if content is None or record is None:
            raise UnknownKey(shorten(key_id, MAX_NAME))
        return record, content

    async def _ids(self) -> list[str]:
        return [key.removeprefix(RECORDS) async for key in self._store.scan(RECORDS)]

    def _forget(self, key_id: str) -> None:
        """Cache a key's record no longer, nor what is being read of it: the record has changed."""
        self._num_forgotten += 1
        self._cache.drop(key_id)


def _new_text(key_id: str) -> str:
    return f"cg_{key_id}_{secrets.token_urlsafe(32)}"


def _digest(sent: bytes) -> str:
    """Plain SHA-256 is enough: a key has 256 random bits, too many to guess however fast the digest is."""
    return hashlib.sha256(sent).hexdigest()


def _decoded(key_id: str, content: bytes | None) -> KeyRecord | None:
    """Decode a record; None if it is missing or damaged, so that it grants nothing.

    A record with an unknown field counts as damaged: the field may be a restriction of a later version.
    """
    if content is None:
        return None
    try:
        record = msgspec.json.decode(content, type=resolved(KeyRecord))
    except msgspec.MsgspecError as error:
        _log.warning("the record of key %s cannot be read: %s", key_id, error)
        return None
    return record if record.key_id == key_id else None


def store_of_tenant(store: Store, tenant: str) -> Store:
    """The part of a store that holds the toolsets of a tenant."""
    return NamespacedStore(store, f"{TENANT_PARTS}{tenant}/")


async def list_tenant_stores(store: Store) -> list[Store]:
    """The parts of a store of all tenants, each with the keys that it has now.

    One scan lists the keys of all tenants, because Redis looks at all its keys in each scan.
    """
    keys_of: dict[str, list[str]] = {}
    async for key in store.scan(TENANT_PARTS):
        tenant, _, inner = key.removeprefix(TENANT_PARTS).partition("/")
        keys_of.setdefault(tenant, []).append(inner)
    return [ListedStore(store, f"{TENANT_PARTS}{tenant}/", keys) for tenant, keys in sorted(keys_of.items())]
