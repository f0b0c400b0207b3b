"""API keys of the store: made, used, rotated and revoked; what is stored of them, and what an outage leaves."""

import asyncio
from datetime import timedelta

import pytest
from keys import ADMIN, bearer
from moved_clock import Clock
from opened_store import opened
from serving import served
from troubled_stores import OutageStore, RepeatingStore

from gateway.access.api_keys import FRESH_S, RECORDS, STALE_S, ApiKeys, KeyTerms
from gateway.errors import InvalidField, KeysUnavailable, UnknownKey

TERMS = {"name": "agent", "scopes": ["invoke"]}


@pytest.fixture
async def store():
    async with opened("sqlite://:memory:") as store:
        yield OutageStore(store)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def keys(store, clock):
    return ApiKeys(store, clock, clock.elapsed_s)


def terms(**fields):
    return KeyTerms(**{"name": "agent", "scopes": ("invoke",), **fields})


async def test_a_key_is_found_and_only_its_digest_is_stored(keys, store):
    made = await keys.create(terms())
    grant = await keys.find(made.text.encode())
    assert (grant.key_id, grant.scopes) == (made.record.key_id, {"invoke"})
    content = await store.get(RECORDS + made.record.key_id)
    assert made.text.encode() not in content
    assert made.text.split("_", 2)[2].encode() not in content


async def test_whether_there_are_keys_is_known_from_the_first(keys, store, monkeypatch):
    """Else each start of a gateway would look at all keys of Redis."""
    assert not await keys.has_any()
    for _ in range(3):
        await keys.create(terms())
    scan, seen = store.scan, []

    async def watched(prefix):
        async for key in scan(prefix):
            seen.append(key)
            yield key

    monkeypatch.setattr(store, "scan", watched)
    assert await keys.has_any()
    assert len(seen) == 1


@pytest.mark.parametrize("change", [lambda t: t[:-1], lambda t: t + "A", lambda t: t[:-1] + "!", str.upper])
async def test_what_is_almost_a_key_is_none(keys, change):
    made = await keys.create(terms())
    assert await keys.find(change(made.text).encode()) is None


async def test_another_keys_secret_under_this_id_is_none(keys):
    first, second = [await keys.create(terms()) for _ in range(2)]
    mixed = f"cg_{first.record.key_id}_{second.text.split('_', 2)[2]}"
    assert await keys.find(mixed.encode()) is None


async def test_a_key_expires(keys, clock):
    made = await keys.create(terms(expires_at=clock.now + timedelta(seconds=60)))
    clock.pass_by(seconds=59)
    assert await keys.find(made.text.encode())
    clock.pass_by(seconds=1)
    assert await keys.find(made.text.encode()) is None
    assert [record.is_expired(clock.now) for record in await keys.records()] == [True]


async def test_a_rotated_key_is_good_for_a_while(keys, clock):
    first = await keys.create(terms())
    second = await keys.rotate(first.record.key_id, grace_s=60)
    third = await keys.rotate(first.record.key_id, grace_s=60)
    texts = [made.text.encode() for made in (first, second, third)]
    assert [bool(await keys.find(text)) for text in texts] == [False, True, True]
    clock.pass_by(seconds=60)
    assert [bool(await keys.find(text)) for text in texts] == [False, False, True]


async def test_a_change_that_the_driver_repeats_is_made_once(store, clock):
    """Made twice, a rotation would end the old secret at once, and a revocation would find no such key."""
    keys = ApiKeys(RepeatingStore(store), clock, clock.elapsed_s)
    first = await keys.create(terms())
    second = await keys.rotate(first.record.key_id, grace_s=60)
    for made in (first, second):
        assert (await keys.find(made.text.encode())).key_id == first.record.key_id
    await keys.revoke(first.record.key_id)
    assert await keys.find(second.text.encode()) is None


class PausingStore:
    """A store that gives what it has read later, while `pauses` is set."""

    def __init__(self, store):
        self._store = store
        self.pauses = False
        self.has_read, self.goes_on = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def get(self, key):
        is_paused, content = self.pauses, await self._store.get(key)
        if is_paused:
            self.has_read.set()
            await self.goes_on.wait()
        return content


@pytest.mark.parametrize("change", [ApiKeys.revoke, lambda keys, key_id: keys.rotate(key_id, 0)])
async def test_a_key_that_changes_while_it_is_read_is_not_cached(store, clock, change):
    """Else a gateway would take a key that it has just revoked for as long as a cached record is good."""
    pausing = PausingStore(store)
    keys = ApiKeys(pausing, clock, clock.elapsed_s)
    made = await keys.create(terms())
    pausing.pauses = True
    finding = asyncio.create_task(keys.find(made.text.encode()))
    await pausing.has_read.wait()
    pausing.pauses = False
    await change(keys, made.record.key_id)
    pausing.goes_on.set()
    await finding
    clock.pass_by(seconds=1)
    assert await keys.find(made.text.encode()) is None


