"""A gateway in front of a real llama-server: calls of tools of real MCP servers, at temperature 1."""

import json
import random

import jsonschema_rs
import pytest
from corpus import corpus
from llama_server import running_llama, smollm2_file
from serving import served, server_of

from gateway.app import create_app
from gateway.served_models import start_runtime
from gateway.settings import ModelSettings, Settings

pytestmark = pytest.mark.engines

TOOLSETS = ("github", "playwright", "git-a-git", "mcp-text-editor", "office-word")
NUM_CALLS = 6


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("llama")
    with running_llama(folder) as url:
        model = ModelSettings(
            model=str(smollm2_file()),
            model_name="smollm2",
            engine="llama_server",
            engine_url=(url,),
            prompt_tools="none",
        )
        settings = Settings(
            models=(model,), data_dir=str(folder), secret="a secret of the tests", compile_workers=0
        )
        runtime = start_runtime(settings, lambda _: None)  # reading a GGUF file's tokenizer takes a while
        with served(server_of(create_app(settings, runtime=runtime), settings)) as client:
            client.timeout = 600
            while (ready := client.get("/readyz")).status_code != 200:
                assert "has not been checked" in ready.text, ready.text
            yield client


@pytest.mark.parametrize("toolset", TOOLSETS)
def test_calls_are_valid_and_within_their_budgets(client, toolset):
    """Most answers are whole before the budget is; what guards keep is counted."""
    tools = json.loads(corpus("mcp", f"{toolset}.json").read_text("utf-8"))
    validators = {tool["name"]: jsonschema_rs.validator_for(tool["inputSchema"]) for tool in tools}
    assert client.put(f"/v1/toolsets/{toolset}", json={"tools": tools}).is_success
    rng = random.Random(1)
    num_tokens = 0
    for number in range(NUM_CALLS):
        body = {
            "model": "smollm2",
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
    print(f"{toolset}: {NUM_CALLS} calls, {num_tokens} tokens, {state['refused_tokens']} refused so far")
    assert state["failed"] == 0
