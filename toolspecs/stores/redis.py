"""A store in Redis, which every gateway and runtime of a deployment shares.

Scripts run atomically in the server. The driver repeats a command whose connection was lost; a repeated
`acquire` finds that it already holds the lease. Registrations do not expire and grammars do, so the eviction
policies `volatile-*` evict only grammars.

If the server is not there, commands fail at once. If the server hangs, the first command fails after
`redis_pool.SOCKET_TIMEOUT_S`; every later one fails at once until the server has answered a ping of this
store. The log has one line where an outage begins and one where it ends.

After a failover, open connections may lead to the former server, which hangs or is a read-only replica now.
So where a command meets such a server, all idle connections are closed, and the next ones find the new one.
"""

import asyncio
import logging
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, cast

import redis.asyncio
from redis.asyncio.sentinel import MasterNotFoundError
from redis.exceptions import AuthenticationError, OutOfMemoryError, ReadOnlyError, RedisError
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import TimeoutError as NoAnswer

from toolspecs.errors import NotACounter, StoreFull, StoreUnavailable, StoreUnreachable
from toolspecs.store import hold_lease
from toolspecs.stores.redis_pool import WITHOUT_TLS, read_redis_url, why_no_tls

_log = logging.getLogger(__name__)

SCAN_COUNT = 1000
_PREFIX = "callgate:"

# ARGV cannot tell None from an empty string, so flags say which values are given. A value of another type is
# empty, as `RedisStore.get` says.
COMPARE_AND_SET = """
local current = redis.pcall('GET', KEYS[1])
if type(current) == 'table' then current = '' end
if ARGV[1] == '1' then
    if current ~= ARGV[2] then return 0 end
elseif current then
    return 0
end
if ARGV[3] ~= '1' then redis.call('DEL', KEYS[1])
elseif ARGV[5] ~= '' then redis.call('SET', KEYS[1], ARGV[4], 'PX', ARGV[5])
else redis.call('SET', KEYS[1], ARGV[4]) end
return 1
"""

ACQUIRE = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""

RELEASE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
"""

INCREMENT = """
local is_new = redis.call('EXISTS', KEYS[1]) == 0
local sum = redis.call('INCRBY', KEYS[1], ARGV[1])
if is_new then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return sum
"""

TOUCH = """
for _, key in ipairs(KEYS) do
    if redis.call('PTTL', key) > 0 then redis.call('PEXPIRE', key, ARGV[1]) end
