"""The scopes that each route accepts: the only table that decides this; the API document shows it.

A new route gets a row: `create_app` refuses to start without one. Rows have the names of the handlers.

- `OPEN`: needs no key. For probes and pages, which reveal nothing about this gateway.
- `USING`: calls models, or costs as much.
- `READING`: shows what is registered, to anybody who may call or register.
- `REGISTERING`: writes what is registered.
- `ADMIN`: makes keys, or shows what all clients do or have cached.

A key with the scope `admin` may do everything.
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

from gateway.access.grants import KeyScope, grant_of
from gateway.errors import Forbidden, Unauthorized

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
    "root_page": OPEN,
    "console_page": OPEN,
    "console_file": OPEN,
    "version": READING,
    "metrics": frozenset({KeyScope.METRICS}),
    "list_engines": ADMIN,
    "chat_completions": USING,
    "create_response": USING,
    "count_response_tokens": USING,
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


class AuthorizationMiddleware(ASGIMiddleware):
    """Refuses requests whose grant has none of the scopes that their route accepts.

    It checks the handler that the router chose, not the path. So however a path is spelled, the handler that
    runs is the one that was authorised. `AccessControl` has already found the grant.
    """

    scopes = (ScopeType.HTTP, ScopeType.ASGI)

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Pass the request on; raises Unauthorized, Forbidden."""
        needed = scopes_of(scope["route_handler"])
        grant = grant_of(scope)
        if needed is not OPEN:
            if grant is None:
                raise Unauthorized
            if not grant.has_any(needed):
                raise Forbidden(sorted(needed), sorted(grant.scopes)) if grant.key_id else Unauthorized
        await next_app(scope, receive, send)


def scopes_of(handler: BaseRouteHandler) -> frozenset[KeyScope]:
    """The scopes that a route accepts; Litestar's own answers to OPTIONS show only methods and need none."""
    if isinstance(handler, HTTPRouteHandler) and handler.http_methods == {"OPTIONS"}:
        return READING
    return ROUTE_SCOPES[_name(handler)]


def _name(handler: BaseRouteHandler) -> str:
    """The name of a handler's function, which Litestar may have wrapped to run in a thread."""
    name: str = getattr(handler.fn, "func", handler.fn).__name__
    return name


@dataclass(frozen=True, slots=True)
class OpenPaths:
    """The paths that need no key; `prefixes` are the beginnings of those with parameters."""

    whole: frozenset[str]
    prefixes: tuple[str, ...]

    @classmethod
    def of(cls, app: Litestar) -> "OpenPaths":
        """The open paths of an application. Each handler must have a row in the table, and a unique name."""
        named: dict[str, object] = {}
        paths = set()
        for path, handler in _handlers(app):
            name = _name(handler)
            assert name in ROUTE_SCOPES, f"{path} has no row in gateway/access/route_scopes.py: add {name!r}"
            assert named.setdefault(name, handler.fn) is handler.fn, f"two handlers have the name {name!r}"
            if scopes_of(handler) is OPEN:
                paths.add(path)
        whole = frozenset(path for path in paths if "{" not in path)
        return cls(whole, tuple(path.partition("{")[0] for path in paths - whole))

    def __contains__(self, path: str) -> bool:
        """Whether a request for the path may come in without a key.

        `AuthorizationMiddleware` decides in the end.
        """
        return path in self.whole or path.startswith(self.prefixes)


def _handlers(app: Litestar) -> Iterator[tuple[str, BaseRouteHandler]]:
    """The path and handlers of every route, without Litestar's own answers to OPTIONS."""
    for route in app.routes:
        match route:
            case HTTPRoute():
                handlers = [
                    handler for handler in route.route_handlers if handler.http_methods != {"OPTIONS"}
                ]
                yield from ((route.path, handler) for handler in handlers)
            case ASGIRoute():
                yield route.path, route.route_handler
