"""What a tenant does changes nothing that another one can read; a bound key has what it is bound to only."""

import asyncio
import re
from itertools import product

import pytest
from chat import URL, body
from fake_runtime import FakeRuntime
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keys import ADMIN, bearer, key_of
from sample_tools import TIME, WEATHER
from served_routes import handlers
from serving import client_of

from gateway.app import create_app
from gateway.settings import Settings
from gateway.store_upkeep import collect_all
from runtime.protocol import Circuit, Health, ReplicaState
from toolspecs.errors import StoreUnavailable
from toolspecs.revisions.collector import Retention
from toolspecs.stores import open_store

BOTH = ["invoke", "register"]
NAMES = ("mail", "weather", "weathr")


def put_toolset(name, tools):
    return ("PUT", f"/v1/toolsets/{name}", {"tools": list(tools)})


ACTIONS = st.one_of(
    st.builds(put_toolset, st.sampled_from(NAMES), st.sampled_from([(WEATHER,), (TIME,), (WEATHER, TIME)])),
    st.builds(lambda name: ("DELETE", f"/v1/toolsets/{name}", None), st.sampled_from(NAMES)),
    st.builds(lambda name: ("DELETE", f"/v1/toolsets/{name}/tools/clock.now", None), st.sampled_from(NAMES)),
    st.builds(
        lambda name, n: ("POST", f"/v1/toolsets/{name}/revisions/{n}/restore", None),
        st.sampled_from(NAMES),
        st.integers(1, 3),
    ),
    st.builds(lambda name: ("GET", f"/v1/toolsets/{name}/report", None), st.sampled_from(NAMES)),
    st.builds(lambda name: ("POST", URL, body(toolset=name)), st.sampled_from(NAMES)),
    st.builds(lambda tool: ("POST", URL, body(tools=[tool])), st.just(WEATHER)),
    st.just(("POST", "/v1/responses", {"model": "tiny", "input": "Hi"})),
)

VALUES = {
    "toolset": [*NAMES, "unknown", "BAD"],
    "tool": ["get_weather", "clock.now"],
    "number": ["1", "2", "3"],
    "model_id": ["tiny", "other", *(f"tiny:{name}" for name in NAMES)],
    "key_id": ["0" * 16],
    "request_id": ["x"],
    "digest": ["0" * 64],
    "path": ["x"],
}


def every_get(app, response_ids):
    """The paths of every GET route, with every value of its parameters."""
    values = {**VALUES, "response_id": response_ids}
    for template in {path for method, path, _ in handlers(app) if method == "GET"}:
        names = re.findall(r"\{(\w+)(?::\w+)?\}", template)
        for chosen in product(*(values[name] for name in names)):
            path = template
            for name, value in zip(names, chosen, strict=True):
                path = re.sub(rf"\{{{name}(:\w+)?\}}", value, path)
            yield path.replace("//", "/")


async def answers(client, app, own, response_ids):
    """All that a tenant can read: statuses, contents and revisions."""
    read = {}
    for path in every_get(app, response_ids):
        answer = await client.get(path, headers=own)
        read[path] = (answer.status_code, answer.headers.get("etag"), answer.text)
    return read


async def response_of(client, own):
    made = await client.post("/v1/responses", json={"model": "tiny", "input": "Hi"}, headers=own)
    return made.json()["id"]


@pytest.mark.parametrize("other", ["acme", None], ids=["of a tenant", "without a tenant"])
@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=st.lists(ACTIONS, min_size=8, max_size=20))
def test_what_another_does_changes_nothing_that_a_tenant_can_read(tmp_path_factory, other, actions):
    async def played():
        folder = tmp_path_factory.mktemp("data")
        own_settings = Settings(
            data_dir=str(folder), secret="0123456789abcdef", compile_workers=0, api_key=ADMIN
        )
        app = create_app(own_settings, runtime=FakeRuntime())
        async with client_of(app) as client:
            theirs = await key_of(client, scopes=BOTH, tenant=other)
            own = await key_of(client, scopes=BOTH, tenant="bolt")
            method, path, body = put_toolset("mail", [TIME])
            assert (await client.request(method, path, json=body, headers=own)).status_code == 201
            ids = [await response_of(client, own), await response_of(client, theirs)]
            before = await answers(client, app, own, ids)
            assert before["/v1/toolsets/mail"][0] == 200
            assert before[f"/v1/responses/{ids[0]}"][0] == 200
            assert before[f"/v1/responses/{ids[1]}"][0] == 404
            for method, path, body in actions:
                await client.request(method, path, json=body, headers=theirs)
            assert await answers(client, app, own, ids) == before

    asyncio.run(played())


