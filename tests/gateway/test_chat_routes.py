"""Chat Completions over HTTP, with a runtime that plays a script."""

import json
from dataclasses import replace

import pytest
from fake_runtime import STATS, call, text
from sample_tools import TIME, WEATHER

from compiler.vocabulary import Vocabulary
from runtime.errors import BudgetTooSmall, GenerationFailed, Overloaded, PromptTooLong, RequestRefused
from runtime.events import (
    ArgumentsDelta,
    CallStarted,
    Finished,
    FinishReason,
    TextDelta,
    ThoughtDelta,
    TokenLogprob,
)
from runtime.protocol import Health
from toolspecs.choice import ChoiceMode

URL = "/v1/chat/completions"
CALL = call("get_weather", '{"place": ', '"Oslo"}')


def body(**fields):
    return {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], **fields}


async def ask(client, headers=None, **fields):
    response = await client.post(URL, json=body(**fields), headers=headers)
    assert response.status_code == 200, response.text
    return response.json()


async def stream(client, **fields):
    """The chunks of a stream, whose end is checked."""
    response = await client.post(URL, json=body(stream=True, **fields))
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    *events, end = response.text.removesuffix("\n\n").split("\n\n")
    assert end == "data: [DONE]"
    return [json.loads(event.removeprefix("data: ")) for event in events]


async def test_text_is_answered(client, runtime):
    answer = await ask(client)
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "tiny"
    [choice] = answer["choices"]
    assert choice["message"] == {"role": "assistant", "content": "Hello.", "refusal": None}
    assert (choice["finish_reason"], choice["logprobs"]) == ("stop", None)
    assert answer["usage"] == {
        "prompt_tokens": 11,
        "completion_tokens": 7,
        "total_tokens": 18,
        "prompt_tokens_details": {"cached_tokens": 4},
    }
    assert runtime.requests[0].constraint is None
    assert runtime.requests[0].syntax is None


async def test_thoughts_are_told_from_the_answer(client, runtime):
    runtime.card = replace(runtime.card, syntax="harmony")
    runtime.script = [ThoughtDelta(0, "Hm"), ThoughtDelta(0, "."), *text("Hello.")]
    answer = await ask(client)
    [choice] = answer["choices"]
    assert (choice["message"]["content"], choice["message"]["reasoning_content"]) == ("Hello.", "Hm.")
    [request] = runtime.requests
    assert request.syntax == "harmony"
    assert request.constraint.names == ()
    deltas = [chunk["choices"][0]["delta"] for chunk in await stream(client)]
    assert [d["reasoning_content"] for d in deltas if "reasoning_content" in d] == ["Hm", "."]


