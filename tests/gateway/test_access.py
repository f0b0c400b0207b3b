"""API keys."""

import pytest
from sample_tools import mcp_tool

from gateway.access.configured_keys import ConfiguredKeys
from gateway.app import create_app
from gateway.errors import SettingsError
from gateway.settings import Settings

KEY, OTHER = "a-first-key-of-many", "another-key-of-many"


@pytest.fixture
async def guarded(tmp_path, client_with):
    keys = tmp_path / "keys"
    keys.write_text(f"{OTHER}\n\n")
    async with client_with(api_key=KEY, api_key_file=str(keys)) as client:
        yield client


async def test_known_keys_get_in(guarded):
    for headers in (
        {"Authorization": f"Bearer {KEY}"},
        {"Authorization": f"bearer {OTHER}"},
        {"X-API-Key": OTHER},
        {"X-API-Key": KEY, "Authorization": "Bearer none-needed"},
    ):
        for path in ("/v1/models", "/metrics"):
            assert (await guarded.get(path, headers=headers)).status_code == 200


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", f"Bearer {KEY}x", f"Basic {KEY}", "Bearer \N{SNOWMAN}", "Bearer \xff"],
)
async def test_requests_with_another_key_are_refused(guarded, header):
    headers = {} if header is None else {"Authorization": header.encode()}
    model = await guarded.get("/v1/models", headers=headers)
    assert (model.status_code, model.headers["www-authenticate"]) == (401, "Bearer")
    assert model.json()["error"]["code"] == "invalid_api_key"
    assert model.json()["error"]["type"] == "authentication_error"
    registry = await guarded.delete("/v1/toolsets/x", headers=headers)
    assert registry.status_code == 401
    assert registry.json()["type"] == "urn:callgate:unauthorized"


async def test_a_refusal_has_the_shape_of_the_api(guarded):
    refused = await guarded.post("/v1/messages", headers={"X-API-Key": KEY + "x"})
    assert (refused.status_code, refused.json()["error"]["type"]) == (401, "authentication_error")
    assert refused.json()["type"] == "error"


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (None, 201),
        ("http://127.0.0.1", 201),
        ("http://evil.example", 403),
        ("http://127.0.0.1:81", 403),
        ("null", 403),
        ("http://[", 403),
    ],
)
async def test_without_keys_no_page_of_another_site_calls(client, origin, status):
    headers = {"Origin": origin} if origin else {}
    answer = await client.put("/v1/toolsets/x", json={"tools": [mcp_tool("ping")]}, headers=headers)
    assert answer.status_code == status
    if status == 403:
        assert answer.json()["type"] == "urn:callgate:foreign-page"
        assert (await client.get("/v1/toolsets/x")).status_code == 404


@pytest.mark.parametrize(
    ("site", "mode", "dest", "status"),
    [
        ("cross-site", "no-cors", "image", 403),
        ("same-site", "no-cors", "script", 403),  # a page of another port of this machine
        ("cross-site", "navigate", "iframe", 403),
        ("cross-site", "navigate", "document", 200),
        ("same-origin", "cors", "empty", 200),
        ("none", "navigate", "document", 200),
    ],
)
async def test_without_keys_no_page_of_another_site_shows_an_answer(client, site, mode, dest, status):
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}
    answer = await client.get("/v1/models", headers=headers)
    assert answer.status_code == status
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_key_lets_pages_in_that_have_it(guarded):
    headers = {"Authorization": f"Bearer {KEY}", "Origin": "http://elsewhere.example"}
    assert (await guarded.get("/v1/models", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ([None, "", "\n \n"], "api_key_file"),
        (["one key in a sentence\n", f"{KEY} {OTHER}", f"{KEY}\nshort"], r"line \d is not a key"),
    ],
)
def test_a_file_without_keys_or_with_a_line_that_is_none_fails_the_start(
    tmp_path, runtime, contents, message
):
    path = tmp_path / "keys"
    for content in contents:
        if content is not None:
            path.write_text(content)
        with pytest.raises(SettingsError, match=message):
            create_app(Settings(data_dir=str(tmp_path), api_key_file=str(path)), runtime=runtime)


def test_a_comment_holds_no_keys(tmp_path):
    path = tmp_path / "keys"
    path.write_text(f"# production clients\n\n  {KEY}\n{OTHER}\n")
    assert ConfiguredKeys.read(Settings(data_dir=str(tmp_path), api_key_file=str(path))).keys == (KEY, OTHER)
