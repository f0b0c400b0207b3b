"""axe-core, which finds what keeps people with disabilities from using a page. npm installs it once."""

import shutil
import subprocess
from pathlib import Path

VERSION = "4.14.1"
FOLDER = Path(__file__).parents[2] / "build" / "axe"
SCRIPT = FOLDER / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
COLOUR_RULES = ["color-contrast", "link-in-text-block"]
"""Those that a theme's colours can break; all others are about what both themes share."""


def find_axe():
    """The text of axe-core; raises FileNotFoundError with the reason if it is not there and cannot be installed."""
    if not SCRIPT.exists():
        if shutil.which("npm") is None:
            raise FileNotFoundError("axe-core is not installed, and there is no npm to install it")
        options = ["--prefix", str(FOLDER), "--no-audit", "--no-fund", "--ignore-scripts", "--silent"]
        done = subprocess.run(  # noqa: PLW1510 - the script is there, or it is not
            ["npm", "install", *options, f"axe-core@{VERSION}"], capture_output=True, text=True, timeout=120
        )
        if not SCRIPT.exists():
            raise FileNotFoundError(f"npm could not install axe-core: {done.stderr[-300:]}")
    return SCRIPT.read_text("utf-8")


def violations(page, script, rules=RULES):
    """What axe-core finds in a page that is serious or critical, each with the elements concerned."""
    page.evaluate(script)
    found = page.evaluate("rules => axe.run(document, {runOnly: rules})", rules)
    return [
        f"{each['impact']}: {each['help']}: {[node['html'][:160] for node in each['nodes'][:5]]}"
        for each in found["violations"]
        if each["impact"] in {"serious", "critical"}
    ]
