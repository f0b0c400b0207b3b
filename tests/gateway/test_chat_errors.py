"""What Chat Completions refuse, in OpenAI's shape, and what is told of routes that there are not."""

import gzip
import json

import pytest
from apis import CHAT, RESPONSES, USER
from chat import URL, body
from sample_tools import TIME, WEATHER, chat_tool

from runtime.errors import (
    BudgetTooSmall,
    EngineStopped,
    GenerationFailed,
    NoEngine,
    Overloaded,
    PromptTooLong,
    RequestRefused,
)
from toolspecs.errors import ThreadsStopped

ERRORS = [
    (Overloaded(), 429, "rate_limit_error", "overloaded", None),
    (NoEngine("tiny", ("down",), 2.5), 503, "server_error", "no_engine", None),
    (PromptTooLong(900, 512), 400, "invalid_request_error", "context_length_exceeded", "messages"),
    (BudgetTooSmall(1, 9), 400, "invalid_request_error", "max_tokens_too_small", "max_tokens"),
    (
        RequestRefused("no option 'tools'", "template_options"),
        400,
        "invalid_request_error",
        "request_refused",
        "chat_template_kwargs",
    ),
    (GenerationFailed("NaN logits"), 500, "server_error", "generation_failed", None),
    (EngineStopped(), 503, "server_error", "engine_stopped", None),
    (ThreadsStopped(), 503, "server_error", "engine_stopped", None),
    (RuntimeError("secret detail"), 500, "server_error", "internal_error", None),
]
RETRIED_AFTER = {"overloaded": "1", "no_engine": "3", "engine_stopped": "1"}


@pytest.mark.parametrize(("api", "name"), [(CHAT, "max_completion_tokens"), (RESPONSES, "max_output_tokens")])
async def test_a_budget_has_the_name_that_the_request_has_for_it(client, runtime, api, name):
    runtime.script = [BudgetTooSmall(2, 9)]
    error = await api.refusal(client, **{name: 2})
    assert error["param"] == name
    assert error["message"].startswith(f"{name} is 2, but")


async def test_counting_tokens_has_the_names_of_its_api(client, runtime, monkeypatch):
    async def prompt_ids(_):
        raise PromptTooLong(900, 512)

    monkeypatch.setattr(runtime, "prompt_ids", prompt_ids)
    for path, least, param in (
        ("/v1/responses/input_tokens", {"input": "Hi"}, "input"),
        ("/v1/messages/count_tokens", {"messages": [USER]}, "messages"),
        ("/tokenize", {"messages": [USER]}, "messages"),
        ("/tokenize", {"prompt": "Hi"}, "prompt"),
    ):
        answer = await client.post(path, json={"model": "tiny", **least})
        assert answer.json()["error"]["param"] == param


TWICE = '{"type": "object", "properties": {"n": {"maximum": 5, "maximum": 500}}}'
TOOL = f'{{"name": "f", "input_schema": {TWICE}}}'
MESSAGES = '"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 50'


@pytest.mark.parametrize(
    ("url", "fields", "param", "place"),
    [
        (URL, f'{MESSAGES}, "tools": [{TOOL}]', None, "/tools/0/input_schema/properties/n"),
        ("/v1/messages", f'{MESSAGES}, "tools": [{TOOL}]', None, "/tools/0/input_schema/properties/n"),
        ("/v1/responses", f'"input": "Hi", "tools": [{TOOL}]', None, "/tools/0/input_schema/properties/n"),
        (
            "/v1/responses",
            f'"input": "Hi", "text": {{"format": {{"type": "json_schema", "name": "f", "schema": {TWICE}}}}}',
            None,
            "/text/format/schema/properties/n",
        ),
        (URL, f'{MESSAGES}, "guided_json": {json.dumps(TWICE)}', "guided_json", "/properties/n"),
        ("/tokenize", f'{MESSAGES}, "tools": [{TOOL}]', None, "/tools/0/input_schema/properties/n"),
    ],
)
async def test_a_key_that_stands_twice_is_refused(client, runtime, url, fields, param, place):
    """Readers of JSON differ in which one counts."""
    text = f'{{"model": "tiny", {fields}}}'
    answer = await client.post(url, content=text, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    error = answer.json()["error"]
    reason = f"the object at {place} has the key 'maximum' twice; write one"
    assert error["message"] == (f"{param}: {reason}" if param else reason)
    assert error.get("param") == param
    assert not runtime.requests


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(("error", "status", "kind", "code", "param"), ERRORS, ids=[e[3] for e in ERRORS])
async def test_what_the_runtime_refuses_has_a_status(
    client, runtime, is_streamed, error, status, kind, code, param
):
    runtime.script = [error]
    response = await client.post(URL, json=body(stream=is_streamed))
    assert response.status_code == status
    found = response.json()["error"]
    assert (found["type"], found["code"], found["param"]) == (kind, code, param)
    assert "secret detail" not in response.text
    assert response.headers.get("retry-after") == RETRIED_AFTER.get(code)


@pytest.mark.parametrize(
    ("fields", "status", "param", "said"),
    [
        ({"model": "huge"}, 404, "model", "tiny"),
        ({"model": "tiny:wether"}, 404, "toolset", "weather"),
        ({"model": "tiny:"}, 400, "model", "write 'tiny', or 'tiny:TOOLSET'"),
        ({"model": "tiny:weather@"}, 400, "model", "write 'weather' for the current revision"),
        ({"toolset": "wether"}, 404, "toolset", "weather"),
        ({"toolset": "weather@7"}, 404, "toolset", "latest is 1"),
        ({"toolset": "Not A Name"}, 400, "toolset", "a-z"),
        ({"toolset": "weather", "tools": [WEATHER]}, 400, "toolset", "get_weather"),
        ({"tools": [WEATHER, WEATHER]}, 400, "tools[1]", "get_weather"),
        ({"tool_choice": "required"}, 400, "tool_choice", "tools"),
        (
            {"toolset": "weather", "tool_choice": {"type": "function", "function": {"name": "clock_now"}}},
            400,
            "tool_choice",
            "clock.now",
        ),
        (
            {
                "toolset": "weather",
                "response_format": {"type": "choice", "choices": ["yes", "<tool_call>no"]},
            },
            400,
            "response_format",
            "cannot be told from a call",
        ),
        ({"n": 100}, 400, "n", "max_choices allows 16"),
        (
            {"tools": [TIME, chat_tool(properties={"x": {"type": "string", "pattern": "(?<=a)b"}})]},
            400,
            "tools[1]",
            "pattern",
        ),
        ({"tools": [chat_tool(type="strange")]}, 400, "tools[0].function.parameters.type", "strange"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": False}}},
            400,
            "response_format",
            "",
        ),
    ],
)
async def test_what_does_not_fit_is_refused_by_name(client, runtime, weather, fields, status, param, said):
    response = await client.post(URL, json=body(**fields))
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert error["param"] == param
    assert said in error["message"]
    assert runtime.requests == []


async def test_a_toolset_named_twice_is_used_once_unless_its_revisions_differ(client, runtime, weather):
    twice = body(toolset=["weather", "weather@1"])
    assert (await client.post(URL, json=twice)).status_code == 200
    assert len(runtime.requests[0].tools) == 2
    await client.put("/v1/toolsets/weather", json={"tools": [TIME]})
    response = await client.post(URL, json=twice)
    assert response.status_code == 400
    assert "'weather' is named at revisions 2 and 1; name it once" in response.json()["error"]["message"]


async def test_a_deleted_toolset_is_told_how_to_come_back(client, weather):
    await client.delete("/v1/toolsets/weather")
    for name in ("weather", "weather@1"):
        answer = await client.post(URL, json=body(toolset=name))
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["param"]) == (404, "unknown_toolset", "toolset")
        assert "POST /v1/toolsets/weather/revisions/1/restore" in error["message"]


