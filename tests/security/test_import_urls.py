"""URLs of imports: a client reaches nothing through the gateway that it could not reach itself."""

import asyncio
import gzip
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest
from keys import ADMIN, key_of
from mcp.server import MCPServer
from serving import served
from source_server import SHOP, document, operation, served_document, tool, web

from gateway.app import create_app
from gateway.errors import SettingsError, TooManyImports
from gateway.setting_sources import load, source_credentials, source_environment
from gateway.sources import outbound
from gateway.sources.outbound import (
    AddressRules,
    CheckedHosts,
    SourceAccess,
    SourceCredentials,
    read_networks,
)
from gateway.sources.source_process import NICENESS, SourceOrder, SourceProcesses
from gateway.sources.source_readers import from_mcp, from_openapi
from toolspecs.errors import UnreadableSource
from toolspecs.imports.openapi import EVERYTHING
from toolspecs.json_scan import ContentLimits

LOOPBACK = AddressRules(read_networks("127.0.0.0/8"))

NOT_PUBLIC = [
    *("127.0.0.1", "127.255.255.254", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1"),
    *("169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254"),
    *("198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "192.0.2.1"),
    *("::", "::1", "fe80::1", "fc00::1", "fec0::1", "ff02::1", "2001:db8::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1"),
    *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2001:0:7f00:1::"),
]


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_an_address_that_is_not_public_is_not_connected_to(address):
    assert not AddressRules().admits(address)


@pytest.mark.parametrize(
    "address", ["93.184.215.14", "8.8.8.8", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "::ffff:8.8.8.8"]
)
def test_a_public_address_is_admitted(address):
    assert AddressRules().admits(address)


def test_a_setting_admits_its_networks_and_no_others():
    rules = AddressRules(read_networks("10.1.0.0/16, fd00::/8"))
    assert [rules.admits(a) for a in ("10.1.2.3", "10.2.0.1", "fd00::1", "::ffff:10.1.0.1")] == [
        True,
        False,
        True,
        True,
    ]
    with pytest.raises(SettingsError, match="source_networks"):
        read_networks("10.1.0.0/33")


SPELLINGS = [
    "http://127.0.0.1:{port}/a",
    "http://localhost:{port}/a",
    "http://127.1:{port}/a",
    "http://0x7f000001:{port}/a",
    "http://2130706433:{port}/a",
    "http://0177.0.0.1:{port}/a",
    "http://0:{port}/a",
    "http://[::1]:{port}/a",
    "http://[::ffff:127.0.0.1]:{port}/a",
    "http://[::ffff:7f00:1]:{port}/a",
    "http://127.0.0.1:{port}@127.0.0.1:{port}/a",
    "http://①②⑦.0.0.1:{port}/a",
    "http://localhost.:{port}/a",
]


@pytest.mark.parametrize("url", SPELLINGS)
@pytest.mark.parametrize("kind", ["openapi", "mcp"])
def test_no_spelling_of_loopback_is_reached(url, kind):
    with web({"/a": served_document(SHOP)}) as (base, received):
        order = SourceOrder(kind=kind, url=url.format(port=base.rpartition(":")[2]))
        with pytest.raises(UnreadableSource):
            order.read()
        assert received == []


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://tools.example/a", "gopher://127.0.0.1/"])
def test_only_http_is_spoken(url):
    with pytest.raises(UnreadableSource):
        CheckedHosts(AddressRules()).address_of(*httpx_parts(url))


def httpx_parts(url):
    scheme, _, rest = url.partition("://")
    return scheme, rest.partition("/")[0], None


@pytest.fixture
def names(monkeypatch):
    """What names lead to, one answer after the other; who looks up a name uses an answer up."""
    answers = {}
    real = socket.getaddrinfo

    def look_up(host, port, *args, **kwargs):
        if host in answers:
            return [
                (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
                for address in answers[host].pop(0)
            ]
        return real(host, port, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return answers


def test_a_name_is_looked_up_once_and_that_address_is_connected_to(names):
    """A name server that answers the check with a good address and the connection with another one."""
    paths = {"/a": {"get": operation("a", {"$ref": "parts.yaml#/X"})}}
    answers = {"/api": served_document(paths), "/parts.yaml": (200, {}, b"X: {type: integer}")}
    names["tools.example"] = [["127.0.0.1"], ["10.0.0.1"]]
    with web(answers) as (base, received):
        port = base.rpartition(":")[2]
        imported = from_openapi(f"http://tools.example:{port}/api", {}, EVERYTHING, CheckedHosts(LOOPBACK))
    assert [tool.name for tool in imported.tools] == ["a"]
    assert [(path, headers["Host"]) for path, headers in received] == [
        ("/api", f"tools.example:{port}"),
        ("/parts.yaml", f"tools.example:{port}"),
    ]
    assert names["tools.example"] == [["10.0.0.1"]]


def test_a_name_that_leads_inside_is_refused_without_telling_where(names):
    names["inside.example"] = [["10.20.30.40"]]
    with pytest.raises(UnreadableSource) as error:
        from_openapi("http://inside.example/api", {}, EVERYTHING, CheckedHosts(AddressRules()))
    assert "source_networks" in str(error.value)
    assert "10.20" not in str(error.value)


def test_strangers_do_not_learn_which_names_the_gateways_network_has(names):
    """Refused for different reasons, names such as redis.internal could be tried."""
    names["inside.example"], names["nowhere.example"] = [["10.20.30.40"]], [[]]
    told = set()
    for name in ("inside.example", "nowhere.example", "a..b"):
        with pytest.raises(UnreadableSource) as error:
            CheckedHosts(AddressRules()).address_of("http", name, 80)
        told.add(error.value.reason)
    assert len(told) == 1


def test_a_name_that_nobody_answers_for_holds_no_import(monkeypatch):
    held = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: held.wait(60))
    monkeypatch.setattr(outbound, "LOOKUP_S", 0.1)
    start = time.monotonic()
    with pytest.raises(UnreadableSource, match="not found within"):
        from_openapi("http://slow.example/api", {}, EVERYTHING, CheckedHosts(AddressRules()))
    assert time.monotonic() - start < 20
    held.set()


def test_of_several_addresses_only_one_that_is_admitted_is_used(names):
    names["both.example"] = [["10.0.0.1", "127.0.0.1"]]
    assert CheckedHosts(LOOPBACK).address_of("http", "both.example", 80) == "127.0.0.1"


MOVED = (307, {"Location": "http://169.254.169.254/latest/meta-data"}, b"")
BOMB = (200, {"Content-Encoding": "gzip"}, gzip.compress(b"[" * 1_000_000))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(MOVED, "it redirects to http://169.254"), (BOMB, "compressed")],
)
def test_what_leads_elsewhere_or_is_not_what_it_seems_is_refused(answer, reason):
    hosts = CheckedHosts(LOOPBACK)
    with web({"/a": answer}) as (base, received):
        with pytest.raises(UnreadableSource, match=reason):
            from_openapi(f"{base}/a", {}, EVERYTHING, hosts)
        with pytest.raises(UnreadableSource, match=reason):
            from_mcp(f"{base}/a", {}, None, CheckedHosts(LOOPBACK))
        assert {headers["Accept-Encoding"] for _, headers in received} == {"identity"}
        assert {path for path, _ in received} == {"/a"}


def test_all_answers_together_are_bounded(monkeypatch):
    monkeypatch.setattr("gateway.sources.source_readers.MAX_BYTES", 3000)
    paths = {f"/{i}": {"get": operation(f"o{i}", {"$ref": f"{i}.yaml#/X"})} for i in range(3)}
    answers = {f"/{i}.yaml": (200, {}, b"X: {type: integer, title: " + b"a" * 900 + b"}") for i in range(3)}
    with web({"/a": served_document(paths), **answers}) as (base, _):
        imported = from_openapi(f"{base}/a", {}, EVERYTHING, CheckedHosts(LOOPBACK))
    [fault] = imported.faults
    assert fault.tool == "o2"
    assert "larger than an import may be" in fault.message
    refused = pytest.raises(UnreadableSource, match="larger than an import may be")
    listing = (200, {"Content-Type": "application/json"}, b"{" + b" " * 4000 + b"}")
    with web({"/mcp": listing}) as (base, _), refused:
        from_mcp(f"{base}/mcp", {}, None, CheckedHosts(LOOPBACK))


def test_an_error_that_a_server_writes_is_told_in_short():
    """Its whole text may have the 16 MB that a toolset may have."""
    error = UnreadableSource("https://a.example/mcp", "x" * 100_000)
    assert len(error.reason) == 1000
    assert len(str(error)) < 1500


@pytest.fixture
def processes():
    """Reads sources in processes, with little processor time."""
    return SourceProcesses(
        max_bytes=100_000,
        contents=ContentLimits(num_values=10_000),
        access=SourceAccess("127.0.0.0/8"),
        environment=source_environment(),
        processor_s=2,
    )


def ladder(num_rungs):
    """Schemas each of which names the next one twice: a short text with two to the power of its rungs paths."""
    next_twice = {
        f"S{i}": {"allOf": [{"$ref": f"#/components/schemas/S{i + 1}"}] * 8} for i in range(num_rungs)
    }
    schemas = {**next_twice, f"S{num_rungs}": {"properties": {"a": {}}}}
    paths = {"/a": {"get": operation("a", {"allOf": [{"$ref": "#/components/schemas/S0"}]})}}
    return json.dumps({**document(paths), "components": {"schemas": schemas}})


async def test_a_document_that_takes_too_long_ends_with_its_process(processes):
    with pytest.raises(UnreadableSource, match="too much time or memory"):
        await processes.read(SourceOrder(kind="openapi", document=ladder(19)))


async def test_tools_that_are_too_large_for_a_client_to_send_are_too_large_to_import(processes):
    large = {f"/{i}": {"get": operation(f"o{i}", {"enum": list(range(500))})} for i in range(50)}
    with pytest.raises(UnreadableSource, match="choose fewer operations"):
        await processes.read(SourceOrder(kind="openapi", document=json.dumps(document(large))))


async def test_few_sources_are_read_at_once():
    processes = SourceProcesses(
        max_bytes=1000, contents=ContentLimits(), access=SourceAccess(), max_imports=2
    )
    order = SourceOrder(kind="openapi", document="{}")
    tasks = [asyncio.create_task(processes.read(order, client_id)) for client_id in ("a", "a", "b", "c")]
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in results] == [
        UnreadableSource,
        TooManyImports,
        UnreadableSource,
        TooManyImports,
    ]
    with pytest.raises(UnreadableSource):
        await processes.read(order, "a")


