"""The demo toolsets, as the files that are registered."""

import json
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

NAMES = ("calendar", "issues", "files", "payments")


def document_file(toolset: str) -> Traversable:
    """The file of a toolset: the body of its `PUT /v1/toolsets/{toolset}`."""
    return files("gateway.demo") / "toolsets" / f"{toolset}.json"


def read_document(toolset: str) -> dict[str, Any]:
    """The content of that file."""
    document: dict[str, Any] = json.loads(document_file(toolset).read_text("utf-8"))
    return document


def parameters_by_tool(document: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema of every tool's arguments, by name, of `{"tools": [...]}` in OpenAI or MCP shape."""
    found = {}
    for tool in document["tools"]:
        fields = tool.get("function", tool)
        found[fields["name"]] = fields["parameters"] if "parameters" in fields else fields["inputSchema"]
    return found
