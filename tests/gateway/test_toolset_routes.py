"""The registry over HTTP: writes that lose nothing, and errors that name the culprit."""

import asyncio
import copy
from dataclasses import replace

import pytest
from fake_runtime import FakeRuntime
from sample_tools import TIME, WEATHER
from serving import client_of

from gateway.app import create_app

URL = "/v1/toolsets/weather"


def tool(name="a", **parameters):
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


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
    assert (await client.get(URL, params={"shape": "cobol"})).status_code == 400


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


async def test_the_creation_of_a_tool_can_be_made_exclusive(client, weather):
    exclusive = {"If-None-Match": "*"}
    replaced = await client.put(f"{URL}/tools/clock.now", json=tool("clock.now"), headers=exclusive)
    assert replaced.status_code == 412
    assert "clock.now" in replaced.json()["detail"]
    assert (await client.get(URL)).json()["tools"] == [WEATHER, TIME]
    assert (await client.put(f"{URL}/tools/a", json=tool(), headers=exclusive)).status_code == 200
    named = await client.put(f"{URL}/tools/b", json=tool("b"), headers={"If-None-Match": '"x"'})
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


@pytest.mark.parametrize("is_same", [False, True])
async def test_of_many_creators_at_once_exactly_one_is_told_that_it_created(client, settings, is_same):
    """They go through two gateways that share a store."""
    async with client_of(create_app(settings, runtime=FakeRuntime())) as other:
        writes = [
            gateway.put(URL, json={"tools": [tool("a" if is_same else f"tool_{index}_{number}")]})
            for index in range(4)
            for number, gateway in enumerate((client, other))
        ]
        answers = await asyncio.gather(*writes)
    assert sorted(answer.status_code for answer in answers) == [*[200] * 7, 201]
    [created] = [answer.json() for answer in answers if answer.status_code == 201]
    assert created["revision"] == 1


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
    assert (await client.get("/v1/toolsets", params={"limit": 0})).status_code == 400


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
            ("/properties/a", "format", "unknown format, ignored", "date"),
        )
    ]
    bad = tool("t", type="object", **SLIP)
    made = await client.put("/v1/toolsets/slips", json={"tools": [TIME, bad]})
    assert (made.status_code, made.json()["warnings"]) == (201, slips)
    one = await client.put("/v1/toolsets/slips/tools/t", json=bad)
    assert (one.status_code, one.json()["warnings"]) == (200, slips)
    assert (await client.put("/v1/toolsets/slips/tools/clock.now", json=TIME)).json()["warnings"] == []


async def test_a_write_tells_the_draft_of_a_schema_that_does_not_declare_it(client):
    positive = {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "nullable": True}
    old = tool("t", type="object", properties={"a": positive})
    made = await client.put("/v1/toolsets/old", json={"tools": [old]})
    assert made.status_code == 201
    [draft, nullable] = made.json()["warnings"]
    assert (draft["pointer"], draft["keyword"]) == ("", "$schema")
    assert "draft-04" in draft["note"]
    assert (nullable["pointer"], nullable["keyword"]) == ("/properties/a", "nullable")
    checked = await client.post("/v1/toolsets/old/check", json={"tools": [old]})
    assert checked.json()["warnings"] == [draft, nullable]


CHANGES = [
    (tool("a", type="object", properties={"x": {"type": "integer"}}), "unchanged"),
    (tool("a", type="object", properties={"x": {"type": "number"}}), "widened"),
    (tool("a", type="object", properties={"x": {"const": 3}}), "narrowed"),
    (tool("a", type="object", properties={"x": {"type": "boolean"}}), "changed"),
    (tool("a", type="object", properties={"x": {"type": "integer", "title": "X"}}), "compatible"),
    (tool("b", type="object"), "added"),
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
        tool("a", type="object", properties={name: {} for name in names}, additionalProperties=False)
        for names in ("x", "xy")
    )
    await client.put("/v1/toolsets/t", json={"tools": [before]})
    check = await client.post("/v1/toolsets/t/check", json={"tools": [after]})
    assert check.json()["changes"] == {"a": "widened"}