end
"""

_OUT = (ConnectionLost, NoAnswer, OSError)
_WRONG_TYPE = "WRONGTYPE"
_FULL = (
    "its memory is full, so it refuses writes: raise maxmemory, set maxmemory-policy to volatile-lru, or run"
    " `callgate store gc`"
)
_GLOB = str.maketrans({char: f"\\{char}" for char in "*?[]\\"})


class RedisStore:
    """A `Store` in the Redis server at `url`; all its keys begin with `callgate:`.

    Raises:
        InvalidStoreURL: the URL cannot be read.
    """

    def __init__(self, url: str) -> None:
        read = read_redis_url(url)
        self._name, self._uses_tls = read.name, read.uses_tls
        self._client = redis.asyncio.Redis.from_pool(read.open_pool())
        self._waiting_for_answer: asyncio.Task[None] | None = None
        self._compare_and_set = self._client.register_script(COMPARE_AND_SET)
        self._acquire = self._client.register_script(ACQUIRE)
        self._release = self._client.register_script(RELEASE)
        self._increment = self._client.register_script(INCREMENT)
        self._touch = self._client.register_script(TOUCH)
        self._is_checked = False
        self._outage = _Outage(self._name)

    def __repr__(self) -> str:
        return f"RedisStore({self._name!r})"

    async def get(self, key: str) -> bytes | None:
        """See `Store.get`. A value that another program wrote with another type is empty."""
        try:
            return cast("bytes | None", await self._call(self._client.get, _PREFIX + key))
        except StoreUnavailable as error:
            if _WRONG_TYPE in error.reason:
                return b""
            raise

    async def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """See `Store.get_many`."""
        if not keys:
            return []
        names = [_PREFIX + key for key in keys]
        return cast("list[bytes | None]", await self._call(self._client.mget, names))

    async def set(self, key: str, value: bytes, ttl_s: float | None = None) -> None:
        """See `Store.set`."""
        px = None if ttl_s is None else _milliseconds(ttl_s)
        await self._call(self._client.set, _PREFIX + key, value, px=px)

    async def delete(self, key: str) -> bool:
        """See `Store.delete`."""
        return bool(await self._call(self._client.delete, _PREFIX + key))

    async def scan(self, prefix: str) -> AsyncIterator[str]:
        """See `Store.scan`."""
        pattern = (_PREFIX + prefix).translate(_GLOB) + "*"
        seen: set[bytes] = set()
        cursor = 0
        while True:
            cursor, keys = await self._call(self._client.scan, cursor, match=pattern, count=SCAN_COUNT)
            for key in keys:
                if key not in seen:
                    seen.add(key)
                    with suppress(UnicodeDecodeError):  # another program wrote that key
                        yield key.decode()[len(_PREFIX) :]
            if cursor == 0:
                return

    async def compare_and_set(
        self, key: str, expected: bytes | None, value: bytes | None, ttl_s: float | None = None
    ) -> bool:
        """See `Store.compare_and_set`."""
        flags = [int(expected is not None), expected or b"", int(value is not None), value or b""]
        px = "" if ttl_s is None else _milliseconds(ttl_s)
        return bool(await self._run(self._compare_and_set, key, *flags, px))

    async def increment(self, key: str, by: int = 1, ttl_s: float | None = None) -> int:
        """See `Store.increment`."""
        try:
            if ttl_s is not None:
                return int(await self._run(self._increment, key, by, _milliseconds(ttl_s)))
            return int(await self._call(self._client.incrby, _PREFIX + key, by))
        except StoreUnavailable as error:
            if any(text in error.reason for text in (_WRONG_TYPE, "not an integer", "overflow")):
                raise NotACounter(key) from error
            raise

    def lock(self, key: str, lease_s: float, wait_s: float) -> AbstractAsyncContextManager[None]:
        """See `Store.lock`."""
        return hold_lease(self, key, lease_s, wait_s)

    async def acquire(self, key: str, token: str, lease_s: float) -> bool:
        """See `LeaseStore.acquire`."""
        return bool(await self._run(self._acquire, key, token, _milliseconds(lease_s)))

    async def release(self, key: str, token: str) -> bool:
        """See `LeaseStore.release`."""
        return bool(await self._run(self._release, key, token))

    async def touch(self, keys: Sequence[str], ttl_s: float) -> None:
        """See `Store.touch`."""
        if keys:
            names = [_PREFIX + key for key in keys]
            await self._call(self._touch, keys=names, args=[_milliseconds(ttl_s)])

    async def compact(self) -> None:
        """See `Store.compact`. Redis does this by itself."""

    async def ping(self) -> None:
        """See `Store.ping`."""
        await self._call(self._client.ping)
        if not self._is_checked:
            self._is_checked = True
            await self._warn_of_unfit()

    async def _warn_of_unfit(self) -> None:
        """Log a warning for each way in which the server does not fit: it answers a ping all the same."""
        with suppress(StoreUnavailable):
            state = await self._call(self._client.info)
            for reason in _unfit_reasons(state):
                _log.warning("store %s %s", self._name, reason)

    async def close(self) -> None:
        """See `Store.close`."""
        awaiting, self._waiting_for_answer = self._waiting_for_answer, None
        if awaiting is not None:
            awaiting.cancel()
            await asyncio.gather(awaiting, return_exceptions=True)
        await self._client.aclose()

    async def _run(self, script: Callable[..., Awaitable[Any]], key: str, *arguments: Any) -> Any:
        return await self._call(script, keys=[_PREFIX + key], args=arguments)

    async def _call(self, command: Callable[..., Awaitable[Any]], *arguments: Any, **options: Any) -> Any:
        if self._waiting_for_answer is not None:
            raise StoreUnreachable(self._name, self._silence("it does not answer"))
        try:
            answer = await command(*arguments, **options)
        except (RedisError, OSError) as error:
            reason = self._reason(error)
            if isinstance(error, _OUT):
                self._outage.begin(reason)
            if isinstance(error, ReadOnlyError):
                await self._close_idle()
            if isinstance(error, NoAnswer) and self._waiting_for_answer is None:
                self._waiting_for_answer = asyncio.create_task(self._await_answer())
            if isinstance(error, OutOfMemoryError):
                raise StoreFull(self._name, _FULL) from error
            failure = StoreUnreachable if _may_return(error) else StoreUnavailable
            raise failure(self._name, reason) from error
        self._outage.end()
        return answer

    async def _close_idle(self) -> None:
        """Close the connections that no command uses, since they may lead to a former server."""
        with suppress(RedisError, OSError):
            await self._client.connection_pool.disconnect(inuse_connections=False)

    def _reason(self, error: Exception) -> str:
        """What the driver says, and what it does not: that the URL may have the wrong scheme."""
        failure = _failure(error)
        reason, cause = _reason(error), failure.__cause__ or failure.__context__
        if isinstance(error, NoAnswer):
            return self._silence(reason)
        if self._outage.has_answered:
            return reason
        is_closed = isinstance(cause, ConnectionResetError) or "closed by server" in reason
        if not self._uses_tls and isinstance(error, ConnectionLost) and is_closed:
            return f"{reason}; if it uses TLS, write rediss:// instead of redis://"
        return reason

    def _silence(self, reason: str) -> str:
        """What is said where the server gives no answer.

        A server without TLS waits for the rest of what it takes for a command.
        """
        return f"{reason}; {WITHOUT_TLS}" if self._uses_tls and not self._outage.has_answered else reason

    async def _await_answer(self) -> None:
        """Ping until the server answers, or the connection fails."""
        try:
            await self._close_idle()
            while True:
                with suppress(NoAnswer):
                    await self._client.ping()
                    self._outage.end()
                    return
        except (RedisError, OSError):
            return  # the next caller meets the error itself
        finally:
            self._waiting_for_answer = None


class _Outage:
    """Logs where an outage of a server begins and ends.

    If a server has never answered, its caller reports the first failure, and nothing is logged here.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.has_answered = False
        self._is_out = False

    def begin(self, reason: str) -> None:
        """The server could not be reached, or gave no answer in time."""
        if self.has_answered and not self._is_out:
            _log.warning("store %s cannot be used: %s", self._name, reason)
        self._is_out = True

    def end(self) -> None:
        """The server has answered."""
        if self._is_out:
            _log.warning("store %s answers again", self._name)
        self.has_answered, self._is_out = True, False


