"""What holds for every page: anyone can use it, on a phone too, and it is small."""

import pytest
from axe import COLOUR_RULES, RULES, find_axe, violations
from browser import PHONE, opened_page
from console_pages import PAGES, prepare
from fake_runtime import FakeRuntime, call
from serving import served

from gateway.app import create_app
from gateway.settings import Settings

MAX_BYTES = 200_000
REFUSED = """{"name": "pay",
 "inputSchema": {"properties": {"to": {"type": "string", "pattern": "(?<=a)b"}}}}"""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A gateway with toolsets and requests: its URL, and what the addresses of pages name."""
    folder = str(tmp_path_factory.mktemp("gateway"))
    runtime = FakeRuntime(call("refund_payment", '{"payment": "pay_12"}'))
    runtime.steps = ("note_queued", "note_begun", "note_token")
    app = create_app(Settings(data_dir=folder, secret="0123456789abcdef", compile_workers=0), runtime=runtime)
    with served(app) as client:
        yield str(client.base_url).rstrip("/"), prepare(client)


@pytest.fixture(scope="module")
def axe():
    try:
        return find_axe()
    except FileNotFoundError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    ("scheme", "rules"), [("light", RULES), ("dark", COLOUR_RULES)], ids=["light", "dark"]
)
def test_no_page_has_a_serious_barrier(browser, prepared, axe, scheme, rules):
    url, names = prepared
    with opened_page(browser, url, scheme=scheme) as page:
        found = {}
        for each in PAGES:
            each.open(page, names)
            if barriers := violations(page, axe, rules):
                found[each.name] = barriers
        assert found == {}


def test_what_appears_on_a_page_has_no_serious_barrier(browser, prepared, axe):
    url, names = prepared
    with opened_page(browser, url) as page:
        page.misdeeds.expected.append("422")
        page.goto("/console#/toolsets/+register")
        page.get_by_label("Name").fill("refused")
        page.get_by_label("Tools, as JSON").fill(REFUSED)
        page.locator(".refusals").wait_for()
        assert violations(page, axe) == []
        page.goto("/console#/toolsets/payments")
        page.get_by_role("button", name="Delete").click()
        assert violations(page, axe) == []
        page.goto(f"/console#/requests/{names['request']}")
        page.reload()
        page.get_by_role("button", name="API key").click()
        assert violations(page, axe) == []


def test_every_page_fits_a_phone(browser, prepared):
    url, names = prepared
    with opened_page(browser, url, viewport=PHONE) as page:
        for each in PAGES:
            each.open(page, names)
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], each.name


def test_every_page_is_small(browser, prepared):
    url, names = prepared
    with opened_page(browser, url) as page:
        sizes = []
        page.route("**", lambda route: route.continue_())  # so that nothing comes from the browser's cache
        page.on("response", lambda response: sizes.append(int(response.headers.get("content-length", 0))))
        for each in PAGES:
            page.goto("about:blank")
            sizes.clear()
            each.open(page, names)
            assert 10_000 < sum(sizes) < MAX_BYTES, each.name
