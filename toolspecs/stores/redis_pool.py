"""Connections to the Redis server that takes writes: the one in the URL, or the one that sentinels name.

Sentinels watch a master and its replicas. When the master is gone, they make a replica the master. Every new
connection asks them for the master's address.
"""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import MasterNotFoundError, SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, ResponseError
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import TimeoutError as NoAnswer

from toolspecs.errors import InvalidStoreURL

CONNECT_TIMEOUT_S = 3
SOCKET_TIMEOUT_S = 3
NUM_CONNECTIONS = 64
"""At most; when all are in use, callers wait for one."""

WITHOUT_TLS = "if it does not use TLS, write redis:// instead of rediss://"
_SENTINEL = "+sentinel"
_UNREADABLE = (
    "the URL cannot be read: its port is a number, its options are name=value, and in a password, / ? # [ ]"
    " are written %2F %3F %23 %5B %5D"
)
_PORT, _SENTINEL_PORT = 6379, 26379
_SENTINEL_AUTH = "sentinel_auth"


@dataclass(frozen=True)
class RedisURL:
    """What the URL of a store in Redis says.

    `hosts` are the server, or the sentinels that know where the server named `master` is. From
    `server_url`, the driver reads user, password, database and options. With `has_sentinel_auth`, sentinels
    take the same user and password.
    """

    scheme: str
    hosts: tuple[tuple[str, int], ...]
    master: str | None
    number: str
    server_url: str
    has_sentinel_auth: bool

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.scheme.startswith("rediss")

    @property
    def name(self) -> str:
        """The URL without user, password and options."""
        hosts = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)
        return "/".join(filter(None, (f"{self.scheme}://{hosts}", self.master, self.number)))

    def open_pool(self) -> BlockingConnectionPool:
        """A pool of connections to the server; it connects at the first command.

        Raises:
            InvalidStoreURL: the driver does not know an option.
        """
        try:
            options: dict[str, Any] = {
                "max_connections": NUM_CONNECTIONS,
                "timeout": SOCKET_TIMEOUT_S,
                "socket_connect_timeout": CONNECT_TIMEOUT_S,
                "socket_timeout": SOCKET_TIMEOUT_S,
                "health_check_interval": 30,
                # If the server had closed the connection, the driver tries once more.
                "retry": Retry(NoBackoff(), 1, supported_errors=(ConnectionLost,)),
                **parse_url(self.server_url),
            }
            pool = self._master_pool(options) if self.master else BlockingConnectionPool(**options)
            pool.make_connection()  # type: ignore[no-untyped-call] # reads the options without connecting
        except (ValueError, TypeError) as error:
            raise InvalidStoreURL(f"the URL cannot be read ({error})") from None
        return pool

    def _master_pool(self, options: dict[str, Any]) -> "_MasterPool":
        for name in ("host", "port", "connection_class"):  # the sentinels tell the first two
            options.pop(name, None)
        options["ssl"] = self.uses_tls
        sentinel_options = {
            name: value
            for name, value in options.items()
            if name.startswith(("ssl", "socket_", "retry"))
            or (self.has_sentinel_auth and name in ("username", "password"))
        }
        return _MasterPool(self.master, _Sentinels(self.hosts, sentinel_options), **options)  # type: ignore[no-untyped-call]


def read_redis_url(url: str) -> RedisURL:
    """Read the URL of a store in Redis.

    `redis://[user:password@]host[:port][/number][?options]` names a server, and
    `redis+sentinel://[user:password@]host[:port][,host…]/master[/number][?options]` the sentinels of one.
    With `rediss` in place of `redis`, connections use TLS.

    Raises:
        InvalidStoreURL: the URL has another form.
    """
    scheme = url.partition("://")[0]
    has_sentinels = scheme.endswith(_SENTINEL)
    try:
        parts = urlsplit(url)
        credentials, _, names = parts.netloc.rpartition("@")
        hosts = [_host(name, _SENTINEL_PORT if has_sentinels else _PORT) for name in names.split(",")]
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:  # it would quote what may be a part of the password
        raise InvalidStoreURL(_UNREADABLE) from None
    if "@" in parts.path or parts.fragment:  # the password seems to end before
        raise InvalidStoreURL(_UNREADABLE)
    if len(hosts) > 1 and not has_sentinels:
        raise InvalidStoreURL(
            "a redis URL has one host; for sentinels write redis+sentinel://host,host/master"
        )
    if "decode_responses" in options:
        raise InvalidStoreURL("values are bytes: decode_responses cannot be set")
    path = parts.path.strip("/")
    master, _, number = path.partition("/") if has_sentinels else (None, "", path)
    if master == "":
        raise InvalidStoreURL("the URL of sentinels names their master: redis+sentinel://host:port/master")
    if number and not number.isdecimal():
        raise InvalidStoreURL(f"the database of a redis URL is a number, not {number[:20]!r}")
    has_sentinel_auth = has_sentinels and _flag(_SENTINEL_AUTH, options.pop(_SENTINEL_AUTH, "false"))
    server = f"{credentials}@{names.split(',')[0]}/{number}?{urlencode(options)}"
    return RedisURL(
        scheme,
        tuple(hosts),
        None if master is None else unquote(master),
        number,
        f"{scheme.removesuffix(_SENTINEL)}://{server}",
        has_sentinel_auth,
    )