async def test_a_call_is_answered_and_says_what_masked_it(client, runtime, weather):
    runtime.script = CALL
    answer = await ask(client, toolset="weather", tool_choice="required")
    [choice] = answer["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    [made] = choice["message"]["tool_calls"]
    assert made["id"].startswith("call_")
    assert (made["type"], made["function"]) == (
        "function",
        {"name": "get_weather", "arguments": '{"place": "Oslo"}'},
    )
    [request] = runtime.requests
    assert [tool.name for tool in request.tools] == ["get_weather", "clock.now"]
    assert request.syntax == "hermes"
    extension = answer["callgate"]
    assert (extension["toolset"], extension["revision"]) == ("weather", 1)
    assert extension["grammar_digest"] == request.constraint.digest
    assert extension["grammar_source"] in {"memory", "store", "compiled"}
    assert (extension["closed_by"], extension["forced_tokens"], extension["rescued_tokens"]) == (None, 3, 2)


async def test_a_named_choice_finishes_with_stop_as_openai_does(client, runtime, weather):
    runtime.script = CALL
    named = {"type": "function", "function": {"name": "get_weather"}}
    answer = await ask(client, toolset="weather", tool_choice=named)
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["choices"][0]["message"]["tool_calls"]
    chunks = await stream(client, toolset="weather", tool_choice=named)
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


async def test_a_call_closed_by_the_budget_is_whole_and_says_so(client, runtime, weather):
    runtime.script = call("get_weather", '{"place": ""}', closed_by="budget")
    answer = await ask(client, toolset="weather", tool_choice="required")
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == '{"place": ""}'
    assert answer["callgate"]["closed_by"] == "budget"


async def test_choices_keep_apart(client, runtime):
    first, second = text("one", choice=0), text("two", choice=1)
    runtime.script = [second[0], first[0], second[1], first[1]]
    answer = await ask(client, n=2)
    assert [c["message"]["content"] for c in answer["choices"]] == ["one", "two"]
    assert answer["usage"]["completion_tokens"] == 14
    assert answer["usage"]["prompt_tokens"] == 11


async def test_logprobs_are_given_when_asked_for(client, runtime):
    token = TokenLogprob("Hé", "Hé".encode(), -0.5, top=(TokenLogprob("Ho", b"Ho", -1.0),))
    runtime.script = [TextDelta(0, "Hé", (token,)), Finished(0, FinishReason.STOP, STATS)]
    answer = await ask(client, logprobs=True, top_logprobs=1)
    [shown] = answer["choices"][0]["logprobs"]["content"]
    assert shown["bytes"] == list("Hé".encode())
    assert shown["top_logprobs"] == [{"token": "Ho", "logprob": -1.0, "bytes": [72, 111]}]
    assert runtime.requests[0].num_logprobs == 1
    chunks = await stream(client, logprobs=True)
    assert chunks[1]["choices"][0]["logprobs"]["content"][0]["token"] == "Hé"
    assert runtime.requests[1].num_logprobs == 0


# Where the tools come from


@pytest.mark.parametrize(
    ("fields", "headers"),
    [
        ({"toolset": "weather"}, {}),
        ({"toolset": "weather@1"}, {}),
        ({"toolset": ["weather"]}, {}),
        ({}, {"X-Toolset": "weather"}),
        ({"toolset": "weather"}, {"X-Toolset": "weather"}),
        ({"model": "tiny:weather"}, {}),
        ({"model": "tiny:weather@1"}, {}),
        ({"tools": [WEATHER, TIME]}, {}),
    ],
)
async def test_every_way_to_name_the_tools(client, runtime, weather, fields, headers):
    await ask(client, headers, **fields)
    assert [tool.name for tool in runtime.requests[0].tools] == ["get_weather", "clock.now"]
    assert runtime.requests[0].model == "tiny"


async def test_toolsets_and_inline_tools_join_in_order(client, runtime, weather):
    await client.put("/v1/toolsets/other", json={"tools": [tool_named("b")]})
    answer = await ask(client, toolset=["other", "weather"], tools=[tool_named("a")])
    assert [t.name for t in runtime.requests[0].tools] == ["b", "get_weather", "clock.now", "a"]
    assert answer["callgate"]["toolsets"] == [
        {"name": "other", "revision": 1},
        {"name": "weather", "revision": 1},
    ]
    assert answer["callgate"]["toolset"] is None


def tool_named(name):
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


async def test_an_old_revision_is_served_after_a_change(client, runtime, weather):
    await client.put("/v1/toolsets/weather", json={"tools": [TIME]})
    await ask(client, toolset="weather@1")
    assert [tool.name for tool in runtime.requests[0].tools] == ["get_weather", "clock.now"]


@pytest.mark.parametrize(
    ("fields", "mode", "allowed"),
    [
        ({}, ChoiceMode.AUTO, None),
        ({"tool_choice": "none"}, ChoiceMode.NONE, None),
        ({"tool_choice": "required"}, ChoiceMode.REQUIRED, None),
        (
            {
                "tool_choice": {
                    "type": "allowed_tools",
                    "allowed_tools": {
                        "mode": "required",
                        "tools": [{"type": "function", "function": {"name": "clock.now"}}],
                    },
                }
            },
            ChoiceMode.REQUIRED,
            ("clock.now",),
        ),
    ],
)
async def test_the_grammar_follows_the_choice(
    client, runtime, app, weather, monkeypatch, fields, mode, allowed
):
    grammars = app.state.parts.completions._grammars
    asked = {}
    original = grammars.toolset

    async def spy(tools, **options):
        asked.update(options)
        return await original(tools, **options)

    monkeypatch.setattr(grammars, "toolset", spy)
    await ask(client, toolset="weather", parallel_tool_calls=False, **fields)
    assert (asked["choice"].mode, asked["choice"].allowed) == (mode, allowed)
    assert asked["parallel"] is False
    assert asked["syntax"] == "hermes"


async def test_a_json_schema_constrains_the_text(client, runtime):
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}
    await ask(client, response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})
    constraint = runtime.requests[0].constraint
    assert constraint.accepts('{"a": 1}')
    assert not constraint.accepts('{"a": "1"}')
    assert runtime.requests[0].syntax is None
    await ask(client, response_format={"type": "json_object"})
    assert runtime.requests[1].constraint.accepts('{"anything": [1]}')
    assert not runtime.requests[1].constraint.accepts("[1]")