def _reason(error: Exception) -> str:
    """What the driver says, for the person who set up the store."""
    if isinstance(error, MasterNotFoundError):
        return str(error)
    text, _, _ = str(error).partition(" script: ")  # the driver appends the script
    if "HELLO must be called" in text or "NOAUTH" in text:
        return "it asks for a password: write it in the URL, or set store_password"
    if "WRONGPASS" in text or "invalid username-password" in text:
        return "it refuses the user or the password: correct the URL, or store_password"
    cause = error.__cause__ or error.__context__
    if why := why_no_tls(error):
        return why
    if isinstance(error, ConnectionLost) and isinstance(cause, OSError) and cause.errno:
        known = (
            os.strerror(cause.errno) if cause.errno > 0 else cause.strerror
        )  # below 0: the host has no address
        return f"it cannot be reached ({known})"
    return text.removesuffix(".") or type(error).__name__


def _may_return(error: Exception) -> bool:
    """Whether the server is away, and does not refuse the password or the certificate."""
    failure = _failure(error)
    cause = failure.__cause__ or failure.__context__
    return isinstance(failure, _OUT) and not any(
        isinstance(each, (AuthenticationError, ssl.SSLError)) for each in (failure, cause)
    )


def _failure(error: Exception) -> BaseException:
    """What failed: where no master is found, the question to the last sentinel, if that one said nothing."""
    return (isinstance(error, MasterNotFoundError) and error.__cause__) or error


def _unfit_reasons(state: Mapping[str, Any]) -> Iterator[str]:
    """Why a server cannot hold registrations, by what it says of itself."""
    policy = str(state.get("maxmemory_policy", ""))
    if policy.startswith("allkeys"):  # only grammars may go
        yield (
            f"has maxmemory-policy {policy}, which removes registered toolsets when memory is short; set it"
            " to volatile-lru, which removes compiled grammars only"
        )
    if state.get("role") == "slave":
        yield "is a replica, which refuses writes: name its master instead"
    if state.get("cluster_enabled"):
        yield "is part of a Redis Cluster, where keys are on several servers: use a server that has all keys"


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
