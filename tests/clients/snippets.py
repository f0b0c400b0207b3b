"""The snippets of `docs/frameworks.md`: whole programs, each under the heading of its client."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from clients.environments import ROOT

PAGE = ROOT / "docs" / "frameworks.md"
ADDRESS = "http://127.0.0.1:8080/v1"
PRINTED = {
    "python": "payment='pay_4821' reason='duplicate'",
    "js": "{ payment: 'pay_4821', reason: 'duplicate' }",
}
"""What the page says that a snippet prints: its tool was called."""

_BLOCK = re.compile(r"^```(python|js)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Snippet:
    """A program as the page shows it; a Python one stands after the lines at the head of the page."""

    language: str
    text: str

    @property
    def digest(self) -> str:
        """SHA-256 of the program, in hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def for_gateway(self, url: str) -> str:
        """The program for the gateway at `url`, which is the only change."""
        assert self.text.count(ADDRESS) == 1, "a program names the gateway once"
        return self.text.replace(ADDRESS, f"{url}/v1")


def snippets() -> dict[str, Snippet]:
    """The page's programs by heading."""
    (_, (language, head)), *others = blocks()
    assert language == "python", "the head of the page is for Python"
    return {
        heading: Snippet(language, f"{head}\n{text}" if language == "python" else text)
        for heading, (language, text) in others
    }


def blocks() -> Iterator[tuple[str, tuple[str, str]]]:
    """The blocks of code with the heading above each."""
    for section in re.split(r"^##? ", PAGE.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        heading = section.partition("\n")[0]
        for block in _BLOCK.finditer(section):
            yield heading, (block[1], block[2])