@pytest.mark.parametrize(
    ("response_format", "of", "not_of"),
    [
        ({"type": "regex", "pattern": r"\d{3}-\d{4}"}, "555-1234", "call 555-1234"),
        ({"type": "choice", "choices": ["yes", "no"]}, "no", "maybe"),
        ({"type": "grammar", "grammar": 'root ::= "a" root "b" | ""'}, "aabb", "aab"),
    ],
)
async def test_a_format_constrains_the_text(client, runtime, response_format, of, not_of):
    answer = await ask(client, response_format=response_format)
    constraint = runtime.requests[0].constraint
    assert constraint.accepts(of)
    assert not constraint.accepts(not_of)
    assert answer["callgate"]["grammar_digest"] == constraint.digest
    assert answer["callgate"]["grammar_source"] == "compiled"
    again = await ask(client, response_format=response_format)
    assert again["callgate"]["grammar_source"] == "memory"


async def test_a_format_leaves_a_model_its_thoughts(client, runtime):
    tokens = [*(bytes([b]) for b in range(256)), b"", b"?", b"?"]
    thinking = Vocabulary.from_tokens(tokens, markers={"<think>": 257, "</think>": 258}, stop_ids=[256])
    runtime.card = replace(runtime.card, vocabulary=thinking, syntax="hermes+think")
    await ask(client, response_format={"type": "choice", "choices": ["yes", "no"]})
    matcher = runtime.requests[0].constraint.matcher()
    assert all(map(matcher.accept, [257, *b"Hm.", 258, *b"no", 256]))
    refused = await client.post(URL, json=body(response_format={"type": "choice", "choices": ["<think>"]}))
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "response_format"


# Streaming


async def test_text_streams(client, runtime):
    runtime.script = text("Hel", "lo")
    chunks = await stream(client, stream_options={"include_usage": True})
    assert {c["object"] for c in chunks} == {"chat.completion.chunk"}
    assert len({c["id"] for c in chunks}) == 1
    deltas = [c["choices"][0]["delta"] for c in chunks[:-1]]
    assert deltas == [{"role": "assistant", "content": ""}, {"content": "Hel"}, {"content": "lo"}, {}]
    assert [c["choices"][0]["finish_reason"] for c in chunks[:-1]] == [None, None, None, "stop"]
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["total_tokens"] == 18
    assert all(c["usage"] is None for c in chunks[:-1])


async def test_calls_stream_with_index_and_type_in_every_delta(client, runtime, weather):
    runtime.script = [
        CallStarted(0, 0, "get_weather"),
        ArgumentsDelta(0, 0, '{"place": '),
        ArgumentsDelta(0, 0, '"Oslo"}'),
        CallStarted(0, 1, "clock.now"),
        ArgumentsDelta(0, 1, "{}"),
        Finished(0, FinishReason.TOOL_CALLS, STATS),
    ]
    chunks = await stream(client, toolset="weather")
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": None}
    assert all("usage" not in c for c in chunks)
    deltas = [c["choices"][0]["delta"]["tool_calls"][0] for c in chunks[1:-1]]
    assert [(d["index"], d["type"]) for d in deltas] == [(0, "function")] * 3 + [(1, "function")] * 2
    assert [d["function"].get("name") for d in deltas] == ["get_weather", None, None, "clock.now", None]
    assert ["id" in d for d in deltas] == [True, False, False, True, False]
    assert "".join(d["function"]["arguments"] for d in deltas if d["index"] == 0) == '{"place": "Oslo"}'
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert chunks[-1]["callgate"]["toolset"] == "weather"


