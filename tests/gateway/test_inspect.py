"""`callgate.inspect` in every API: what is told of each token, where streams have it, and what is refused."""

import json
from dataclasses import replace

import pytest
from apis import CHAT
from chat import ask, stream
from fake_runtime import call, text
from sample_tools import MASKED, WEATHER
from sse import events_of

from gateway.generation.inspected_tokens import InspectedTokens
from runtime.errors import RequestRefused
from runtime.events import InspectedToken
from runtime.inspection import MAX_POINTER, Candidate, Cause, Inspection, TokenPlace
from toolspecs.tool import CustomInput, Tool, custom_tool

PLACE = TokenPlace("arguments", 0, "get_weather", ("place",), "value")
RESCUED = Inspection(
    Cause.RESCUED, (Candidate(7, 0.61, is_removed=True), Candidate(9, 0.3, is_removed=False)), 0.65
)
TOKENS = [
    InspectedToken(0, 5, "<tool_call>", Inspection(Cause.FORCED), TokenPlace("syntax", 0, "get_weather")),
    InspectedToken(0, 9, "Oslo", RESCUED, PLACE, ("Rome", "Oslo")),
]
TOLD = [
    {
        "index": 0,
        "id": 5,
        "text": "<tool_call>",
        "cause": "forced",
        "mass_removed": None,
        "candidates": [],
        "place": {
            "part": "syntax",
            "call": 0,
            "tool": "get_weather",
            "pointer": None,
            "writes": None,
            "schema": None,
        },
    },
    {
        "index": 0,
        "id": 9,
        "text": "Oslo",
        "cause": "rescued",
        "mass_removed": 0.65,
        "candidates": [
            {"id": 7, "text": "Rome", "probability": 0.61, "removed": True},
            {"id": 9, "text": "Oslo", "probability": 0.3, "removed": False},
        ],
        "place": {
            "part": "arguments",
            "call": 0,
            "tool": "get_weather",
            "pointer": "/place",
            "writes": "value",
            "schema": "/properties/place",
        },
    },
]


@pytest.fixture
def inspected(runtime):
    started, *deltas, finished = call("get_weather", '{"place": "Oslo"', ', "days": 3}')
    runtime.script = [started, TOKENS[0], deltas[0], TOKENS[1], *deltas[1:], finished]
    return runtime


def has_tools(sent):
    return "tools" in sent


def told_in(sent):
    """What is told; without tools there is no schema."""
    if has_tools(sent):
        return TOLD
    return [token | {"place": token["place"] | {"schema": None}} for token in TOLD]


@pytest.mark.parametrize(("url", "sent"), MASKED)
async def test_every_api_takes_inspect_and_tells_every_token(client, inspected, url, sent):
    response = await client.post(url, json={**sent, "callgate": {"inspect": True}})
    assert response.status_code == 200, response.text
    assert inspected.requests[-1].is_inspected
    assert response.json()["callgate"]["tokens"] == told_in(sent)


@pytest.mark.parametrize(("url", "sent"), MASKED)
async def test_every_stream_tells_each_token_once(client, inspected, url, sent):
    response = await client.post(url, json={**sent, "stream": True, "callgate": {"inspect": True}})
    told = []
    for event in events_of(response):
        extension = event.get("callgate") or event.get("response", {}).get("callgate") or {}
        told += extension.get("tokens", [])
    assert told == told_in(sent)


