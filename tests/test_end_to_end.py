"""The main job, on real tools: an unmodified `openai` client and a model that knows nothing.

The random-weight model at temperature 1 is the hardest case: only the mask keeps its output right.
"""

import asyncio
import json
import random

import httpx
import jsonschema
import jsonschema_rs
import pytest
from anthropic import AsyncAnthropic
from corpus import corpus
from lark import Lark
from openai import AsyncOpenAI

from gateway.demo.gateway_thread import serve
from gateway.settings import Settings

CONCURRENCY = 8
MODEL = "random"
FORMAT_CHECKER = jsonschema.Draft202012Validator.FORMAT_CHECKER


@pytest.fixture(scope="module")
def github_tools():
    return json.loads(corpus("mcp", "github.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def url(tmp_path_factory, github_tools):
    # In double precision, since what shares a batch changes the last bits of a sum, and a seed's output with them.
    folder = tmp_path_factory.mktemp("callgate")
    settings = Settings(model=MODEL, data_dir=str(folder), port=0, num_threads=1, dtype="float64")
    with serve(settings, say=lambda _: None) as url:
        put = httpx.put(f"{url}/v1/toolsets/github", json={"tools": github_tools}, timeout=120)
        assert put.status_code == 201, put.text
        yield url


def whole_and_streamed(body: dict, number: int) -> tuple[dict, dict]:
    """Two requests for the same answer, the second to be streamed: only whole answers are selected by default."""
    extra = body.get("extra_body", {})
    plain = {**body, "extra_body": {**extra, "callgate": {"accept": 1}}}
    selected = {**body, "extra_body": {**extra, "callgate": {"accept": 8}}}
    return (body, selected) if number % 2 else (plain, body)


def request(index: int, names: list[str]) -> dict:
    """One of the modes, over random words."""
    rng = random.Random(index)
    words = " ".join("".join(rng.choices("abcdefghij ", k=8)) for _ in range(rng.randrange(1, 30)))
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": words}],
        "temperature": 1.0,
        "seed": index,
        "max_tokens": 3000,
        "extra_body": {"toolset": "github"},
    }
    match index % 5:
        case 0:
            body["tool_choice"] = "required"
        case 1:
            body["tool_choice"] = {"type": "function", "function": {"name": rng.choice(names)}}
        case 2:
            body["tool_choice"] = "auto"
        case 3:
            body["tool_choice"] = "required"
            body["parallel_tool_calls"] = True
        case 4:
            tools = [{"type": "function", "function": {"name": name}} for name in rng.sample(names, 5)]
            allowed = {"mode": "required", "tools": tools}
            body["tool_choice"] = {"type": "allowed_tools", "allowed_tools": allowed}
    return body


async def plain(client: AsyncOpenAI, body: dict):
    answer = await client.chat.completions.create(**body)
    (choice,) = answer.choices
    calls = [(call.function.name, call.function.arguments) for call in choice.message.tool_calls or ()]
    return choice.message.content or "", calls, choice.finish_reason


async def streamed(client: AsyncOpenAI, body: dict):
    text, calls, reason = "", {}, None
    async for chunk in await client.chat.completions.create(**body, stream=True):
        for choice in chunk.choices:
            assert reason is None, "nothing comes after the finish reason"
            text += choice.delta.content or ""
            for delta in choice.delta.tool_calls or ():
                call = calls.setdefault(delta.index, ["", ""])
                call[0] += delta.function.name or ""
                call[1] += delta.function.arguments or ""
            reason = choice.finish_reason
    return text, [tuple(calls[index]) for index in sorted(calls)], reason


@pytest.mark.parametrize("num_prompts", [10, pytest.param(104, marks=pytest.mark.corpus)])
async def test_every_call_validates(url, github_tools, capsys, num_prompts):
    """Each prompt is asked streamed and not."""
    schemas = {tool["name"]: tool["inputSchema"] for tool in github_tools}
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key="none", timeout=300, max_retries=0)
    slots = asyncio.Semaphore(CONCURRENCY)

    async def ask(index: int):
        body = request(index, list(schemas))
        whole, pieces = whole_and_streamed(body, index // 5)
        async with slots:
            return body, await plain(client, whole), await streamed(client, pieces)

    async with client:
        answers = await asyncio.gather(*map(ask, range(num_prompts)))
    num_calls = 0
    reasons = set()
    for body, whole, pieces in answers:
        assert whole == pieces
        _, calls, reason = whole
        reasons.add(reason)
        mode = body["tool_choice"]
        assert calls or mode == "auto"
        for name, arguments in calls:
            num_calls += 1
            value = json.loads(arguments)
            jsonschema_rs.validate(schemas[name], value, validate_formats=True)
            jsonschema.validate(value, schemas[name], format_checker=FORMAT_CHECKER)
            if isinstance(mode, dict):
                listed = mode.get("allowed_tools", {}).get("tools", [mode])
                assert name in [tool["function"]["name"] for tool in listed]
    with capsys.disabled():
        print(f"\n{2 * len(answers)} completions, {num_calls} distinct calls, each of them valid")
    assert num_calls >= 0.8 * num_prompts
    assert {"tool_calls", "stop"} <= reasons
    assert any(len(calls) > 1 for _, (_, calls, _), _ in answers), "some answer calls in parallel"
    assert any(calls for body, (_, calls, _), _ in answers if body["tool_choice"] == "auto")


MOOD = {
    "type": "object",
    "properties": {"mood": {"enum": ["good", "<tool_call>"]}, "note": {"type": "string", "maxLength": 20}},
    "required": ["mood", "note"],
    "additionalProperties": False,
}


async def test_responses_are_calls_or_answers_and_can_be_sent_back(url, github_tools):
    """By the other API: streamed and not the same, then a second turn over what came back."""
    schemas = {tool["name"]: tool["inputSchema"] for tool in github_tools}
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key="none-needed", max_retries=0)
    form = {"format": {"type": "json_schema", "name": "mood", "schema": MOOD}}

    async def ask(seed: int) -> set[str]:
        said = [{"role": "user", "content": f"How is it going, {seed}?"}]
        asked = {
            "model": MODEL,
            "temperature": 2.0,
            "max_output_tokens": 100,
            "text": form,
            "tool_choice": "none" if seed % 4 == 0 else "auto",
            "extra_body": {"toolset": "github", "seed": seed},
        }
        asked, streamed = whole_and_streamed(asked, seed // 2)
        whole = await client.responses.create(input=said, **asked)
        events = [event async for event in await client.responses.create(input=said, stream=True, **streamed)]
        assert [shown(i) for i in events[-1].response.output] == [shown(item) for item in whole.output]
        for item in whole.output:
            check = schemas[item.name] if item.type == "function_call" else MOOD
            text = item.arguments if item.type == "function_call" else item.content[0].text
            jsonschema_rs.validate(check, json.loads(text))
        results = [
            {"type": "function_call_output", "call_id": item.call_id, "output": "{}"}
            for item in whole.output
            if item.type == "function_call"
        ]
        again = await client.responses.create(input=[*said, *whole.output, *results], **asked)
        assert again.output
        return {item.type for item in (*whole.output, *again.output)}

    def shown(item) -> str:
        return item.name + item.arguments if item.type == "function_call" else item.content[0].text

    async with client:
        kinds = await asyncio.gather(*map(ask, range(8)))
    assert set().union(*kinds) == {"function_call", "message"}


async def test_messages_are_calls_that_can_be_sent_back(url, github_tools):
    """By Anthropic's API and client: streamed and not the same, then a second turn over what came back."""
    schemas = {tool["name"]: tool["inputSchema"] for tool in github_tools}
    client = AsyncAnthropic(base_url=url, api_key="none-needed", max_retries=0)

    async def ask(seed: int) -> str:
        said = [{"role": "user", "content": f"How is it going, {seed}?"}]
        asked = {
            "model": MODEL,
            "max_tokens": 100,
            "tool_choice": {"type": "any"} if seed % 2 else {"type": "tool", "name": "create_issue"},
            "extra_body": {"toolset": "github", "seed": seed},
        }
        asked, streamed = whole_and_streamed(asked, seed // 2)
        whole = await client.messages.create(messages=said, **asked)
        async with client.messages.stream(messages=said, **streamed) as stream:
            pieces = await stream.get_final_message()
        assert [(b.name, b.input) for b in pieces.content] == [(b.name, b.input) for b in whole.content]
        assert whole.content
        for block in whole.content:
            jsonschema_rs.validate(schemas[block.name], block.input, validate_formats=True)
        results = [{"type": "tool_result", "tool_use_id": b.id, "content": "{}"} for b in whole.content]
        said += [{"role": "assistant", "content": whole.content}, {"role": "user", "content": results}]
        again = await client.messages.create(messages=said, **asked)
        assert {block.type for block in again.content} == {"tool_use"}
        return whole.stop_reason

    async with client:
        reasons = await asyncio.gather(*map(ask, range(8)))
    assert set(reasons) <= {"tool_use", "max_tokens"}


QUERY = r"""
start: "SELECT " names " FROM " NAME " WHERE " NAME "=" ESCAPED_STRING ";"
names: NAME ("," NAME)~0..2
NAME: /[a-z]{1,8}/
%import common.ESCAPED_STRING
"""


async def test_custom_tools_write_texts_of_their_grammars(url):
    """In both APIs, streamed and not the same; the input is fed back."""
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key="none", timeout=300, max_retries=0)
    parser = Lark(QUERY)
    grammar = {"syntax": "lark", "definition": QUERY}
    nested = {"type": "custom", "custom": {"name": "sql", "format": {"type": "grammar", "grammar": grammar}}}
    flat = {"type": "custom", "name": "sql", "format": {"type": "grammar", **grammar}}

    async def chat(seed: int) -> str:
        messages = [{"role": "user", "content": f"Which names, {seed}?"}]
        asked = {"model": MODEL, "messages": messages, "tools": [nested], "seed": seed, "max_tokens": 150}
        choice = {"type": "custom", "custom": {"name": "sql"}}
        asked, to_stream = whole_and_streamed(asked, seed)
        whole = await client.chat.completions.create(**asked, tool_choice=choice)
        [call] = whole.choices[0].message.tool_calls
        pieces = [
            delta.custom["input"]
            async for chunk in await client.chat.completions.create(
                **to_stream, tool_choice=choice, stream=True
            )
            for delta in chunk.choices[0].delta.tool_calls or ()
        ]
        assert "".join(pieces) == call.custom.input
        answered = [whole.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "Ada"}]
        again = await client.chat.completions.create(**{**asked, "messages": [*messages, *answered]})
        assert again.choices
        return call.custom.input

    async def respond(seed: int) -> str:
        asked = {"model": MODEL, "tools": [flat], "max_output_tokens": 150, "extra_body": {"seed": seed}}
        asked |= {"tool_choice": "required", "parallel_tool_calls": False}
        asked, to_stream = whole_and_streamed(asked, seed)
        whole = await client.responses.create(input="Which names?", **asked)
        [call] = whole.output
        async with client.responses.stream(input="Which names?", **to_stream) as stream:
            events = [event async for event in stream]
        deltas = [e.delta for e in events if e.type == "response.custom_tool_call_input.delta"]
        assert "".join(deltas) == call.input
        result = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "Ada"}
        assert (await client.responses.create(input=[result], previous_response_id=whole.id, **asked)).output
        return call.input

    async with client:
        inputs = await asyncio.gather(*map(chat, range(2)), *map(respond, range(2)))
    assert len(set(inputs)) > 2
    for text in inputs:
        parser.parse(text)
