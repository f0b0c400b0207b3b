"""The principal: who sends a request, as fairness and quotas see it.

With API keys, everybody who sends the same key is one principal. Without keys, a principal is a client's
address. An IPv6 client has a whole /64 network of addresses, so that network is one principal.
`X-Forwarded-For` is trusted only from the proxies that the operator names, because anybody can send it.

>>> principal_of({"client": ("2001:db8::1:2", 40000), "headers": []}).client_id
'2001:db8::/64'
"""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.access.grants import grant_of
from gateway.sources.outbound import IPAddress, IPNetwork, unmapped

_IPV6_PREFIX = 64


@dataclass(frozen=True, slots=True)
class Principal:
    """`client_id` names the principal in queues; it reveals nothing about the key.

    `owner` says whose stored responses a request can read, and whose quota it uses: those of its key. Without
    keys, all clients are one owner.
    """

    client_id: str
    owner: str = ""


def principal_of(scope: Mapping[str, Any], trusted_proxies: Sequence[IPNetwork] = ()) -> Principal:
    """The principal of a request that `AccessControl` has let in."""
    grant = grant_of(scope)
    if grant is not None and grant.client_id:
        return Principal(grant.client_id, grant.owner)
    host, _ = scope.get("client") or ("", 0)
    forwarded = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
    client = _client_behind(host, b",".join(forwarded).decode("latin-1"), trusted_proxies)
    return Principal(_network_of(client))


def _client_behind(peer: str, forwarded: str, trusted: Sequence[IPNetwork]) -> str:
    """The address that the last trusted proxy saw. The client may have written anything to the left of it."""
    client = peer
    for hop in reversed(forwarded.split(",")):
        address = _address(client)
        if address is None or not any(address in network for network in trusted):
            break
        if _address(hop.strip()) is None:
            break
        client = hop.strip()
    return client


def _network_of(host: str) -> str:
    address = _address(host)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False))
    return host if address is None else str(address)


def _address(host: str) -> IPAddress | None:
    """The address, with an IPv4-mapped IPv6 address as IPv4; None if the text is not an address."""
    try:
        return unmapped(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        return None
