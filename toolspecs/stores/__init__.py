"""The stores; `open_store` opens one by its URL."""

import re
from pathlib import Path
from urllib.parse import quote, unquote

from toolspecs.errors import InvalidStoreURL
from toolspecs.store import Store
from toolspecs.stores.sqlite import SQLiteStore

__all__ = ["SQLiteStore", "file_of", "is_shared", "open_store", "with_password"]

_REDIS = frozenset({"redis", "rediss", "redis+sentinel", "rediss+sentinel"})


def open_store(url: str) -> Store:
    """The store at a URL. It connects and creates nothing before its first use; `ping` is one.

    `sqlite:///absolute/path` and `sqlite://relative/path` name a file in an existing folder, and
    `sqlite://:memory:` names memory. `redis://[user:password@]host[:port][/number]` and `rediss://` (TLS)
    name a Redis server; the query may hold options of its driver.
    `redis+sentinel://[user:password@]host[:port][,host…]/master[/number]` names the sentinels of one.

    Raises:
        InvalidStoreURL: the URL is none of these.
    """
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite" and rest:
        return SQLiteStore(_sqlite_path(rest))
    if scheme in _REDIS and rest:
        from toolspecs.stores.redis import RedisStore  # noqa: PLC0415 (a file is opened without Redis's driver)

        return RedisStore(url)
    raise InvalidStoreURL(
        f"no store has a URL that begins with {scheme[:20]!r}" if rest else "this is not the URL of a store"
    )


def file_of(url: str) -> Path | None:
    """The file of a store in a file; None for every other store. Raises InvalidStoreURL."""
    scheme, _, rest = url.partition("://")
    return _sqlite_path(rest) if scheme == "sqlite" and rest else None


def is_shared(url: str) -> bool:
    """Whether other machines can use the store of a URL."""
    return url.partition("://")[0] in _REDIS


def with_password(url: str, password: str | None) -> str:
    """The URL of a Redis server with its password, if it holds none; any other URL as it is."""
    scheme, mark, rest = url.partition("://")
    if password is None or scheme not in _REDIS:
        return url
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    user, _, host = authority.rpartition("@")
    if ":" in user:
        return url
    return f"{scheme}{mark}{user}:{quote(password, safe='')}@{host}{rest.removeprefix(authority)}"


def _sqlite_path(rest: str) -> Path | None:
    """The file of a URL without its scheme, None for memory."""
    if "?" in rest or "#" in rest or "\0" in unquote(rest):
        raise InvalidStoreURL("a sqlite URL is a path, without a query: write ? as %3F and # as %23")
    path = unquote(rest)
    if path.endswith("/"):
        raise InvalidStoreURL("a sqlite URL names a file, not a folder")
    return None if path == ":memory:" else Path(path)
