"""`python lacking.py LOCK [PACKAGE …]`: the entries of a lock for packages that this Python does not have.

An engine's image has packages in versions of its own, which stay, but for the packages that are named. Those
and the missing ones are installed from the lock.
"""

import re
import sys
from importlib import metadata
from pathlib import Path


def lacking(lock: str, installed: set[str]) -> str:
    """The entries of `lock` for other packages than the installed ones."""
    entries = re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE)
    return "".join(
        entry for entry in entries if "==" in entry and normalized(entry.split("==")[0]) not in installed
    )


def normalized(name: str) -> str:
    """A package's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    installed = {normalized(distribution.metadata["Name"]) for distribution in metadata.distributions()}
    lock, *replaced = sys.argv[1:]
    print(lacking(Path(lock).read_text("utf-8"), installed - set(replaced)), end="")
