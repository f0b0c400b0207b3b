"""How the files of the console are sent."""

import re

import pytest

from gateway.console.asset_files import read_assets

STRICT = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"


async def test_the_page_and_its_files_need_no_key(client_with):
    async with client_with(api_key="k" * 9) as client:
        page = await client.get("/console")
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        linked = re.findall(r'(?:href|src)="(console/[^"]+)"', page.text)
        assert len(linked) >= 3
        for path in linked:
            assert (await client.get(f"/{path}")).status_code == 200, path
        for path in ("/v1/toolsets", "/console.css", "/consoles", "/v1/console/"):
            assert (await client.get(path)).status_code == 401, path


async def test_files_are_kept_for_good_and_the_page_is_asked_for_again(client):
    assets = read_assets()
    for path, asset in assets.files.items():
        sent = await client.get(f"/console/{assets.digest}/{path}")
        assert sent.content == asset.content
        assert sent.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert sent.headers["content-type"].partition(";")[0] == asset.media_type
    page = await client.get("/console")
    assert page.headers["cache-control"] == "no-cache"
    again = await client.get("/console", headers={"If-None-Match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_nothing_but_the_gateways_own_files_runs(client):
    page = await client.get("/console")
    script = await client.get(f"/console/{read_assets().digest}/shell.js")
    for sent in (page, script):
        assert sent.headers["content-security-policy"] == STRICT
        assert sent.headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", page.text)


@pytest.mark.parametrize(
    "path",
    [
        "{digest}/index.html",
        "{digest}/none.js",
        "{digest}/../asset_files.py",
        "{digest}/%2e%2e/%2e%2e/settings.py",
        "0123456789abcdef/shell.js",
        "shell.js",
    ],
)
async def test_there_are_no_other_files(client, path):
    answer = await client.get("/console/" + path.format(digest=read_assets().digest))
    assert answer.status_code == 404


async def test_the_page_is_found_with_a_last_slash(client):
    answer = await client.get("/console/", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"], answer.content) == (308, "../console", b"")


async def test_the_address_of_the_gateway_leads_to_the_console(client):
    answer = await client.get("/", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"], answer.content) == (307, "console", b"")


async def test_without_the_setting_there_is_no_console(client_with):
    async with client_with(console=False) as client:
        assert (await client.get("/")).status_code == 404
        assert (await client.get("/console")).status_code == 404
        assert (await client.get(f"/console/{read_assets().digest}/shell.js")).status_code == 404
