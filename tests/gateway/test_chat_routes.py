"""Chat Completions over HTTP, with a runtime that plays a script."""

from dataclasses import replace

import pytest
from chat import URL, ask, body, stream
from fake_runtime import STATS, call, text
from sample_tools import TIME, WEATHER, chat_tool

from compiler.prepared_vocabulary import prepare
from compiler.vocabulary import Vocabulary
from runtime.events import (
    ArgumentsDelta,
    CallStarted,
    Finished,
    FinishReason,
    ThoughtDelta,
)
from runtime.request import Sampling
from toolspecs.tool import ChoiceMode

CALL = call("get_weather", '{"place": ', '"Oslo"}')


async def test_text_is_answered(client, runtime):
    answer = await ask(client)
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "tiny"
    [choice] = answer["choices"]
    assert choice["message"] == {
        "role": "assistant",
        "content": "Hello.",
        "refusal": None,
        "annotations": [],
    }
    assert (choice["finish_reason"], choice["logprobs"]) == ("stop", None)
    assert answer["usage"] == {
        "prompt_tokens": 11,
        "completion_tokens": 7,
        "total_tokens": 18,
        "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
    assert runtime.requests[0].constraint is None


async def test_thoughts_are_told_from_the_answer(client, runtime):
    runtime.card = replace(runtime.card, syntax="harmony")
    runtime.script = [ThoughtDelta(0, "Hm"), ThoughtDelta(0, "."), *text("Hello.")]
    answer = await ask(client)
    [choice] = answer["choices"]
    assert (choice["message"]["content"], choice["message"]["reasoning_content"]) == ("Hello.", "Hm.")
    [request] = runtime.requests
    assert request.constraint.syntax.name == "harmony"
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
    assert request.constraint.syntax.name == "hermes"
    extension = answer["callgate"]
    assert (extension["toolset"], extension["revision"]) == ("weather", 1)
    assert extension["grammar_digest"] == request.constraint.digest
    assert extension["grammar_source"] in {"memory", "store", "compiled"}
    assert (extension["closed_by"], extension["forced_tokens"], extension["rescued_tokens"]) == (None, 3, 2)


async def test_each_choice_gets_its_own_text(client, runtime):
    first, second = text("one", choice=0), text("two", choice=1)
    runtime.script = [second[0], first[0], second[1], first[1]]
    answer = await ask(client, n=2)
    assert [c["message"]["content"] for c in answer["choices"]] == ["one", "two"]
    assert answer["usage"]["completion_tokens"] == 14
    assert answer["usage"]["prompt_tokens"] == 11


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
    await client.put("/v1/toolsets/other", json={"tools": [chat_tool("b")]})
    answer = await ask(client, toolset=["other", "weather"], tools=[chat_tool("a")])
    assert [t.name for t in runtime.requests[0].tools] == ["b", "get_weather", "clock.now", "a"]
    assert answer["callgate"]["toolsets"] == [
        {"name": "other", "revision": 1},
        {"name": "weather", "revision": 1},
    ]
    assert answer["callgate"]["toolset"] is None


async def test_an_old_revision_is_served_after_a_change(client, runtime, weather):
    await client.put("/v1/toolsets/weather", json={"tools": [TIME]})
    await ask(client, toolset="weather@1")
    assert [tool.name for tool in runtime.requests[0].tools] == ["get_weather", "clock.now"]


@pytest.mark.parametrize(
    ("fields", "mode", "allowed"),
    [
        ({}, ChoiceMode.AUTO, ("get_weather", "clock.now")),
        ({"tool_choice": "none"}, ChoiceMode.NONE, ()),
        ({"tool_choice": "required"}, ChoiceMode.REQUIRED, ("get_weather", "clock.now")),
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
async def test_the_grammar_follows_the_choice(client, runtime, weather, fields, mode, allowed):
    for is_parallel in (True, False):
        await ask(client, toolset="weather", parallel_tool_calls=is_parallel, **fields)
        constraint = runtime.requests[-1].constraint
        assert (constraint.tool_choice.mode, constraint.names) == (mode, allowed)
        assert constraint.is_parallel is is_parallel
        assert constraint.syntax.name == "hermes"


async def test_a_json_schema_constrains_the_text(client, runtime):
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}
    await ask(client, response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})
    constraint = runtime.requests[0].constraint
    assert constraint.accepts('{"a": 1}')
    assert not constraint.accepts('{"a": "1"}')
    assert constraint.syntax is None
    await ask(client, response_format={"type": "json_object"})
    assert runtime.requests[1].constraint.accepts('{"anything": [1]}')
    assert not runtime.requests[1].constraint.accepts("[1]")


@pytest.mark.parametrize(
    ("choice", "begins_with"),
    [("auto", {"y", "n", "<"}), ("none", {"y", "n"}), ("required", {"<"})],
)
async def test_beside_tools_a_format_is_that_of_the_answer(client, runtime, weather, choice, begins_with):
    """Where the choice is the model's, it calls or answers; text that is neither it cannot write."""
    formatted = {"type": "choice", "choices": ["yes", "no"]}
    await ask(client, toolset="weather", tool_choice=choice, response_format=formatted)
    [request] = runtime.requests
    matcher = request.constraint.matcher()
    assert {
        chr(byte) for byte in range(256) if matcher.accept(byte) and not matcher.rollback(1)
    } == begins_with
    assert len(request.tools) == 2


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
    runtime.card = replace(runtime.card, prepared=prepare(thinking), syntax="hermes+think")
    await ask(client, response_format={"type": "choice", "choices": ["yes", "no"]})
    matcher = runtime.requests[0].constraint.matcher()
    assert all(map(matcher.accept, [257, *b"Hm.", 258, *b"no", 256]))
    refused = await client.post(URL, json=body(response_format={"type": "choice", "choices": ["<think>"]}))
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "response_format"


async def test_a_text_is_streamed_in_chunks_of_one_completion(client, runtime):
    runtime.script = text("Hel", "lo")
    chunks = await stream(client, stream_options={"include_usage": True})
    assert {c["object"] for c in chunks} == {"chat.completion.chunk"}
    assert len({c["id"] for c in chunks}) == 1
    deltas = [c["choices"][0]["delta"] for c in chunks[:-1]]
    assert deltas == [
        {"role": "assistant", "content": "", "refusal": None},
        {"content": "Hel"},
        {"content": "lo"},
        {},
    ]
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
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": None, "refusal": None}
    assert all("usage" not in c for c in chunks)
    deltas = [c["choices"][0]["delta"]["tool_calls"][0] for c in chunks[1:-1]]
    assert [(d["index"], d["type"]) for d in deltas] == [(0, "function")] * 3 + [(1, "function")] * 2
    assert [d["function"].get("name") for d in deltas] == ["get_weather", None, None, "clock.now", None]
    assert ["id" in d for d in deltas] == [True, False, False, True, False]
    assert "".join(d["function"]["arguments"] for d in deltas if d["index"] == 0) == '{"place": "Oslo"}'
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert chunks[-1]["callgate"]["toolset"] == "weather"


async def test_what_a_request_leaves_out_is_sampled_as_the_model_says(client, runtime):
    runtime.card = replace(runtime.card, sampling=Sampling(temperature=0.6, top_p=0.95, top_k=20))
    model = (await client.get("/v1/models/tiny")).json()
    assert model["callgate"]["sampling"] == {
        "temperature": 0.6,
        "top_p": 0.95,
        "top_k": 20,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
    }
    for asked in ({}, {"top_p": 0.5, "seed": 7}, {"temperature": 1, "top_k": -1}, {"temperature": None}):
        await ask(client, **asked)
    assert [request.sampling for request in runtime.requests] == [
        Sampling(temperature=0.6, top_p=0.95, top_k=20),
        Sampling(temperature=0.6, top_p=0.5, top_k=20, seed=7),
        Sampling(temperature=1.0, top_p=0.95),
        Sampling(temperature=0.6, top_p=0.95, top_k=20),
    ]
