"""Reads the tools that an MCP server lists."""

from collections.abc import Iterable, Mapping
from typing import Any

from toolspecs.imports.imported import SOURCE, Imported
from toolspecs.json_value import Limits
from toolspecs.tool_parser import read_tools


def import_listing(title: str, listing: Iterable[Mapping[str, Any]]) -> Imported:
    """The tools that a server lists.

    A `callgate/source` field in a tool's `_meta` is removed: only this gateway may write that note.

    Raises:
        LimitExceeded: there are more tools than a toolset may have.
    """
    tools = [
        {**tool, "_meta": {key: value for key, value in (tool.get("_meta") or {}).items() if key != SOURCE}}
        for tool in listing
    ]
    checked, faults = read_tools(tools, limits=Limits())
    return Imported("mcp", title, tuple(checked_tool.tool for checked_tool in checked), tuple(faults))
