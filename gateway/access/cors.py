"""CORS: which pages of other sites may call the gateway, and what their browsers are told.

Litestar's own CORS support runs only for paths that have a route. It would also run inside `AccessControl`,
which refuses preflights, because browsers send no key with them.
"""

import re

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

from gateway.access.rate_limits import LimitKind
from gateway.errors import SettingsError
from gateway.http.headers import with_headers
from gateway.settings import Settings

EXPOSED = ", ".join(
    (
        *("ETag", "Request-ID", "Retry-After", "X-Callgate-Ignored", "X-Request-ID"),
        *(f"X-RateLimit-{part}-{kind}" for kind in LimitKind for part in ("limit", "remaining", "reset")),
    )
)
"""Headers of answers that pages of other sites may read."""

_ORIGIN = re.compile(r"https?://[^/\s,*]+")


def read_origins(settings: Settings) -> frozenset[str]:
    """The origins whose pages may call, `*` for all.

    Raises:
        SettingsError: a value is not an origin, or all may call and no key is needed.
    """
    origins = frozenset(part.strip().lower() for part in (settings.cors_origins or "").split(",")) - {""}
    for origin in origins - {"*"}:
        if not _ORIGIN.fullmatch(origin):
            reason = f"{origin!r} is not an origin; write origins such as https://app.example, or * for all"
            raise SettingsError("cors_origins", "", reason)
    if "*" in origins and not settings.has_authentication:
        raise SettingsError(
            "cors_origins",
            "",
            "any page could call the gateway, because it asks for no API key; set api_key too",
        )
    return origins


class Cors:
    """Lets pages of other sites call: answers preflights, and adds the headers to other answers."""

    def __init__(self, app: ASGIApp, origins: frozenset[str]) -> None:
        self._app = app
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer a preflight."""
        if scope["type"] != ScopeType.HTTP or not (origin := self._admitted(scope)):
            await self._app(scope, receive, send)
            return
        shared = [(b"access-control-allow-origin", origin), (b"vary", b"Origin")]
        request_headers = dict(scope["headers"])
        if scope["method"] == "OPTIONS" and b"access-control-request-method" in request_headers:
            granted = [
                (b"access-control-allow-methods", b"DELETE, GET, POST, PUT"),
                (
                    b"access-control-allow-headers",
                    request_headers.get(b"access-control-request-headers", b""),
                ),
                (b"access-control-max-age", b"600"),
            ]
            await send({"type": "http.response.start", "status": 204, "headers": [*shared, *granted]})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        exposed = (b"access-control-expose-headers", EXPOSED.encode())
        await self._app(scope, receive, with_headers(send, lambda: [*shared, exposed]))

    def _admitted(self, scope: HTTPScope) -> bytes | None:
        """The origin of the request if its pages may call, else None."""
        origin = dict(scope["headers"]).get(b"origin")
        if origin is None:
            return None
        is_admitted = not self._origins.isdisjoint({"*", origin.decode("latin-1").lower()})
        return origin if is_admitted else None