async def test_an_error_in_mid_stream_is_sent_and_ends_it(client, runtime, weather):
    runtime.script = [CallStarted(0, 0, "get_weather"), GenerationFailed("the engine stopped")]
    response = await client.post(URL, json=body(stream=True, toolset="weather"))
    assert response.status_code == 200
    *chunks, last = response.text.removesuffix("\n\n").split("\n\n")
    error = json.loads(last.removeprefix("data: "))["error"]
    assert (error["message"], error["code"]) == ("the engine stopped", "generation_failed")
    assert all(json.loads(c[6:])["choices"][0]["finish_reason"] is None for c in chunks)
    assert runtime.num_aborted == 1


# Errors, in OpenAI's shape


ERRORS = [
    (Overloaded(2.5), 429, "rate_limit_error", "overloaded", None),
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
    (RuntimeError("secret detail"), 500, "server_error", "internal_error", None),
]


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
    assert response.headers.get("retry-after") == ("3" if status == 429 else None)


@pytest.mark.parametrize(
    ("fields", "status", "param", "said"),
    [
        ({"model": "huge"}, 404, "model", "tiny"),
        ({"model": "tiny:wether"}, 404, "toolset", "weather"),
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
        ({"toolset": "weather", "response_format": {"type": "json_object"}}, 400, "response_format", "tools"),
        ({"n": 100}, 400, "n", "16"),
        (
            {
                "tools": [
                    {
                        "type": "function",
                        "function": {
                            "name": "a",
                            "parameters": {
                                "type": "object",
                                "properties": {"x": {"type": "string", "pattern": "(?=a)b"}},
                            },
                        },
                    }
                ]
            },
            400,
            "tools",
            "pattern",
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "a", "parameters": {"type": "strange"}}}]},
            400,
            "tools[0].function.parameters.type",
            "strange",
        ),
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


async def test_toolsets_that_share_a_tool_are_both_named(client, weather):
    await client.put("/v1/toolsets/other", json={"tools": [TIME]})
    response = await client.post(URL, json=body(toolset=["weather", "other"]))
    assert response.status_code == 400
    message = response.json()["error"]["message"]
    assert all(word in message for word in ("clock.now", "'weather'", "'other'"))


async def test_oversized_and_malformed_bodies_keep_the_shape(client):
    huge = await client.post(URL, json=body(messages=[{"role": "user", "content": "x" * 200_000}]))
    assert huge.status_code == 413
    assert huge.json()["error"]["type"] == "invalid_request_error"
    malformed = await client.post(URL, content=b'{"model": }')
    assert malformed.status_code == 400
    assert "line 1, column 11" in malformed.json()["error"]["message"]


async def test_a_runtime_that_is_not_ready_is_503(client, runtime):
    runtime.health_now = Health(is_ready=False, reason="the engine has stopped")
    response = await client.post(URL, json=body())
    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"
    assert "the engine has stopped" in response.json()["error"]["message"]
    ready = await client.get("/readyz")
    assert (ready.status_code, ready.json()["reason"]) == (503, "the engine has stopped")
    assert (await client.get("/healthz")).status_code == 200


async def test_models_are_listed(client):
    listed = (await client.get("/v1/models")).json()
    assert [model["id"] for model in listed["data"]] == ["tiny"]
    assert (await client.get("/v1/models/tiny")).json() == listed["data"][0]
    missing = await client.get("/v1/models/huge")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "model_not_found")


async def test_the_gateway_is_ready_and_closes_its_runtime(client, runtime):
    assert (await client.get("/readyz")).json() == {"status": "ready"}
    assert not runtime.is_closed


@pytest.mark.parametrize(
    "path",
    ["/v1/responses", "/v1/messages", "/v1/completions", "/chat/completions", "/v1/v1/chat/completions"],
)
async def test_routes_of_other_apis_say_where_models_are_served(client, path):
    answer = await client.post(path, json={})
    assert answer.status_code == 404
    hint = answer.text.partition(f"POST {path}; ")[2]
    assert "/v1/chat/completions" in hint


async def test_a_refusal_and_its_way_out_are_sentences(client):
    pattern = {"type": "regex", "pattern": "(?=x)y"}
    answer = await client.post(URL, json=body(response_format=pattern))
    assert answer.json()["error"]["message"].endswith(" end. Write it without.")