async def test_a_check_of_a_toolset_that_does_not_exist(client):
    check = (await client.post("/v1/toolsets/new/check", json={"tools": [TIME]})).json()
    assert (check["current"], check["changes"]) == (None, {"clock.now": "added"})


# Errors


async def test_every_bad_tool_is_named_at_once_and_nothing_changes(client, weather):
    tools = [
        tool("malformed", type="object", properties={"x": {"type": "strange"}}),
        WEATHER,
        tool("unsupported", type="object", properties={"y": {"type": "string", "pattern": "(?<=a)b"}}),
        {"type": "function", "function": {"name": "no good"}},
    ]
    for send, url in ((client.put, URL), (client.post, f"{URL}/check")):
        response = await send(url, json={"tools": tools})
        assert response.status_code == 422
        assert response.headers["content-type"].startswith("application/problem+json")
        errors = response.json()["errors"]
        assert [e["pointer"] for e in errors] == [
            "/tools/0/function/parameters/properties/x/type",
            "/tools/2/function/parameters/properties/y/pattern",
            "/tools/3/function/name",
        ]
        assert [e["tool"] for e in errors][:2] == ["malformed", "unsupported"]
        assert errors[1]["keyword"] == "pattern"
        assert all(e["reason"] for e in errors)
    assert (await client.get(URL)).json()["revision"] == 1


async def test_a_bad_single_tool_changes_nothing(client, weather):
    bad = tool("clock.now", type="object", properties={"y": {"type": "string", "pattern": "(?<=a)b"}})
    response = await client.put(f"{URL}/tools/clock.now", json=bad)
    assert response.status_code == 422
    [error] = response.json()["errors"]
    assert error["pointer"] == "/function/parameters/properties/y/pattern"
    assert (await client.get(f"{URL}/tools/clock.now")).json() == TIME


async def test_an_unknown_shape_lists_those_there_are(client, weather):
    detail = (await client.get(f"{URL}?shape=opnai")).json()["detail"]
    assert detail.startswith("shape: ")
    assert "did you mean 'openai'? There are 'openai', 'openai_responses', 'anthropic'" in detail


async def test_an_unknown_toolset_names_near_matches(client, weather):
    response = await client.get("/v1/toolsets/wheather")
    assert response.status_code == 404
    assert response.json()["near"] == ["weather"]
    registers = "PUT /v1/toolsets/wheather or `callgate tools apply` registers it, GET /v1/toolsets lists all"
    assert response.json()["detail"] == f"no toolset 'wheather'; did you mean 'weather'? {registers}"


async def test_an_unknown_toolset_is_told_a_few_that_there_are(client):
    for number in range(12):
        assert (await client.put(f"/v1/toolsets/x{number:02}", json={"tools": []})).status_code == 201
    detail = (await client.get("/v1/toolsets/calendar")).json()["detail"]
    assert detail.startswith("no toolset 'calendar'; there are 'x00', 'x01', 'x02', ")
    assert "'x08'" not in detail


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"tools": [], "tolos": []}, "tolos"),
        ({}, "tools"),
        ([], "tools"),
        ({"tools": [], "name": "other"}, "name"),
    ],
)
async def test_unknown_and_missing_fields_are_named(client, weather, body, field):
    response = await client.put(URL, json=body)
    assert response.status_code == 400
    assert response.json().get("field", "") == field
    assert (await client.get(URL)).json()["revision"] == 1


_LONG = "\x7f" * 20_000


@pytest.mark.parametrize(
    ("method", "url", "body"),
    [
        ("PUT", URL, {"tools": [], "name": _LONG}),
        ("POST", "/detokenize", {"model": f"{_LONG}:", "tokens": []}),
    ],
    ids=["name", "model"],
)
async def test_a_refusal_repeats_only_the_beginning_of_a_text(client, runtime, method, url, body):
    """4 MB of a name came back as 20 MB."""
    runtime.card = replace(runtime.card, aliases=("*\x7f",))
    refused = await client.request(method, url, json=body)
    assert refused.status_code == 400
    assert len(refused.content) < 2_000


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        (b'{"tools": [\n  {,}]}', {"line": 2, "column": 4}),
        (b"", {"line": 1, "column": 1}),
        (b'{"tools": NaN}', {"line": 1, "column": 11}),
        (b'{"tools": ["NaN, \\"1e999", -1e5,\n-Infinity]}', {"line": 2, "column": 1}),
        (b'{"tools": NaN, "a": "\\ud800"}', {"line": 1, "column": 11}),
        (b'{"t\xc3\xa9": ["\xff"]}', {"line": 1, "column": 10}),
        (b'\xef\xbb\xbf{"tools":\n "\xff"}', {"line": 2, "column": 3}),
    ],
)
async def test_malformed_json_says_where(client, weather, raw, place):
    response = await client.put(URL, content=raw)
    assert response.status_code == 400
    assert response.json()["type"] == "urn:callgate:malformed-body"
    assert response.json().items() >= place.items()


