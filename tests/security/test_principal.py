"""Who counts as one client: by key, else by address; nobody chooses that with a header."""

import hashlib

import pytest

from gateway.access.configured_keys import ConfiguredKeys
from gateway.access.grants import GRANT
from gateway.access.principal import principal_of
from gateway.errors import SettingsError
from gateway.sources.outbound import read_networks


def client_id(client="203.0.113.5", headers=(), *, key=None, trusted=""):
    scope = {
        "client": (client, 40000) if client else None,
        "headers": [(name.encode(), value.encode()) for name, value in headers],
    }
    if key is not None:
        scope[GRANT] = ConfiguredKeys((key,)).grant_of({b"x-api-key": key.encode()})
    return principal_of(scope, read_networks(trusted)).client_id


def forwarded(*hops):
    return [("x-forwarded-for", hop) for hop in hops]


def test_a_key_is_one_client_wherever_it_comes_from_and_is_not_told():
    first = client_id("203.0.113.5", key="sk-12345678")
    second = client_id("198.51.100.7", [("authorization", "Bearer another")], key="sk-12345678")
    other = client_id("203.0.113.5", key="sk-87654321")
    assert first == second != other
    assert "sk-" not in first
    assert hashlib.sha256(b"sk-12345678").hexdigest()[:16] in first


def test_without_keys_a_header_does_not_choose_the_client():
    lies = [("authorization", "Bearer another"), *forwarded("198.51.100.1")]
    assert client_id(headers=lies) == client_id()
    assert client_id("127.0.0.1", lies) == client_id("127.0.0.1")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("::ffff:203.0.113.5", "203.0.113.5"),
        ("fe80::1%eth0", "fe80::/64"),
        ("203.0.113.5", "203.0.113.5"),
    ],
)
def test_an_ipv6_network_is_one_client(address, expected):
    assert client_id(address) == expected


@pytest.mark.parametrize(
    ("hops", "expected"),
    [
        (["198.51.100.1"], "198.51.100.1"),
        (["1.2.3.4, 198.51.100.1"], "198.51.100.1"),  # the client wrote the first one itself
        (["1.2.3.4", "198.51.100.1"], "198.51.100.1"),
        (["198.51.100.1, 10.1.1.1"], "198.51.100.1"),  # over a second trusted proxy
        (["10.1.1.1, 10.2.2.2"], "10.1.1.1"),
        (["2001:db8::1:2:3:4"], "2001:db8::/64"),
        (["nonsense"], "10.0.0.1"),
        (["198.51.100.1, nonsense"], "10.0.0.1"),
        ([], "10.0.0.1"),
    ],
)
def test_a_trusted_proxy_tells_the_client(hops, expected):
    assert client_id("10.0.0.1", forwarded(*hops), trusted="10.0.0.0/8, ::1") == expected


def test_a_connection_without_an_address_has_a_client_id():
    assert client_id(None) == client_id(None)


def test_networks_that_are_none_are_named():
    with pytest.raises(SettingsError, match=r"trusted_proxies.*10\.0\.0\.0/99"):
        read_networks("10.0.0.0/99", "trusted_proxies")


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer sk-12345678"},
        {"X-API-Key": "sk-12345678"},
        {"X-API-Key": "sk-12345678", "Authorization": "Bearer another"},  # which lets nobody in
    ],
)
async def test_the_client_id_of_the_key_that_let_a_request_in_reaches_the_engine(
    client_with, runtime, headers
):
    async with client_with(api_key="sk-12345678") as client:
        answer = await client.post(
            "/v1/chat/completions",
            json={"model": "tiny", "messages": [{"role": "user", "content": "?"}]},
            headers=headers,
        )
    assert answer.status_code == 200, answer.text
    [request] = runtime.requests
    assert request.client_id == client_id(key="sk-12345678")
