"""The registry over HTTP: writes that lose nothing, lists, revisions, reports and checks."""

import copy
from dataclasses import replace

import pytest
from sample_tools import TIME, WEATHER, chat_tool

URL = "/v1/toolsets/weather"


async def test_a_toolset_comes_back_as_it_was_put(client, weather):
    got = await client.get(URL)
    assert got.status_code == 200
    assert got.json()["tools"] == [WEATHER, TIME]
    assert got.json()["revision"] == 1
    assert got.headers["etag"] == weather["etag"]
    again = await client.put(URL, json={"tools": got.json()["tools"]})
    assert (again.status_code, again.json()) == (200, weather)


async def test_a_toolset_is_written_in_the_shape_asked_for(client, weather):
    got = await client.get(URL, params={"shape": "anthropic"})
    assert got.json()["tools"][0]["input_schema"] == WEATHER["function"]["parameters"]


@pytest.mark.parametrize("prefix", ["", "W/", '"x", W/'])
async def test_if_none_match_saves_the_transfer(client, weather, prefix):
    """A cache on the way may make the tag weak, for example when it compresses the answer."""
    got = await client.get(URL, headers={"If-None-Match": prefix + weather["etag"]})
    assert got.status_code == 304
    assert not got.content
    assert (await client.get(URL, headers={"If-None-Match": 'W/"x"'})).status_code == 200


async def test_stale_writers_get_412_with_the_current_etag(client, weather):
    new = await client.put(URL, json={"tools": [TIME]}, headers={"If-Match": weather["etag"]})
    assert new.status_code == 200
    stale = await client.put(URL, json={"tools": []}, headers={"If-Match": weather["etag"]})
    assert stale.status_code == 412
    assert stale.headers["etag"] == new.headers["etag"] == stale.json()["etag"]
    assert (await client.delete(URL, headers={"If-Match": weather["etag"]})).status_code == 412
    assert [t["function"]["name"] for t in (await client.get(URL)).json()["tools"]] == ["clock.now"]


async def test_creation_can_be_made_exclusive(client, weather):
    again = await client.put(URL, json={"tools": []}, headers={"If-None-Match": "*"})
    assert again.status_code == 412
    assert (await client.put(URL, json={"tools": []}, headers={"If-None-Match": '"x"'})).status_code == 400


@pytest.mark.parametrize("headers", [{"If-None-Match": "*"}, {"If-Match": '"stale"'}])
async def test_a_precondition_that_fails_is_told_before_the_body_is_read(client, weather, headers):
    """Otherwise a writer that is too late would send, and wait for, everything that it cannot store."""
    late = await client.put(URL, content=b'{"tools": [', headers=headers)
    assert (late.status_code, late.headers["etag"]) == (412, weather["etag"])
    nameless = await client.put("/v1/toolsets/No!", content=b'{"tools": [', headers=headers)
    assert (nameless.status_code, nameless.json()["type"]) == (400, "urn:callgate:invalid-name")


@pytest.mark.parametrize(
    ("method", "path", "missing"),
    [
        ("PUT", "tools/a", 404),
        ("POST", "import", 412),
        ("POST", "accept", 404),
        ("POST", "decline", 404),
    ],
)
async def test_every_write_tells_that_it_is_too_late_before_its_body_is_read(
    client, weather, method, path, missing
):
    stale = {"If-Match": '"stale"'}
    late = await client.request(method, f"{URL}/{path}", content=b"{", headers=stale)
    assert (late.status_code, late.headers["etag"]) == (412, weather["etag"])
    nowhere = await client.request(method, f"/v1/toolsets/none/{path}", content=b"{", headers=stale)
    assert nowhere.status_code == missing


async def test_a_precondition_that_no_put_takes_is_told_before_the_body_is_read(client):
    refused = await client.put(URL, content=b'{"tools": [', headers={"If-None-Match": '"x"'})
    assert refused.json()["field"] == "If-None-Match"


async def test_the_creation_of_a_tool_can_be_made_exclusive(client, weather):
    exclusive = {"If-None-Match": "*"}
    replaced = await client.put(f"{URL}/tools/clock.now", json=chat_tool("clock.now"), headers=exclusive)
    assert replaced.status_code == 412
    assert "clock.now" in replaced.json()["detail"]
    assert (await client.get(URL)).json()["tools"] == [WEATHER, TIME]
    assert (await client.put(f"{URL}/tools/a", json=chat_tool(), headers=exclusive)).status_code == 200
    named = await client.put(f"{URL}/tools/b", json=chat_tool("b"), headers={"If-None-Match": '"x"'})
    assert named.status_code == 400