@pytest.fixture
async def client(client_with):
    async with client_with(api_key=ADMIN) as client:
        yield client


async def test_one_name_is_two_toolsets_for_two_tenants(client):
    acme, bolt = [await key_of(client, scopes=BOTH, tenant=name) for name in ("acme", "bolt")]
    for own, tool in ((acme, WEATHER), (bolt, TIME)):
        made = await client.put("/v1/toolsets/x", json={"tools": [tool]}, headers=own)
        assert (made.status_code, made.json()["revision"]) == (201, 1)
    listed = [(await client.get("/v1/toolsets", headers=own)).json()["toolsets"] for own in (acme, bolt)]
    assert [[one["name"] for one in page] for page in listed] == [["x"], ["x"]]
    assert listed[0][0]["digest"] != listed[1][0]["digest"]
    admin = bearer(ADMIN)
    assert (await client.get("/v1/toolsets", headers=admin)).json()["toolsets"] == []


async def test_keys_of_a_tenant_share_its_toolsets_and_not_their_conversations(client):
    first, second = [await key_of(client, scopes=BOTH, tenant="acme") for _ in range(2)]
    await client.put("/v1/toolsets/x", json={"tools": [TIME]}, headers=first)
    assert (await client.get("/v1/toolsets/x", headers=second)).status_code == 200
    response_id = await response_of(client, first)
    assert (await client.get(f"/v1/responses/{response_id}", headers=second)).status_code == 404


async def test_an_answer_does_not_tell_a_tenant_what_was_cached(client, runtime):
    acme, bolt, plain = [await key_of(client, scopes=BOTH, tenant=name) for name in ("acme", "bolt", None)]
    asked = body(tools=[WEATHER])
    told = [
        (await client.post(URL, json=asked, headers=own)).json()["callgate"] for own in (acme, bolt, plain)
    ]
    assert [one["grammar_source"] for one in told] == [None, None, "memory"]
    assert [one["grammar_wait_ms"] is None for one in told] == [True, True, False]
    for own, sources in ((bolt, [None]), (plain, ["memory"])):
        listed = (await client.get("/v1/requests", headers=own)).json()["requests"]
        assert [one["grammar_source"] for one in listed] == sources
    assert [request.client_id for request in runtime.requests[:2]] == ["tenant acme", "tenant bolt"]


async def test_a_report_does_not_tell_a_tenant_how_long_compiling_took_for_another(client):
    """It would tell that another tenant has the same schema."""
    acme, bolt, plain = [await key_of(client, scopes=BOTH, tenant=name) for name in ("acme", "bolt", None)]
    for own, is_told in ((acme, False), (bolt, False), (plain, True)):
        checked = await client.post("/v1/toolsets/x/check", json={"tools": [WEATHER]}, headers=own)
        await client.put("/v1/toolsets/x", json={"tools": [WEATHER]}, headers=own)
        report = await client.get("/v1/toolsets/x/report", headers=own)
        for [tool] in (checked.json()["tools"], report.json()["tools"]):
            assert (tool["compile_ms"] is not None) == is_told


async def test_old_revisions_of_tenants_are_collected(client, settings, tmp_path):
    own = await key_of(client, scopes=BOTH, tenant="acme")
    for tools in ([WEATHER], [TIME], [WEATHER, TIME]):
        await client.put("/v1/toolsets/x", json={"tools": tools}, headers=own)
    store = open_store(f"sqlite://{tmp_path}/callgate.db")
    collected = await collect_all(store, Retention(revisions=1))
    await store.close()
    assert collected.num_revisions == 2
    assert (await client.get("/v1/toolsets/x/revisions/1", headers=own)).status_code == 410
    assert (await client.get("/v1/toolsets/x", headers=own)).status_code == 200


async def test_many_tenants_take_no_more_scans_than_one(client, tmp_path, monkeypatch):
    """Redis looks at all its keys in each scan: one for each of 50 tenants could take it 17 s."""
    store = open_store(f"sqlite://{tmp_path}/callgate.db")
    scanned, scan = [], store.scan

    def counting(prefix):
        scanned.append(prefix)
        return scan(prefix)

    monkeypatch.setattr(store, "scan", counting)
    num_scans = []
    for tenants in (["acme"], ["bolt", "cord", "dune"]):
        for tenant in tenants:
            own = await key_of(client, scopes=BOTH, tenant=tenant)
            for tools in ([WEATHER], [TIME]):
                await client.put("/v1/toolsets/x", json={"tools": tools}, headers=own)
        scanned.clear()
        assert (await collect_all(store, Retention(revisions=1))).num_revisions == len(tenants)
        num_scans.append(len(scanned))
    await store.close()
    assert num_scans[0] == num_scans[1]


