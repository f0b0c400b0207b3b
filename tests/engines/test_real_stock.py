"""A gateway in front of a real vLLM without the plugin: calls of tools of real MCP servers, at temperature 1."""

import json
import random

import jsonschema_rs
import pytest
from corpus import corpus
from serving import served, server_of
from vllm_server import MODEL, running_vllm

from gateway.app import create_app
from gateway.served_models import start_runtime
from gateway.settings import ModelSettings, Settings
from runtime.models import DEMO_MODEL_FOLDER

pytestmark = pytest.mark.engines

TOOLSETS = ("github", "playwright", "git-a-git", "mcp-text-editor", "office-word")
NUM_CALLS = 12
GUARDED = [
    {
        "name": "tag",
        "inputSchema": {
            "type": "object",
            "properties": {
                "tags": {
                    "type": "array",
                    "items": {"enum": ["a", "b", "c", "d"]},
                    "uniqueItems": True,
                    "minItems": 3,
                },
                "note": {"type": "string", "maxLength": 200, "pattern": "^[a-z ]+$"},
            },
            "required": ["tags", "note"],
        },
    }
]


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stock")
    with running_vllm(folder) as vllm:
        model = ModelSettings(
            model=str(DEMO_MODEL_FOLDER),
            model_name=MODEL,
            engine="vllm_stock",
            engine_url=(vllm.url,),
            engine_seeds=False,
            prompt_tools="none",
        )
        settings = Settings(
            models=(model,), data_dir=str(folder), secret="a secret of the tests", compile_workers=1
        )
        runtime = start_runtime(settings, lambda _: None)
        with served(server_of(create_app(settings, runtime=runtime), settings)) as client:
            client.timeout = 600
            while (ready := client.get("/readyz")).status_code != 200:
                assert "has not been checked" in ready.text, ready.text
            yield client


@pytest.mark.parametrize("toolset", [*TOOLSETS, "guarded"])
def test_calls_are_valid_and_within_their_budgets(client, toolset):
    """What guards keep is counted; a report names what the engine does not keep by itself."""
    named = toolset != "guarded"
    tools = json.loads(corpus("mcp", f"{toolset}.json").read_text("utf-8")) if named else GUARDED
    validators = {tool["name"]: jsonschema_rs.validator_for(tool["inputSchema"]) for tool in tools}
    assert client.put(f"/v1/toolsets/{toolset}", json={"tools": tools}).is_success
    assert client.get(f"/v1/toolsets/{toolset}/report").json()["unguarded_models"] == [MODEL]
    before = client.get("/v1/engines").json()["data"][0]["refused_tokens"]
    rng = random.Random(1)
    num_tokens = 0
    for number in range(NUM_CALLS):
        body = {
            "model": MODEL,
            "messages": [{"role": "user", "content": f"Do what you can with page {rng.randrange(99)}."}],
            "toolset": toolset,
            "tool_choice": "required",
            "parallel_tool_calls": number % 2 == 0,
            "temperature": 1,
            "max_tokens": 120,
        }
        answer = client.post("/v1/chat/completions", json=body).raise_for_status().json()
        (choice,) = answer["choices"]
        assert choice["message"]["tool_calls"]
        for call in choice["message"]["tool_calls"]:
            validators[call["function"]["name"]].validate(json.loads(call["function"]["arguments"]))
        num_tokens += answer["usage"]["completion_tokens"]
        assert answer["usage"]["completion_tokens"] <= 120
    (state,) = client.get("/v1/engines").json()["data"]
    refused = state["refused_tokens"] - before
    print(f"{toolset}: {NUM_CALLS} answers, {num_tokens} tokens, {refused} refused")
    assert state["failed"] == 0
