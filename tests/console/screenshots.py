"""Pictures of the console's pages for `docs/console.md`, of a real gateway with the tiny model and its toolsets.

`make console-screenshots` writes them into `docs/console/`.
"""

import base64
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import httpx
from browser import opened_browser, opened_page
from console_pages import PAGES, ask, prepare

from gateway.demo.gateway_thread import serve
from gateway.settings import Settings

FOLDER = Path(__file__).parents[2] / "docs" / "console"
SIZE = {"width": 1200, "height": 800}
DARK = {"request", "system"}
QUESTIONS = (
    ("payments", "Charge customer cus_41 19.90 euros for reference A7."),
    ("calendar", "Which appointments do I have on Monday?"),
    ("files", "Show the first lines of /etc/motd."),
    ("issues", "Find open issues about timeouts."),
)
LOAD_S = 36.0


def work(url, stop_at):
    """Ask questions from three clients at once, so that there is something to see."""
    with httpx.Client(base_url=url, timeout=120) as client:
        model = client.get("/v1/models").json()["data"][0]["id"]

        def keep_asking(first):
            for number in count(first):
                if time.monotonic() > stop_at:
                    return
                ask(client, model, *QUESTIONS[number % len(QUESTIONS)])

        with ThreadPoolExecutor(3) as clients:
            list(clients.map(keep_asking, range(3)))


def picture(page, path):
    """Save what is seen as WebP."""
    session = page.context.new_cdp_session(page)
    shot = session.send("Page.captureScreenshot", {"format": "webp", "quality": 82})
    path.write_bytes(base64.b64decode(shot["data"]))
    print(f"{path.name}: {path.stat().st_size // 1000} kB")


def main():
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as data_dir:
        settings = Settings(data_dir=data_dir, model="tiny", model_name="demo", port=0, compile_workers=1)
        with serve(settings, say=lambda _: None) as url, opened_browser() as browser:
            with httpx.Client(base_url=url, timeout=120) as client:
                names = prepare(client)
            with ThreadPoolExecutor(1) as load:
                loaded = load.submit(work, url, time.monotonic() + LOAD_S)
                for each in sorted(PAGES, key=lambda each: each.name in {"requests", "system"}):
                    scheme = "dark" if each.name in DARK else "light"
                    with opened_page(browser, url, viewport=SIZE, scheme=scheme) as page:
                        each.open(page, names)
                        page.wait_for_timeout(16_000 if each.name == "system" else 500)
                        picture(page, FOLDER / f"{each.name}.webp")
            loaded.result()


if __name__ == "__main__":
    main()
