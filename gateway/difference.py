"""What a change of a toolset means for callers: which arguments were valid, and which are now."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from jsonschema_rs import canonical, canonicalize

from toolspecs.tool import Tool


class Change(StrEnum):
    """What became of a tool, by containment of the sets of valid arguments."""

    ADDED = "added"
    REMOVED = "removed"
    UNCHANGED = "unchanged"
    COMPATIBLE = "compatible"  # the same arguments are valid; a description or the like differs
    WIDENED = "widened"  # all that was valid is, and more
    NARROWED = "narrowed"  # all that is valid was, and more
    CHANGED = "changed"  # neither contains the other, or it could not be decided


def compare(old: Iterable[Tool], new: Iterable[Tool]) -> dict[str, Change]:
    """The change of every tool by name: those of `new` in order, then the removed ones."""
    before = {tool.name: tool for tool in old}
    changes = {tool.name: compare_tool(before.pop(tool.name, None), tool) for tool in new}
    return changes | dict.fromkeys(before, Change.REMOVED)


def compare_tool(old: Tool | None, new: Tool) -> Change:
    """The change of one tool; `old` None is no tool."""
    if old is None:
        return Change.ADDED
    if old.digest == new.digest:
        return Change.UNCHANGED
    is_wider, is_narrower = _covers(new.parameters, old.parameters), _covers(old.parameters, new.parameters)
    return {
        (True, True): Change.COMPATIBLE,
        (True, False): Change.WIDENED,
        (False, True): Change.NARROWED,
        (False, False): Change.CHANGED,
    }[is_wider, is_narrower]


def _covers(outer: Mapping[str, Any], inner: Mapping[str, Any]) -> bool:
    """Whether `outer` is proved to admit all that `inner` admits."""
    outer_set, inner_set = (canonicalize(dict(schema)) for schema in (outer, inner))
    return bool(outer_set.covers(inner_set) == canonical.Containment.YES)
