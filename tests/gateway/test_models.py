"""The list of models, each also under the names that serve a toolset with it."""

import pytest


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
