"""What the field `model` names: a model by its id or an alias, and perhaps a toolset."""

from dataclasses import replace

import pytest

BODY = {"messages": [{"role": "user", "content": "Is it cold?"}], "max_tokens": 60}


@pytest.mark.parametrize(
    ("alias", "name", "toolset"),
    [
        ("claude-*", "claude-9", None),
        ("claude-*", "claude-9:weather", "weather"),
        ("claude-*", "claude-9:weather@1", "weather"),
        ("*", "tiny:weather", "weather"),
        ("*", "any:weather", "weather"),
        ("llama:*", "llama:8b", None),
        ("llama:*", "llama:8b:weather", "weather"),
    ],
)
async def test_an_alias_leaves_the_toolset_to_the_request(client, runtime, weather, alias, name, toolset):
    """`*` does not take the toolset for a part of the model's name."""
    runtime.card = replace(runtime.card, aliases=(alias,))
    answer = await client.post("/v1/chat/completions", json={**BODY, "model": name})
    assert answer.status_code == 200, answer.text
    assert answer.json()["callgate"]["toolset"] == toolset


async def test_a_star_takes_no_colon(client, runtime):
    runtime.card = replace(runtime.card, aliases=("*",))
    answer = await client.post("/v1/chat/completions", json={**BODY, "model": "llama:8b"})
    assert answer.status_code == 404
    assert "no toolset '8b'" in answer.json()["error"]["message"]


async def test_pages_of_models_end_beside_an_alias_for_any_name(client, runtime, weather):
    runtime.card = replace(runtime.card, aliases=("*",))
    page = (await client.get("/v1/models", params={"after_id": "tiny", "limit": 1})).json()
    assert page["last_id"] == "tiny:weather"
    rest = (await client.get("/v1/models", params={"after_id": "tiny:weather"})).json()
    assert rest["data"] == []
