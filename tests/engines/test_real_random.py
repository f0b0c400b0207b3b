"""A gateway in front of a real vLLM or SGLang with random weights: calls of tools of real MCP servers.

Such a model never chooses a valid token by itself, and its outputs end by the budget closer.
"""

import json

import pytest
from corpus import corpus
from engine_server import MODEL
from real_calls import MCP_TOOLSETS, assert_calls_valid, gateway_before, tiny_model_at
from sglang_server import running_sglang
from vllm_server import running_vllm

pytestmark = pytest.mark.engines

NUM_CALLS = 24
SECRET = "a secret of the tests"
RUNNING = {"vllm": running_vllm, "sglang": running_sglang}


@pytest.fixture(scope="module", params=RUNNING)
def client(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("random")
    store_url = f"sqlite://{folder}/callgate.db"
    options = ("--load-format", "dummy")
    with RUNNING[request.param](folder, store_url=store_url, secret=SECRET, options=options) as server:
        model = tiny_model_at(server, server.kind)
        with gateway_before(model, folder, compile_workers=1) as client:
            yield client


@pytest.mark.parametrize("toolset", MCP_TOOLSETS)
def test_calls_are_valid_and_within_their_budgets(client, toolset):
    tools = json.loads(corpus("mcp", f"{toolset}.json").read_text("utf-8"))
    num_tokens = assert_calls_valid(client, MODEL, toolset, tools, NUM_CALLS)
    (state,) = client.get("/v1/engines").json()["data"]
    print(f"{toolset}: {NUM_CALLS} answers, {num_tokens} tokens")
    assert (state["failed"], state["refused_tokens"]) == (0, 0)
