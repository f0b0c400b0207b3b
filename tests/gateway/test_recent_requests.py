"""The last requests, over HTTP: their steps, whose they are, and that they hold no content."""

import json

import pytest
from chat import URL, body
from fake_runtime import call
from hypothesis import given
from hypothesis import strategies as st
from keys import ADMIN, bearer, key_of
from sample_tools import TIME, TOOL_REQUIRED, WEATHER

from gateway.telemetry.recent_requests import RequestRing
from runtime.errors import EngineStopped
from runtime.events import SelectionStats

SECRET = {"role": "user", "content": "a secret question"}
CHAT = body(messages=[SECRET])
STEPS = ["grammar", "queue", "prefill", "decode"]


@pytest.fixture
def runtime(runtime):
    runtime.script = call("get_weather", '{"place": "a secret place"}')
    runtime.steps = ("note_queued", "note_begun", "note_token")
    return runtime


async def ask(client, headers=None, **fields):
    answer = await client.post(URL, json={**CHAT, **fields}, headers=headers)
    return answer.headers["x-request-id"]


async def test_a_request_is_shown_with_its_steps_and_without_content(client, weather):
    name = await ask(client, toolset="weather", tool_choice="required")
    shown = await client.get(f"/v1/requests/{name}")
    found = shown.json()
    assert [step["name"] for step in found["steps"]] == STEPS
    for one, following in zip(found["steps"][1:], found["steps"][2:], strict=False):
        assert following["start_ms"] == pytest.approx(one["start_ms"] + one["duration_ms"], abs=0.05)
    assert found["duration_ms"] >= found["steps"][-1]["start_ms"]
    assert (found["toolsets"], found["finish_reasons"]) == (["weather@1"], ["tool_calls"])
    assert (found["output_tokens"], found["forced_tokens"], found["rescued_tokens"]) == (7, 3, 2)
    assert (found["grammar_source"], found["mass_removed"]) == ("memory", 0.25)
    assert "secret" not in shown.text
    assert (await client.get("/v1/requests")).json()["requests"] == [found]


@pytest.mark.parametrize("path", TOOL_REQUIRED)
async def test_requests_of_all_apis_are_kept_streamed_or_not(client, path):
    for is_streamed in (False, True):
        await client.post(path, json={**TOOL_REQUIRED[path], "stream": is_streamed})
    kept = (await client.get("/v1/requests")).json()["requests"]
    assert [(each["route"], each["status"], len(each["steps"])) for each in kept] == [(path, 200, 4)] * 2


async def test_what_was_refused_is_kept_and_other_routes_are_not(client):
    await client.post(URL, json={**CHAT, "temperature": "hot"})
    await client.get("/v1/models")
    [kept] = (await client.get("/v1/requests")).json()["requests"]
    assert (kept["status"], kept["steps"], kept["model"], kept["error"]) == (400, [], None, "InvalidField")


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"{", "MalformedBody"),
        (json.dumps({**CHAT, "model": "gone"}).encode(), "UnknownModel"),
        (json.dumps({**CHAT, "toolset": "gone"}).encode(), "UnknownToolset"),
    ],
)
async def test_why_a_request_was_refused_is_kept(client, body, error):
    headers = {"Content-Type": "application/json"}
    answer = await client.post(URL, content=body, headers=headers)
    [kept] = (await client.get("/v1/requests")).json()["requests"]
    assert (kept["status"], kept["error"]) == (answer.status_code, error)


async def test_those_that_failed_are_listed_alone(client, runtime):
    for fields in ({}, {"model": "gone"}, {}, {"model": "lost"}, {"model": "none"}):
        await ask(client, **fields)
    listed = (await client.get("/v1/requests", params={"failed": True, "limit": 2})).json()
    rest = (await client.get("/v1/requests", params={"failed": True, "before": listed["next"]})).json()
    assert [each["number"] for each in listed["requests"] + rest["requests"]] == [5, 4, 2]
    assert rest["next"] is None
    runtime.script = [EngineStopped()]
    await ask(client)
    [newest] = (await client.get("/v1/requests", params={"failed": True, "limit": 1})).json()["requests"]
    assert (newest["number"], newest["error"]) == (6, "EngineStopped")