async def test_an_empty_body_is_told(client, weather):
    detail = (await client.put(URL, content=b"")).json()["detail"]
    assert detail == "the body is not valid JSON: it is empty at line 1, column 1"


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        (b"[" * 20_000, {"line": 1, "column": 501}),
        (
            b'{"a": "[[[{\\"[",\n"b": [], "c": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
            {"line": 2, "column": 514},
        ),
    ],
)
async def test_a_body_too_deep_to_be_read_says_where(client, weather, raw, place):
    response = await client.put(URL, content=raw)
    assert response.status_code == 422
    assert response.json()["type"] == "urn:callgate:limit-exceeded"
    assert response.json().items() >= place.items()


async def test_an_oversized_body_is_refused(client, weather):
    response = await client.put(URL, json={"tools": [tool("a", description="x" * 200_000)]})
    assert response.status_code == 413
    assert response.json()["status"] == 413
    assert "100000 bytes" in response.json()["detail"]
    assert (await client.get(URL)).json()["revision"] == 1


async def test_a_bad_name_is_refused_with_the_rule(client):
    response = await client.put("/v1/toolsets/No%20Good", json={"tools": []})
    assert response.status_code == 400
    assert "a-z" in response.json()["detail"]


async def test_an_unknown_route_and_method_answer_with_problems(client):
    assert (await client.get("/v1/toolsets/x/nothing")).json()["status"] == 404
    wrong = (await client.post("/v1/toolsets/x", json={})).json()
    assert wrong["status"] == 405
    assert wrong["detail"] == "/v1/toolsets/x takes DELETE, GET, OPTIONS, PUT, not POST"
    chat = (await client.get("/v1/chat/completions")).json()["error"]
    assert chat["message"] == "/v1/chat/completions takes OPTIONS, POST, not GET"


@pytest.mark.parametrize(
    ("query", "name", "hint"),
    [
        ("?limit=0", "limit", ">= 1"),
        ("?limit=x", "limit", "int"),
        ("/weather?shape=openapi", "shape", "openapi"),
        ("/weather/report?revision=x", "revision", "int"),
    ],
)
async def test_a_bad_parameter_is_named(client, weather, query, name, hint):
    problem = (await client.get(f"/v1/toolsets{query}")).json()
    assert (problem["status"], problem["field"]) == (400, name)
    assert problem["detail"].startswith(f"{name}: ")
    assert hint in problem["detail"]


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("?revision=1", "shape"),
        ("/report?revison=1", "revision, tool"),
        ("/revisions?after=3", "before, limit"),
        ("/tools/get_weather?toolset=other", "revision, shape"),
        ("/tools/get_weather?tool=other", "revision, shape"),
    ],
)
async def test_a_query_parameter_that_would_be_ignored_is_refused(client, weather, path, known):
    response = await client.get(URL + path)
    assert response.status_code == 400
    assert response.json()["detail"].endswith(f"this route takes {known}")


@pytest.mark.parametrize("body", [[WEATHER], {"openapi": "3.1.0"}, {"type": "object"}, {}])
async def test_a_body_that_is_no_toolset_is_told_what_one_is(client, weather, body):
    response = await client.put(URL, json=body)
    assert (response.status_code, response.json()["field"]) == (400, "tools")
    assert '{"tools": […]' in response.json()["detail"]


async def test_tools_that_are_no_list_are_no_fault_of_one_tool(client, weather):
    response = await client.put(URL, json={"tools": {}})
    assert response.status_code == 422
    assert response.json()["detail"] == "at /tools: tools are a list, not an object"