async def test_in_a_stream_of_chat_a_token_comes_as_soon_as_its_place_is_known(client, inspected):
    chunks = await stream(client, tools=[WEATHER], callgate={"inspect": True})
    kinds = ["tokens" if "tokens" in chunk.get("callgate", {}) else "delta" for chunk in chunks]
    assert kinds == ["delta", "delta", "tokens", "delta", "tokens", "delta", "delta"]
    assert chunks[2]["choices"] == [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": None}]


@pytest.mark.parametrize("asked", [{}, {"inspect": False}])
async def test_who_does_not_ask_is_told_nothing(client, runtime, asked):
    answer = await ask(client, tools=[WEATHER], callgate=asked)
    assert not runtime.requests[-1].is_inspected
    assert "tokens" not in answer["callgate"]


async def test_a_slip_and_an_engine_that_cannot_tell_are_refused(client, runtime):
    assert "'inspect'" in (await CHAT.refusal(client, callgate={"inspects": True}))["message"]
    runtime.script = [
        RequestRefused("only the embedded engine tells; ask for `logprobs`", "callgate.inspect")
    ]
    assert (await CHAT.refusal(client, callgate={"inspect": True}))["param"] == "callgate.inspect"


SHARED = {
    "$defs": {"city": {"type": "object", "properties": {"name": {"type": "string"}}}},
    "type": "object",
    "properties": {
        "from": {"$ref": "#/$defs/city"},
        "stops": {"type": "array", "items": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/city"}]}},
        "sizes": {"type": "object", "additionalProperties": {"type": "integer"}},
        "a/b": {"allOf": [{"minLength": 1}], "type": "string"},
        "free": {},
    },
}


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        ((), ""),
        (("from",), "/properties/from"),
        (("from", "name"), "/$defs/city/properties/name"),
        (("stops", 3), "/properties/stops/items"),
        (("stops", 3, "name"), "/$defs/city/properties/name"),
        (("sizes", "x"), "/properties/sizes/additionalProperties"),
        (("a/b",), "/properties/a~1b"),
        (("free", "x", 0), "/properties/free"),
        (("other",), ""),
        (("k" * MAX_POINTER,), ""),
    ],
)
def test_the_schema_of_a_place_is_the_one_that_a_reader_meets_first(path, schema):
    tokens = InspectedTokens([Tool("f", "", SHARED)])
    for asked in (("stops", 0, "name"), path, path):
        tokens.add(replace(TOKENS[1], place=TokenPlace("arguments", 0, "f", asked, "value")))
    first, *same = (json.loads(bytes(token))["place"]["schema"] for token in tokens.take())
    assert (first, same) == ("/$defs/city/properties/name", [schema, schema])
    assert tokens.take() == []


async def test_an_answer_in_json_has_the_place_in_the_schema_of_its_format(client, runtime):
    place = TokenPlace("text", path=("place", 1), writes="value")
    runtime.script = [replace(TOKENS[1], place=place), *text("{}")]
    schema = {"type": "object", "properties": {"place": {"type": "array", "items": {"type": "string"}}}}
    formatted = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    told = await ask(client, response_format=formatted, callgate={"inspect": True})
    (token,) = told["callgate"]["tokens"]
    assert runtime.requests[-1].text_is_json
    assert token["place"] == {
        "part": "text",
        "call": None,
        "tool": None,
        "pointer": "/place/1",
        "writes": "value",
        "schema": "/properties/place/items",
    }
    told = await ask(client, callgate={"inspect": True})
    (token,) = told["callgate"]["tokens"]
    assert token["place"]["schema"] is None
    assert not runtime.requests[-1].text_is_json


async def test_text_before_required_calls_is_not_in_the_format(client, runtime):
    runtime.script = text("So: }")
    formatted = {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}}
    named = {"type": "function", "function": {"name": "get_weather"}}
    for choice, is_json in (("auto", True), ("required", False), (named, False)):
        await ask(
            client,
            tools=[WEATHER],
            tool_choice=choice,
            response_format=formatted,
            callgate={"inspect": True},
        )
        assert runtime.requests[-1].text_is_json is is_json
        assert runtime.requests[-1].must_call is not is_json


def test_a_custom_tool_has_no_schema_of_its_client():
    tokens = InspectedTokens([custom_tool("sql", "", CustomInput())])
    tokens.add(replace(TOKENS[1], place=TokenPlace("arguments", 0, "sql", ("input",), "value")))
    assert json.loads(bytes(*tokens.take()))["place"]["schema"] is None
