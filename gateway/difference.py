"""What a change of a toolset means for callers: which arguments were valid, and which are now."""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any

from toolspecs.tool import Tool

Covers = Callable[[Tool, Tool], Awaitable[bool]]
"""Whether the first tool is proved to admit all arguments that the second admits."""


class Change(StrEnum):
    """What became of a tool, by containment of the sets of valid arguments."""

    ADDED = "added"
    REMOVED = "removed"
    UNCHANGED = "unchanged"
    COMPATIBLE = "compatible"  # the same arguments are valid; a description or the like differs
    WIDENED = "widened"  # all that was valid is, and more
    NARROWED = "narrowed"  # all that is valid was, and more
    CHANGED = "changed"  # neither contains the other, or it could not be decided


async def compare(old: Iterable[Tool], new: Iterable[Tool], covers: Covers) -> dict[str, Change]:
    """The change of every tool by name: those of `new` in order, then the removed ones."""
    before = {tool.name: tool for tool in old}
    changes = {tool.name: await compare_tool(before.pop(tool.name, None), tool, covers) for tool in new}
    return changes | dict.fromkeys(before, Change.REMOVED)


def compare_documents(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Change]:
    """Which documents are new, gone or other ones, key order included; tools tell what that means."""
    changes = dict.fromkeys(new, Change.ADDED) | dict.fromkeys(old.keys() - new.keys(), Change.REMOVED)
    for uri in old.keys() & new.keys():
        is_same = json.dumps(old[uri]) == json.dumps(new[uri])
        changes[uri] = Change.UNCHANGED if is_same else Change.CHANGED
    return changes


async def compare_tool(old: Tool | None, new: Tool, covers: Covers) -> Change:
    """The change of one tool; `old` None is no tool."""
    if old is None:
        return Change.ADDED
    if old.digest == new.digest:
        return Change.UNCHANGED
    is_wider = await covers(new, old)
    is_narrower = await covers(old, new)
    return {
        (True, True): Change.COMPATIBLE,
        (True, False): Change.WIDENED,
        (False, True): Change.NARROWED,
        (False, False): Change.CHANGED,
    }[is_wider, is_narrower]