def test_a_process_that_reads_has_none_of_the_gateways_secrets():
    environment = {
        "PATH": "/bin",
        "CALLGATE_SECRET": "s",
        "CALLGATE_SOURCE_TOKEN": "t",
        "SSL_CERT_FILE": "/c",
        "SSL_CERT_DIR": "",
    }
    assert source_environment(environment) == {"PATH": "/bin", "SSL_CERT_FILE": "/c"}


TOKEN = SourceCredentials(token="secret")


@pytest.mark.parametrize(
    ("url", "is_shown"),
    [
        ("https://tools.example/mcp", True),
        ("https://TOOLS.example:443/other", True),
        ("http://tools.example/mcp", False),
        ("https://tools.example:8443/mcp", False),
        ("https://tools.example.evil.example/mcp", False),
        ("https://tools.example@evil.example/mcp", False),
        ("https://evil.example/https://tools.example", False),
        (None, False),
    ],
)
def test_the_gateways_token_goes_to_its_own_sources_alone(url, is_shown):
    access = SourceAccess(credentials=TOKEN, origins="https://tools.example, https://more.example:8443")
    assert (access.credentials_for(url) == TOKEN) == is_shown


def test_who_sends_a_header_of_its_own_is_not_given_the_token():
    assert TOKEN.headers({}) == {"Authorization": "Bearer secret"}
    assert TOKEN.headers({"authorization": "Basic x"}) == {"authorization": "Basic x"}
    assert "secret" not in repr(TOKEN)


