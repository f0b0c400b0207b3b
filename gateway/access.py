"""Who may come in: API keys, the names under which the gateway is called, and web pages.

With keys, a request needs `Authorization: Bearer KEY`. Without keys, any program of this machine may call,
but no web page. A browser sends the requests of every page from the user's own machine. It names the page's
site in `Origin`, but the site chooses the address to which its name leads, so `Host` is checked too.
"""

import hmac
import ipaddress
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from litestar import Request
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Receive, Scope, Send

from gateway.errors import ForeignHost, ForeignPage, GatewayError, MalformedHead, SettingsError, Unauthorized
from gateway.problems import respond
from gateway.settings import Settings

OPEN_PATHS = frozenset({"/console", "/docs", "/health", "/healthz", "/openapi.json", "/ping", "/readyz"})
"""Routes that need no key: probes and browsers send none. None of them tells what is registered."""

OPEN_FOLDER = "/console/"
"""The files of the console, which are in every gateway. What they show, they ask for with a key."""

MIN_KEY_LENGTH = 8

METRICS_PATH = "/metrics"
"""What all clients do together: for who runs the gateway, who may give it keys of its own."""

ACCEPTED_KEY = "callgate.key"
"""Where a request's scope holds the key that let it in."""

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

_HOST = re.compile(r"(?P<name>\[[\da-f:.]+\]|[^\s\[\]:/?#@,%\\]+)(?::(?P<port>\d{1,5}))?", re.ASCII)


def read_keys(settings: Settings) -> tuple[str, ...]:
    """The keys of the settings `api_key` and `api_key_file`; raises SettingsError if the file gives none."""
    keys = [settings.api_key] if settings.api_key else []
    if settings.api_key_file:
        keys += _keys_of_file("api_key_file", settings.api_key_file)
    return tuple(keys)


def read_metrics_keys(settings: Settings) -> tuple[str, ...]:
    """The keys that open `/metrics` alone; none if the setting names no file.

    Raises:
        SettingsError: the file gives none, or the key of a client.
    """
    if not settings.metrics_key_file:
        return ()
    keys = _keys_of_file("metrics_key_file", settings.metrics_key_file)
    if not set(keys).isdisjoint(read_keys(settings)):
        reason = "a key in it is an API key too; these keys open nothing but /metrics"
        raise SettingsError("metrics_key_file", settings.metrics_key_file, reason)
    return tuple(keys)


def _keys_of_file(setting: str, path: str) -> list[str]:
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(setting, path, str(error)) from error
    found = list(_keys_in(text, setting, path))
    if not found:
        raise SettingsError(setting, path, "the file holds no key")
    return found


def _keys_in(text: str, setting: str, source: str) -> Iterator[str]:
    """The keys of a file, one per line. Blank lines and comments are skipped: no comment may become a key."""
    for number, line in enumerate(text.splitlines(), 1):
        key = line.strip()
        if not key or key.startswith("#"):
            continue
        if len(key) < MIN_KEY_LENGTH or len(key.split()) > 1:
            reason = (
                f"line {number} is not a key: a key has at least {MIN_KEY_LENGTH} characters and no blanks"
            )
            raise SettingsError(setting, source, reason)
        yield key


def known_key(sent: bytes, keys: Iterable[str]) -> str | None:
    """The one of `keys` that was sent, None if none was; the time does not depend on how similar they are.

    A header is bytes. Clients encode a key beyond ASCII as UTF-8 or as Latin-1.
    """
    matches = [
        known for known in keys for spelling in _spellings(known) if hmac.compare_digest(sent, spelling)
    ]
    return matches[0] if matches else None


def _spellings(key: str) -> Iterator[bytes]:
    yield key.encode()
    with suppress(UnicodeEncodeError):
        yield key.encode("latin-1")


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

    @property
    def is_loopback(self) -> bool:
        """Whether the name leads to the client's own machine, whatever name servers say."""
        try:
            return ipaddress.ip_address(self.name).is_loopback
        except ValueError:
            return self.name == "localhost"


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
        return host.is_loopback or not self._hosts.isdisjoint({host, Host(host.name)})


