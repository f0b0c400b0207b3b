"""A gateway in front of a real vLLM without the plugin: calls of tools of real MCP servers, at temperature 1."""

import json

import pytest
from corpus import corpus
from engine_server import MODEL
from real_calls import MCP_TOOLSETS, assert_calls_valid, gateway_before, tiny_model_at
from vllm_server import running_vllm

pytestmark = pytest.mark.engines

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
        model = tiny_model_at(vllm, "vllm_stock", engine_seeds=False)
        with gateway_before(model, folder, compile_workers=1) as client:
            yield client


@pytest.mark.parametrize("toolset", [*MCP_TOOLSETS, "guarded"])
def test_calls_are_valid_and_within_their_budgets(client, toolset):
    """What guards keep is counted; a report names what the engine does not keep by itself."""
    named = toolset != "guarded"
    tools = json.loads(corpus("mcp", f"{toolset}.json").read_text("utf-8")) if named else GUARDED
    before = client.get("/v1/engines").json()["data"][0]["refused_tokens"]
    num_tokens = assert_calls_valid(client, MODEL, toolset, tools, NUM_CALLS)
    assert client.get(f"/v1/toolsets/{toolset}/report").json()["unguarded_models"] == [MODEL]
    (state,) = client.get("/v1/engines").json()["data"]
    refused = state["refused_tokens"] - before
    print(f"{toolset}: {NUM_CALLS} answers, {num_tokens} tokens, {refused} refused")
    assert state["failed"] == 0
