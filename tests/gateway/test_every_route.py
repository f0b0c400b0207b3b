"""Every route answers a request with success; `client` compares the answer with the gateway's own document."""

import re

import pytest
import pytest_asyncio
from chat import USER, ask, body
from fake_runtime import FakeRuntime
from keys import ADMIN, bearer, key_of
from sample_tools import TIME, TOOL_REQUIRED
from served_routes import handlers
from serving import client_of
from source_server import tool

from gateway.access.grants import KeyScope
from gateway.access.route_scopes import ROUTE_SCOPES
from gateway.app import create_app
from gateway.console.asset_files import read_assets
from gateway.settings import Settings

OFFERED = {"kind": "mcp", "location": "https://desk.example/mcp"}
PROMPT = {"model": "tiny", "prompt": "Hi"}
BODIES = {
    "chat_completions": body(),
    "create_response": TOOL_REQUIRED["/v1/responses"],
    "count_response_tokens": {"model": "tiny", "input": "Hi"},
    "create_message": TOOL_REQUIRED["/v1/messages"],
    "count_message_tokens": {"model": "tiny", "messages": [USER]},
    "text_completions": PROMPT,
    "tokenize": PROMPT,
    "detokenize": {"model": "tiny", "tokens": [72, 105]},
    "put_toolset": {"tools": [TIME]},
    "check": {"tools": [TIME]},
    "put_tool": tool("pay", {"type": "string"}),
    "import_tools": {"listing": {**OFFERED, "tools": [tool("tell")]}},
    "mcp_message": {"jsonrpc": "2.0", "id": 1, "method": "ping"},
    "create_key": {"name": "another", "scopes": ["invoke"]},
}
"""What is sent to each route that needs a body."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory):
    """A gateway with keys; a client that has one to call models and register tools."""
    settings = Settings(data_dir=str(tmp_path_factory.mktemp("gateway")), api_key=ADMIN, compile_workers=0)
    async with client_of(create_app(settings, runtime=FakeRuntime())) as client:
        client.headers.update(await key_of(client, scopes=["invoke", "register"]))
        yield client


async def values_of(client, toolset):
    """What the parameters of paths name: a toolset whose source offers another tool, an answer and its records."""
    for offered in ({}, {"type": "string"}):
        listing = {**OFFERED, "tools": [tool("pay", offered)]}
        imported = await client.post(f"/v1/toolsets/{toolset}/import", json={"listing": listing})
        assert imported.is_success, imported.text
    response = await client.post("/v1/responses", json={"model": "tiny", "input": "Hi"})
    made = await client.post("/v1/keys", json=BODIES["create_key"], headers=bearer(ADMIN))
    return {
        "toolset": toolset,
        "tool": "pay",
        "number": 1,
        "model_id": "tiny",
        "response_id": response.json()["id"],
        "request_id": response.headers["x-request-id"],
        "key_id": made.json()["id"],
        "digest": (await ask(client, toolset=toolset))["callgate"]["grammar_digest"],
    }


CONSOLE_FILE = {"digest": read_assets().digest, "path": "shell.js"}


@pytest.mark.parametrize("name", ROUTE_SCOPES)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_route_answers(client, name):
    values = await values_of(client, f"for_{name}") | (CONSOLE_FILE if name == "console_file" else {})
    is_for_operators = {KeyScope.ADMIN, KeyScope.METRICS} & ROUTE_SCOPES[name]
    headers = bearer(ADMIN) if is_for_operators else {}
    asked = [(method, path) for method, path, handler in handlers(client.app) if handler == name]
    assert asked
    for method, template in asked:
        path = re.sub(r"/?\{(\w+):?\w*\}", lambda found: f"/{values[found[1]]}", template)
        answer = await client.request(
            method, path, json=BODIES.get(name), headers=headers, follow_redirects=False
        )
        assert answer.status_code < 400, f"{method} {path}: {answer.text}; write a body for it into BODIES"