async def test_what_fails_for_one_tenant_is_collected_for_the_others(
    client, settings, tmp_path, monkeypatch, caplog
):
    for tenant in ("acme", "bolt", "cord"):
        own = await key_of(client, scopes=BOTH, tenant=tenant)
        for tools in ([WEATHER], [TIME]):
            await client.put("/v1/toolsets/x", json={"tools": tools}, headers=own)
    store = open_store(f"sqlite://{tmp_path}/callgate.db")
    get_many, faults = (
        store.get_many,
        {"acme": StoreUnavailable("a test", "it is out"), "bolt": ValueError("a bug")},
    )

    async def failing(keys):
        for tenant, fault in faults.items():
            if any(key.startswith(f"tenant/{tenant}/") for key in keys):
                raise fault
        return await get_many(keys)

    monkeypatch.setattr(store, "get_many", failing)
    assert (await collect_all(store, Retention(revisions=1))).num_revisions == 1
    await store.close()
    assert "tenant/acme" in caplog.text
    assert "tenant/bolt" in caplog.text


async def test_a_key_that_is_bound_to_toolsets_knows_no_others(client):
    admin = bearer(ADMIN)
    for name in ("mail", "weather", "weathr"):
        await client.put(f"/v1/toolsets/{name}", json={"tools": [TIME]}, headers=admin)
    own = await key_of(client, scopes=BOTH, toolsets=["mail", "weather", "new"])
    listed = (await client.get("/v1/toolsets", headers=own)).json()["toolsets"]
    assert [one["name"] for one in listed] == ["mail", "weather"]
    models = (await client.get("/v1/models", headers=own)).json()["data"]
    assert [one["id"] for one in models] == ["tiny", "tiny:mail", "tiny:weather"]
    for name in ("weathr", "unknown"):
        for method, path in (
            ("GET", f"/v1/toolsets/{name}"),
            ("GET", f"/v1/toolsets/{name}/revisions"),
            ("GET", f"/v1/toolsets/{name}/report"),
            ("DELETE", f"/v1/toolsets/{name}"),
            ("DELETE", f"/v1/toolsets/{name}/tools/clock.now"),
            ("POST", f"/v1/toolsets/{name}/revisions/1/restore"),
            ("GET", f"/v1/models/tiny:{name}"),
        ):
            answer = await client.request(method, path, headers=own)
            assert answer.status_code == 403, (method, path, answer.text)
        put = await client.put(f"/v1/toolsets/{name}", json={"tools": [TIME]}, headers=own)
        assert put.json()["type"] == "urn:callgate:forbidden-toolset"
        chat = await client.post(URL, json=body(toolset=name), headers=own)
        assert (chat.status_code, chat.json()["error"]["code"]) == (403, "forbidden_toolset")
        assert "'mail', 'new', 'weather'" in chat.json()["error"]["message"]
    assert (await client.put("/v1/toolsets/new", json={"tools": [TIME]}, headers=own)).status_code == 201
    chat = await client.post(URL, json=body(toolset="mail"), headers=own)
    assert chat.status_code == 200
    await client.delete("/v1/toolsets/new", headers=own)
    unbound = await key_of(client, scopes=BOTH, toolsets=["missing"])
    near = (await client.get("/v1/toolsets/missing", headers=unbound)).json()["near"]
    assert near == [], "an error names no toolsets that the key does not see"


async def test_a_key_that_is_bound_to_models_knows_no_others(client):
    own = await key_of(client, scopes=BOTH, models=["big"])
    answer = await client.post(URL, json=body(), headers=own)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
    assert "tiny" not in answer.json()["error"]["message"].replace("'tiny'", "", 1)
    assert (await client.get("/v1/models", headers=own)).json()["data"] == []
    own = await key_of(client, scopes=BOTH, models=["tiny"])
    assert (await client.post(URL, json=body(), headers=own)).status_code == 200


async def test_a_key_that_is_bound_to_models_reads_nothing_of_the_engines_of_others(client, runtime):
    def engine(model):
        return ReplicaState(model, f"{model}.internal:8000", Circuit.OPEN, "is down", "", 0, 0, 0, 0, None)

    runtime.health_now = Health(
        is_ready=False,
        reason="tiny: the engine tiny.internal:8000 is down; big: the engine big.internal:8000 is down",
        engines=(engine("tiny"), engine("big")),
    )
    own = await key_of(client, scopes=BOTH, models=["tiny"])
    answer = await client.post(URL, json=body(), headers=own)
    assert answer.status_code == 503
    assert "tiny.internal" in answer.text
    assert "big" not in answer.text
