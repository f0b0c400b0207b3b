"""A real Chromium, and what no page of the console may do in it."""

import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MISSING = "there is no Chromium here; on Debian: apt-get install chromium"
FLAGS = [  # in a container there is no GPU, and nothing behind the network that Chromium's own requests ask for
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
DESKTOP, PHONE = {"width": 1280, "height": 860}, {"width": 375, "height": 760}


@contextmanager
def opened_browser():
    """Chromium, driven by Playwright; it is closed before other tests run: both have an event loop."""
    if CHROMIUM is None:
        pytest.skip(MISSING)
    playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Misdeeds:
    """What went wrong in a page, and where it called."""

    origin: str
    errors: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)
    """Parts of messages that a test provokes: Chromium reports every refused request as an error."""

    def watch(self, page):
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.errors.append(f"not caught: {error}"))
        page.on("request", self._requested)

    def _said(self, message):
        if message.type in {"error", "warning"}:
            self.errors.append(f"{message.type}: {message.text}")

    def _requested(self, request):
        address = urlsplit(request.url)
        if address.scheme not in {"data", "blob"} and f"{address.scheme}://{address.netloc}" != self.origin:
            self.errors.append(f"called {request.url}")

    def check(self):
        found = [error for error in self.errors if not any(expected in error for expected in self.expected)]
        assert not found, found


@contextmanager
def opened_page(browser, url, *, viewport=None, scheme="light"):
    """A page of a new profile, at `/console`; afterwards it must have done nothing wrong."""
    context = browser.new_context(base_url=url, viewport=viewport or DESKTOP, color_scheme=scheme)
    context.set_default_timeout(10_000)
    page = context.new_page()
    page.misdeeds = Misdeeds(url)
    page.misdeeds.watch(page)
    try:
        page.goto("/console")
        yield page
        page.misdeeds.check()
    finally:
        context.close()
