"""Finds the tools of a turn: those of its toolsets and its inline ones, within the limits of one toolset."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from gateway.errors import InvalidField, ToolsetConflict, TooManyTools
from gateway.generation.tool_search import ToolSearcher
from gateway.generation.turn import Turn
from gateway.http.held_contents import Holding
from runtime.protocol import ModelCard
from toolspecs.json_value import Limits
from toolspecs.nearest import MAX_NAME, instead, shorten
from toolspecs.revisions.catalog import Catalog
from toolspecs.tool import ChoiceMode, Tool, ToolChoice, ToolSearchResult
from toolspecs.toolset import Revision, Toolset, ToolsetReference

INLINE = "the inline tools"
_NUM_BYTES, _NUM_VALUES = attrgetter("num_bytes"), attrgetter("num_values")


@dataclass(frozen=True, slots=True)
class FoundTools:
    """The tools of a turn, where they come from, and which of them the model may call."""

    tools: tuple[Tool, ...]
    """After a search, those that it found."""
    tool_choice: ToolChoice
    revisions: tuple[Revision, ...]
    search_result: ToolSearchResult | None
    """None if nothing had to be searched."""


@dataclass(frozen=True, slots=True)
class ToolFinder:
    """Reads the toolsets of turns, joins their tools with the inline ones, and searches them."""

    catalog: Catalog
    searcher: ToolSearcher

    async def revisions(
        self, references: Iterable[ToolsetReference], client_id: str, holding: Holding | None
    ) -> tuple[Revision, ...]:
        """The revisions, which are held; what is too large together is refused before more of it is read.

        Raises:
            ToolspecsError: a toolset or revision does not exist.
            InvalidField: a toolset is named at two revisions.
            TooManyTools: together they exceed what one toolset may have.
            TooMuchHeld: the running requests of the client hold too much.
        """
        by_name: dict[str, Revision] = {}
        for reference in dict.fromkeys(references):
            revision = await self.catalog.resolve(reference)
            if holding is not None:
                holding.hold_toolset(client_id, revision.toolset)
            other = by_name.setdefault(reference.name, revision)
            if other.number != revision.number:
                reason = f"{reference.name!r} is named at revisions {other.number} and {revision.number}"
                raise InvalidField("toolset", f"{reason}; name it once, at the revision that you mean")
            check_together(tuple(by_name.values()), (), self.catalog.limits)
        return tuple(by_name.values())

    async def find(
        self, turn: Turn, model: ModelCard, revisions: tuple[Revision, ...], *, remaining_s: float | None
    ) -> FoundTools:
        """The tools of a turn with these revisions, of which a search may leave some out.

        `remaining_s` is the time that the request has left.

        Raises:
            ToolsetConflict, TooManyTools: the tools do not fit together.
            InvalidField: the tool choice, or the search, does not fit the tools.
        """
        tools = await self._joined(revisions, turn.tools)
        tool_choice = check_tool_choice(turn, tools)
        tools, search_result = await self.searcher.find(
            turn, model, tools, revisions, remaining_s=remaining_s
        )
        return FoundTools(tools, tool_choice, revisions, search_result)

    async def _joined(self, revisions: tuple[Revision, ...], inline: tuple[Tool, ...]) -> tuple[Tool, ...]:
        if not inline and len(revisions) <= 1:
            return revisions[0].toolset.tools if revisions else ()
        return await asyncio.to_thread(join_tools, revisions, inline, self.catalog.limits)


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


def check_tool_choice(turn: Turn, tools: tuple[Tool, ...]) -> ToolChoice:
    """The tool choice, or its default; raises InvalidField if it does not fit the tools."""
    if turn.tool_choice is None:
        return ToolChoice(ChoiceMode.AUTO if tools else ChoiceMode.NONE)
    if not tools and (turn.tool_choice.mode is ChoiceMode.REQUIRED or turn.tool_choice.allowed):
        raise InvalidField("tool_choice", "this choice needs tools: send `tools`, or name a `toolset`")
    names = dict.fromkeys(tool.name for tool in tools)
    for name in turn.tool_choice.allowed or ():
        if name not in names:
            reason = f"there is no tool {shorten(name, MAX_NAME)!r} in this request{instead(name, names)}"
            raise InvalidField("tool_choice", reason)
    return turn.tool_choice
