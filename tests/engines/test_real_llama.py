"""A gateway in front of a real llama-server: calls of tools of real MCP servers, at temperature 1."""

import json

import pytest
from corpus import corpus
from llama_server import running_llama, smollm2_file
from real_calls import MCP_TOOLSETS, assert_calls_valid, gateway_before

from gateway.model_settings import ModelSettings

pytestmark = pytest.mark.engines

NUM_CALLS = 6


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("llama")
    file = smollm2_file()
    with running_llama(folder, model=file) as server:
        model = ModelSettings(
            model=str(file),
            model_name="smollm2",
            engine="llama_server",
            engine_url=(server.url,),
            prompt_tools="none",
        )
        with gateway_before(model, folder, compile_workers=0) as client:
            yield client


@pytest.mark.parametrize("toolset", MCP_TOOLSETS)
def test_calls_are_valid_and_within_their_budgets(client, toolset):
    """Most answers are whole before the budget is; what guards keep is counted."""
    tools = json.loads(corpus("mcp", f"{toolset}.json").read_text("utf-8"))
    num_tokens = assert_calls_valid(client, "smollm2", toolset, tools, NUM_CALLS)
    (state,) = client.get("/v1/engines").json()["data"]
    print(f"{toolset}: {NUM_CALLS} calls, {num_tokens} tokens, {state['refused_tokens']} refused so far")
    assert state["failed"] == 0


def test_rescued_tokens_are_told_with_log_probabilities(client):
    """A model that is not shown its tools would rather write prose."""
    tools = [{"type": "function", "function": {"name": "paint", "parameters": {"enum": [{}, {"red": 1}]}}}]
    body = {
        "model": "smollm2",
        "messages": [{"role": "user", "content": "Paint it red."}],
        "tools": tools,
        "tool_choice": "required",
    }
    answer = client.post("/v1/chat/completions", json=body).raise_for_status().json()
    assert answer["callgate"]["rescued_tokens"] is None
    answer = client.post("/v1/chat/completions", json=body | {"logprobs": True}).raise_for_status().json()
    assert answer["callgate"]["rescued_tokens"] > 0
