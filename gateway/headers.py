"""Headers of every answer: the request's id, and the CORS headers for pages of other sites.

Litestar's own middleware runs only for paths that have a route. Its CORS support would run inside
`AccessControl`, which refuses preflights, because browsers send no key with them.
"""

import re
import time
import uuid
from collections.abc import Iterable
from typing import Any

from litestar import Request
from litestar.datastructures import MutableScopeHeaders
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from gateway.deadline import ARRIVED
from gateway.errors import SettingsError
from gateway.rate_limits import Limited
from gateway.settings import Settings

HttpRequest = Request[Any, Any, Any]
"""A request, as routes and what stands before them get it."""

REQUEST_ID = "callgate.request_id"
"""Where a request's scope holds its id."""

EXPOSED = ", ".join(
    (
        *("ETag", "Request-ID", "Retry-After", "X-Callgate-Ignored", "X-Request-ID"),
        *(f"X-RateLimit-{part}-{kind}" for kind in Limited for part in ("limit", "remaining", "reset")),
    )
)
"""Headers of answers that pages of other sites may read."""

_USABLE_ID = re.compile(rb"[!-~]{1,128}")
_ORIGIN = re.compile(r"https?://[^/\s,*]+")


class RequestIds:
    """Gives every request an id and returns it: a usable id in the header `X-Request-ID`, or else a new one.

    Anthropic's clients read it in the header `Request-ID`.
    It sees a request first, so it also notes the time of arrival.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        sent = dict(scope["headers"]).get(b"x-request-id", b"")
        request_id = sent if _USABLE_ID.fullmatch(sent) else uuid.uuid4().hex.encode()
        scope[REQUEST_ID] = request_id.decode()  # type: ignore[literal-required]
        scope[ARRIVED] = time.monotonic()  # type: ignore[literal-required]
        named = [(b"x-request-id", request_id), (b"request-id", request_id)]
        await self._app(scope, receive, _with_headers(send, named))


async def name_methods(message: Message, scope: Scope) -> None:
    """Make the header `Allow` of an answer to OPTIONS name all methods of the path.

    Litestar's own answer names the methods of one handler only, since controllers register their handlers one
    by one. A request that is refused before routing learns no methods.
    """
    if (
        message["type"] == "http.response.start"
        and scope["type"] == ScopeType.HTTP
        and scope["method"] == "OPTIONS"
        and (path := scope.get("path_template"))
    ):
        route = next(route for route in scope["litestar_app"].routes if route.path_format == path)
        MutableScopeHeaders.from_message(message)["Allow"] = ", ".join(sorted(route.methods))


def read_origins(settings: Settings) -> frozenset[str]:
    """The origins whose pages may call, `*` for all.

    Raises:
        SettingsError: a value is not an origin, or all may call and no key is needed.
    """
    origins = frozenset(part.strip().lower() for part in (settings.cors_origins or "").split(",")) - {""}
    for origin in origins - {"*"}:
        if not _ORIGIN.fullmatch(origin):
            reason = f"{origin!r} is no origin; write origins such as https://app.example, or * for all"
            raise SettingsError("cors_origins", "", reason)
    if "*" in origins and not settings.has_authentication:
        raise SettingsError("cors_origins", "", "every page could call the gateway; set api_key too")
    return origins


class CrossOrigin:
    """Lets pages of other sites call (CORS): answers preflights, and adds the headers to other answers."""

    def __init__(self, app: ASGIApp, origins: frozenset[str]) -> None:
        self._app = app
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer a preflight."""
        if scope["type"] != ScopeType.HTTP or not (origin := self._admitted(scope)):
            await self._app(scope, receive, send)
            return
        shared = [(b"access-control-allow-origin", origin), (b"vary", b"Origin")]
        asked = dict(scope["headers"])
        if scope["method"] == "OPTIONS" and b"access-control-request-method" in asked:
            granted = [
                (b"access-control-allow-methods", b"DELETE, GET, POST, PUT"),
                (b"access-control-allow-headers", asked.get(b"access-control-request-headers", b"")),
                (b"access-control-max-age", b"600"),
            ]
            await send({"type": "http.response.start", "status": 204, "headers": [*shared, *granted]})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        exposed = (b"access-control-expose-headers", EXPOSED.encode())
        await self._app(scope, receive, _with_headers(send, [*shared, exposed]))

    def _admitted(self, scope: HTTPScope) -> bytes | None:
        """The origin of the request if its pages may call, else None."""
        origin = dict(scope["headers"]).get(b"origin")
        if origin is None:
            return None
        is_admitted = not self._origins.isdisjoint({"*", origin.decode("latin-1").lower()})
        return origin if is_admitted else None


def _with_headers(send: Send, headers: Iterable[tuple[bytes, bytes]]) -> Send:
    """`send`, with some headers added to the answer."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *headers]
        await send(message)

    return sending
