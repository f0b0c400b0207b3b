"""Decisions about imported tools: which of those that differ at their sources are accepted or declined."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from gateway.errors import InvalidField
from toolspecs.errors import NoDifference
from toolspecs.imports.imported import source_id_of
from toolspecs.nearest import MAX_NAME, shorten
from toolspecs.tool import Tool
from toolspecs.toolset import Toolset


def accepting(
    toolset: Toolset, tool_names: Collection[str] | None, source_id: str | None
) -> tuple[Toolset, list[Tool]]:
    """The toolset once tools are accepted, and those tools; raises what `ToolImports.accept` raises."""
    chosen = list(chosen_tools(toolset, tool_names, source_id))
    if tool_names is None:
        _check_own(toolset, chosen)
    for chosen_id, names in chosen:
        toolset = toolset.accepting(chosen_id, names)
    accepted = {tool_name for _, names in chosen for tool_name in names}
    return toolset, [tool for tool in toolset if tool.name in accepted]


def chosen_tools(
    toolset: Toolset, names: Collection[str] | None, source_id: str | None
) -> Iterator[tuple[str, list[str]]]:
    """For each source, the names of its differing tools that were chosen: all, or those in `names`."""
    requested = frozenset(names or ())
    sources = [source for source in toolset.sources if source_id in {None, source.source_id}]
    offering: dict[str, list[str]] = {}
    for source in sources:
        for name in source.differing if names is None else source.offers:
            offering.setdefault(name, []).append(source.source_id)
    _check_chosen(toolset, names, offering)
    for source in sources:
        chosen = source.differing if names is None else [name for name in source.offers if name in requested]
        if chosen:
            yield source.source_id, list(chosen)


def _check_chosen(
    toolset: Toolset, names: Collection[str] | None, offering: Mapping[str, Sequence[str]]
) -> None:
    """Raise NoDifference or InvalidField unless each chosen tool differs at exactly one source."""
    for name in offering if names is None else names:
        if name not in offering:
            raise NoDifference(toolset.name, name, offering)
        if len(offering[name]) > 1:
            sources = ", ".join(shorten(source_id, 300) for source_id in offering[name])
            reason = f"several sources offer the tool {shorten(name, MAX_NAME)!r}: {sources}"
            raise InvalidField("source", f"{reason}; name one of them")


def _check_own(toolset: Toolset, chosen: Iterable[tuple[str, Sequence[str]]]) -> None:
    """Raise InvalidField if a chosen tool would replace a tool that does not come from the same source."""
    for source_id, names in chosen:
        for name in names:
            served = toolset.by_name.get(name)
            if served is not None and source_id_of(served.extras.get("_meta")) != source_id:
                reason = (
                    f"{source_id} offers {shorten(name, MAX_NAME)!r}, and the toolset has a tool of that name"
                    " that is not from there; name it to replace it"
                )
                raise InvalidField("tools", reason)
