"""Answers have every member that the official APIs document, and none of another type."""

import pytest
from fake_runtime import STATS, call, text
from official_types import EVENTS, WHOLE, judge, judge_event
from sse import events_of

from runtime.errors import DeadlineExceeded, Overloaded
from runtime.events import Finished, FinishReason, TextDelta, ThoughtDelta, TokenLogprob

PARAMETERS = {
    "type": "object",
    "properties": {"place": {"type": "string"}},
    "required": ["place"],
    "additionalProperties": False,
}
WEATHER = {"name": "get_weather", "description": "The weather.", "parameters": PARAMETERS}
CHAT_TOOL = {"type": "function", "function": WEATHER}
CALL = call("get_weather", '{"place": ', '"Oslo"}')
LIKELY = TokenLogprob("Hi", b"Hi", -0.5, (TokenLogprob("Ho", b"Ho", -1.5),))
TEXT = [TextDelta(0, "Hi", (LIKELY,)), Finished(0, FinishReason.STOP, STATS)]
THOUGHT = [ThoughtDelta(0, "Hm."), *text("4 degrees")]
CUT = [TextDelta(0, "It is"), Finished(0, FinishReason.LENGTH, STATS)]

USER = [{"role": "user", "content": "Hi"}]
SQL = {"type": "custom", "name": "sql", "description": "Runs SQL.", "format": {"type": "text"}}

ASKED = [
    ("/v1/chat/completions", {"messages": USER}, THOUGHT),
    ("/v1/chat/completions", {"messages": USER}, CUT),
    ("/v1/chat/completions", {"messages": USER, "logprobs": True, "top_logprobs": 1}, TEXT),
    ("/v1/chat/completions", {"messages": USER, "tools": [CHAT_TOOL]}, CALL),
    ("/v1/completions", {"prompt": "Hi", "logprobs": 1}, TEXT),
    ("/v1/messages", {"messages": USER, "max_tokens": 50}, THOUGHT),
    ("/v1/messages", {"messages": USER, "max_tokens": 50}, CUT),
    ("/v1/messages", {"messages": USER, "max_tokens": 50, "tools": [WEATHER]}, CALL),
    ("/v1/responses", {"input": "Hi"}, THOUGHT),
    ("/v1/responses", {"input": "Hi", "text": {"verbosity": "low"}, "max_output_tokens": 9}, CUT),
    ("/v1/responses", {"input": "Hi", "include": ["message.output_text.logprobs"], "top_logprobs": 1}, TEXT),
    ("/v1/responses", {"input": "Hi", "tools": [CHAT_TOOL], "tool_choice": "any"}, CALL),
    ("/v1/responses", {"input": "Hi", "tools": [SQL]}, call("sql", '{"input": "select 1"}')),
]
NAMES = [f"{path.rpartition('/')[2]} {i}" for i, (path, _, _) in enumerate(ASKED)]


async def streamed(client, path, body):
    return events_of(await client.post(path, json={"model": "tiny", "stream": True, **body}))


@pytest.mark.parametrize(("path", "body", "script"), ASKED, ids=NAMES)
async def test_a_whole_answer_is_as_documented(client, runtime, path, body, script):
    runtime.script = script
    answer = await client.post(path, json={"model": "tiny", **body})
    assert answer.status_code == 200, answer.text
    judge(WHOLE[path], answer.json())


@pytest.mark.parametrize(("path", "body", "script"), ASKED, ids=NAMES)
async def test_every_event_is_as_documented(client, runtime, path, body, script):
    runtime.script = script
    for event in await streamed(client, path, body):
        if path in EVENTS:
            judge_event(path, event)


async def test_a_response_repeats_the_request_as_openai_writes_it(client, runtime):
    runtime.script = CALL
    body = {
        "input": "Hi",
        "tools": [CHAT_TOOL, {**WEATHER, "name": "other", "strict": False}, SQL],
        "tool_choice": "any",
        "user": "u-1",
        "safety_identifier": "s-1",
        "prompt_cache_key": "k-1",
        "max_tool_calls": 3,
        "text": {"verbosity": "medium"},
    }
    answer = (await client.post("/v1/responses", json={"model": "tiny", **body})).json()
    assert answer["tools"] == [
        {"type": "function", **WEATHER, "strict": True},
        {"type": "function", **WEATHER, "name": "other", "strict": False},
        SQL,
    ]
    assert answer["tool_choice"] == "required"
    assert answer["text"] == {"format": {"type": "text"}, "verbosity": "medium"}
    assert {name: answer[name] for name in ("user", "safety_identifier", "prompt_cache_key")} == {
        "user": "u-1",
        "safety_identifier": "s-1",
        "prompt_cache_key": "k-1",
    }
    assert answer["max_tool_calls"] == 3
    assert answer["completed_at"] >= answer["created_at"]


@pytest.mark.parametrize(
    ("error", "code"), [(DeadlineExceeded(), "server_error"), (Overloaded(), "rate_limit_exceeded")]
)
async def test_a_response_that_fails_has_a_code_of_the_closed_list(client, runtime, error, code):
    runtime.script = [TextDelta(0, "It"), error]
    last = (await streamed(client, "/v1/responses", {"input": "Hi"}))[-1]
    judge(EVENTS["/v1/responses"], last)
    assert last["response"]["error"]["code"] == code
    assert last["response"]["error"]["type"] in {"deadline_exceeded", "overloaded"}


async def test_the_fingerprint_is_the_same_for_equal_backends(client, runtime):
    runtime.script = TEXT
    first, second = [
        (await client.post("/v1/chat/completions", json={"model": "tiny", "messages": USER})).json()
        for _ in range(2)
    ]
    assert first["system_fingerprint"] == second["system_fingerprint"]
    assert first["system_fingerprint"].startswith("fp_")
