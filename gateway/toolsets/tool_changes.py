"""Changes of tools: how the set of valid arguments changed, proved by schema containment."""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any

from toolspecs.tool import Tool

Covers = Callable[[Tool, Tool], Awaitable[bool]]
"""Whether it is proved that the first tool admits all arguments that the second admits."""


class Change(StrEnum):
    """How a tool changed: what is proved about its sets of valid arguments before and after.

    `widened` and `narrowed` are proved in one direction. In the other direction, containment is disproved or
    could not be proved in time, so the sets may even be equal.
    """

    ADDED = "added"
    REMOVED = "removed"
    UNCHANGED = "unchanged"
    COMPATIBLE = "compatible"  # the same arguments are valid; a description or the like differs
    WIDENED = "widened"  # every argument that was valid still is, and others may be too
    NARROWED = "narrowed"  # some arguments that were valid may no longer be, and no others are
    CHANGED = "changed"  # neither set is proved to contain the other


async def compare(old: Iterable[Tool], new: Iterable[Tool], covers: Covers) -> dict[str, Change]:
    """The change of every tool by name: those of `new` in order, then the removed ones."""
    before = {tool.name: tool for tool in old}
    changes = {tool.name: await compare_tool(before.pop(tool.name, None), tool, covers) for tool in new}
    return changes | dict.fromkeys(before, Change.REMOVED)


def compare_documents(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Change]:
    """Which documents were added, removed or changed; another order of keys is a change."""
    changes = dict.fromkeys(new, Change.ADDED) | dict.fromkeys(old.keys() - new.keys(), Change.REMOVED)
    for uri in old.keys() & new.keys():
        is_same = json.dumps(old[uri]) == json.dumps(new[uri])
        changes[uri] = Change.UNCHANGED if is_same else Change.CHANGED
    return changes


async def compare_tool(old: Tool | None, new: Tool, covers: Covers) -> Change:
    """The change of one tool; `old` is None if there was no tool of that name."""
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
