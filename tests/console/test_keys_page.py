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


def test_long_names_and_many_toolsets_leave_the_buttons_in_view(gateway, page):
    toolsets = [f"team-{number}" for number in range(40)]
    terms = {"name": "L" * 100, "scopes": ["invoke"], "toolsets": toolsets}
    gateway.post("/v1/keys", json=terms).raise_for_status()
    page.reload()
    button = page.get_by_role("button", name="Revoke").bounding_box()
    table = page.locator(".scroll").bounding_box()
    assert button["x"] + button["width"] <= table["x"] + table["width"]
    assert button["height"] < 50, "its word stays on a line"
    assert page.get_by_role("button", name="Rotate").bounding_box()["y"] == button["y"]
    page.set_viewport_size(PHONE)
    name = page.get_by_text("L" * 100).bounding_box()
    assert name["x"] + name["width"] <= PHONE["width"]


def test_a_name_cannot_hide_characters_and_a_dialog_names_one_key(gateway, page):
    names = ["agent\u202e", "agent\u202e"]
    ids = [gateway.post("/v1/keys", json={"name": each, "scopes": ["invoke"]}).json()["id"] for each in names]
    page.reload()
    page.get_by_text("agent\\u{202e}").first.wait_for()
    page.get_by_role("button", name=f"Revoke agent\\u{{202e}} ({ids[1]})").click()
    asked = page.get_by_role("dialog").get_by_role("heading").inner_text()
    assert [each in asked for each in ids] == [False, True]


def test_a_new_secret_is_shown_though_its_dialog_was_closed_early(gateway, page):
    gateway.post("/v1/keys", json={"name": "agent", "scopes": ["invoke"]}).raise_for_status()
    page.reload()
    waiting = []

    def keep(route):
        waiting.append(route)

    page.route("**/rotate", keep)
    page.get_by_role("button", name="Rotate").click()
    page.get_by_role("dialog").get_by_role("button", name="Rotate").click()
    page.wait_for_function("document.querySelector('dialog .danger, dialog button').disabled")
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    waiting[0].continue_()
    assert status_of(gateway, page.locator("[data-key]").inner_text()) == 200


def test_what_was_typed_is_there_after_another_page_and_gone_once_it_is_sent(page):
    page.goto("/console#/keys/new")
    page.get_by_label("Name", exact=True).fill("agent")
    page.get_by_label("register: write toolsets").check()
    page.get_by_role("link", name="Toolsets").click()
    page.get_by_role("heading", name="Toolsets", level=1).wait_for()
    page.go_back()
    page.get_by_label("Name", exact=True).wait_for()
    assert page.get_by_label("Name", exact=True).input_value() == "agent"
    assert page.get_by_label("register: write toolsets").is_checked()
    page.get_by_role("button", name="Create key").click()
    page.get_by_role("link", name="All keys").click()
    page.get_by_role("button", name="New key").click()
    assert page.get_by_label("Name", exact=True).input_value() == ""


def test_a_day_that_no_calendar_has_is_refused_at_its_field(gateway, page):
    page.goto("/console#/keys/new")
    page.get_by_label("Name", exact=True).fill("agent")
    days = page.get_by_label("Days until it expires", exact=True)
    days.fill("999999999999")
    page.get_by_role("button", name="Create key").click()
    assert days.evaluate("field => field.validity.rangeOverflow")
    days.fill("36500")
    page.get_by_role("button", name="Create key").click()
    page.locator("[data-key]").wait_for()
    assert len(gateway.get("/v1/keys").json()["keys"]) == 1
