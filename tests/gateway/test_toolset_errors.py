"""What the registry says over HTTP to writes and readings that it refuses: the culprit, its place, the way out."""

from dataclasses import replace

import pytest
from sample_tools import TIME, WEATHER, chat_tool

URL = "/v1/toolsets/weather"


async def test_every_bad_tool_is_named_at_once_and_nothing_changes(client, weather):
    tools = [
        chat_tool("malformed", type="object", properties={"x": {"type": "strange"}}),
        WEATHER,
        chat_tool("unsupported", type="object", properties={"y": {"type": "string", "pattern": "(?<=a)b"}}),
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


@pytest.mark.parametrize(
    ("method", "path", "is_whole"), [("PUT", "", True), ("POST", "/check", True), ("PUT", "/tools/f", False)]
)
async def test_a_key_that_stands_twice_is_refused(client, method, path, is_whole):
    tool = '{"name": "f", "inputSchema": {"properties": {"a/b": {"maximum": 5, "maximum": 500}}}}'
    body, at = (f'{{"tools": [{tool}]}}', "/tools/0") if is_whole else (tool, "")
    answer = await client.request(method, URL + path, content=body)
    assert (answer.status_code, answer.json()["type"]) == (400, "urn:callgate:invalid-field")
    place = f"{at}/inputSchema/properties/a~1b"
    assert answer.json()["detail"] == f"the object at {place} has the key 'maximum' twice; write one"


async def test_a_bad_single_tool_changes_nothing(client, weather):
    bad = chat_tool("clock.now", type="object", properties={"y": {"type": "string", "pattern": "(?<=a)b"}})
    response = await client.put(f"{URL}/tools/clock.now", json=bad)
    assert response.status_code == 422
    [error] = response.json()["errors"]
    assert error["pointer"] == "/function/parameters/properties/y/pattern"
    assert (await client.get(f"{URL}/tools/clock.now")).json() == TIME


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
        ({"tools": [], "name": "other"}, "name"),
    ],
)
async def test_fields_that_do_not_belong_there_are_named(client, weather, body, field):
    response = await client.put(URL, json=body)
    assert response.status_code == 400
    assert response.json()["field"] == field
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
    """Repeated whole and escaped, 4 MB of a name would come back as 20 MB."""
    runtime.card = replace(runtime.card, aliases=("*\x7f",))
    refused = await client.request(method, url, json=body)
    assert refused.status_code == 400
    assert len(refused.content) < 2_000


@pytest.mark.parametrize(
    ("raw", "status", "kind", "place"),
    [
        (b'{"tools": [\n  {,}]}', 400, "malformed-body", {"line": 2, "column": 4}),
        (b"[" * 20_000, 422, "limit-exceeded", {"line": 1, "column": 501}),
    ],
)
async def test_a_body_that_cannot_be_read_says_where(client, raw, status, kind, place):
    response = await client.put(URL, content=raw)
    assert (response.status_code, response.json()["type"]) == (status, f"urn:callgate:{kind}")
    assert response.json().items() >= place.items()


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
        ("?limit=0", "limit", "it must be a whole number, at least 1"),
        ("?limit=x", "limit", "it must be a whole number"),
        (
            "/weather?shape=openapi",
            "shape",
            "'openapi' is not one of its values; did you mean 'openai'? There are 'openai', 'openai_responses',",
        ),
        ("/weather/report?revision=x", "revision", "it must be a whole number"),
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


async def test_a_query_parameter_that_is_given_twice_is_refused(client, weather):
    """One of the two would be lost, as with a key of the body."""
    response = await client.get(f"{URL}/report?revision=1&revision=2")
    assert (response.status_code, response.json()["field"]) == (400, "revision")
    assert response.json()["detail"] == "revision: the query has it twice; send one"


@pytest.mark.parametrize("body", [[WEATHER], [], {"openapi": "3.1.0"}, {"type": "object"}, {}])
async def test_a_body_that_is_no_toolset_is_told_what_one_is(client, weather, body):
    response = await client.put(URL, json=body)
    assert (response.status_code, response.json()["field"]) == (400, "tools")
    assert '{"tools": […]' in response.json()["detail"]


async def test_tools_that_are_no_list_are_no_fault_of_one_tool(client, weather):
    response = await client.put(URL, json={"tools": {}})
    assert response.status_code == 422
    assert response.json()["detail"] == "at /tools: tools are a list, not an object"
