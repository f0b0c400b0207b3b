"""Requests of the shapes that Claude Code and the Claude Agent SDK send; written by hand, not recorded."""

import pytest
from serving import client_of

from clients.replaying import Clerk, check_shape
from gateway.app import create_app
from gateway.settings import Settings

URL = "/v1/messages"
HEADERS = {
    "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27",
    "anthropic-version": "2023-06-01",
    "authorization": "Bearer none-needed",
    "x-app": "cli",
}
EPHEMERAL = {"type": "ephemeral", "ttl": "1h"}
METADATA = {"user_id": '{"device_id": "0", "account_uuid": "", "session_id": "0"}'}
SYSTEM = [
    {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=cli;"},
    {"type": "text", "text": "You are a coding agent.", "cache_control": EPHEMERAL},
]
READ = {
    "name": "Read",
    "description": "Reads a file.",
    "input_schema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "file_path": {"description": "The absolute path.", "type": "string"},
            "offset": {"type": "integer", "minimum": 0, "maximum": 9007199254740991},
            "limit": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9007199254740991},
            "pages": {"type": "string"},
        },
        "required": ["file_path"],
        "additionalProperties": False,
    },
}
EDIT_MANY = {
    "name": "TodoWrite",
    "description": "Writes the list of tasks.",
    "eager_input_streaming": True,
    "input_schema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "todos": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "content": {"type": "string", "minLength": 1},
                        "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]},
                        "activeForm": {"type": "string", "minLength": 1},
                    },
                    "required": ["content", "status", "activeForm"],
                    "additionalProperties": False,
                },
            }
        },
        "required": ["todos"],
        "additionalProperties": False,
    },
    "cache_control": EPHEMERAL,
}
SETTINGS = {
    "model": "demo",
    "max_tokens": 32000,
    "temperature": 1,
    "system": SYSTEM,
    "tools": [READ, EDIT_MANY],
    "metadata": METADATA,
    "thinking": {"type": "adaptive"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "output_config": {"effort": "medium"},
}
ASKED = {
    "role": "user",
    "content": [
        {"type": "text", "text": "<system-reminder>\nToday is Monday.\n</system-reminder>\n"},
        {"type": "text", "text": "Read both files.", "cache_control": EPHEMERAL},
    ],
}


def use(number, path):
    called = {"type": "tool_use", "id": f"toolu_{number:024}", "name": "Read", "input": {"file_path": path}}
    return called | {"caller": {"type": "direct"}}


def result(number, content, **fields):
    return {"type": "tool_result", "tool_use_id": f"toolu_{number:024}", "content": content, **fields}


FED_BACK = [
    ASKED,
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Two files.", "signature": ""},
            {"type": "text", "text": "I read them."},
            use(1, "/a"),
            use(2, "/b"),
        ],
    },
    {
        "role": "user",
        "content": [
            result(1, [{"type": "text", "text": "     1\tone"}]),
            result(2, "<tool_use_error>File does not exist.</tool_use_error>", is_error=True)
            | {"cache_control": EPHEMERAL},
            {"type": "text", "text": "<system-reminder>\nThe list of tasks is empty.\n</system-reminder>"},
        ],
    },
]
TITLE = {
    "type": "json_schema",
    "schema": {
        "type": "object",
        "properties": {"title": {"type": "string"}},
        "required": ["title"],
        "additionalProperties": False,
    },
}

SENT = {
    "the first turn": SETTINGS | {"messages": [ASKED]},
    "results, one of them an error": SETTINGS | {"messages": FED_BACK},
    "thinking with a budget": SETTINGS
    | {"messages": [ASKED], "thinking": {"type": "enabled", "budget_tokens": 31999}},
    "no tools beside a system text": {
        "model": "demo",
        "max_tokens": 512,
        "messages": [{"role": "user", "content": "Name this conversation."}],
        "system": SYSTEM,
        "tools": [],
        "metadata": METADATA,
        "output_config": {"format": TITLE},
    },
    "a probe of the quota": {
        "model": "demo",
        "max_tokens": 1,
        "messages": [{"role": "user", "content": "quota"}],
        "metadata": METADATA,
    },
    "a tool that is forced": SETTINGS
    | {"messages": [ASKED], "tool_choice": {"type": "tool", "name": "Read"}},
}


@pytest.fixture
async def client(tmp_path):
    settings = Settings(data_dir=str(tmp_path), compile_workers=0)
    async with client_of(create_app(settings, runtime=Clerk())) as client:
        yield client


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("sent", SENT.values(), ids=SENT)
async def test_messages_are_answered(client, sent, is_streamed):
    answer = await client.post(f"{URL}?beta=true", json=sent | {"stream": is_streamed}, headers=HEADERS)
    assert answer.status_code == 200, answer.text
    check_shape(URL, answer, is_streamed=is_streamed)


async def test_tokens_are_counted(client):
    asked = {name: SETTINGS[name] for name in ("model", "system", "tools", "thinking")}
    counted = await client.post(
        f"{URL}/count_tokens?beta=true", json=asked | {"messages": FED_BACK}, headers=HEADERS
    )
    assert counted.status_code == 200, counted.text
    assert counted.json()["input_tokens"] > 0


async def test_the_model_is_found(client):
    listed = await client.get("/v1/models?limit=1000", headers=HEADERS)
    assert [model["id"] for model in listed.json()["data"]] == ["demo"]
    assert (await client.get("/v1/models/demo", headers=HEADERS)).json()["type"] == "model"
