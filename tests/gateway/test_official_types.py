"""Answers have every member that the official APIs document, and none of another type."""

import pytest
from apis import CHAT, COMPLETIONS, MESSAGES, RESPONSES
from fake_runtime import STATS, call, text
from official_types import EVENTS, WHOLE, judge, judge_event
from sample_tools import WEATHER

from runtime.events import Finished, FinishReason, TextDelta, ThoughtDelta, TokenLogprob

FUNCTION = WEATHER["function"]
CALL = call("get_weather", '{"place": ', '"Oslo"}')
LIKELY = TokenLogprob("Hi", b"Hi", -0.5, (TokenLogprob("Ho", b"Ho", -1.5),))
TEXT = [TextDelta(0, "Hi", (LIKELY,)), Finished(0, FinishReason.STOP, STATS)]
THOUGHT = [ThoughtDelta(0, "Hm."), *text("4 degrees")]
CUT = [TextDelta(0, "It is"), Finished(0, FinishReason.LENGTH, STATS)]

SQL = {"type": "custom", "name": "sql", "description": "Runs SQL.", "format": {"type": "text"}}

ASKED = [
    (CHAT, {}, THOUGHT),
    (CHAT, {}, CUT),
    (CHAT, {"logprobs": True, "top_logprobs": 1}, TEXT),
    (CHAT, {"tools": [WEATHER]}, CALL),
    (COMPLETIONS, {"logprobs": 1}, TEXT),
    (MESSAGES, {}, THOUGHT),
    (MESSAGES, {}, CUT),
    (MESSAGES, {"tools": [FUNCTION]}, CALL),
    (RESPONSES, {}, THOUGHT),
    (RESPONSES, {"text": {"verbosity": "low"}, "max_output_tokens": 9}, CUT),
    (RESPONSES, {"include": ["message.output_text.logprobs"], "top_logprobs": 1}, TEXT),
    (RESPONSES, {"tools": [WEATHER], "tool_choice": "any"}, CALL),
    (RESPONSES, {"tools": [SQL]}, call("sql", '{"input": "select 1"}')),
]


@pytest.mark.parametrize(("api", "fields", "script"), ASKED)
async def test_answers_are_as_documented_whole_and_streamed(client, runtime, api, fields, script):
    runtime.script = script
    judge(WHOLE[api.url], await api.ask(client, **fields))
    for event in await api.stream(client, **fields):
        if api.url in EVENTS:
            judge_event(api.url, event)


async def test_a_response_repeats_the_request_as_openai_writes_it(client, runtime):
    runtime.script = CALL
    body = {
        "tools": [WEATHER, {**FUNCTION, "name": "other", "strict": False}, SQL],
        "tool_choice": "any",
        "user": "u-1",
        "safety_identifier": "s-1",
        "prompt_cache_key": "k-1",
        "max_tool_calls": 3,
        "text": {"verbosity": "medium"},
    }
    answer = await RESPONSES.ask(client, **body)
    assert answer["tools"] == [
        {"type": "function", **FUNCTION, "strict": True},
        {"type": "function", **FUNCTION, "name": "other", "strict": False},
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


async def test_the_fingerprint_is_the_same_for_equal_backends(client, runtime):
    runtime.script = TEXT
    first, second = [await CHAT.ask(client) for _ in range(2)]
    assert first["system_fingerprint"] == second["system_fingerprint"]
    assert first["system_fingerprint"].startswith("fp_")
