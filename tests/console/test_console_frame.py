"""The frame of the console's pages, in a browser: navigation, the key, and errors."""

import pytest
from browser import opened_page
from sample_tools import TIME, WEATHER
from serving import served

KEY = "a-key-for-the-console"


def expect_text(page, text):
    page.get_by_text(text).first.wait_for()


@pytest.fixture
def guarded(app_with):
    """A gateway that needs a key."""
    with served(app_with(api_key=KEY)) as client:
        yield str(client.base_url).rstrip("/")


def test_the_first_page_says_that_nothing_is_registered(page):
    expect_text(page, "No toolset yet")
    assert page.title() == "Toolsets · Callgate"
    assert page.locator("nav [aria-current=page]").inner_text() == "Toolsets"


def test_what_is_registered_is_shown(gateway, page):
    gateway.put("/v1/toolsets/weather", json={"tools": [WEATHER, TIME]}).raise_for_status()
    page.reload()
    expect_text(page, "weather")


def test_a_page_that_does_not_exist_is_said(page):
    page.goto("/console#/nowhere")
    expect_text(page, "There is no such page")
    page.get_by_role("alert").get_by_role("link", name="Toolsets").click()
    expect_text(page, "No toolset yet")


def test_an_error_is_said_in_words_with_the_id_of_the_request(page):
    page.misdeeds.expected.append("404")
    page.goto("/console#/requests/abc")
    expect_text(page, "Unknown request")
    page.get_by_role("alert").get_by_text("no request 'abc'").wait_for()
    page.get_by_role("alert").locator("code").wait_for()


def test_the_keyboard_leads_to_the_content_and_back(page):
    expect_text(page, "No toolset yet")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    assert page.evaluate("location.hash") == ""


def test_a_key_is_asked_for_kept_in_the_tab_and_forgotten(browser, guarded):
    with opened_page(browser, guarded) as page:
        page.misdeeds.expected.append("401")
        page.get_by_role("button", name="Enter a key").click()
        page.get_by_label("Key", exact=True).fill("a-wrong-key")
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Use another key").click()
        page.get_by_label("Key", exact=True).fill(KEY)
        page.get_by_role("button", name="Use this key").click()
        expect_text(page, "No toolset yet")
        page.reload()
        expect_text(page, "No toolset yet")
        assert page.evaluate("localStorage.length") == 0
        assert page.context.cookies() == []
        page.get_by_role("button", name="API key").click()
        page.get_by_role("button", name="Forget it").click()
        page.get_by_role("button", name="Enter a key").wait_for()


def test_a_gateway_that_is_gone_is_said(page):
    expect_text(page, "No toolset yet")
    page.misdeeds.expected.append("ERR_FAILED")
    page.route("**/v1/**", lambda route: route.abort())
    page.evaluate("dispatchEvent(new HashChangeEvent('hashchange'))")
    expect_text(page, "The gateway does not answer")
    page.unroute_all()
    page.get_by_role("button", name="Try again").click()
    expect_text(page, "No toolset yet")


def test_how_long_ago_something_was_is_told_as_time_passes(gateway, page):
    gateway.put("/v1/toolsets/weather", json={"tools": [WEATHER]}).raise_for_status()
    page.clock.install()
    page.reload()
    page.get_by_text("just now").wait_for()
    page.clock.fast_forward("10:00")
    page.get_by_text("10 minutes ago").wait_for()


def test_a_gateway_that_does_not_answer_is_said_while_one_waits(page):
    expect_text(page, "No toolset yet")
    page.clock.install()
    page.route("**/v1/requests*", lambda route: None)  # it never answers
    page.get_by_role("link", name="Requests").click()
    page.clock.run_for(200)
    expect_text(page, "Loading…")
    page.clock.run_for(10_000)
    expect_text(page, "The gateway has not answered for 10 seconds")
    page.unroute_all()


def test_a_body_that_breaks_off_is_said_in_words(page):
    expect_text(page, "No toolset yet")
    page.evaluate(
        "window.fetch = async () => new Response(new ReadableStream({"
        "  start(body) { body.enqueue(new TextEncoder().encode('{')); body.error(new TypeError('lost')); } }))"
    )
    page.get_by_role("link", name="Requests").click()
    expect_text(page, "The answer broke off")