@pytest.mark.parametrize(
    ("method", "path"),
    [("DELETE", URL), ("DELETE", f"{URL}/tools/clock.now"), ("POST", f"{URL}/revisions/1/restore")],
)
async def test_what_creates_nothing_refuses_if_none_match(client, weather, method, path):
    refused = await client.request(method, path, headers={"If-None-Match": "*"})
    assert refused.status_code == 400
    assert refused.json()["field"] == "If-None-Match"
    assert (await client.get(URL)).headers["etag"] == weather["etag"]


async def test_a_toolset_that_comes_back_is_created_again(client, weather):
    await client.delete(URL)
    assert (await client.put(URL, json={"tools": [TIME]})).status_code == 201
    assert (await client.put(URL, json={"tools": [WEATHER]})).status_code == 200


async def test_toolsets_are_listed_in_pages(client):
    for name in "abc":
        await client.put(f"/v1/toolsets/{name}", json={"tools": []})
    first = (await client.get("/v1/toolsets", params={"limit": 2})).json()
    assert [t["name"] for t in first["toolsets"]] == ["a", "b"]
    rest = (await client.get("/v1/toolsets", params={"after": first["next"]})).json()
    assert [t["name"] for t in rest["toolsets"]] == ["c"]
    assert rest["next"] is None


@pytest.mark.parametrize("name", ["clock.now", "clock/now", "clock:now"])
async def test_single_tools_are_put_got_and_deleted(client, weather, name):
    document = copy.deepcopy(WEATHER)
    document["function"]["name"] = name
    url = f"{URL}/tools/{name}"
    assert (await client.put(url, json=document)).status_code == 200
    assert (await client.get(url)).json() == document
    assert (await client.delete(url)).status_code == 200
    gone = await client.get(url)
    assert gone.status_code == 404
    assert gone.json()["type"] == "urn:callgate:unknown-tool"


async def test_a_tool_is_put_under_its_own_name(client, weather):
    response = await client.put(f"{URL}/tools/other", json=TIME)
    assert response.status_code == 400
    assert response.json()["field"] == "name"


async def test_a_tool_needs_its_toolset(client):
    assert (await client.put("/v1/toolsets/nowhere/tools/clock.now", json=TIME)).status_code == 404


async def test_revisions_are_listed_read_and_restored(client, weather):
    await client.put(URL, json={"tools": [TIME]})
    listed = (await client.get(f"{URL}/revisions")).json()["revisions"]
    assert [r["revision"] for r in listed] == [2, 1]
    assert (await client.get(f"{URL}/revisions/1")).json()["tools"] == [WEATHER, TIME]
    restored = await client.post(f"{URL}/revisions/1/restore")
    assert restored.json()["revision"] == 3
    assert (await client.get(URL)).json()["tools"] == [WEATHER, TIME]
    missing = await client.get(f"{URL}/revisions/9")
    assert (missing.status_code, missing.json()["latest"]) == (404, 3)


@pytest.mark.parametrize("content", [b'{"revision": 2}', b"[]", b"null"])
async def test_a_restore_refuses_a_body_that_would_have_no_effect(client, weather, content):
    refused = await client.post(f"{URL}/revisions/1/restore", content=content)
    assert (refused.status_code, "its path names the revision" in refused.text) == (400, True)
    assert (await client.post(f"{URL}/revisions/1/restore", json={})).status_code == 200


async def test_a_deleted_toolset_is_gone_and_can_be_restored(client, weather):
    assert (await client.delete(URL)).status_code == 204
    restore = f"{URL}/revisions/1/restore"
    for answer in (
        await client.get(URL),
        await client.get(f"{URL}/revisions/1"),
        await client.delete(URL),
        await client.put(f"{URL}/tools/clock.now", json=TIME),
    ):
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:callgate:unknown-toolset")
        assert answer.json()["detail"].startswith("toolset 'weather' was deleted at 20")
        assert answer.json()["detail"].endswith(f" its last revision is 1; POST {restore} brings it back")
        assert answer.json()["latest"] == 1
    assert (await client.post(restore)).status_code == 200
    assert (await client.get(URL)).json()["tools"] == [WEATHER, TIME]


async def test_the_report_gives_a_verdict_on_every_keyword(client, weather):
    report = (await client.get(f"{URL}/report")).json()
    first = report["tools"][0]
    assert (first["name"], report["revision"]) == ("get_weather", 1)
    assert first["grammar_bytes"] > 0
    assert {e["verdict"] for e in first["entries"]} <= {"exact", "narrowed", "guarded", "annotation"}
    assert any(e["keyword"] == "required" for e in first["entries"])