async def test_another_gateway_learns_of_a_revocation_within_seconds(keys, store, clock):
    other = ApiKeys(store, clock, clock.elapsed_s)
    made = await keys.create(terms())
    assert await other.find(made.text.encode())
    await keys.revoke(made.record.key_id)
    assert await keys.find(made.text.encode()) is None
    clock.pass_by(seconds=FRESH_S)
    assert await other.find(made.text.encode()) is None
    with pytest.raises(UnknownKey):
        await keys.revoke(made.record.key_id)


async def test_another_gateway_takes_a_new_secret_at_once(keys, store, clock):
    """Also while the record from before the rotation is in its cache."""
    other = ApiKeys(store, clock, clock.elapsed_s)
    first = await keys.create(terms())
    assert await other.find(first.text.encode())
    second = await keys.rotate(first.record.key_id, grace_s=0)
    assert await other.find(second.text.encode())
    assert await other.find(first.text.encode()) is None


async def test_a_new_secret_that_cannot_be_looked_up_waits_for_the_store(keys, store, clock):
    """It may be right, and clients give up if it is refused as wrong."""
    other = ApiKeys(store, clock, clock.elapsed_s)
    first = await keys.create(terms())
    assert await other.find(first.text.encode())
    second = await keys.rotate(first.record.key_id)
    store.is_out = True
    with pytest.raises(KeysUnavailable):
        await other.find(second.text.encode())


async def test_a_clock_that_is_set_back_keeps_no_revoked_key(keys, store, clock):
    """What is cached ages by the time that passes, not by the time of day."""
    other = ApiKeys(store, clock, clock.elapsed_s)
    made = await keys.create(terms())
    assert await other.find(made.text.encode())
    await keys.revoke(made.record.key_id)
    clock.pass_by(seconds=FRESH_S)
    clock.now -= timedelta(hours=1)
    assert await other.find(made.text.encode()) is None


async def test_while_the_store_is_out_keys_seen_lately_go_on_and_others_wait(keys, store, clock):
    seen, unseen = [await keys.create(terms()) for _ in range(2)]
    assert await keys.find(seen.text.encode())
    store.is_out = True
    clock.pass_by(seconds=STALE_S - 1)
    assert await keys.find(seen.text.encode())
    assert await keys.find(b"not-a-key-of-the-store") is None
    with pytest.raises(KeysUnavailable):
        await keys.find(unseen.text.encode())
    clock.pass_by(seconds=1)
    with pytest.raises(KeysUnavailable):
        await keys.find(seen.text.encode())
    store.is_out = False
    assert await keys.find(unseen.text.encode())


async def test_a_damaged_record_opens_nothing(keys, store):
    made = await keys.create(terms())
    await store.set(RECORDS + made.record.key_id, b'{"key_id": 1}')
    assert await keys.find(made.text.encode()) is None
    assert await keys.records() == []


@pytest.mark.parametrize("field", ["tenant", "toolsets", "models"])
async def test_an_admin_key_cannot_be_bound(keys, field):
    bound = {"tenant": "acme", "toolsets": ("mail",), "models": ("demo",)}
    with pytest.raises(InvalidField) as raised:
        await keys.create(terms(scopes=("admin",), **{field: bound[field]}))
    assert raised.value.param == field


@pytest.fixture
async def admin(client_with):
    async with client_with(api_key=ADMIN) as client:
        client.headers.update(bearer(ADMIN))
        yield client