async def test_what_selecting_an_answer_cost_is_kept(client, runtime):
    selected = SelectionStats("accept", num_draws=3, is_exact=True, num_computed_tokens=29)
    kept = []
    for numbers in ({"selection": selected}, {"num_computed_tokens": 9}, {}):
        runtime.script = call("get_weather", '{"place": "a secret place"}', **numbers)
        name = await ask(client, tools=[WEATHER])
        kept.append((await client.get(f"/v1/requests/{name}")).json())
    assert [(each["strategy"], each["answers"], each["computed_tokens"]) for each in kept] == [
        ("accept", 3, 29),
        (None, 1, 9),
        (None, 1, None),
    ]
    assert {each["cached_tokens"] for each in kept} == {4}


@pytest.mark.parametrize("tenant", [None, "acme"])
async def test_a_key_sees_its_own_and_an_admin_all(client_with, tenant):
    async with client_with(api_key=ADMIN) as client:
        client.headers.update(bearer(ADMIN))
        await ask(client, tools=[WEATHER])
        made = [await key_of(client, tenant=tenant) for _ in range(2)]
        for key in (*made, made[0]):
            name = await ask(client, tools=[WEATHER], headers=key)
            admins = (await client.get(f"/v1/requests/{name}")).json()
        seen = [(await client.get("/v1/requests", headers=key)).json()["requests"] for key in made]
        assert [[each["number"] for each in one] for one in seen] == [[2, 1], [1]]
        assert len((await client.get("/v1/requests")).json()["requests"]) == 4
        for denied in ("/v1/system", f"/v1/grammars/{admins['grammar']}", f"/v1/requests/{seen[1][0]['id']}"):
            answer = await client.get(denied, headers=made[0])
            assert answer.status_code in {403, 404}
        # Where a grammar was, and how long that took, tells a tenant what others have.
        assert {"grammar" in [step["name"] for step in each["steps"]] for each in seen[0]} == {not tenant}
        assert {each["grammar_source"] for each in seen[0]} == ({None} if tenant else {"memory"})


async def test_pages_join_to_all_and_an_id_may_hold_any_visible_character(client):
    names = ["a/b?c#d", "plain", "…".encode().hex()]
    for name in names:
        await client.post(URL, json=CHAT, headers={"X-Request-ID": name})
    first = (await client.get("/v1/requests", params={"limit": 2})).json()
    rest = (await client.get("/v1/requests", params={"limit": 2, "before": first["next"]})).json()
    assert [each["id"] for each in first["requests"] + rest["requests"]] == names[::-1]
    assert rest["next"] is None
    found = await client.get("/v1/requests/a%2Fb%3Fc%23d")
    assert found.json()["id"] == names[0]
    assert (await client.get("/v1/requests/none")).json()["error"]["code"] == "unknown_request"


async def test_the_setting_keeps_none(client_with):
    async with client_with(recent_requests=0) as client:
        name = await ask(client, tools=[TIME])
        assert (await client.get("/v1/requests")).json() == {"requests": [], "next": None, "is_off": True}
        assert "recent_requests" in json.dumps((await client.get(f"/v1/requests/{name}")).json())


@given(st.lists(st.sampled_from("abc")), st.integers(0, 8))
def test_a_ring_is_bounded_and_nobody_pushes_out_who_has_less(owners, capacity):
    ring = RequestRing(capacity)
    for number, owner in enumerate(owners, 1):
        ring.add(owner, {"id": str(number)})
    kept = [each.owner for each in ring.page(None, limit=100).items]
    assert len(kept) == min(len(owners), capacity)
    for owner in set(owners):
        mine = [each.number for each in ring.page(owner, limit=100).items]
        assert mine == sorted(mine, reverse=True)
        last = [number for number, each in enumerate(owners, 1) if each == owner][::-1]
        assert mine == last[: len(mine)]
        assert len(mine) >= min(len(last), capacity // 3)


def test_owners_see_only_their_own():
    ring = RequestRing(10)
    for owner, name in (("a", "1"), ("b", "2"), ("a", "3")):
        ring.add(owner, {"id": name})
    assert [each.values["id"] for each in ring.page("a").items] == ["3", "1"]
    assert ring.find("a", "2") is None
    assert ring.find(None, "2").owner == "b"
