"""Keeps the last requests to models in memory, with the times of their steps and without content.

ring = RequestRing(500)
ring.add("an owner", {"id": "7f3a", "status": 200, …})
ring.page("an owner", limit=20).items
"""

import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import chain, islice
from typing import Any

from litestar.enums import ScopeType
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

from gateway.access.grants import GRANT, Grant
from gateway.http.headers import REQUEST_ID, noted_error, noting_status
from gateway.telemetry.access_log import route_of
from toolspecs.lru_cache import LruCache
from toolspecs.toolset import Page

KEPT_ROUTES = frozenset({"/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses"})
"""Routes that ask a model; requests to others are not kept."""

_MAX_OWNERS = 10_000
"""Owners whose numbering goes on even when none of their requests is kept any more."""


@dataclass(frozen=True, slots=True)
class RecentRequest:
    """A request that has ended; `values` are the fields that the API shows.

    `number` counts all requests, `own_number` those of its owner. An owner sees only the latter, so as not to
    learn how many other requests there are.
    """

    number: int
    own_number: int
    owner: str
    values: Mapping[str, Any]

    def number_for(self, owner: str | None) -> int:
        """The number among the requests of an owner (None: among all)."""
        return self.number if owner is None else self.own_number

    @property
    def has_failed(self) -> bool:
        """Whether it was refused, failed, or was left by its client."""
        status = self.values.get("status")
        return self.values.get("error") is not None or status is None or status >= HTTPStatus.BAD_REQUEST


class RequestRing:
    """The last requests of every owner, `capacity` in all.

    When it is full, the oldest request of the owner with most requests is dropped, so nobody can push out the
    requests of others.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._by_owner: dict[str, deque[RecentRequest]] = {}
        self._num_kept = 0
        self._num_added = 0
        self._num_of_owner: LruCache[int] = LruCache(_MAX_OWNERS)

    @property
    def is_off(self) -> bool:
        """Whether nothing is kept."""
        return self._capacity == 0

    def add(self, owner: str, values: Mapping[str, Any]) -> None:
        """Keep a request that has ended."""
        if self.is_off:
            return
        self._num_added += 1
        own_number = (self._num_of_owner.get(owner) or 0) + 1
        self._num_of_owner.put(owner, own_number, 1)
        of_owner = self._by_owner.setdefault(owner, deque())
        of_owner.append(RecentRequest(self._num_added, own_number, owner, values))
        self._num_kept += 1
        if self._num_kept > self._capacity:
            self._drop_one()

    def page(
        self, owner: str | None, *, before: int | None = None, limit: int = 100, has_failed: bool = False
    ) -> Page[RecentRequest]:
        """The requests of an owner (None: of all) with numbers below `before`, the newest first.

        With `has_failed`, only those that failed.
        """
        newest_first = self._newest_first(owner)
        older = (request for request in newest_first if before is None or request.number_for(owner) < before)
        asked_for = (request for request in older if request.has_failed or not has_failed)
        items = tuple(islice(asked_for, limit + 1))
        has_more = len(items) > limit
        return Page(items[:limit], str(items[limit - 1].number_for(owner)) if has_more else None)

    def find(self, owner: str | None, request_id: str) -> RecentRequest | None:
        """The last request with an id, of an owner (None: of anyone); None if it is not kept."""
        requests = (request for request in self._newest_first(owner) if request.values["id"] == request_id)
        return next(requests, None)

    def _newest_first(self, owner: str | None) -> Iterator[RecentRequest]:
        if owner is not None:
            return reversed(self._by_owner.get(owner, deque()))
        every = chain.from_iterable(self._by_owner.values())
        return iter(sorted(every, key=lambda request: request.number, reverse=True))

    def _drop_one(self) -> None:
        owner = max(self._by_owner, key=lambda name: len(self._by_owner[name]))
        self._by_owner[owner].popleft()
        self._num_kept -= 1
        if not self._by_owner[owner]:
            del self._by_owner[owner]


_current: ContextVar[dict[str, Any] | None] = ContextVar("callgate_kept_values", default=None)


def add_to_recent(**values: Any) -> None:
    """Keep values of the request that is being answered: numbers, words of our own, names of toolsets.

    `steps` are names, each with when it began and ended, in nanoseconds since the epoch.
    """
    if (recorded := _current.get()) is not None:
        recorded.update(values)


class RecentRequestsMiddleware(ASGIMiddleware):
    """Adds requests to models to the ring when the last byte of their answer is sent."""

    scopes = (ScopeType.HTTP,)

    def __init__(self, ring: RequestRing) -> None:
        self._ring = ring

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Pass the request on."""
        if scope["type"] != ScopeType.HTTP or not self._is_kept(scope):
            await next_app(scope, receive, send)
            return
        start, start_ns = time.perf_counter(), time.time_ns()
        values: dict[str, Any] = {}
        token = _current.set(values)
        try:
            noting = noting_status(send, lambda status: values.update(status=status))
            await next_app(scope, receive, noting)
        finally:
            _current.reset(token)
            self._keep(scope, values, start_ns, time.perf_counter() - start)

    def _is_kept(self, scope: HTTPScope) -> bool:
        return not self._ring.is_off and scope["method"] == "POST" and route_of(scope) in KEPT_ROUTES

    def _keep(self, scope: HTTPScope, values: dict[str, Any], start_ns: int, duration_s: float) -> None:
        """Keep the request, with the times of its steps counted from its beginning."""
        steps = [
            {"name": name, "start_ms": _ms(since_ns - start_ns), "duration_ms": _ms(until_ns - since_ns)}
            for name, since_ns, until_ns in values.pop("steps", ())
        ]
        measured = {
            "id": scope[REQUEST_ID],  # type: ignore[literal-required]
            "at": datetime.fromtimestamp(start_ns / 1e9, UTC).isoformat(timespec="milliseconds"),
            "route": route_of(scope),
            "duration_ms": round(duration_s * 1e3, 1),
        }
        grant: Grant = scope[GRANT]  # type: ignore[literal-required]
        if grant.tenant is not None:
            # Where a grammar was found, and how long that took, shows what other tenants have cached.
            values.pop("grammar_source", None)
            steps = [step for step in steps if step["name"] != "grammar"]
        if error := noted_error(scope):
            values["error"] = error.type_name
        self._ring.add(grant.owner, {**measured, **values, "steps": steps})


def _ms(nanoseconds: int) -> float:
    return round(max(0, nanoseconds) / 1e6, 2)


@dataclass(slots=True)
class TurnTotals:
    """The totals over all turns of this process since it started.

    `rescued_tokens` are those of the turns whose engine told them; None if none did.
    """

    turns: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    forced_tokens: int = 0
    rescued_tokens: int | None = None
