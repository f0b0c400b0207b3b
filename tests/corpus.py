"""Where the shared test data lies, and a skip with the reason where it does not."""

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(os.environ.get("CALLGATE_CORPUS") or Path(__file__).resolve().parents[2] / "shared" / "data")


def corpus(*parts: str) -> Path:
    """The path of a file or folder of the corpus; skips the test where it is absent."""
    path = ROOT.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"no test data at {path}; set CALLGATE_CORPUS to the folder that holds it")
    return path


def json_lines(path: Path) -> Iterator[Any]:
    """The values of a gzipped file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def mcp_tools() -> Iterator[tuple[str, Any]]:
    """The tools of real MCP servers as they list them, each with the name of its server."""
    for path in sorted(corpus("mcp").glob("*.json")):
        if path.stem != "SOURCES":
            for tool in json.loads(path.read_text("utf-8")):
                yield path.stem, tool
