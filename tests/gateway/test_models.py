"""Names of models: by their ids or an alias, and each also with a toolset; they are listed in pages."""

from dataclasses import replace

import pytest
from chat import URL, ask, body


async def ids(client, **params):
    answer = (await client.get("/v1/models", params=params)).json()
    return [model["id"] for model in answer["data"]], answer["has_more"]


async def test_models_are_listed_with_their_toolsets_in_pages(client, weather):
    await client.put("/v1/toolsets/mail", json={"tools": []})
    assert await ids(client) == (["tiny", "tiny:mail", "tiny:weather"], False)
    assert await ids(client, limit=1) == (["tiny"], True)
    assert await ids(client, limit=1, after_id="tiny") == (["tiny:mail"], True)
    assert await ids(client, limit=1, after_id="tiny:mail") == (["tiny:weather"], False)
    assert await ids(client, after_id="tiny:weather") == ([], False)
    assert (await client.get("/v1/models", params={"after_id": "none"})).status_code == 400


@pytest.mark.parametrize("name", ["tiny", "tiny:weather"])
async def test_a_model_is_found_under_each_of_its_names(client, weather, name):
    found = (await client.get(f"/v1/models/{name}")).json()
    assert found["id"] == name
    assert found in (await client.get("/v1/models")).json()["data"]


@pytest.mark.parametrize("name", ["huge", "tiny:nothing"])
async def test_a_name_that_no_model_has_is_told(client, weather, name):
    missing = await client.get(f"/v1/models/{name}")
    assert missing.status_code == 404
    assert missing.json()["error"]["code"] == ("unknown_toolset" if ":" in name else "model_not_found")


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
        ("*:*", "llama:8b", None),
        ("*:*", "llama:8b:weather", "weather"),
    ],
)
async def test_an_alias_leaves_the_toolset_to_the_request(client, runtime, weather, alias, name, toolset):
    """`*` does not take the toolset for a part of the model's name."""
    runtime.card = replace(runtime.card, aliases=(alias,))
    answer = await ask(client, model=name)
    assert answer["callgate"]["toolset"] == toolset


async def test_a_star_takes_no_colon(client, runtime):
    runtime.card = replace(runtime.card, aliases=("*",))
    answer = await client.post(URL, json=body(model="llama:8b"))
    assert answer.status_code == 404
    assert "no toolset '8b'" in answer.json()["error"]["message"]


async def test_pages_of_models_end_beside_an_alias_for_any_name(client, runtime, weather):
    runtime.card = replace(runtime.card, aliases=("*",))
    page = (await client.get("/v1/models", params={"after_id": "tiny", "limit": 1})).json()
    assert page["last_id"] == "tiny:weather"
    rest = (await client.get("/v1/models", params={"after_id": "tiny:weather"})).json()
    assert rest["data"] == []
