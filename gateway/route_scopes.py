"""Which scopes a key needs for which route: the one table that decides, and that the API document shows.

A new route gets a row: `create_app` refuses to start without one. Rows have the names of the handlers.

- `OPEN`: needs no key. For probes and for pages, which tell nothing about this gateway.
- `USING`: calls models, or costs what they cost.
- `READING`: tells what is registered; whoever may call or register may know.
- `REGISTERING`: writes what is registered.
- `ADMIN`: makes keys, or tells what all clients together do or have cached.

A key with the scope `admin` may do all that keys may.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from litestar import Litestar
from litestar.enums import ScopeType
from litestar.handlers import HTTPRouteHandler
from litestar.handlers.base import BaseRouteHandler
from litestar.middleware import ASGIMiddleware
from litestar.routes import ASGIRoute, HTTPRoute
from litestar.types import ASGIApp, Receive, Scope, Send

from gateway.errors import Forbidden, Unauthorized
from gateway.grants import GRANT, Grant, KeyScope

OPEN: frozenset[KeyScope] = frozenset()
USING = frozenset({KeyScope.INVOKE})
READING = frozenset({KeyScope.INVOKE, KeyScope.REGISTER})
REGISTERING = frozenset({KeyScope.REGISTER})
ADMIN = frozenset({KeyScope.ADMIN})

ROUTE_SCOPES: Mapping[str, frozenset[KeyScope]] = {
    "healthz": OPEN,
    "readyz": OPEN,
    "openapi_document": OPEN,
    "docs_page": OPEN,
    "console_page": OPEN,
    "console_file": OPEN,
    "version": READING,
    "metrics": frozenset({KeyScope.METRICS}),
    "list_engines": ADMIN,
    "chat_completions": USING,
    "create_response": USING,
    "get_response": USING,
    "delete_response": USING,
    "list_input_items": USING,
    "create_message": USING,
    "count_message_tokens": USING,
    "text_completions": USING,
    "tokenize": USING,
    "detokenize": USING,
    "list_requests": USING,
    "get_request": USING,
    "system": ADMIN,
    "get_grammar": ADMIN,
    "list_models": READING,
    "get_model": READING,
    "list_toolsets": READING,
    "get_toolset": READING,
    "list_tools": READING,
    "get_tool": READING,
    "list_revisions": READING,
    "get_revision": READING,
    "changes": READING,
    "report": READING,
    "mcp_message": READING,
    "list_differences": READING,
    "check": REGISTERING,
    "import_tools": REGISTERING,
    "accept_tools": REGISTERING,
    "decline_tools": REGISTERING,
    "put_toolset": REGISTERING,
    "delete_toolset": REGISTERING,
    "put_tool": REGISTERING,
    "delete_tool": REGISTERING,
    "restore": REGISTERING,
    "create_key": ADMIN,
    "list_keys": ADMIN,
    "get_key": ADMIN,
    "rotate_key": ADMIN,
    "revoke_key": ADMIN,
}


class Authorization(ASGIMiddleware):
    """Refuses requests whose grant has no scope for the route that they reached.

    It asks the handler that the router chose, and no path: however a path is spelled, what runs is what was
    authorised. `AccessControl` has found the grant before.
    """

    scopes = (ScopeType.HTTP, ScopeType.ASGI)

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Pass the request on; raises Unauthorized, Forbidden."""
        needed = scopes_of(scope["route_handler"])
        grant: Grant | None = scope.get(GRANT)  # type: ignore[assignment]
        if needed is not OPEN:
            if grant is None:
                raise Unauthorized
            if not grant.has_any(needed):
                raise Forbidden(sorted(needed), sorted(grant.scopes)) if grant.key_id else Unauthorized
        await next_app(scope, receive, send)


def scopes_of(handler: BaseRouteHandler) -> frozenset[KeyScope]:
    """The scopes of which a route needs one; Litestar's own answers to OPTIONS tell only methods."""
    if isinstance(handler, HTTPRouteHandler) and handler.http_methods == {"OPTIONS"}:
        return READING
    return ROUTE_SCOPES[_name(handler)]


def _name(handler: BaseRouteHandler) -> str:
    """The name of a handler's function, which Litestar may have wrapped to run in a thread."""
    name: str = getattr(handler.fn, "func", handler.fn).__name__
    return name


@dataclass(frozen=True, slots=True)
class OpenPaths:
    """The paths that need no key: `whole` ones, and whatever begins as a path with parameters does."""

    whole: frozenset[str]
    beginnings: tuple[str, ...]

    @classmethod
    def of(cls, app: Litestar) -> "OpenPaths":
        """Those of an application, each of whose handlers must have a row, and a name of its own."""
        named: dict[str, object] = {}
        paths = set()
        for path, handler in _handlers(app):
            name = _name(handler)
            assert name in ROUTE_SCOPES, f"{path} has no row in gateway/route_scopes.py: add {name!r}"
            assert named.setdefault(name, handler.fn) is handler.fn, f"two handlers have the name {name!r}"
            if scopes_of(handler) is OPEN:
                paths.add(path)
        whole = frozenset(path for path in paths if "{" not in path)
        return cls(whole, tuple(path.partition("{")[0] for path in paths - whole))

    def __contains__(self, path: str) -> bool:
        """Whether a request for the path may come in without a key; `Authorization` decides in the end."""
        return path in self.whole or path.startswith(self.beginnings)


def _handlers(app: Litestar) -> Iterator[tuple[str, BaseRouteHandler]]:
    """Every route's path and handlers, but for Litestar's own answers to OPTIONS."""
    for route in app.routes:
        match route:
            case HTTPRoute():
                handlers = [each for each in route.route_handlers if each.http_methods != {"OPTIONS"}]
                yield from ((route.path, each) for each in handlers)
            case ASGIRoute():
                yield route.path, route.route_handler