@pytest.mark.parametrize(
    ("options", "setting"),
    [
        ({"source_networks": "here"}, "source_networks"),
        ({"source_origins": "tools.example"}, "source_origins"),
        ({"source_origins": "https://tools.example/mcp"}, "source_origins"),
        ({"source_client_id": "id"}, "source_issuer"),
        ({"source_issuer": "https://login.example"}, "source_client_id"),
    ],
)
def test_a_setting_that_cannot_hold_ends_the_start(options, setting, runtime, tmp_path):
    settings = load({"data_dir": str(tmp_path), **options}, environment={})
    with pytest.raises(SettingsError, match=setting):
        create_app(settings, runtime=runtime)


def test_commands_have_their_credentials_from_the_environment():
    assert source_credentials({"CALLGATE_SOURCE_TOKEN": "t"}) == SourceCredentials("t")
    with pytest.raises(SettingsError, match="source_issuer"):
        source_credentials({"CALLGATE_SOURCE_CLIENT_ID": "id"})


@pytest.mark.parametrize(
    ("kind", "url"),
    [
        ("openapi", "http://xn--/a"),
        ("openapi", "https://a.xn--80/"),
        ("mcp", "http://xn--/a"),
        ("mcp", "http://xn--a-/"),
    ],
)
async def test_a_host_that_stands_for_no_name_is_refused(client, kind, url):
    answer = await client.post("/v1/toolsets/x/import", json={kind: {"url": url}})
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:callgate:unreadable-source")
    assert "xn--" in answer.json()["detail"]