async def test_the_report_names_the_models_whose_engines_hold_no_guards(client, weather, runtime):
    assert (await client.get(f"{URL}/report")).json()["unguarded_models"] == []
    runtime.card = replace(runtime.card, applies_guards=False)
    for params in ({}, {"tool": "get_weather"}, {"revision": 1}):
        report = (await client.get(f"{URL}/report", params=params)).json()
        assert report["unguarded_models"] == [runtime.card.model_id]


SLIP = {
    "properties": {"a": {"type": "integer", "maximim": 5, "format": "dat"}},
    "requird": ["a"],
    "x-ours": 1,
}


async def test_a_write_warns_of_what_nobody_upholds(client):
    slips = [
        {"tool": "t", "pointer": pointer, "keyword": keyword, "note": f"{note}; did you mean '{meant}'?"}
        for pointer, keyword, note, meant in (
            ("", "requird", "unknown keyword, ignored", "required"),
            ("/properties/a", "maximim", "unknown keyword, ignored", "maximum"),
            ("/properties/a", "format", "unknown format 'dat', ignored", "date"),
        )
    ]
    bad = chat_tool("t", type="object", **SLIP)
    made = await client.put("/v1/toolsets/slips", json={"tools": [TIME, bad]})
    assert (made.status_code, made.json()["warnings"]) == (201, slips)
    one = await client.put("/v1/toolsets/slips/tools/t", json=bad)
    assert (one.status_code, one.json()["warnings"]) == (200, slips)
    assert (await client.put("/v1/toolsets/slips/tools/clock.now", json=TIME)).json()["warnings"] == []


async def test_a_write_tells_the_draft_of_a_schema_that_does_not_declare_it(client):
    positive = {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "nullable": True}
    old = chat_tool("t", type="object", properties={"a": positive})
    made = await client.put("/v1/toolsets/old", json={"tools": [old]})
    assert made.status_code == 201
    [draft, nullable] = made.json()["warnings"]
    assert (draft["pointer"], draft["keyword"]) == ("", "$schema")
    assert "draft-04" in draft["note"]
    assert (nullable["pointer"], nullable["keyword"]) == ("/properties/a", "nullable")
    checked = await client.post("/v1/toolsets/old/check", json={"tools": [old]})
    assert checked.json()["warnings"] == [draft, nullable]


CHANGES = [
    (chat_tool("a", type="object", properties={"x": {"type": "integer"}}), "unchanged"),
    (chat_tool("a", type="object", properties={"x": {"type": "number"}}), "widened"),
    (chat_tool("a", type="object", properties={"x": {"const": 3}}), "narrowed"),
    (chat_tool("a", type="object", properties={"x": {"type": "boolean"}}), "changed"),
    (chat_tool("a", type="object", properties={"x": {"type": "integer", "title": "X"}}), "compatible"),
    (chat_tool("b", type="object"), "added"),
]


@pytest.mark.parametrize(("new", "change"), CHANGES, ids=[c for _, c in CHANGES])
async def test_a_check_tells_what_would_change_and_changes_nothing(client, new, change):
    await client.put("/v1/toolsets/t", json={"tools": [CHANGES[0][0]]})
    before = (await client.get("/v1/toolsets/t")).json()
    check = await client.post("/v1/toolsets/t/check", json={"tools": [new]})
    assert check.status_code == 200
    name = new["function"]["name"]
    assert check.json()["changes"][name] == change
    assert check.json()["tools"][0]["name"] == name
    if name != "a":
        assert check.json()["changes"]["a"] == "removed"
    assert (await client.get("/v1/toolsets/t")).json() == before


async def test_a_change_is_named_by_the_direction_that_is_proved(client):
    """Whether the closed tool covers the new one is not decided, but no call that was valid is lost."""
    before, after = (
        chat_tool("a", type="object", properties={name: {} for name in names}, additionalProperties=False)
        for names in ("x", "xy")
    )
    await client.put("/v1/toolsets/t", json={"tools": [before]})
    check = await client.post("/v1/toolsets/t/check", json={"tools": [after]})
    assert check.json()["changes"] == {"a": "widened"}


async def test_a_check_of_a_toolset_that_does_not_exist(client):
    check = (await client.post("/v1/toolsets/new/check", json={"tools": [TIME]})).json()
    assert (check["current"], check["changes"]) == (None, {"clock.now": "added"})
