"""`callgate tools watch`: says what differs at sources, and changes nothing."""

import json

import pytest
from source_server import SHOP, document, operation, served_document, web

from gateway.commands import watch_cli

URL = "/openapi.json"
CHANGED = {**SHOP, "/new": {"get": operation("new", {}, "Call this first.")}}
TWICE = {**CHANGED, "/newer": {"get": operation("newer", {}, "Call this second.")}}


@pytest.fixture(autouse=True)
def _near(monkeypatch):
    """The sources of these tests are on this machine."""
    monkeypatch.setenv("CALLGATE_SOURCE_NETWORKS", "127.0.0.0/8")


@pytest.fixture
def shop(run, gateway):
    """The answers of a server whose document is imported, by its path."""
    answers = {URL: served_document(SHOP)}
    with web(answers) as (base, _):
        assert run("tools", "import", "--openapi", base + URL, "--operation", "*").exit_code == 0
        yield answers


def test_a_round_tells_by_its_exit_code_whether_something_changed(run, gateway, shop):
    quiet = run("tools", "watch", "the-shop", "--once")
    assert (quiet.exit_code, quiet.stdout) == (0, "")
    shop[URL] = served_document(CHANGED)
    before = gateway.get("/v1/toolsets/the-shop").json()
    result = run("tools", "watch", "the-shop", "--once")
    assert result.exit_code == 1
    assert "toolset the-shop: 1 tool differs at openapi http://127.0.0.1:" in result.stdout
    assert '+  "description": "Call this first.",' in result.stdout
    assert gateway.get("/v1/toolsets/the-shop").json() == before
    shop[URL] = (500, {}, b"")
    unread = run("tools", "watch", "the-shop", "--once")
    assert (unread.exit_code, "HTTP 500" in unread.stderr) == (2, True)


def test_a_source_in_a_private_network_names_the_way_to_read_it(run, shop, gateway, monkeypatch):
    monkeypatch.delenv("CALLGATE_SOURCE_NETWORKS")
    [source] = gateway.get("/v1/toolsets/the-shop").json()["sources"]
    base = source["location"].removesuffix(URL)
    unread = run("tools", "watch", "the-shop", "--once")
    assert unread.exit_code == 2
    assert unread.stderr.rstrip().endswith(f"; if you trust it, add --origin {base}")
    assert run("tools", "watch", "the-shop", "--once", "--origin", base).exit_code == 0


def test_a_difference_is_told_once_and_an_interrupt_ends_it_cleanly(run, shop, monkeypatch):
    documents = [CHANGED, CHANGED, TWICE, SHOP]

    def sleep(seconds):
        assert seconds == 5
        if not documents:
            raise KeyboardInterrupt
        shop[URL] = served_document(documents.pop(0))

    monkeypatch.setattr(watch_cli.time, "sleep", sleep)
    result = run("tools", "watch", "the-shop", "--every", "5")
    assert result.exit_code == 0
    told = [line for line in result.stdout.splitlines() if line.startswith("toolset")]
    differing = [line.removeprefix("toolset the-shop: ").partition(" at ")[0] for line in told]
    assert differing == ["1 tool differs", "2 tools differ", "nothing differs"]


def test_a_declined_difference_is_not_told(run, gateway, shop):
    [source] = gateway.get("/v1/toolsets/the-shop").json()["sources"]
    shop[URL] = served_document(CHANGED)
    assert run("tools", "watch", "the-shop", "--once").exit_code == 1
    run("tools", "import", "--openapi", source["location"], "--operation", "*")
    assert run("tools", "decline", "the-shop", "new").exit_code == 0
    quiet = run("tools", "watch", "the-shop", "--once")
    assert (quiet.exit_code, quiet.stdout) == (0, "")
    shop[URL] = served_document(TWICE)
    assert "1 tool differs" in run("tools", "watch", "the-shop", "--once").stdout


def test_files_are_watched_where_they_are_named(run, gateway, tmp_path):
    path, other = tmp_path / "openapi.json", tmp_path / "other.json"
    path.write_text(json.dumps(document(SHOP)))
    other.write_text(json.dumps({**document(SHOP), "info": {"title": "Another", "version": "1"}}))
    run("tools", "import", "--openapi", str(path), "--operation", "list*")
    unnamed = run("tools", "watch", "the-shop", "--once", "--openapi", str(other))
    assert unnamed.exit_code == 2
    assert "openapi The Shop of toolset the-shop is not at a URL; name its file" in unnamed.stderr
    watch = ("tools", "watch", "the-shop", "--once", "--openapi", str(other), "--openapi", str(path))
    assert (run(*watch).exit_code, run(*watch).stdout) == (0, "")
    path.write_text(json.dumps(document({"/orders": {"get": operation("listOrders", {}, "Call me.")}})))
    changed = run(*watch)
    assert (changed.exit_code, "Call me." in changed.stdout) == (1, True)