async def test_a_client_of_the_gateway_does_not_reach_its_loopback(client_with):
    server = MCPServer("Inside")
    with served(server.streamable_http_app(host="127.0.0.1")) as inside:
        async with client_with() as client:
            body = {"mcp": {"url": f"{inside.base_url}/mcp"}}
            answer = await client.post("/v1/toolsets/x/import", json=body)
            assert (answer.status_code, answer.json()["type"]) == (422, "urn:callgate:unreadable-source")
            assert "source_networks" in answer.json()["detail"]
            assert (await client.get("/v1/toolsets")).json()["toolsets"] == []


async def test_what_an_import_is_sent_with_is_kept_nowhere(client_with, caplog):
    with web({"/a": served_document(SHOP)}) as (base, received):
        async with client_with(source_networks="127.0.0.0/8") as client:
            source = {"url": f"{base}/a", "headers": {"Authorization": "Bearer of-the-client"}}
            assert (await client.post("/v1/toolsets/x/import", json={"openapi": source})).status_code == 201
            assert received[0][1]["Authorization"] == "Bearer of-the-client"
            assert "of-the-client" not in (await client.get("/v1/toolsets/x?shape=mcp")).text
    assert "of-the-client" not in caplog.text


async def test_a_tenant_neither_sees_nor_accepts_what_is_offered_to_another(client_with):
    async with client_with(api_key=ADMIN) as client:
        ours, theirs = [await key_of(client, scopes=["register"], tenant=each) for each in "ab"]
        for description in ("One.", "Two."):
            listing = {
                "kind": "mcp",
                "location": "https://a.example",
                "tools": [tool("pay", None, description)],
            }
            await client.post("/v1/toolsets/x/import", json={"listing": listing}, headers=ours)
        path = "/v1/toolsets/x"
        assert (await client.get(f"{path}/differences", headers=theirs)).status_code == 404
        for verb in ("accept", "decline"):
            assert (await client.post(f"{path}/{verb}", json={}, headers=theirs)).status_code == 404
        assert (await client.post(f"{path}/accept", json={}, headers=ours)).status_code == 200


def test_what_reads_a_source_leaves_the_processor_to_others():
    program = (
        "import os, sys\n"
        "from gateway.sources.source_process import read_order\n"
        "read_order()\n"
        "sys.stderr.write(str(os.nice(0)))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        input=msgspec.json.encode(SourceOrder(kind="openapi", document="{}")),
        capture_output=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert b"unreadable" in ran.stdout
    assert int(ran.stderr) == min(os.nice(0) + NICENESS, 19)


def test_what_reads_a_source_reads_no_files_of_the_gateway(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("s3cret")
    program = (
        "import json, socket, ssl, sys\n"
        "from gateway.sources.source_process import confine\n"
        "missing = confine()\n"
        "socket.getaddrinfo('localhost', 80), ssl.create_default_context()\n"
        "from gateway.sources import mcp_source\n"
        "try:\n"
        "    open(sys.argv[1])\n"
        "except OSError as error:\n"
        "    print(json.dumps([missing, type(error).__name__]))\n"
        "else:\n"
        "    print(json.dumps([missing, None]))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, str(secret)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    missing, error = json.loads(ran.stdout)
    if missing:
        pytest.skip(f"this system cannot cut a process off from {missing}")
    assert error == "PermissionError"
