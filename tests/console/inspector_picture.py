"""The picture of the mask inspector in the README, in light and dark, of the model in the box.

`make console-screenshots` writes it into `docs/console/`.
"""

import base64
import json
import tempfile
from pathlib import Path

import httpx
from browser import opened_browser

from gateway.demo.gateway_thread import serve
from gateway.settings import Settings

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "console"
TOOLS = ROOT / "gateway" / "demo" / "toolsets" / "issues.json"
QUESTION = "Close WEB-12, it is a duplicate of WEB-9"
SEED = "4"
MARGIN = 20


def ask(page):
    """Run the question in the playground; the second time, the prompt is in the prefix cache, as for the seed."""
    page.goto("/console#/playground?toolset=issues")
    page.get_by_label("Tool choice").locator("option[value='tool:close_issue']").wait_for(state="attached")
    page.get_by_label("Tool choice").select_option("tool:close_issue")
    page.get_by_label("Message", exact=True).fill(QUESTION)
    page.get_by_text("More").click()
    page.get_by_label("Seed").fill(SEED)
    for _ in range(2):
        with page.expect_response("**/v1/chat/completions") as answer:
            page.get_by_role("button", name="Run").click()
        answer.value.finished()
        page.locator(".panels:not([hidden])").wait_for()


def picture(page, path):
    """Save the answer and the inspector as WebP."""
    page.evaluate("scrollTo(0, 0)")
    box = page.locator(".output").bounding_box()
    clip = {
        "x": box["x"] - MARGIN,
        "y": box["y"] - MARGIN,
        "width": box["width"] + 2 * MARGIN,
        "height": box["height"] + 2 * MARGIN,
        "scale": 1.5,
    }
    session = page.context.new_cdp_session(page)
    options = {"format": "webp", "quality": 80, "clip": clip, "captureBeyondViewport": True}
    shot = session.send("Page.captureScreenshot", options)
    path.write_bytes(base64.b64decode(shot["data"]))
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1000} kB")


def main():
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as data_dir:
        settings = Settings(data_dir=data_dir, port=0, compile_workers=1, model="tiny", device="cpu")
        with serve(settings, say=lambda _: None) as url, opened_browser() as browser:
            tools = json.loads(TOOLS.read_text("utf-8"))
            httpx.put(f"{url}/v1/toolsets/issues", json=tools, timeout=60).raise_for_status()
            for scheme in ("light", "dark"):
                context = browser.new_context(
                    base_url=url, color_scheme=scheme, viewport={"width": 1200, "height": 1200}
                )
                page = context.new_page()
                ask(page)
                picture(page, FOLDER / f"inspector-{scheme}.webp")
                context.close()


if __name__ == "__main__":
    main()