def read_allowed_hosts(settings: Settings) -> AllowedHosts | None:
    """The hosts of the settings; None if every host is allowed, because clients need keys.

    Raises:
        SettingsError: the setting `allowed_hosts` holds something that is no host.
    """
    if settings.allowed_hosts is None:
        return None if settings.has_authentication else AllowedHosts(())
    hosts = []
    for text in settings.allowed_hosts.split(","):
        host = Host.parse(text.strip())
        if host is None:
            reason = f"{text.strip()!r} is no host; write names such as gateway.example, separated by commas"
            raise SettingsError("allowed_hosts", "", reason)
        hosts.append(host)
    return AllowedHosts(hosts)


class AccessControl:
    """Answers the requests that may not come in, and passes on the others.

    It stands before the routes and before traces: what it refuses leaves no span and learns of no route.
    Without keys, pages of other sites may not come in, except those of `origins`. With `metrics_keys`, these
    alone open `/metrics`, and nothing else.
    """

    def __init__(
        self,
        app: ASGIApp,
        keys: tuple[str, ...],
        hosts: AllowedHosts | None,
        origins: Collection[str] = (),
        metrics_keys: tuple[str, ...] = (),
    ) -> None:
        self._app = app
        self._keys = keys
        self._hosts = hosts
        self._origins = origins
        self._metrics_keys = metrics_keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it."""
        if scope["type"] == ScopeType.HTTP:
            try:
                self._check(scope)
            except GatewayError as error:
                request: Request[Any, Any, Any] = Request(scope, receive, send)
                response = respond(request, error).to_asgi_response(app=None, request=request)
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        """Raise MalformedHead, ForeignHost, ForeignPage or Unauthorized if the request may not come in."""
        if not scope["path"].startswith("/"):
            raise MalformedHead("its target is not a path, and this is no proxy")
        names = [name for name, _ in scope["headers"]]
        for name in _SINGLE_HEADERS:
            if names.count(name) > 1:
                raise MalformedHead(f"it has more than one header {name.decode().title()!r}; send one")
        headers = dict(scope["headers"])
        if self._metrics_keys and scope["path"].rstrip("/") == METRICS_PATH:  # as routes are found
            # By whatever name: a scraper calls each pod by its address, and no page of a browser has the key.
            if not _accepted(headers, self._metrics_keys):
                raise Unauthorized
            return
        self._check_sender(headers)
        if not self._keys:
            return
        if key := _accepted(headers, self._keys):
            scope[ACCEPTED_KEY] = key  # type: ignore[literal-required] # for `principal_of`
        elif not is_open(scope["path"]):
            raise Unauthorized

    def _check_sender(self, headers: Mapping[bytes, bytes]) -> None:
        """Raise ForeignHost or ForeignPage by how the gateway is called, and the page that calls."""
        host = headers.get(b"host", b"").decode("latin-1")
        if self._hosts is not None and host not in self._hosts:
            raise ForeignHost(host, needs_key=bool(self._keys))
        if not self._keys:
            origin = headers.get(b"origin", b"").decode("latin-1")
            is_own = origin.partition("://")[2].lower() == host.lower()
            if origin and not is_own and origin.lower() not in self._origins:
                raise ForeignPage(origin)


def is_open(path: str) -> bool:
    """Whether a path needs no key."""
    return path in OPEN_PATHS or path.startswith(OPEN_FOLDER)


def _accepted(headers: Mapping[bytes, bytes], keys: Iterable[str]) -> str | None:
    """The one of `keys` that a request sends, None if it sends none."""
    found = [key for sent in _keys_sent(headers) if (key := known_key(sent, keys))]
    return found[0] if found else None


def _keys_sent(headers: Mapping[bytes, bytes]) -> Iterator[bytes]:
    """The keys of a request: OpenAI's clients send them in `Authorization`, Anthropic's in `X-API-Key`."""
    scheme, _, key = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer":
        yield key.strip()
    if b"x-api-key" in headers:
        yield headers[b"x-api-key"].strip()