def test_a_location_that_is_no_url_ends_nothing(run, gateway, shop):
    """Anybody may register it, and `callgate tools watch` goes on with whatever else it watches."""
    tools = [{"name": "ship", "inputSchema": {"type": "object"}}]
    body = {"listing": {"kind": "openapi", "location": "http://xn--/", "tools": tools}}
    gateway.post("/v1/toolsets/odd/import", json=body).raise_for_status()
    shop[URL] = served_document(CHANGED)
    result = run("tools", "watch", "odd", "the-shop", "--once")
    assert (result.exit_code, "1 tool differs" in result.stdout) == (1, True)
    assert "http://xn--/" in result.stderr


def test_what_cannot_be_polled_is_told(run, gateway):
    python = {"kind": "python", "location": "shop", "tools": []}
    tools = [{"name": "ship", "inputSchema": {"type": "object"}}]
    body = {"listing": {**python, "tools": tools}}
    gateway.post("/v1/toolsets/the-shop/import", json=body).raise_for_status()
    result = run("tools", "watch", "the-shop", "--once")
    assert result.exit_code == 2
    assert "python shop of toolset the-shop is not at a URL" in result.stderr
    gateway.put("/v1/toolsets/own", json={"tools": []}).raise_for_status()
    assert "was not imported" in run("tools", "watch", "own", "--once").stderr


def test_a_toolset_that_does_not_exist_ends_the_watch_at_once(run, shop, gateway, monkeypatch):
    """Most likely its name is misspelt. One that is deleted later may be restored."""
    result = run("tools", "watch", "the-shop", "the-shp")
    assert result.exit_code == 2
    assert result.stderr == "no toolset 'the-shp'; did you mean 'the-shop'?\n"
    assert run("tools", "watch", "the-shp", "--once").exit_code == 2
    rounds = [lambda: gateway.delete("/v1/toolsets/the-shop"), lambda: None]

    def sleep(_):
        if not rounds:
            raise KeyboardInterrupt
        rounds.pop()()

    monkeypatch.setattr(watch_cli.time, "sleep", sleep)
    result = run("tools", "watch", "the-shop")
    assert (result.exit_code, rounds) == (0, [])
    assert "'the-shop'" in result.stderr


def test_only_named_origins_are_shown_tokens(run, gateway, monkeypatch):
    """Whoever may register names the URL of a source."""
    monkeypatch.setenv("CALLGATE_SOURCE_TOKEN", "s3cret")
    with web({URL: served_document(SHOP)}) as (base, seen):
        assert run("tools", "import", "--openapi", base + URL, "--operation", "*").exit_code == 0
        seen.clear()
        run("tools", "watch", "the-shop", "--once")
        run(
            "tools",
            "watch",
            "the-shop",
            "--once",
            "--header",
            "X-Key: k",
            "--origin",
            "https://tools.example",
        )
        assert [_shown(request) for request in seen] == [(None, None)] * 2
        run("tools", "watch", "the-shop", "--once", "--header", "X-Key: k", "--origin", base)
        assert _shown(seen[-1]) == ("Bearer s3cret", "k")
    result = run("tools", "watch", "the-shop", "--once", "--header", "X-Key: k")
    assert (result.exit_code, "--header needs --origin" in result.stderr) == (1, True)


def _shown(request):
    headers = {name.lower(): value for name, value in request[1].items()}
    return headers.get("authorization"), headers.get("x-key")


FORGED = "Shop\ntoolset shop: nothing differs at openapi Shop\r\x1b[2K\u2028toolset other: \x85gone"


def test_a_title_of_a_document_forges_no_line(run, gateway, tmp_path):
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps({**document(SHOP), "info": {"title": FORGED, "version": "1"}}))
    assert run("tools", "import", "--openapi", str(path), "--operation", "*", "--name", "shop").exit_code == 0
    path.write_text(json.dumps({**document(CHANGED), "info": {"title": FORGED, "version": "1"}}))
    changed = run("tools", "watch", "shop", "--once", "--openapi", str(path))
    assert changed.exit_code == 1
    [line] = [line for line in changed.stdout.splitlines() if line.startswith("toolset")]
    assert line.startswith("toolset shop: 1 tool differs at openapi Shop")


def test_a_title_of_a_document_that_a_client_sent_forges_no_line(run, gateway):
    sent = {"openapi": {"document": {**document(SHOP), "info": {"title": FORGED, "version": "1"}}}}
    gateway.post("/v1/toolsets/shop/import", json=sent).raise_for_status()
    unread = run("tools", "watch", "shop", "--once")
    assert unread.exit_code == 2
    [line] = unread.stderr.splitlines()
    assert line.startswith(
        r"openapi Shop\ntoolset shop: nothing differs at openapi Shop\r\x1b[2K\u2028toolset other: "
    )
