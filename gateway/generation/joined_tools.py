"""The tools of one request: those of its toolsets and its inline ones, within the limits of one toolset."""

from collections.abc import Callable, Sequence
from operator import attrgetter

from gateway.errors import ToolsetConflict, TooManyTools
from toolspecs.json_value import Limits
from toolspecs.tool import Tool
from toolspecs.toolset import Revision, Toolset

INLINE = "the inline tools"
_NUM_BYTES, _NUM_VALUES = attrgetter("num_bytes"), attrgetter("num_values")


def check_together(revisions: Sequence[Revision], inline: tuple[Tool, ...], limits: Limits) -> None:
    """Raise TooManyTools if toolsets and inline tools together exceed what one toolset may have."""
    if len(revisions) == 1 and not inline:
        return  # within the limits since it was registered
    toolsets = {_named(revision): revision.toolset for revision in revisions}
    checks: tuple[tuple[str, int, Callable[[Toolset], int], Callable[[Tool], int]], ...] = (
        ("tools", limits.num_tools, len, lambda _: 1),
        ("bytes of tools and documents", limits.toolset_bytes, _NUM_BYTES, _NUM_BYTES),
        ("JSON values in tools and documents", limits.num_values, _NUM_VALUES, _NUM_VALUES),
    )
    for unit, most, of_toolset, of_tool in checks:
        sizes = {source: of_toolset(toolset) for source, toolset in toolsets.items()}
        if inline:
            sizes[INLINE] = sum(map(of_tool, inline))
        if sum(sizes.values()) > most:
            raise TooManyTools(sizes, most, unit)


def _named(revision: Revision) -> str:
    return f"toolset '{revision.toolset.name}@{revision.number}'"


def join_tools(revisions: Sequence[Revision], inline: tuple[Tool, ...], limits: Limits) -> tuple[Tool, ...]:
    """The tools of all revisions, then the inline ones. This takes time if the tools are large.

    Raises:
        ToolsetConflict: two tools share a name.
        TooManyTools: together they exceed what one toolset may have.
    """
    check_together(revisions, inline, limits)
    sources = {_named(revision): revision.toolset.tools for revision in revisions} | {INLINE: inline}
    by_name: dict[str, Tool] = {}
    source_of: dict[str, str] = {}
    for source, tools in sources.items():
        for tool in tools:
            if tool.name in by_name:
                raise ToolsetConflict(tool.name, source_of[tool.name], source)
            by_name[tool.name] = tool
            source_of[tool.name] = source
    return tuple(by_name.values())
