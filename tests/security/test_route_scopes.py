"""Which key opens which route, however its path is spelled."""

import re

import pytest
from keys import ADMIN, bearer, key_of
from litestar import Litestar, get
from served_routes import handlers
from serving import client_of, exchange, served

from gateway.access.grants import KeyScope
from gateway.access.route_scopes import OPEN, ROUTE_SCOPES, OpenPaths

SCRAPER = "a-key-for-metrics"
SCOPES = [scope for scope in KeyScope if scope is not KeyScope.METRICS]


def test_every_route_stands_in_the_table_and_every_row_is_a_route(app):
    assert {name for _, _, name in handlers(app)} == ROUTE_SCOPES.keys()


def test_an_application_with_a_route_that_has_no_row_does_not_start():
    @get("/v1/secrets")
    async def tell_secrets() -> str:
        return "secret"

    with pytest.raises(AssertionError, match="tell_secrets"):
        OpenPaths.of(Litestar([tell_secrets]))


@pytest.fixture
def guarded(app_with, tmp_path):
    (tmp_path / "metrics").write_text(SCRAPER)
    return app_with(api_key=ADMIN, metrics_key_file=str(tmp_path / "metrics"))


async def keys_of(client):
    """Headers with a key of each scope, and without one."""
    keys = {scope: await key_of(client, scopes=[scope]) for scope in SCOPES}
    return {**keys, KeyScope.METRICS: bearer(SCRAPER), None: {}}


def expected(name, scope):
    """The refusal of a route's handler for a key of this scope; None if it lets it in."""
    needed = ROUTE_SCOPES[name]
    if needed is OPEN:
        return None
    if scope is None:
        return 401
    has = set(SCOPES) if scope is KeyScope.ADMIN else {scope}
    return None if has & needed else 403


async def test_each_scope_opens_its_routes_and_no_other(guarded):
    seen, open_paths = set(), set()
    async with client_of(guarded) as client:
        keys = await keys_of(client)
        for method, template, name in handlers(guarded):
            path = re.sub(r"\{[^}]+\}", "1", template)
            for scope, headers in keys.items():
                status = (await client.request(method, path, headers=headers)).status_code
                refusal = expected(name, scope)
                assert (status if status in {401, 403} else None) == refusal, (method, path, scope, status)
                seen.add((name, scope))
                if scope is None and refusal is None:
                    open_paths.add(path)
    assert len(seen) == len(ROUTE_SCOPES) * 5
    probes = {"/healthz", "/health", "/ping", "/readyz"}
    assert open_paths == probes | {"/openapi.json", "/docs", "/", "/console", "/console/1/1"}


SPELLINGS = [
    "/v1/keys",
    "/v1/keys/",
    "//v1/keys",
    "/v1//keys",
    "/v1/%6beys",
    "/v1%2fkeys",
    "/%2Fv1/keys",
    "/V1/KEYS",
    "/v1/keys%00",
    "/v1/keys;x=1",
    "/v1/keys%3fa",
    "/v1/./keys",
    "/healthz/../v1/keys",
    "/healthz/%2e%2e/v1/keys",
    "/console/../v1/keys",
    "/console/%2e%2e/v1/keys",
    "/console/x/%2e%2e%2f%2e%2e%2fv1/keys",
    "/v1/toolsets/..%2fkeys",
    "/v1/toolsets/../keys",
    "/docs//v1/keys",
    "/healthz%2f..%2fv1%2fkeys",
    "/healthz#/../v1/keys",
    "/healthz%23/../v1/keys",
]


def test_no_spelling_of_a_path_opens_what_the_key_does_not(guarded):
    """Over a real server, whose paths come as they were sent."""
    with served(guarded) as client:
        terms = {"name": "agent", "scopes": ["invoke"]}
        key = client.post("/v1/keys", json=terms, headers=bearer(ADMIN)).json()["key"]
        for path in SPELLINGS:
            for sent in (None, key, SCRAPER):
                lines = ["Host: localhost", "Connection: close"]
                lines += [f"Authorization: Bearer {sent}"] if sent else []
                answer = exchange(client, "\r\n".join([f"GET {path} HTTP/1.1", *lines, "", ""]))
                assert '"keys"' not in answer, (path, sent)
                assert answer.split()[1] in {"400", "401", "403", "404"}, (path, sent, answer)


def test_the_same_spelling_is_the_same_route_for_who_may(guarded):
    with served(guarded) as client:
        for path in ("/v1/keys", "/v1/keys/", "//v1//keys", "/v1/%6beys", "/v1%2fkeys"):
            head = (
                f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-API-Key: {ADMIN}\r\n\r\n"
            )
            assert '"keys"' in exchange(client, head), path