def _flag(name: str, value: str) -> bool:
    if value not in ("true", "false"):
        raise InvalidStoreURL(f"{name} is true or false, not {value[:20]!r}")
    return value == "true"


def _host(name: str, default_port: int) -> tuple[str, int]:
    """Host and port of an address. Raises ValueError or InvalidStoreURL."""
    parts = urlsplit(f"//{name}")
    if not parts.hostname or " " in name:
        raise InvalidStoreURL("a redis URL needs a host, without blanks")
    return parts.hostname, parts.port or default_port


class _MasterPool(SentinelConnectionPool, BlockingConnectionPool):
    """A `BlockingConnectionPool` whose connections lead where the sentinels say that the master is."""


@dataclass(frozen=True)
class _Sentinels:
    """What a `SentinelConnectionPool` asks for its master; no connection to a sentinel stays open.

    `options` are those of the connections to the sentinels.
    """

    hosts: Sequence[tuple[str, int]]
    options: Mapping[str, Any]

    async def discover_master(self, master: str) -> tuple[str, int]:
        """The address of the master, from the first sentinel that names one that is up. It asks all at once.

        Raises:
            MasterNotFoundError: no sentinel does; the text is what one of them said or, if none said
                anything, why it did not, which is then the cause too.
            NoAnswer: no sentinel does, and one of them hangs: who asks again waits as long.
        """
        asked = [asyncio.create_task(self._ask(host, port, master)) for host, port in self.hosts]
        failures: list[RedisError] = []
        try:
            for answer in asyncio.as_completed(asked):
                try:
                    return await answer
                except RedisError as error:
                    failures.append(error)
        finally:
            for asking in asked:
                asking.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        kind = NoAnswer if any(isinstance(failure, NoAnswer) for failure in failures) else MasterNotFoundError
        told = max(failures, key=lambda failure: failure.__cause__ is None)
        raise kind(str(told)) from told.__cause__

    async def _ask(self, host: str, port: int, master: str) -> tuple[str, int]:
        """What one sentinel says; raises MasterNotFoundError, or NoAnswer if it hangs."""
        try:
            return _address_of(master, await self._masters(host, port))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise MasterNotFoundError(f"{host}:{port} is no sentinel: its answer cannot be read") from error

    async def _masters(self, host: str, port: int) -> Mapping[str, Any]:
        """What one sentinel knows of each master; the driver may fail in any way to read it."""
        try:
            async with Redis(host=host, port=port, **self.options) as sentinel:
                return cast("dict[str, Any]", await sentinel.sentinel_masters())
        except (RedisError, OSError) as error:
            kind = NoAnswer if isinstance(error, NoAnswer) else MasterNotFoundError
            raise kind(_why_silent(error)) from error


def _address_of(master: str, masters: Mapping[str, Any]) -> tuple[str, int]:
    """The address of a master that is up; raises MasterNotFoundError."""
    if master not in masters:
        known = ", ".join(masters) or "nothing"
        raise MasterNotFoundError(f"its sentinels know no master {master!r}; they watch {known}")
    state = masters[master]
    if not state["is_master"] or state["is_sdown"] or state["is_odown"]:
        raise MasterNotFoundError(f"its sentinels say that the master {master!r} is down")
    return state["ip"], int(state["port"])


def _why_silent(error: Exception) -> str:
    """Why a sentinel does not say which masters it knows."""
    if isinstance(error, AuthenticationError):
        way = f"add ?{_SENTINEL_AUTH}=true to the URL if they take the server's"
        return f"its sentinels refuse the password, or the want of one: {way} ({error})"
    if isinstance(error, NoPermissionError):
        return f"its sentinels forbid this user to ask for masters ({error})"
    if isinstance(error, ResponseError):
        return f"it is no sentinel ({error}); sentinels listen on port {_SENTINEL_PORT}"
    return f"no sentinel answers ({why_no_tls(error) or error})"


def why_no_tls(error: Exception) -> str | None:
    """Why no TLS connection was made, for the person who wrote the URL; None if that is not what failed."""
    cause = error.__cause__ or error.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        ways = "correct its host, or add ?ssl_ca_certs=FILE with the authority that signed it"
        return f"its certificate is not trusted ({cause.verify_message}): {ways}"
    if isinstance(cause, ssl.SSLError):
        return f"no TLS connection can be made ({cause.reason}); {WITHOUT_TLS}"
    return None
