"""A gateway in front of a real engine, and calls at temperature 1 through it, every one of which must be valid."""

import json
import random
from contextlib import contextmanager

import jsonschema_rs
from engine_server import MODEL
from serving import served, server_of

from gateway.app import create_app
from gateway.model_settings import ModelSettings
from gateway.served_models import start_runtime
from gateway.settings import Settings
from runtime.models import TINY_MODEL_FOLDER

MCP_TOOLSETS = ("github", "playwright", "git-a-git", "mcp-text-editor", "office-word")
"""Of the MCP corpus."""
MAX_TOKENS = 120


def tiny_model_at(server, engine, **fields):
    """The settings of the tiny model, which a server of a kind of engines serves as `MODEL`."""
    return ModelSettings(
        model=str(TINY_MODEL_FOLDER),
        model_name=MODEL,
        engine=engine,
        engine_url=(server.url,),
        prompt_tools="none",
        **fields,
    )


@contextmanager
def gateway_before(model, folder, *, compile_workers):
    """A client of a gateway that serves one model, whose engine has been checked."""
    settings = Settings(
        models=(model,), data_dir=str(folder), secret="a secret of the tests", compile_workers=compile_workers
    )
    runtime = start_runtime(settings, lambda _: None)  # reading a GGUF file's tokenizer takes a while
    with served(server_of(create_app(settings, runtime=runtime), settings)) as client:
        client.timeout = 600
        while (ready := client.get("/readyz")).status_code != 200:
            assert "has not been checked" in ready.text, ready.text
        yield client


def assert_calls_valid(client, model, toolset, tools, num_calls, temperature=1):
    """Register the tools, and ask for calls within a budget. Returns the tokens that were written."""
    validators = {tool["name"]: jsonschema_rs.validator_for(tool["inputSchema"]) for tool in tools}
    assert client.put(f"/v1/toolsets/{toolset}", json={"tools": tools}).is_success
    rng = random.Random(1)
    num_tokens = 0
    for number in range(num_calls):
        body = {
            "model": model,
            "messages": [{"role": "user", "content": f"Do what you can with page {rng.randrange(99)}."}],
            "toolset": toolset,
            "tool_choice": "required",
            "parallel_tool_calls": number % 2 == 0,
            "temperature": temperature,
            "max_tokens": MAX_TOKENS,
        }
        answer = client.post("/v1/chat/completions", json=body).raise_for_status().json()
        (choice,) = answer["choices"]
        assert choice["message"]["tool_calls"]
        for call in choice["message"]["tool_calls"]:
            validators[call["function"]["name"]].validate(json.loads(call["function"]["arguments"]))
        num_tokens += answer["usage"]["completion_tokens"]
        assert answer["usage"]["completion_tokens"] <= MAX_TOKENS
    return num_tokens
