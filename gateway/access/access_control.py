"""Access control: API keys, the host names under which the gateway is called, and web pages.

With keys, a request needs `Authorization: Bearer KEY`. Without keys, any program on this machine may call,
but no web page. A browser sends the requests of every page from the user's own machine. It names the page's
site in `Origin`; for images and scripts it only says in `Sec-Fetch-Site` that it is another site. But a site
controls the address that its name resolves to, so `Host` is checked too (DNS rebinding).
"""

import ipaddress
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

from gateway.access.api_keys import ApiKeys
from gateway.access.configured_keys import ConfiguredKeys, keys_sent
from gateway.access.grants import ALL_SCOPES, GRANT, Grant, KeyScope
from gateway.access.route_scopes import OpenPaths
from gateway.errors import ForeignHost, ForeignPage, GatewayError, MalformedHead, SettingsError, Unauthorized
from gateway.http.headers import with_headers
from gateway.http.problems import send_error
from gateway.settings import Settings, is_loopback

_SINGLE_HEADERS = (
    b"x-api-key",
    b"authorization",
    b"content-type",
    b"host",
    b"if-match",
    b"if-none-match",
    b"origin",
    b"x-request-timeout",
    b"x-toolset",
)
"""Headers of which a request may have one: of two, a proxy and the gateway may read different ones."""

_BROWSER_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
"""Of every answer: browsers take it for nothing but what it says it is, and for no other site."""

_HOST = re.compile(r"(?P<name>\[[\da-f:.]+\]|[^\s\[\]:/?#@,%\\]+)(?::(?P<port>\d{1,5}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Host:
    """A host as a client names it; `port` is empty if it names none."""

    name: str
    port: str = ""

    @classmethod
    def parse(cls, text: str) -> "Host | None":
        """The host that a `Host` header names; None if it names none, or more than one."""
        matched = _HOST.fullmatch(text.lower())
        if not matched:
            return None
        name = matched["name"].removesuffix(".")
        if name.startswith("["):
            try:
                name = str(ipaddress.IPv6Address(name[1:-1]))
            except ValueError:
                return None
        return cls(name, matched["port"] or "") if name else None


class AllowedHosts:
    """The hosts under which the gateway may be called: loopback's names at any port, and `hosts`.

    A host without a port stands for all ports.
    """

    def __init__(self, hosts: Iterable[Host]) -> None:
        self._hosts = frozenset(hosts)

    def __contains__(self, header: str) -> bool:
        """Whether a `Host` header names one of them."""
        host = Host.parse(header)
        if host is None:
            return False
        return is_loopback(host.name) or not self._hosts.isdisjoint({host, Host(host.name)})


def read_allowed_hosts(settings: Settings) -> AllowedHosts | None:
    """The hosts of the settings; None if every host is allowed, because clients need keys.

    Raises:
        SettingsError: the setting `allowed_hosts` contains something that is not a host.
    """
    if settings.allowed_hosts is None:
        return None if settings.has_authentication else AllowedHosts(())
    hosts = []
    for text in settings.allowed_hosts.split(","):
        host = Host.parse(text.strip())
        if host is None:
            reason = (
                f"{text.strip()!r} is not a host; write names such as gateway.example, separated by commas"
            )
            raise SettingsError("allowed_hosts", "", reason)
        hosts.append(host)
    return AllowedHosts(hosts)


class AccessControl:
    """Refuses requests without access, and passes on the others with their grants.

    It runs before the routes and before traces: a refused request leaves no span and learns nothing about
    routes. `AuthorizationMiddleware` later checks which routes the grant opens. Without keys, pages of other
    sites are refused, except those of `origins`.
    """

    def __init__(
        self,
        app: ASGIApp,
        configured_keys: ConfiguredKeys,
        keys: ApiKeys,
        *,
        hosts: AllowedHosts | None,
        open_paths: OpenPaths,
        origins: Collection[str],
    ) -> None:
        self._app = app
        self._configured_keys = configured_keys
        self._keys = keys
        self._hosts = hosts
        self._open_paths = open_paths
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it."""
        if scope["type"] == ScopeType.HTTP:
            send = with_headers(send, lambda: _BROWSER_HEADERS)
            try:
                scope[GRANT] = await self._grant_of(scope)  # type: ignore[literal-required]
            except GatewayError as error:
                await send_error(scope, receive, send, error)
                return
        await self._app(scope, receive, send)

    async def _grant_of(self, scope: HTTPScope) -> Grant | None:
        """The grant of a request; None if it has no key and its path needs none.

        Raises:
            MalformedHead, ForeignHost, ForeignPage, Unauthorized: the request has no access.
            KeysUnavailable: the store is down, and the key is one of the store's.
        """
        if not scope["path"].startswith("/"):
            raise MalformedHead("its target is not a path, and this is no proxy")
        names = [name for name, _ in scope["headers"]]
        for name in _SINGLE_HEADERS:
            if names.count(name) > 1:
                raise MalformedHead(f"it has more than one header {name.decode().title()!r}; send one")
        headers = dict(scope["headers"])
        grant = self._configured_keys.grant_of(headers)
        if grant is not None and grant.scopes == {KeyScope.METRICS}:
            return grant  # by whatever name: a scraper calls each pod by its address, and no page has its key
        self._check_sender(headers)
        if grant is None and not self._configured_keys.are_needed:
            return Grant(self._configured_keys.scopes_of(ALL_SCOPES))
        if grant is None:
            grant = await self._stored(headers)
        if grant is None and scope["path"] not in self._open_paths:
            raise Unauthorized
        return grant

    async def _stored(self, headers: Mapping[bytes, bytes]) -> Grant | None:
        """The grant of a key of the store; raises KeysUnavailable."""
        for key in keys_sent(headers):
            if grant := await self._keys.find(key):
                return replace(grant, scopes=self._configured_keys.scopes_of(grant.scopes))
        return None

    def _check_sender(self, headers: Mapping[bytes, bytes]) -> None:
        """Raise ForeignHost or ForeignPage if the host name or the calling page is not allowed."""
        host = headers.get(b"host", b"").decode("latin-1")
        if self._hosts is not None and host not in self._hosts:
            raise ForeignHost(host, needs_key=self._configured_keys.are_needed)
        if not self._configured_keys.are_needed:
            origin = headers.get(b"origin", b"").decode("latin-1")
            is_own = origin.partition("://")[2].lower() == host.lower()
            if origin and not is_own and origin.lower() not in self._origins:
                raise ForeignPage(origin)
            if not origin and _is_for_foreign_page(headers):
                raise ForeignPage("another site")


def _is_for_foreign_page(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a browser says that it asks for a page of another site, and not because a user follows a link.

    For images and scripts it sends no `Origin`, only these headers.
    """
    if headers.get(b"sec-fetch-site") not in (b"cross-site", b"same-site"):
        return False
    is_followed_link = headers.get(b"sec-fetch-mode") == b"navigate" and (
        headers.get(b"sec-fetch-dest") == b"document"
    )
    return not is_followed_link