async def test_keys_are_made_listed_rotated_and_revoked_over_http(admin):
    made = (await admin.post("/v1/keys", json={**TERMS, "toolsets": ["mail"]})).json()
    own = bearer(made["key"])
    assert (await admin.get("/v1/models", headers=own)).status_code == 200
    listed = (await admin.get("/v1/keys")).json()["keys"]
    assert [(key["id"], key["toolsets"], "key" in key) for key in listed] == [(made["id"], ["mail"], False)]
    rotated = (await admin.post(f"/v1/keys/{made['id']}/rotate", json={"grace_seconds": 0})).json()
    assert (await admin.get("/v1/models", headers=own)).status_code == 401
    own = bearer(rotated["key"])
    assert (await admin.get("/v1/models", headers=own)).status_code == 200
    assert (await admin.post(f"/v1/keys/{made['id']}/rotate")).status_code == 200
    assert (await admin.get("/v1/models", headers=own)).status_code == 200
    assert (await admin.get(f"/v1/keys/{made['id']}")).json()["old_secret_ends_at"]
    assert (await admin.delete(f"/v1/keys/{made['id']}")).status_code == 204
    assert (await admin.get("/v1/models", headers=own)).status_code == 401
    assert (await admin.get(f"/v1/keys/{made['id']}")).json()["type"] == "urn:callgate:unknown-key"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"scopes": []}, "scopes"),
        ({"scopes": ["metrics"]}, "scopes[]"),
        ({"name": ""}, "name"),
        ({"tenant": "A/b"}, "tenant"),
        ({"tenant": "acme\n"}, "tenant"),
        ({"toolsets": ["mail\n"]}, "toolsets[]"),
        ({"toolsets": ["../x"]}, "toolsets[]"),
        ({"models": []}, "models"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
        ({"expires_at": "2036-01-01T00:00:00"}, "expires_at"),
        ({"requests_per_minute": 0}, "requests_per_minute"),
        ({"tenent": "acme"}, "tenent"),
    ],
)
async def test_bad_terms_are_refused_by_their_field(admin, fields, field):
    answer = await admin.post("/v1/keys", json=TERMS | fields)
    assert (answer.status_code, answer.json()["field"]) == (400, field.replace("[]", "[0]"))
    assert (await admin.get("/v1/keys")).json() == {"keys": [], "next": None}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"scopes": ["invok"]},
            "'invok' is not one of its values; did you mean 'invoke'? There are 'admin', 'invoke'",
        ),
        ({"expires_at": "2036-01-01T00:00:00"}, "it must tell its zone, as 2030-12-31T23:59:59Z"),
        ({"expires_at": "tomorrow"}, "it must be a time such as 2030-12-31T23:59:59Z"),
        ({"expires_at": True}, "it must be a time such as 2030-12-31T23:59:59Z or null, not true or false"),
    ],
)
async def test_a_refused_term_says_what_is_taken(admin, fields, said):
    answer = await admin.post("/v1/keys", json=TERMS | fields)
    assert said in answer.json()["detail"]


def test_keys_are_made_on_the_store_from_a_shell(run, tmp_path):
    made = run("keys", "create", "first", "--scope", "admin", "--data-dir", str(tmp_path))
    assert made.exit_code == 0, made.stderr
    text = made.stdout.strip()
    key_id = text.split("_")[1]
    assert key_id in run("keys", "list", "--data-dir", str(tmp_path)).stdout
    rotated = run("keys", "rotate", key_id, "--data-dir", str(tmp_path)).stdout.strip()
    assert rotated.startswith(f"cg_{key_id}_")
    assert rotated != text
    assert run("keys", "revoke", key_id, "--data-dir", str(tmp_path)).exit_code == 0
    again = run("keys", "revoke", key_id, "--data-dir", str(tmp_path))
    assert (again.exit_code, "there is no API key" in again.stderr) == (1, True)


@pytest.mark.parametrize("command", [["list"], ["rotate", "k"], ["revoke", "k"]])
def test_only_a_new_key_makes_a_store(run, tmp_path, command):
    refused = run("keys", *command, "--data-dir", str(tmp_path / "typo"))
    assert refused.exit_code == 1
    assert f"setting 'data_dir': there is no store {tmp_path}/typo/callgate.db" in refused.stderr
    assert not list(tmp_path.iterdir())


def test_a_gateway_that_requires_keys_lets_in_those_of_its_store(run, app_with, tmp_path):
    text = run("keys", "create", "first", "--scope", "admin", "--data-dir", str(tmp_path)).stdout.strip()
    with served(app_with(require_keys=True)) as client:
        assert client.get("/v1/keys").status_code == 401
        answer = client.get("/v1/keys", headers=bearer(text))
        assert [key["name"] for key in answer.json()["keys"]] == ["first"]
        assert client.get("/healthz").json() == {"status": "ok"}


async def test_keys_are_listed_page_by_page(admin):
    made = [(await admin.post("/v1/keys", json={**TERMS, "name": f"k{i}"})).json()["id"] for i in range(5)]
    pages, after = [], None
    while not pages or after:
        asked = {"limit": 2, **({"after": after} if after else {})}
        page = (await admin.get("/v1/keys", params=asked)).json()
        pages.append([key["id"] for key in page["keys"]])
        after = page["next"]
    assert [len(page) for page in pages] == [2, 2, 1]
    assert [key_id for page in pages for key_id in page] == made
    assert (await admin.get("/v1/keys", params={"after": "0" * 16})).status_code == 404
