"""Guards the requests that an import sends for a client: where they may go, and how much may come back.

A gateway stands where its clients do not: beside services on loopback, in a private network, at a cloud's
metadata service. A client that names a URL must not reach these through it. So a host is looked up once, the
address is checked, and connections go to that very address; TLS still asks for a certificate of the host's
name. No redirect is followed, no compressed answer is read, and all answers together are bounded.

>>> public = AddressRules()
>>> public.admits("93.184.215.14"), public.admits("127.0.0.1"), public.admits("::ffff:169.254.169.254")
(True, False, False)
>>> AddressRules(read_networks("10.1.0.0/16")).admits("10.1.2.3")
True
"""

import ipaddress
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import httpx

from gateway.errors import SettingsError
from toolspecs.errors import UnreadableSource
from toolspecs.nearest import shorten

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

_NOT_PUBLIC = tuple(
    map(
        ipaddress.ip_network,
        (
            "168.63.129.16/32",  # Azure's metadata
            "192.0.0.0/24",  # Oracle's, and protocol assignments
            "64:ff9b:1::/48",  # translation to IPv4, within a network
            "2001::/23",  # Teredo, and protocol assignments
            "2002::/16",  # 6to4
            "3fff::/20",  # documentation
            "5f00::/16",  # segments of routes
        ),
    )
)
"""Networks that some or all versions of `ipaddress` take for public."""

LOOKUP_S = 8.0
"""How long a host may be looked up, in seconds. The system's own limit may be minutes."""

NOT_PUBLIC = (
    "no public address of it is known; the setting source_networks says which other networks may be read"
)
"""Why a host is not read."""

CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables of the environment that say where trusted certificates are."""

OWN_HEADERS = frozenset({"accept-encoding", "connection", "content-length", "host", "transfer-encoding"})
"""Headers that the HTTP client sets itself."""


def read_networks(text: str, setting: str = "source_networks") -> tuple[IPNetwork, ...]:
    """The addresses and networks that a setting lists, separated by commas; raises SettingsError."""
    try:
        return tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())
    except ValueError as error:
        reason = f"{error}; write addresses or networks, separated by commas"
        raise SettingsError(setting, "", reason) from error


def read_source_origins(text: str) -> frozenset[str]:
    """The web origins of the setting `source_origins`; raises SettingsError."""
    origins = [part.strip() for part in text.split(",") if part.strip()]
    for origin in origins:
        if origin_of_url(origin) != origin.lower().rstrip("/"):
            reason = f"{origin!r} is not an origin; write one as https://tools.example:8443"
            raise SettingsError("source_origins", "", reason)
    return frozenset(map(origin_of_url, origins))


@dataclass(frozen=True, slots=True, repr=False)
class SourceCredentials:
    """What is sent to a source: a bearer token, or the token that `issuer` gives this OAuth client."""

    token: str | None = None
    client_id: str | None = None
    client_secret: str | None = None
    issuer: str | None = None

    def check(self) -> None:
        """Raise SettingsError if an OAuth client has no issuer, or an issuer no client."""
        if bool(self.client_id) != bool(self.issuer):
            missing, given = (
                ("source_issuer", "source_client_id")
                if self.client_id
                else ("source_client_id", "source_issuer")
            )
            raise SettingsError(missing, "", f"it is missing, but {given} needs it")

    def headers(self, given: Mapping[str, str]) -> dict[str, str]:
        """The headers to send; the headers `given` take precedence."""
        names = {name.lower() for name in given}
        has_own = self.token and not self.client_id and "authorization" not in names
        return {**({"Authorization": f"Bearer {self.token}"} if has_own else {}), **given}


@dataclass(frozen=True, slots=True)
class SourceAccess:
    """Networks that a gateway may import from besides public addresses, and its credentials for some origins.

    Anybody who may register tools can name a URL, so `credentials` are sent only to these `origins`, such as
    `https://tools.example`. Both `origins` and `networks` are separated by commas.
    """

    networks: str = ""
    credentials: SourceCredentials = SourceCredentials()
    origins: str = ""

    def __post_init__(self) -> None:
        self.credentials.check()
        read_networks(self.networks)
        read_source_origins(self.origins)

    def credentials_for(self, url: str | None) -> SourceCredentials:
        """The credentials for the source at a URL."""
        is_known = url and origin_of_url(url) in read_source_origins(self.origins)
        return self.credentials if is_known else SourceCredentials()


def origin_of_url(url: str) -> str:
    """The web origin of a URL: scheme, host, and a port that is not the default; empty if it has none.

    A host whose `xn--` spelling stands for no text is none.

    >>> origin_of_url("HTTPS://Tools.example:443/mcp"), origin_of_url("http://[fd00::5]:8080/a")
    ('https://tools.example', 'http://[fd00::5]:8080')
    """
    try:
        parsed = httpx.URL(url)
        name = parsed.host
    except (httpx.InvalidURL, UnicodeError):
        return ""
    is_own = parsed.port in {None, {"http": 80, "https": 443}.get(parsed.scheme)}
    port = "" if is_own else f":{parsed.port}"
    host = f"[{name}]" if ":" in name else name
    return f"{parsed.scheme}://{host}{port}" if host else ""


@dataclass(frozen=True, slots=True)
class AddressRules:
    """The addresses that may be connected to: public ones, and those in `networks`."""

    networks: Sequence[IPNetwork] = ()

    def admits(self, text: str) -> bool:
        """Whether the address may be connected to."""
        address = unmapped(ipaddress.ip_address(text))
        return any(address in network for network in self.networks) or _is_public(address)


def unmapped(address: IPAddress) -> IPAddress:
    """The IPv4 address that an IPv6 address stands for, if it does."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _is_public(address: IPAddress) -> bool:
    """Whether an address is public. The IPv4 translation prefix 64:ff9b::/96 counts as reserved."""
    if isinstance(address, ipaddress.IPv6Address) and address.is_site_local:
        return False
    is_special = address.is_multicast or address.is_reserved or address.is_unspecified or address.is_loopback
    is_listed = any(address in network for network in _NOT_PUBLIC)
    return address.is_global and not (is_special or address.is_link_local or is_listed)


