"""What tests of the embedded runtime ask of it, and how they read its answers."""

import asyncio
import json
from contextlib import aclosing, asynccontextmanager

import jsonschema_rs

from compiler import compile_schema, compile_toolset
from runtime.events import PromptRendered
from runtime.request import GenerationRequest, Message, Sampling
from runtime.settings import EngineSettings
from toolspecs.tool import Tool

TOOLS = (
    Tool(
        "send_mail",
        "Send a message",
        {
            "type": "object",
            "properties": {
                "to": {"type": "array", "items": {"type": "string"}, "minItems": 1},
                "subject": {"type": "string"},
                "urgent": {"type": "boolean"},
                "retries": {"type": "integer"},
            },
            "required": ["to", "subject"],
        },
    ),
    Tool("note", "Anything", {"type": "object"}),
    Tool(
        "set_color",
        "Paint",
        {"type": "object", "properties": {"color": {"enum": ["red", "green"]}}, "required": ["color"]},
    ),
)
SCHEMAS = {tool.name: jsonschema_rs.validator_for(dict(tool.parameters)) for tool in TOOLS}
SETTINGS = EngineSettings(num_pages=1024, num_threads=1, max_batch=8, max_waiting=64)


def request(request_id="r", *, constraint=None, seed=0, temperature=1.0, **options):
    options = {"max_tokens": 400, "messages": (Message("user", "hello"),), "model": "tiny"} | options
    return GenerationRequest(
        request_id,
        tools=TOOLS if constraint else (),
        constraint=constraint,
        sampling=Sampling(temperature=temperature, seed=seed),
        **options,
    )


async def events_of(runtime, asked):
    first, *events = [event async for event in runtime.generate(asked)]
    assert isinstance(first, PromptRendered)
    assert first.num_prompt_tokens == events[-1].stats.num_prompt_tokens
    return events


async def all_events_of(runtime, asked):
    """The events of each of some requests, all sent at once."""
    return await asyncio.gather(*(events_of(runtime, each) for each in asked))


@asynccontextmanager
async def begun(runtime, asked):
    """The rest of the events of a request that writes already, and is aborted at the end."""
    async with aclosing(runtime.generate(asked)) as stream:
        assert isinstance(await anext(stream), PromptRendered)
        await anext(stream)
        yield stream


async def compiled(runtime, schema):
    (card,) = await runtime.models()
    return compile_schema(schema, tokenizer=card.vocabulary)


async def linked(runtime, tool_choice, **options):
    (card,) = await runtime.models()
    return compile_toolset(
        TOOLS, tokenizer=card.vocabulary, syntax=card.syntax, tool_choice=tool_choice, **options
    )


def assert_valid(calls):
    for name, arguments in calls:
        SCHEMAS[name].validate(json.loads(arguments))


async def settled(runtime):
    """Wait until nothing runs; no page may be in use then."""
    for _ in range(1000):
        [load] = (await runtime.health()).loads
        if not (load.num_running or load.num_waiting) and load.num_free_pages == load.num_pages:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("something still runs")