async def test_a_byte_order_mark_is_ignored(client):
    response = await client.post(URL, content=b"\xef\xbb\xbf" + json.dumps(body()).encode())
    assert response.status_code == 200


async def test_toolsets_that_share_a_tool_are_both_named(client, weather):
    await client.put("/v1/toolsets/other", json={"tools": [TIME]})
    response = await client.post(URL, json=body(toolset=["weather", "other"]))
    assert response.status_code == 400
    message = response.json()["error"]["message"]
    assert all(word in message for word in ("clock.now", "'weather@1'", "'other@1'"))


async def test_oversized_and_malformed_bodies_keep_the_shape(client_with):
    async with client_with(max_body_bytes=100) as client:
        huge = await client.post(URL, json=body(user="x" * 200))
        assert huge.status_code == 413
        assert huge.json()["error"]["type"] == "invalid_request_error"
        malformed = await client.post(URL, content=b'{"model": }')
        assert malformed.status_code == 400
        assert "line 1, column 11" in malformed.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/messages", "did you mean /v1/messages?"),
        ("/completions", "did you mean /v1/completions?"),
        ("/v1/embeddings", "another base URL"),
        ("/chat/completions", "base URL ends in /v1"),
        ("/v1/v1/chat/completions", "did you mean /v1/chat/completions?"),
        ("/responses", "did you mean /v1/responses?"),
        ("/v1/responses/resp_1/cancel", "no route POST"),
        ("/v1/moderations", "no route POST /v1/moderations; GET /docs lists the routes"),
    ],
)
async def test_other_routes_say_where_to_go_in_a_shape_that_clients_read(client, path, says):
    answer = await client.post(path, json=body())
    assert answer.status_code == 404
    assert says in answer.json()["error"]["message"]


async def test_a_refusal_and_its_way_out_are_sentences(client):
    error = await CHAT.refusal(client, response_format={"type": "regex", "pattern": "(?<=x)y"})
    assert error["message"].endswith(" $. Write the pattern without it.")


async def test_a_compressed_body_is_refused_by_name(client):
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    answer = await client.post(URL, content=gzip.compress(json.dumps(body()).encode()), headers=headers)
    assert answer.status_code == 415
    assert answer.json()["error"]["code"] == "encoded_body"
    assert "send it uncompressed" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("message", "param", "said"),
    [
        ({"role": "user", "content": [{"text": "Hi"}]}, "messages[0].content[0].type", "it is required"),
        (
            {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
            "messages[0].function_call",
            "use tool_calls",
        ),
    ],
)
async def test_a_message_that_cannot_be_read_is_told_what_to_send(client, message, param, said):
    error = await CHAT.refusal(client, messages=[message])
    assert error["param"] == param
    assert said in error["message"]


async def test_routes_that_other_apis_have_are_told_of_ours(client):
    refused = await client.post("/v1/responses/compact", json={"model": "tiny", "input": "Hi"})
    assert refused.status_code == 405
    assert "truncation" in refused.json()["error"]["message"]
