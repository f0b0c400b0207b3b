"""Schemas that engines' own strict tools do not uphold, through the gateway and through the same engine alone."""

import asyncio
import json
from collections import Counter
from functools import partial

import jsonschema_rs
import openai
import pytest
from engine_server import MODEL
from serving import served, server_of, wait_for
from sglang_server import running_sglang
from vllm_server import running_vllm

from gateway.app import create_app
from gateway.model_settings import ModelSettings
from gateway.settings import Settings

pytestmark = pytest.mark.engines

SECRET = "a secret of the tests"
NUM_CALLS = 12
SHORT = {"type": "string", "maxLength": 30}
SCHEMAS = {
    "any_of": {"properties": {"a": SHORT, "b": {"type": "integer"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "all_of": {"properties": {"mode": {"allOf": [{"type": "string"}, {"enum": ["yes", "no"]}]}}, "required": ["mode"]},
    "dependent": {"properties": {"card": SHORT, "address": SHORT}, "dependentRequired": {"card": ["address"]}},
    "pattern": {"properties": {"code": {"type": "string", "pattern": "^[A-Z]+$", "minLength": 3, "maxLength": 5}}, "required": ["code"]},
    "unique": {"properties": {"xs": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": True, "minItems": 2}}, "required": ["xs"]},
}  # fmt: skip


async def count_valid(url, model, **extra) -> Counter[str]:
    """How many of `NUM_CALLS` calls of each tool, chosen by name, are valid."""
    valid: Counter[str] = Counter()
    places = asyncio.Semaphore(8)

    async def ask(client, name):
        schema = {"type": "object", **SCHEMAS[name]}
        function = {"name": name, "parameters": schema, "strict": True}
        async with places:
            answer = await client.chat.completions.create(
                model=model,
                messages=[{"role": "user", "content": "Call it."}],
                tools=[{"type": "function", "function": function}],
                tool_choice={"type": "function", "function": {"name": name}},
                temperature=1.0,
                max_tokens=120,
                extra_body=extra,
            )
        for call in answer.choices[0].message.tool_calls or ():
            try:
                arguments = json.loads(call.function.arguments)
            except ValueError:
                continue
            valid[name] += jsonschema_rs.validator_for(schema).is_valid(arguments)

    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", timeout=300, max_retries=0) as client:
        await asyncio.gather(*(ask(client, name) for name in SCHEMAS for _ in range(NUM_CALLS)))
    return valid


RUNNING = {
    "vllm": partial(running_vllm, options=("--enable-auto-tool-choice", "--tool-call-parser", "hermes")),
    "sglang": partial(running_sglang, options=("--tool-call-parser", "hermes")),
}


@pytest.mark.parametrize("kind", RUNNING)
def test_what_strict_tools_do_not_uphold_holds_through_the_gateway(tmp_path, kind):
    store_url = f"sqlite://{tmp_path}/callgate.db"
    with RUNNING[kind](tmp_path, store_url=store_url, secret=SECRET) as server:
        settings = Settings(
            data_dir=str(tmp_path),
            secret=SECRET,
            compile_workers=1,
            models=(ModelSettings(model="tiny", engine=kind, engine_url=(server.url,)),),
        )
        with served(server_of(create_app(settings), settings)) as client:
            wait_for(lambda: client.get("/v1/engines").json()["data"][0]["circuit"] == "closed", limit_s=120)
            through = asyncio.run(count_valid(str(client.base_url).rstrip("/"), "tiny", prompt_tools="none"))
        alone = asyncio.run(count_valid(server.url, MODEL))
    for name in SCHEMAS:
        print(
            f"{name}: {through[name]} of {NUM_CALLS} valid through the gateway, {alone[name]} by {kind} alone"
        )
    assert through == dict.fromkeys(SCHEMAS, NUM_CALLS)
