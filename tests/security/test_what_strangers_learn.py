"""What people learn who have no key: other users of the machine, and whoever asks the probes."""

import os
import re

import pytest

from gateway.data_dir import open_store_of
from gateway.settings import Settings
from runtime.protocol import Circuit, Health, ReplicaState
from toolspecs.errors import StoreFull, StoreUnavailable
from toolspecs.stores import SQLiteStore, open_store

TOOLS = {"tools": [{"name": "ping", "inputSchema": {"type": "object"}}]}


@pytest.fixture
def _shares_all():
    """A process whose new files are readable by everyone."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_shares_all")
async def test_no_other_user_reads_what_is_registered(client_with, tmp_path):
    folder = tmp_path / "data"
    async with client_with(data_dir=str(folder), secret=None) as client:
        assert (await client.put("/v1/toolsets/x", json=TOOLS)).status_code == 201
        modes = {path.name: path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())}
    assert modes == {
        "data": 0o700,
        "secret": 0o600,
        **dict.fromkeys(["callgate.db", "callgate.db-shm", "callgate.db-wal"], 0o600),
    }


@pytest.mark.usefixtures("_shares_all")
async def test_a_named_database_is_made_for_its_owner_and_else_left_alone(tmp_path):
    path, shared = tmp_path / "own.db", tmp_path / "shared.db"
    shared.touch(mode=0o660)
    for file, mode in ((path, 0o600), (shared, 0o660)):
        store = open_store(f"sqlite://{file}")
        await store.set("a", b"b")
        assert file.stat().st_mode & 0o777 == mode
        await store.close()


async def test_a_database_that_everyone_could_read_is_closed_to_them(tmp_path):
    database = tmp_path / "callgate.db"
    database.touch(mode=0o644)
    store = open_store_of(Settings(data_dir=str(tmp_path), secret="0123456789abcdef"))
    await store.ping()
    assert database.stat().st_mode & 0o077 == 0
    await store.close()


@pytest.mark.parametrize(
    ("method", "path", "kind", "told"),
    [
        ("GET", "/v1/toolsets", StoreUnavailable, "the store cannot be used"),
        ("PUT", "/v1/toolsets/mail", StoreFull, "the store is full"),
    ],
)
async def test_answers_while_the_store_fails_tell_no_paths(
    client, monkeypatch, caplog, method, path, kind, told
):
    """Neither the database's file nor the host of the Redis server."""

    async def fail(self, connection, statement, values):
        raise kind("sqlite:///srv/secret/callgate.db", "unable to open /srv/secret/callgate.db")

    monkeypatch.setattr(SQLiteStore, "_rows", fail)
    answer = await client.request(method, path, json=TOOLS if method == "PUT" else None)
    assert answer.status_code in {503, 507}
    assert told in answer.text
    assert "/srv" not in answer.text
    assert "/srv/secret" in caplog.text, "the operator is told"


async def test_probes_tell_no_paths(client, runtime, tmp_path):
    (tmp_path / "callgate.db").mkdir()
    told = [await client.get(path) for path in ("/healthz", "/readyz")]
    runtime.health_now = Health(is_ready=False, reason=f"no {tmp_path}/weights", is_lost=True)
    told += [await client.get(path) for path in ("/healthz", "/readyz")]
    assert [answer.status_code for answer in told[2:]] == [503, 503]
    for answer in told:
        assert str(tmp_path) not in answer.text


async def test_the_probe_tells_no_addresses_of_engines(client, runtime):
    def engine(reason):
        return ReplicaState("big", "gpu.internal:8000", Circuit.OPEN, reason, "", 0, 0, 0, 0, None)

    said = "cannot be reached: no address for gpu.internal"
    runtime.health_now = Health(
        is_ready=False, reason=f"the engine gpu.internal:8000 {said}", engines=(engine(said), engine(said))
    )
    answer = await client.get("/readyz")
    engines = await client.get("/v1/engines")
    assert answer.status_code == 503
    assert answer.json()["reason"] == "an engine cannot be reached"
    assert said in engines.text


async def test_no_page_loads_anything_from_elsewhere(client):
    assert "/v1/chat/completions" in (await client.get("/openapi.json")).json()["paths"]
    page = await client.get("/docs")
    assert not re.search(r"<script|<link|<img|src=|https?://|@import|url\(", page.text)
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    for path in ("", "/swagger", "/redoc", "/elements", "/rapidoc", "/scalar", "/openapi.yaml"):
        assert (await client.get(f"/schema{path}")).status_code == 404
