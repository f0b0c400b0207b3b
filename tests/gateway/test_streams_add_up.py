"""The events of a stream add up to the answer that is sent whole, in every API."""

from random import Random

import pytest
from apis import CHAT, COMPLETIONS, MESSAGES, RESPONSES
from fake_runtime import text
from official_types import message_of
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk
from random_answers import CHAT_TOOLS, MESSAGES_TOOLS, RESPONSES_TOOLS, script_of

from runtime.events import TextDelta, TokenLogprob

NUM_SCRIPTS = 30
WITH_USAGE = {"stream_options": {"include_usage": True}}
NEW_EACH_TIME = frozenset(
    {"id", "call_id", "created", "created_at", "completed_at", "grammar_source", "grammar_wait_ms"}
)


def comparable(value, *left_out):
    """A document without what is new in each answer, without null, and without `left_out`."""
    if isinstance(value, list):
        return [comparable(each, *left_out) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {key: each for key, each in value.items() if key not in {*NEW_EACH_TIME, *left_out}}
    return {key: comparable(each, *left_out) for key, each in kept.items() if each is not None}


async def test_chunks_of_chat(client, runtime):
    """As OpenAI's client adds them up; it keeps the indexes of calls, and does not know what is ours."""
    for seed in range(NUM_SCRIPTS):
        rng = Random(seed)
        n = rng.randint(1, 3)
        runtime.script = script_of(rng, n)
        asked = {"n": n, "tools": CHAT_TOOLS, "logprobs": True, "top_logprobs": 2}
        whole = await CHAT.ask(client, **asked)
        chunks = await CHAT.stream(client, **asked, **WITH_USAGE)
        state = ChatCompletionStreamState()
        for chunk in chunks:
            state.handle_chunk(ChatCompletionChunk.construct(**chunk))
        added_up = state.current_completion_snapshot.to_dict()
        for choice in (*whole["choices"], *added_up["choices"]):
            choice["message"]["content"] = choice["message"]["content"] or ""
            choice["logprobs"] = (choice["logprobs"] or {}).get("content") or []
            for call in choice["message"].get("tool_calls") or ():
                call.pop("index", None)
        own = ("object", "annotations", "callgate", "parsed", "parsed_arguments")
        assert comparable(added_up, *own) == comparable(whole, *own)
        assert chunks[-1]["callgate"].keys() == whole["callgate"].keys()


async def test_chunks_of_text_completions(client, runtime):
    for seed in range(NUM_SCRIPTS):
        rng = Random(seed)
        n = rng.randint(1, 3)
        runtime.script = script_of(rng, n, thinks=False, max_calls=0)
        whole = await COMPLETIONS.ask(client, n=n, logprobs=2)
        chunks = await COMPLETIONS.stream(client, n=n, logprobs=2, **WITH_USAGE)
        choices = {each["index"]: each for each in whole["choices"]}
        for index, choice in choices.items():
            parts = [part for chunk in chunks for part in chunk["choices"] if part["index"] == index]
            assert "".join(part["text"] for part in parts) == choice["text"]
            assert [part["finish_reason"] for part in parts if part["finish_reason"]] == [
                choice["finish_reason"]
            ]
            for name, of_tokens in choice["logprobs"].items():
                told = [part["logprobs"][name] for part in parts if part["logprobs"]]
                assert [each for some in told for each in some] == of_tokens
        assert chunks[-1]["usage"] == whole["usage"]


async def test_events_of_messages(client, runtime):
    """As Anthropic's client adds them up."""
    for seed in range(NUM_SCRIPTS):
        runtime.script = script_of(Random(seed))
        whole = await MESSAGES.ask(client, tools=MESSAGES_TOOLS)
        events = await MESSAGES.stream(client, tools=MESSAGES_TOOLS)
        own = ("callgate", "signature", "parsed_output")
        assert comparable(message_of(events), *own) == comparable(whole, *own)


async def test_events_of_responses(client, runtime):
    """The last event has the whole response, and the events before it add up to its items."""
    asked = {
        "tools": RESPONSES_TOOLS,
        "include": ["message.output_text.logprobs"],
        "top_logprobs": 2,
    }
    for seed in range(NUM_SCRIPTS):
        runtime.script = script_of(Random(seed))
        whole, events = await RESPONSES.ask(client, **asked), await RESPONSES.stream(client, **asked)
        assert events[-1]["type"] == f"response.{whole['status']}"
        assert comparable(events[-1]["response"]) == comparable(whole)
        items = added_up(events[2:-1])
        assert comparable(items, "status") == comparable(whole["output"], "status")


@pytest.mark.parametrize(
    ("api", "fields"),
    [
        (CHAT, {"logprobs": True, "top_logprobs": 1}),
        (RESPONSES, {"include": ["message.output_text.logprobs"], "top_logprobs": 1}),
    ],
)
async def test_log_probabilities_come_with_their_text(client, runtime, api, fields):
    token = TokenLogprob("Hé", "Hé".encode(), -0.5, (TokenLogprob("Ho", b"Ho", -1.5),))
    runtime.script = [TextDelta(0, "Hé", (token,)), *text()]
    whole, events = await api.ask(client, **fields), await api.stream(client, **fields)
    if api is CHAT:
        told = [whole["choices"][0]["logprobs"]["content"], events[1]["choices"][0]["logprobs"]["content"]]
    else:
        deltas = [event["logprobs"] for event in events if event["type"] == "response.output_text.delta"]
        told = [whole["output"][0]["content"][0]["logprobs"], *deltas]
    other = {"token": "Ho", "logprob": -1.5, "bytes": [72, 111]}
    first = {"token": "Hé", "logprob": -0.5, "bytes": list("Hé".encode()), "top_logprobs": [other]}
    assert told == [[first], [first]]
    assert [request.num_logprobs for request in runtime.requests] == [1, 1]


@pytest.mark.parametrize("api", [CHAT, COMPLETIONS, MESSAGES, RESPONSES])
async def test_no_character_of_a_text_ends_a_line(client, runtime, api):
    """Some clients read streams by httpx's lines, which end wherever Python's do."""
    runtime.script = text("a\u2028b\u2029c\x85d\x1ce\x0bf\x0cg\r\nh")
    answer = await client.post(api.url, json=api.body(stream=True))
    assert answer.text.splitlines() == answer.text.removesuffix("\n").split("\n")


def added_up(events):
    """The items of a response; each `done` says again what the deltas before it said."""
    items = []
    for event in events:
        kind = event["type"].removeprefix("response.")
        if kind == "output_item.added":
            assert event["output_index"] == len(items)
            items.append(event["item"])
            continue
        item = items[event["output_index"]]
        if kind == "output_item.done":
            assert event["item"] == {**item, "status": event["item"]["status"]}
        elif kind == "content_part.added":
            assert event["content_index"] == len(item.setdefault("content", []))
            item["content"].append(event["part"])
        elif kind == "content_part.done":
            assert event["part"] == item["content"][event["content_index"]]
        else:
            name, _, step = kind.rpartition(".")
            key = {"function_call_arguments": "arguments", "custom_tool_call_input": "input"}.get(
                name, "text"
            )
            part = item["content"][event["content_index"]] if key == "text" else item
            if step == "done":
                assert event[key] == part[key]
            else:
                assert step == "delta"
                part[key] += event["delta"]
                part.get("logprobs", []).extend(event.get("logprobs", ()))
    return items