@dataclass(slots=True)
class CheckedHosts:
    """The address of each host, looked up once.

    `refusal` is the first error that this raised, because some libraries replace it with another.
    """

    rules: AddressRules
    refusal: UnreadableSource | None = None
    _addresses: dict[tuple[str, int], str] = field(default_factory=dict)

    def address_of(self, scheme: str, host: str, port: int | None) -> str:
        """The address to connect to; raises UnreadableSource."""
        if scheme not in {"http", "https"}:
            raise self.refused(f"{scheme}://{host}", "only http and https URLs are read")
        known = (host, port or {"http": 80, "https": 443}[scheme])
        if known not in self._addresses:
            self._addresses[known] = self._look_up(*known)
        return self._addresses[known]

    def refused(self, url: str, reason: str) -> UnreadableSource:
        """Make the error to raise, and keep it as `refusal`."""
        error = UnreadableSource(url, reason)
        self.refusal = self.refusal or error
        return error

    def _look_up(self, host: str, port: int) -> str:
        try:
            addresses = _addresses_of(host.strip("[]"), port)
        except TimeoutError:
            raise self.refused(host, f"its address was not found within {LOOKUP_S:g} s") from None
        except (OSError, UnicodeError):
            addresses = []
        for address in addresses:
            if self.rules.admits(address):
                return address
        # Strangers learn neither the address nor whether the gateway's network has a host of that name.
        raise self.refused(host, NOT_PUBLIC)


def _addresses_of(host: str, port: int) -> list[str]:
    """The addresses of a host.

    Raises:
        OSError, UnicodeError: there is no such host.
        TimeoutError: nobody knows so far.
    """
    addresses: Future[list[str]] = Future()

    def look_up() -> None:
        try:
            answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            addresses.set_result([str(sockaddr[0]) for *_, sockaddr in answers])
        except BaseException as error:  # noqa: BLE001 the caller raises it
            addresses.set_exception(error)

    # The system's function cannot be interrupted. The process does not wait for a daemon thread when it ends.
    threading.Thread(target=look_up, daemon=True).start()
    return addresses.result(LOOKUP_S)


class AnyRequest(Protocol):
    """A request of `httpx` or of `httpx2`, which the MCP SDK uses."""

    method: str
    url: Any
    headers: Any
    stream: Any
    extensions: Any


class AnyResponse(Protocol):
    """An answer in either of them."""

    status_code: int
    headers: Any


RequestT = TypeVar("RequestT", bound=AnyRequest)


@dataclass(slots=True)
class GuardedRequests:
    """The rules for all requests of one import, whatever sends them.

    Each goes to a checked address, and `num_bytes` more bytes may come in all answers together.
    """

    hosts: CheckedHosts
    num_bytes: int

    def directed(self, request: RequestT) -> RequestT:
        """The request, to the address of its host. Looking that up blocks. Raises UnreadableSource."""
        url = request.url
        headers = type(request.headers)(request.headers)
        headers["Accept-Encoding"] = "identity"
        request_type: Any = type(request)
        directed: RequestT = request_type(
            request.method,
            url.copy_with(host=self.hosts.address_of(url.scheme, url.host, url.port)),
            headers=headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": url.host},
        )
        return directed

    def check(self, url: object, response: AnyResponse) -> None:
        """Refuse redirects and compressed answers; raises UnreadableSource."""
        if 300 <= response.status_code < 400:
            target = shorten(response.headers.get("location", "nowhere"), 200)
            raise self.hosts.refused(f"{url}", f"it redirects to {target}; import from there if you trust it")
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise self.hosts.refused(f"{url}", "its answer is compressed, though it was asked not to be")

    def count(self, url: object, part: bytes) -> bytes:
        """Count a part of an answer, and return it; raises UnreadableSource if they are too large."""
        self.num_bytes -= len(part)
        if self.num_bytes < 0:
            raise self.hosts.refused(f"{url}", "its answers are larger than an import may be")
        return part


class CheckedTransport(httpx.BaseTransport):
    """Sends guarded requests. Connections are not reused: each was opened for one host."""

    def __init__(self, guarded: GuardedRequests) -> None:
        self._guarded = guarded
        self._transport = httpx.HTTPTransport(limits=httpx.Limits(max_keepalive_connections=0))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """The answer to a request; raises UnreadableSource."""
        response = self._transport.handle_request(self._guarded.directed(request))
        try:
            self._guarded.check(request.url, response)
        except UnreadableSource:
            response.close()
            raise
        assert isinstance(response.stream, httpx.SyncByteStream)
        response.stream = _CountedStream(response.stream, request.url, self._guarded)
        return response

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()


@dataclass(frozen=True, slots=True)
class _CountedStream(httpx.SyncByteStream):
    stream: httpx.SyncByteStream
    url: httpx.URL
    guarded: GuardedRequests

    def __iter__(self) -> Iterator[bytes]:
        return (self.guarded.count(self.url, part) for part in self.stream)

    def close(self) -> None:
        self.stream.close()
