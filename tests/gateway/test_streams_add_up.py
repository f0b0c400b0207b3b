"""The events of a stream add up to the answer that is sent whole, in every API."""

import json
from random import Random

from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import RawMessageStreamEvent
from fake_runtime import STATS
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk
from pydantic import TypeAdapter
from sample_tools import TIME, WEATHER

from runtime.events import (
    ArgumentsDelta,
    CallStarted,
    Event,
    Finished,
    FinishReason,
    TextDelta,
    ThoughtDelta,
    TokenLogprob,
)

NUM_SCRIPTS = 30
USER = [{"role": "user", "content": "Hi"}]
SQL = {"name": "sql", "description": "Runs SQL."}
FUNCTIONS = [tool["function"] for tool in (WEATHER, TIME)]
NEW_EACH_TIME = frozenset(
    {"id", "call_id", "created", "created_at", "completed_at", "grammar_source", "grammar_wait_ms"}
)


def text_of(rng: Random, most: int) -> str:
    return "".join(rng.choices('ab é😀\n"\\{<', k=rng.randint(1, most)))


def cut(rng: Random, text: str) -> list[str]:
    at = sorted(rng.randint(0, len(text)) for _ in range(rng.randint(0, 4)))
    return [text[start:end] for start, end in zip([0, *at], [*at, len(text)], strict=True) if end > start]


def token(character: str, *others: str) -> TokenLogprob:
    return TokenLogprob(character, character.encode(), -0.5, tuple(map(token, others)))


def choice_of(rng: Random, number: int, *, thinks: bool, max_calls: int) -> list[Event]:
    """Some thoughts, some text, some calls, and one of the ways to end."""
    events: list[Event] = [ThoughtDelta(number, text_of(rng, 5)) for _ in range(rng.randint(0, 2) * thinks)]
    for _ in range(rng.randint(0, 3)):
        text = text_of(rng, 5)
        events.append(TextDelta(number, text, tuple(token(each, each, "z") for each in text)))
    calls = rng.choices(["get_weather", "get_time", "sql"], k=rng.randint(0, max_calls))
    for index, name in enumerate(calls):
        arguments = json.dumps({"input" if name == "sql" else "place": text_of(rng, 8)})
        events.append(CallStarted(number, index, name))
        events += [ArgumentsDelta(number, index, piece) for piece in cut(rng, arguments)]
    reasons = [FinishReason.TOOL_CALLS if calls else FinishReason.STOP, FinishReason.LENGTH]
    reason = rng.choice(reasons)
    is_closed = bool(calls) and reason is FinishReason.LENGTH
    return [*events, Finished(number, reason, STATS, closed_by="budget" if is_closed else None)]


def script_of(rng: Random, num_choices: int = 1, *, thinks: bool = True, max_calls: int = 2) -> list[Event]:
    """The events of several choices, which come in any order."""
    pending = [choice_of(rng, i, thinks=thinks, max_calls=max_calls) for i in range(num_choices)]
    events = []
    while pending:
        events.append(rng.choice(pending).pop(0))
        pending = [choice for choice in pending if choice]
    return events


async def whole_and_events(client, path, body, **streamed):
    whole = await client.post(path, json={"model": "tiny", **body})
    stream = await client.post(path, json={"model": "tiny", "stream": True, **body, **streamed})
    assert whole.status_code == stream.status_code == 200, whole.text + stream.text
    data = [line.removeprefix("data: ") for line in stream.text.splitlines() if line.startswith("data: ")]
    return whole.json(), [json.loads(event) for event in data if event != "[DONE]"]


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
    custom = {"type": "custom", "custom": SQL}
    for seed in range(NUM_SCRIPTS):
        rng = Random(seed)
        n = rng.randint(1, 3)
        runtime.script = script_of(rng, n)
        body = {
            "messages": USER,
            "n": n,
            "tools": [WEATHER, TIME, custom],
            "logprobs": True,
            "top_logprobs": 2,
        }
        whole, chunks = await whole_and_events(
            client, "/v1/chat/completions", body, stream_options={"include_usage": True}
        )
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
        whole, chunks = await whole_and_events(
            client,
            "/v1/completions",
            {"prompt": "Hi", "n": n, "logprobs": 2},
            stream_options={"include_usage": True},
        )
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
    read = TypeAdapter(RawMessageStreamEvent).validate_python
    text = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
    tools = [{"name": each["name"], "input_schema": each["parameters"]} for each in FUNCTIONS]
    body = {"messages": USER, "max_tokens": 50, "tools": [*tools, {"name": "sql", "input_schema": text}]}
    for seed in range(NUM_SCRIPTS):
        runtime.script = script_of(Random(seed))
        whole, events = await whole_and_events(client, "/v1/messages", body)
        message, buffers = None, {}
        for event in events:
            if event["type"] != "ping":  # which the client drops as well
                message = accumulate_event(event=read(event), current_snapshot=message, json_bufs=buffers)
        own = ("callgate", "signature", "parsed_output")
        assert comparable(message.to_dict(), *own) == comparable(whole, *own)


async def test_events_of_responses(client, runtime):
    """The last event has the whole response, and the events before it add up to its items."""
    tools = [*({"type": "function", **each} for each in FUNCTIONS), {"type": "custom", **SQL}]
    body = {"input": "Hi", "tools": tools, "include": ["message.output_text.logprobs"], "top_logprobs": 2}
    for seed in range(NUM_SCRIPTS):
        runtime.script = script_of(Random(seed))
        whole, events = await whole_and_events(client, "/v1/responses", body)
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert events[-1]["type"] == f"response.{whole['status']}"
        assert comparable(events[-1]["response"]) == comparable(whole)
        items = added_up(events[2:-1])
        assert comparable(items, "status") == comparable(whole["output"], "status")


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
