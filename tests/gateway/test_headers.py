"""Headers that every answer has: the request's id, and for pages of other sites what lets them read it."""

import logging

import pytest
from chat import body

from gateway.access.cors import read_origins
from gateway.errors import SettingsError
from gateway.settings import Settings
from toolspecs.errors import StoreUnavailable

PAGE = "https://app.example"
KEY = "a-key-of-the-tests"


async def test_options_name_all_methods_of_a_path(client):
    for path, methods in {
        "/v1/keys": "GET, OPTIONS, POST",
        "/v1/toolsets/x": "DELETE, GET, OPTIONS, PUT",
        "/v1/chat/completions": "OPTIONS, POST",
    }.items():
        answer = await client.options(path)
        assert (answer.status_code, answer.headers.get_list("allow")) == (204, [methods])


@pytest.mark.parametrize(
    ("sent", "is_kept"), [("abc-1", True), ("x" * 129, False), ("a b", False), ("", False)]
)
async def test_a_request_has_an_id(client, sent, is_kept):
    for path in ("/v1/models", "/nowhere", "/healthz"):
        answer = await client.get(path, headers={"X-Request-ID": sent})
        assert (answer.headers["x-request-id"] == sent) == is_kept
        assert answer.headers["x-request-id"]
    made = {(await client.get("/v1/models")).headers["x-request-id"] for _ in range(3)}
    assert len(made) == 3


async def test_the_log_and_the_trace_name_the_id_of_a_request(client, spans, caplog, monkeypatch):
    async def fail(*args, **kwargs):
        raise StoreUnavailable("sqlite", "it is gone")

    monkeypatch.setattr("toolspecs.revisions.catalog.Catalog.get", fail)
    with caplog.at_level(logging.ERROR):
        await client.get("/v1/toolsets/x", headers={"X-Request-ID": "abc-1"})
    assert "request abc-1" in caplog.text
    assert spans.get_finished_spans()[-1].attributes["callgate.request_id"] == "abc-1"


@pytest.mark.parametrize("keyed", [{}, {"api_key": KEY}], ids=["without keys", "with keys"])
async def test_pages_of_the_origins_may_call(client_with, keyed):
    own = {"Origin": PAGE} | ({"Authorization": f"Bearer {KEY}"} if keyed else {})
    asked = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization, x-toolset",
    }
    async with client_with(cors_origins=f"{PAGE}, http://b.example", **keyed) as client:
        preflight = await client.options("/v1/chat/completions", headers={"Origin": PAGE, **asked})
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-origin"] == PAGE
        assert preflight.headers["access-control-allow-headers"] == "authorization, x-toolset"
        assert "POST" in preflight.headers["access-control-allow-methods"]
        answer = await client.post("/v1/chat/completions", json=body(prediction={}), headers=own)
        assert answer.status_code == 200, answer.text
        assert answer.headers["access-control-allow-origin"] == PAGE
        exposed = answer.headers["access-control-expose-headers"].lower()
        assert all(name in exposed for name in ("x-callgate-ignored", "x-request-id", "etag", "retry-after"))
        missing = await client.get("/v1/toolsets/x", headers=own)
        assert (missing.status_code, missing.headers["access-control-allow-origin"]) == (404, PAGE)
        foreign = await client.options(
            "/v1/chat/completions", headers={"Origin": "https://evil.example", **asked}
        )
        assert foreign.status_code in {401, 403}
        assert "access-control-allow-origin" not in foreign.headers


async def test_with_keys_a_page_that_sends_none_can_read_why_it_is_refused(client_with):
    async with client_with(cors_origins="*", api_key=KEY) as client:
        refused = await client.get("/v1/models", headers={"Origin": PAGE})
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, PAGE)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"cors_origins": "*"}, "set api_key too"),
        ({"cors_origins": "app.example"}, "is not an origin"),
        ({"cors_origins": f"{PAGE}/"}, "is not an origin"),
        ({"cors_origins": f"{PAGE},null"}, "'null' is not an origin"),
    ],
)
def test_origins_that_are_none_are_refused(fields, says):
    with pytest.raises(SettingsError, match=says):
        read_origins(Settings(**fields))
