"""The answers of the routes of API keys."""

from typing import Literal

from msgspec import Struct


class StoredKey(Struct):
    """A key without its secret; null means no restriction."""

    id: str
    name: str
    scopes: list[Literal["invoke", "register", "admin"]]
    tenant: str | None
    toolsets: list[str] | None
    models: list[str] | None
    requests_per_minute: int | None
    tokens_per_minute: int | None
    expires_at: str | None
    created_at: str
    is_expired: bool
    old_secret_ends_at: str | None


class NewKey(StoredKey):
    """A key with its secret, which no other answer has."""

    key: str


class KeyList(Struct):
    """Keys, the oldest first; `next` is the `after` of the next page."""

    keys: list[StoredKey]
    next: str | None
