"""Requests that may not come in: of pages that rebound a name, under foreign names, with ambiguous heads."""

import msgspec
import pytest
from litestar.testing import AsyncTestClient
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from serving import client_of, exchange, served

from gateway.access.access_control import read_allowed_hosts
from gateway.app import create_app
from gateway.errors import SettingsError

KEY = "a-first-key-of-many"
TOOLS = {"tools": [{"name": "ping", "inputSchema": {"type": "object"}}]}

OWN = [
    "localhost",
    "localhost:8080",
    "LocalHost.:8080",
    "127.0.0.1",
    "127.0.0.1:1",
    "127.255.0.1:8080",
    "[::1]",
    "[::1]:8080",
    "[0:0:0:0:0:0:0:1]:8080",
]
FOREIGN = [
    "",
    "evil.example",
    "evil.example:8080",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "evil.localhost",
    "localhost..",
    "localhost:8080:80",
    "localhost:8080@evil.example",
    "localhost,evil.example",
    "localhost evil.example",
    "user@localhost",
    "localhost/evil.example",
    "localhost%00.evil.example",
    "[::1%25lo]",
    "[::1",
    "::1",
    "[localhost]",
    "[::2]:8080",
    "0.0.0.0:8080",
    "192.168.1.7:8080",
    "loc\xe4lhost",
]
ROUTES = ["/healthz", "/readyz", "/v1/models", "/v1/toolsets", "/schema/openapi.json", "/no/such/route"]


@pytest.fixture
def with_keys(settings):
    return msgspec.structs.replace(settings, api_key=KEY)


async def test_a_page_that_rebinds_its_name_neither_registers_nor_lists(client):
    page = {"Host": "evil.example:8080", "Origin": "http://evil.example:8080"}
    refused = await client.put("/v1/toolsets/x", json=TOOLS, headers=page)
    assert refused.status_code == 403
    assert refused.json()["type"] == "urn:callgate:foreign-host"
    assert "allowed_hosts" in refused.json()["detail"]
    assert (await client.get("/v1/toolsets", headers={"Host": "evil.example:8080"})).status_code == 403
    assert (await client.get("/v1/toolsets")).json()["toolsets"] == []


@pytest.mark.parametrize("host", FOREIGN)
async def test_without_keys_no_route_answers_to_a_foreign_name(client, host):
    for path in ROUTES:
        for method in ("GET", "POST", "OPTIONS"):
            answer = await client.request(method, path, headers={"Host": host.encode("latin-1")})
            remedy = "allowed_hosts" if host else "send one that names this gateway"
            assert (answer.status_code, remedy in answer.text) == (403, True), (method, path)


@pytest.mark.parametrize("host", OWN)
async def test_without_keys_every_name_of_loopback_is_answered(client, host):
    for path in ("/healthz", "/v1/toolsets"):
        assert (await client.get(path, headers={"Host": host})).status_code == 200


HOSTS = [
    ("gateway.example", 200),
    ("GATEWAY.example.:8080", 200),
    ("inner.example:8443", 200),
    ("inner.example", 403),
    ("inner.example:443", 403),
    ("[2001:db8::1]:8080", 200),
    ("localhost:8080", 200),
    ("other.example", 403),
]


@pytest.mark.parametrize(("host", "status"), HOSTS)
async def test_the_hosts_of_the_settings_are_answered_with_and_without_keys(settings, runtime, host, status):
    allowed = msgspec.structs.replace(
        settings, allowed_hosts="gateway.example, inner.example:8443,[2001:DB8::1]"
    )
    for some in (allowed, msgspec.structs.replace(allowed, api_key=KEY)):
        headers = {"Host": host, "Authorization": f"Bearer {KEY}"}
        async with client_of(create_app(some, runtime=runtime)) as client:
            assert (await client.get("/v1/models", headers=headers)).status_code == status
            assert (await client.get("/healthz", headers=headers)).status_code == status


async def test_with_keys_and_without_the_setting_every_host_is_answered(with_keys, runtime):
    async with AsyncTestClient(create_app(with_keys, runtime=runtime)) as client:
        assert (await client.get("/healthz")).status_code == 200


@pytest.mark.parametrize("hosts", ["", "a b", "http://gateway.example", "a.example,,b.example", "[::1"])
def test_a_setting_that_names_no_host_fails_the_start(settings, hosts):
    with pytest.raises(SettingsError, match="allowed_hosts"):
        read_allowed_hosts(msgspec.structs.replace(settings, allowed_hosts=hosts))


@pytest.mark.parametrize("header", ["Authorization", "Host", "Origin", "If-Match", "X-Toolset"])
@pytest.mark.parametrize("has_keys", [False, True])
def test_two_headers_of_which_one_counts_are_refused(settings, with_keys, runtime, header, has_keys):
    app = create_app(with_keys if has_keys else settings, runtime=runtime)
    named = {"Host": "localhost", "Authorization": f"Bearer {KEY}", header: "localhost"}
    lines = [f"{name}: {value}" for name, value in (*named.items(), (header.lower(), "127.0.0.1"))]
    with served(app) as client:
        answer = exchange(
            client, "\r\n".join(["GET /v1/models HTTP/1.1", *lines, "Connection: close", "", ""])
        )
    assert answer.startswith("HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "target",
    ["http://evil.example/v1/models", "http://localhost/v1/models", "localhost:80", "*", "v1/models"],
)
def test_a_target_that_is_no_path_is_refused(settings, runtime, target):
    with served(create_app(settings, runtime=runtime)) as client:
        head = f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        answer = exchange(client, head)
    assert answer.startswith("HTTP/1.1 400 ")
    assert "not a path" in answer


@pytest.mark.parametrize(("version", "status"), [("1.0", "403"), ("1.1", "400")])
def test_a_request_without_a_host_is_refused(settings, runtime, version, status):
    with served(create_app(settings, runtime=runtime)) as client:
        answer = exchange(client, f"GET /v1/toolsets HTTP/{version}\r\nConnection: close\r\n\r\n")
    assert answer.split()[1] == status


@pytest.mark.parametrize("key", ["clé-of-the-house", "ключ-от-всех-дверей", "鍵鍵鍵鍵鍵鍵鍵鍵"])
async def test_a_key_may_have_any_characters(client_with, key):
    as_latin = key.encode("latin-1", "ignore")
    is_latin = as_latin.decode("latin-1") == key
    spellings = {key.encode(): 200, as_latin: 200 if is_latin else 401, key[:-1].encode(): 401, b"": 401}
    async with client_with(api_key=key) as client:
        for spelling, status in spellings.items():
            headers = {"Authorization": b"Bearer " + spelling}
            assert (await client.get("/v1/models", headers=headers)).status_code == status


async def test_who_may_not_come_in_leaves_no_span_and_learns_of_no_route(with_keys, runtime):
    spans, tracing = InMemorySpanExporter(), TracerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(spans))
    traced = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    async with client_of(create_app(with_keys, runtime=runtime, tracer_provider=tracing)) as client:
        for path in ("/v1/toolsets/secret-name", "/v1/models", "/no/such/route"):
            for method in ("GET", "PUT", "POST", "DELETE", "OPTIONS"):
                assert (await client.request(method, path, headers=traced)).status_code == 401
    assert spans.get_finished_spans() == ()
