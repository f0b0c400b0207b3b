"""The page of API keys: made, shown once, rotated and revoked."""

import pytest
from browser import PHONE, opened_page
from serving import served

from gateway.app import create_app
from gateway.settings import Settings

ADMIN = "a-key-for-the-console"


@pytest.fixture
def gateway(tmp_path, runtime):
    """A gateway that needs a key, which its client sends."""
    settings = Settings(data_dir=str(tmp_path), secret="0123456789abcdef", compile_workers=0, api_key=ADMIN)
    with served(create_app(settings, runtime=runtime)) as client:
        client.headers["Authorization"] = f"Bearer {ADMIN}"
        yield client


@pytest.fixture
def page(browser, gateway):
    with opened_page(browser, str(gateway.base_url).rstrip("/")) as page:
        page.misdeeds.expected.append("401")
        page.evaluate(f"sessionStorage.setItem('callgate.key', '{ADMIN}')")
        page.goto("/console#/keys")
        page.reload()
        yield page


def status_of(gateway, key):
    return gateway.get("/v1/models", headers={"Authorization": f"Bearer {key}"}).status_code


def test_a_key_is_made_with_its_bounds_and_shown_once(gateway, page):
    page.get_by_role("button", name="New key").click()
    page.get_by_label("Name", exact=True).fill("<b>agent</b>")
    page.get_by_label("Toolsets", exact=True).fill("mail, calendar")
    page.get_by_label("Requests a minute", exact=True).fill("60")
    page.get_by_label("Days until it expires", exact=True).fill("3")
    page.get_by_role("button", name="Create key").click()
    key = page.locator("[data-key]").inner_text()
    assert status_of(gateway, key) == 200
    [made] = gateway.get("/v1/keys").json()["keys"]
    assert (made["name"], made["scopes"], made["toolsets"]) == (
        "<b>agent</b>",
        ["invoke"],
        ["mail", "calendar"],
    )
    assert (made["requests_per_minute"], made["tokens_per_minute"], made["tenant"]) == (60, None, None)
    assert made["expires_at"]
    page.get_by_role("link", name="All keys").click()
    page.get_by_text("toolsets mail, calendar").wait_for()
    assert key not in page.content()


def test_a_refused_key_says_what_is_wrong(page):
    page.misdeeds.expected.append("400")
    page.goto("/console#/keys/new")
    page.get_by_label("Name", exact=True).fill("agent")
    page.get_by_label("Tenant", exact=True).fill("A B")
    page.get_by_role("button", name="Create key").click()
    assert "tenant" in page.get_by_role("alert").inner_text()
    page.get_by_label("Tenant", exact=True).fill("acme")
    page.get_by_role("button", name="Create key").click()
    page.locator("[data-key]").wait_for()


def test_a_key_is_rotated_and_revoked(gateway, page):
    old = gateway.post("/v1/keys", json={"name": "agent", "scopes": ["invoke"]}).json()["key"]
    page.reload()
    page.get_by_role("button", name="Rotate").click()
    page.get_by_role("dialog").get_by_role("button", name="Rotate").click()
    new = page.locator("[data-key]").inner_text()
    assert (status_of(gateway, old), status_of(gateway, new), old == new) == (200, 200, False)
    page.get_by_role("button", name="Done").click()
    page.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert status_of(gateway, new) == 200
    page.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    page.get_by_text("No key in the store yet").wait_for()
    assert (status_of(gateway, old), status_of(gateway, new)) == (401, 401)


def test_the_form_is_not_wider_than_a_phone(browser, gateway):
    with opened_page(browser, str(gateway.base_url).rstrip("/"), viewport=PHONE) as page:
        page.misdeeds.expected.append("401")
        page.goto("/console#/keys/new")
        page.get_by_label("Name", exact=True).wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
