"""`key_order` of a tool and of a request: which orders of keys the grammar of an answer admits."""

import pytest
from apis import CHAT, COMPLETIONS, RESPONSES
from chat import URL, ask, body
from sample_tools import TIME, TOOL_REQUIRED, WEATHER
from whole_outputs import admits

IN_ORDER = '{"place": "Oslo", "days": 3}'
REVERSED = '{"days": 3, "place": "Oslo"}'
FREE = {**WEATHER, "function": {**WEATHER["function"], "callgate": {"key_order": "any"}}}
ANY = {"key_order": "any"}
SCHEMA = WEATHER["function"]["parameters"]
FORMAT = {"type": "json_schema", "json_schema": {"name": "w", "schema": SCHEMA}}


def admitted(constraint):
    """Which of the two orders the constraint of a request admits, as a call or as the answer itself."""
    call = '<tool_call>\n{"name": "get_weather", "arguments": %s}\n</tool_call>'
    orders = {"declared": IN_ORDER, "reversed": REVERSED}
    return [
        name
        for name, arguments in orders.items()
        if admits(constraint, arguments) or admits(constraint, call % arguments)
    ]


@pytest.mark.parametrize(
    ("tool", "asked", "expected"),
    [
        (WEATHER, None, ["declared"]),
        (WEATHER, {}, ["declared"]),
        (WEATHER, {"key_order": None}, ["declared"]),
        (WEATHER, ANY, ["declared", "reversed"]),
        (FREE, None, ["declared", "reversed"]),
        (FREE, {"key_order": "declared"}, ["declared"]),
    ],
)
async def test_the_order_of_the_request_comes_before_that_of_the_tool(client, runtime, tool, asked, expected):
    await ask(client, tools=[tool], tool_choice="required", callgate=asked)
    assert admitted(runtime.requests[-1].constraint) == expected
    response = await client.put("/v1/toolsets/weather", json={"tools": [tool]})
    assert response.status_code == 201, response.text
    await ask(client, toolset="weather", tool_choice="required", callgate=asked)
    assert admitted(runtime.requests[-1].constraint) == expected


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        (URL, body(response_format=FORMAT)),
        (URL, body(guided_json=SCHEMA)),
        (COMPLETIONS.url, COMPLETIONS.body(response_format=FORMAT)),
        (
            RESPONSES.url,
            RESPONSES.body(text={"format": {"type": "json_schema", "name": "w", "schema": SCHEMA}}),
        ),
        *TOOL_REQUIRED.items(),
    ],
)
async def test_every_api_takes_key_order_for_calls_and_answers(client, runtime, url, sent):
    for callgate, expected in ((None, ["declared"]), (ANY, ["declared", "reversed"])):
        response = await client.post(url, json={**sent, "callgate": callgate})
        assert response.status_code == 200, response.text
        assert admitted(runtime.requests[-1].constraint) == expected


async def test_a_grammar_of_its_own_is_cached_for_each_order(client, runtime):
    sources = []
    for callgate in (None, ANY, None, ANY):
        answer = await ask(client, tools=[WEATHER], tool_choice="required", callgate=callgate)
        sources.append((answer["callgate"]["grammar_digest"], answer["callgate"]["grammar_source"]))
    assert [source for _, source in sources] == ["compiled", "compiled", "memory", "memory"]
    assert sources[0][0] == sources[2][0] != sources[1][0] == sources[3][0]


async def test_where_nothing_has_keys_the_order_is_named_as_ignored(client, runtime):
    response = await client.post(URL, json=body(callgate=ANY))
    assert response.headers["x-callgate-ignored"] == "callgate.key_order"
    assert runtime.requests[-1].constraint is None


@pytest.mark.parametrize(
    ("callgate", "param", "said"),
    [
        ({"key_order": "some"}, "callgate.key_order", "any"),
        ({"keyorder": "any"}, "callgate.keyorder", "key_order"),
        ({"toolset": "weather"}, "callgate.toolset", "write it beside `callgate`"),
        ("any", "callgate", "object"),
    ],
)
async def test_a_slip_is_refused_by_name(client, callgate, param, said):
    error = await CHAT.refusal(client, callgate=callgate)
    assert error["param"] == param
    assert said in error["message"]


async def test_another_order_takes_the_same_arguments(client, weather):
    response = await client.post("/v1/toolsets/weather/check", json={"tools": [FREE, TIME]})
    assert response.json()["changes"] == {"get_weather": "compatible", "clock.now": "unchanged"}


async def test_the_report_and_the_toolset_tell_the_order(client):
    tools = {"tools": [FREE, {**WEATHER, "function": {**WEATHER["function"], "name": "other"}}]}
    assert (await client.put("/v1/toolsets/weather", json=tools)).status_code == 201
    shown = (await client.get("/v1/toolsets/weather")).json()["tools"]
    assert [tool["function"].get("callgate") for tool in shown] == [ANY, None]
    reports = (await client.get("/v1/toolsets/weather/report")).json()["tools"]
    notes = {report["name"]: " ".join(entry["note"] for entry in report["entries"]) for report in reports}
    assert "order" not in notes["get_weather"]
    assert "keys in their declared order" in notes["other"]
