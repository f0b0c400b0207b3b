"""Limits per minute for API keys, enforced by all gateways that share a store.

The store has a counter for each key and every five seconds. A request adds to the current counter, then reads
the twelve before it and the next one. If their sum exceeds the limit, the request subtracts what it added and
is refused. So no gateway waits for another, and no compare-and-set is needed. Every admitted request has seen
all requests admitted before it, so no minute exceeds the limit. The counters cover 60 to 65 seconds, so a key
that always asks gets 96% of its limit on average. (The usual two weighted counters admit up to twice the
limit around the end of a window.) The next counter is read because the clocks of gateways differ: a
difference of up to five seconds only shortens the minute by as much.

Tokens are reserved by an estimate and settled when an answer ends. While the store is down, each gateway
enforces the whole limit alone. If the store fails between two steps, what was added stays until its counter
expires, after 75 seconds at most: nobody knows whether a step that failed took effect, and a subtraction that
is repeated could admit more than the limit.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from gateway.errors import RateLimited
from toolspecs.errors import StoreError
from toolspecs.store import Store
from toolspecs.stores import open_store

COUNTERS = "apikey/used/"

BUCKET_S = 5
NUM_BUCKETS = 12
"""The counters before the current one; together they cover a minute."""
_COUNTER_TTL_S = BUCKET_S * (NUM_BUCKETS + 3)


class LimitKind(StrEnum):
    """What is limited; the values are the names in the headers."""

    REQUESTS = "requests"
    TOKENS = "tokens"


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a request has taken of a limit, from which counter, and what was left then."""

    counter: str
    bucket: int
    amount: int
    limit: int
    remaining: int
    reset_s: float
    store: Store


class RateLimits:
    """The counters of all keys."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._fallback = open_store("sqlite://:memory:")
        self._clock = clock
        self._settling: set[asyncio.Task[None]] = set()

    async def reserve(self, counter: str, kind: LimitKind, amount: int, limit: int) -> Reservation:
        """Count `amount`, at most the whole limit. Raises RateLimited."""
        amount = min(amount, limit)
        try:
            return await self._reserve(self._store, counter, kind, amount, limit)
        except StoreError:
            return await self._reserve(self._fallback, counter, kind, amount, limit)

    async def _reserve(
        self, store: Store, counter: str, kind: LimitKind, amount: int, limit: int
    ) -> Reservation:
        now = self._clock()
        bucket = int(now // BUCKET_S)
        own = await store.increment(_key(counter, bucket), amount, ttl_s=_COUNTER_TTL_S)
        others = [*range(bucket - NUM_BUCKETS, bucket), bucket + 1]
        contents = await store.get_many([_key(counter, number) for number in others])
        used = {number: _count(content) for number, content in zip(others, contents, strict=True)}
        used[bucket] = own
        total = sum(used.values())
        if total > limit:
            await store.increment(_key(counter, bucket), -amount, ttl_s=_COUNTER_TTL_S)
            used[bucket] -= amount
            raise RateLimited(
                kind,
                limit,
                remaining=max(0, limit - total + amount),
                amount=amount,
                retry_after_s=_expires_at(used, total - limit) - now,
                reset_s=_expires_at(used) - now,
            )
        return Reservation(counter, bucket, amount, limit, limit - total, _expires_at(used) - now, store)

    def settle(self, reservation: Reservation, amount: int) -> None:
        """Count `amount` instead of what was reserved, in a background task, so that answers do not wait."""
        if amount != reservation.amount:
            task = asyncio.get_running_loop().create_task(
                self._settle(reservation, amount - reservation.amount)
            )
            self._settling.add(task)
            task.add_done_callback(self._settling.discard)

    async def _settle(self, reservation: Reservation, more: int) -> None:
        """Correct the counter. If the answer took over a minute, an excess is counted now."""
        now = int(self._clock() // BUCKET_S)
        is_old = reservation.bucket < now - NUM_BUCKETS
        if not is_old or more > 0:
            try:
                await reservation.store.increment(
                    _key(reservation.counter, now if is_old else reservation.bucket),
                    more,
                    ttl_s=_COUNTER_TTL_S,
                )
            except StoreError:
                return  # the counters are gone in a minute

    async def close(self) -> None:
        """Finish what is being settled."""
        await asyncio.gather(*self._settling)
        await self._fallback.close()


def _key(counter: str, bucket: int) -> str:
    return f"{COUNTERS}{counter}/{bucket}"


def _count(content: bytes | None) -> int:
    """A counter's number; a damaged counter is 0, so that it locks nobody out."""
    try:
        return int(content or 0)
    except ValueError:
        return 0


def _expires_at(used: dict[int, int], amount: int | None = None) -> float:
    """When `amount` (None: all) of what is used will be too old to count, on the clock of the counters."""
    last, freed = min(used), 0
    for bucket in sorted(used):
        if used[bucket] > 0 and (amount is None or freed < amount):
            last, freed = bucket, freed + used[bucket]
    return float((last + NUM_BUCKETS + 1) * BUCKET_S)
