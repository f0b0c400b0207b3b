"""Imports into toolsets: a toolset keeps serving the tools that were accepted.

The first import of a source makes the toolset. Every later one only notes what the source has now; the tools
that differ are compiled and compared, kept beside the toolset, and served once somebody accepts them. New
tools are no exception: a model reads their descriptions as it reads those of the others.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from compiler.isolation.limits import CompileBudget
from compiler.report import ToolReport
from gateway.access.principal import Principal
from gateway.errors import InvalidField
from gateway.toolsets.import_decisions import accepting, chosen_tools
from gateway.toolsets.registry import Registration, Registry
from gateway.toolsets.tool_changes import Change, compare_tool
from toolspecs.errors import Fault, InvalidTools, StaleRevision, UnknownToolset
from toolspecs.fairness.thread_time import between_turns, in_thread
from toolspecs.imports.imported import with_source_id
from toolspecs.pinned_source import PinnedSource
from toolspecs.revisions.preconditions import UNCONDITIONAL, Precondition
from toolspecs.revisions.submission import (
    CheckedToolset,
    UncheckedToolset,
    bundle_checked,
    check_size,
    without_faulty,
)
from toolspecs.schemas.bundle import bundle_tools
from toolspecs.tool import Tool
from toolspecs.tool_parser import CheckedTool
from toolspecs.toolset import Revision, Toolset

MAX_DIFFERENCES = 32_000_000
"""Bytes of tools that differ at all sources of a toolset, in one answer; those of one source are fewer."""

MAX_READINGS = 10
"""How often the tools of an offer are read, each time without those that were refused before."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools that a source has now, as JSON in any shape, and the faults of those that could not be read.

    `kind`, `location` and `selection` are the fields of `PinnedSource`. The source also has the tools
    `unread`, but the client could not read them.
    """

    kind: str
    location: str
    tools: Sequence[Any]
    faults: tuple[Fault, ...] = ()
    unread: Collection[str] = ()
    selection: Mapping[str, tuple[str, ...]] | None = None

    @property
    def source(self) -> PinnedSource:
        """The source, with nothing accepted yet."""
        return PinnedSource(self.kind, self.location, self.selection or {})


@dataclass(frozen=True, slots=True)
class Difference:
    """A tool that differs between its source and the toolset.

    `served` is None if the toolset has no such tool, `offered` if the source has none. `is_declined` says
    that somebody declined exactly this difference.
    """

    name: str
    source_id: str
    change: Change
    served: Tool | None
    offered: Tool | None
    is_declined: bool = False


@dataclass(frozen=True, slots=True)
class ImportOutcome:
    """What an import found, and the revision that is current now (None if the toolset does not exist).

    `refused` are the faults of the tools that were left out.
    """

    source_id: str
    revision: Revision | None
    differences: tuple[Difference, ...]
    refused: tuple[Fault, ...]
    reports: tuple[ToolReport, ...]
    is_created: bool = False


@dataclass(frozen=True, slots=True)
class _EnforceableOffer:
    """The offered tools that can be enforced, as a toolset of their own, with their reports.

    `faults` are those of all other offered tools.
    """

    toolset: Toolset
    faults: tuple[Fault, ...]
    reports: tuple[ToolReport, ...]


class ToolImports:
    """Imports tools from sources into toolsets, for a principal as in `Registry`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._catalog = registry.catalog

    async def import_offer(
        self,
        name: str,
        offer: Offer,
        *,
        principal: Principal,
        precondition: Precondition = UNCONDITIONAL,
        skip_refused: bool = False,
        is_dry_run: bool = False,
    ) -> ImportOutcome:
        """Create the toolset from the offered tools, or record in an existing one what the source offers now.

        With `skip_refused`, tools that cannot be read or enforced are left out and reported.

        Raises:
            InvalidTools: with every fault of every tool, unless they are skipped.
            ToolspecsError: as `Registry.put`.
        """
        if offer.faults and not skip_refused:
            raise InvalidTools(offer.faults)
        budget, owner = self._registry.budget(principal), principal.owner
        while True:
            current = await self._current(name)
            precondition.check(name, current.etag if current else None)
            documents = current.toolset.documents if current else None
            offered = await self._enforceable(name, offer, documents, budget, skip_refused=skip_refused)
            recorded = _recording(offer, offered)
            revision = current
            if is_dry_run:
                toolset = await in_thread(recorded, current.toolset if current else Toolset(name))
            else:
                revision = (
                    await self._record(name, recorded, precondition, owner)
                    if current
                    else await self._create(offered.toolset, offer, owner)
                )
                if revision is None:  # somebody else has created or deleted the toolset meanwhile
                    continue
                toolset = revision.toolset
            source_id = offer.source.source_id
            differences = await self._differences(toolset, budget, source_id)
            is_created = current is None and not is_dry_run
            return ImportOutcome(
                source_id, revision, differences, offered.faults, offered.reports, is_created=is_created
            )

    async def accept(
        self,
        name: str,
        tool_names: Collection[str] | None,
        source_id: str | None = None,
        *,
        principal: Principal,
        precondition: Precondition = UNCONDITIONAL,
    ) -> Registration:
        """Serve the named tools as their sources offer them; with None, all that differ.

        `source_id` limits this to one source. A declined tool is accepted only if it is named. So is a tool
        whose name another tool of the toolset has that does not come from this source.

        Raises:
            UnknownTool: no tool of that name differs at a source.
            InvalidField: it differs at several sources.
            InvalidTools: a tool cannot be enforced any more.
            ToolspecsError: as `Registry.put`.
        """
        budget = self._registry.budget(principal)
        while True:
            current = await self._catalog.last(name)
            precondition.check(name, current.etag)
            toolset, pinned = await in_thread(accepting, current.toolset, tool_names, source_id)
            reports = await self._compiled(pinned, toolset, budget)
            try:
                revision = await self._catalog.change(
                    name,
                    _accepting_only(pinned, toolset.documents, tool_names, source_id),
                    precondition,
                    owner=principal.owner,
                )
            except _NotCompiled:
                continue
            return Registration(revision, reports)

    async def decline(
        self,
        name: str,
        tool_names: Collection[str] | None,
        source_id: str | None = None,
        *,
        principal: Principal,
        precondition: Precondition = UNCONDITIONAL,
    ) -> Revision:
        """Decline differences until the source changes these tools again; the arguments are as in `accept`.

        Raises:
            UnknownTool, InvalidField: as `accept`.
            ToolspecsError: as `Registry.put`.
        """

        def declined(revision: Revision) -> Toolset:
            toolset = revision.toolset
            for chosen_id, names in chosen_tools(toolset, tool_names, source_id):
                toolset = toolset.declining(chosen_id, names)
            return toolset

        return await self._catalog.change(name, declined, precondition, owner=principal.owner)

    async def differences(
        self, name: str, number: int | None = None, source_id: str | None = None, *, principal: Principal
    ) -> tuple[Revision, tuple[Difference, ...]]:
        """A revision (None: the current one), and its differences at all sources or only at `source_id`.

        Raises:
            InvalidField: the tools of all sources are too large together; name one.
        """
        revision = await self._catalog.get(name, number)
        if source_id is None:
            await in_thread(_check_sizes, revision.toolset)
        budget = self._registry.budget(principal)
        return revision, await self._differences(revision.toolset, budget, source_id)

    async def _current(self, name: str) -> Revision | None:
        try:
            return await self._catalog.last(name)
        except UnknownToolset:
            return None

    async def _enforceable(
        self,
        name: str,
        offer: Offer,
        documents: Mapping[str, Any] | None,
        budget: CompileBudget,
        *,
        skip_refused: bool,
    ) -> _EnforceableOffer:
        """The offered tools that can be enforced; raises InvalidTools unless the others are skipped.

        Tools are read again without the refused ones, at most `MAX_READINGS` times: reading stops early if
        there are very many faults.
        """
        remaining, refused = list(offer.tools), list[Fault]()
        for num_left in reversed(range(MAX_READINGS)):
            try:
                unchecked = UncheckedToolset(name, remaining, documents)
                checked, reports = await self._registry.checked(unchecked, budget)
            except InvalidTools as error:
                good = without_faulty(remaining, error.faults)
                is_named = all(isinstance(fault.tool, str) for fault in error.faults)
                if not skip_refused or not is_named or not num_left or len(good) == len(remaining):
                    raise
                refused += error.faults
                remaining = good
            else:
                toolset = await in_thread(_with_source_ids, checked.toolset, offer.source.source_id)
                return _EnforceableOffer(toolset, (*offer.faults, *refused), tuple(reports))
        raise AssertionError("the last reading raises or returns")

    async def _record(
        self, name: str, recorded: Callable[[Toolset], Toolset], precondition: Precondition, owner: str
    ) -> Revision | None:
        """Record what the source offers; None if somebody else has deleted the toolset meanwhile."""
        try:
            return await self._catalog.change(
                name, lambda revision: recorded(revision.toolset), precondition, owner=owner
            )
        except UnknownToolset:
            return None

    async def _create(self, offered: Toolset, offer: Offer, owner: str) -> Revision | None:
        """Create the toolset with all its tools accepted; None if somebody else has created it meanwhile."""

        def accepted() -> CheckedToolset:
            source = offer.source.seen(offered).accepting(offered.tool_names)
            return check_size(offered.with_source(source), self._catalog.limits)

        checked = await in_thread(accepted)
        try:
            write = await self._catalog.put_checked(checked, Precondition(if_none_match=True), owner=owner)
        except StaleRevision:
            return None
        return write.revision

    async def _differences(
        self, toolset: Toolset, budget: CompileBudget, source_id: str | None = None
    ) -> tuple[Difference, ...]:
        covers = await self._registry.covers(budget)
        differences = []
        differing = await in_thread(_differing, toolset, source_id)
        async with between_turns():
            for source, name, served, offered in differing:
                change = Change.REMOVED if offered is None else await compare_tool(served, offered, covers)
                is_declined = name in source.declined
                differences.append(Difference(name, source.source_id, change, served, offered, is_declined))
        return tuple(differences)

    async def _compiled(
        self, tools: Sequence[Tool], toolset: Toolset, budget: CompileBudget
    ) -> tuple[ToolReport, ...]:
        """Compile tools that will be served, and return their reports; raises InvalidTools."""
        unbundled = [CheckedTool(tool, f"/tools/{index}/inputSchema") for index, tool in enumerate(tools)]
        bundled = await in_thread(bundle_checked, unbundled, toolset.documents, self._catalog.limits)
        return tuple(await self._registry.compile(bundled, budget))


def _check_sizes(toolset: Toolset) -> None:
    """Raise InvalidField if the differences are too large for one answer: each repeats the served tool."""
    names = [name for source in toolset.sources for name in source.differing]
    offered = [tool for source in toolset.sources for tool in source.offered]
    served = [toolset.by_name[name] for name in names if name in toolset]
    num_bytes = sum(tool.num_bytes for tool in (*served, *offered))
    if len(toolset.sources) > 1 and num_bytes > MAX_DIFFERENCES:
        reason = f"the tools that differ have {num_bytes} bytes, and an answer has at most {MAX_DIFFERENCES}"
        raise InvalidField("source", f"{reason}; name one of the {len(toolset.sources)} sources")


class _NotCompiled(Exception):
    """Other tools would be accepted than those that were compiled, as the toolset has changed meanwhile."""


def _accepting_only(
    compiled: Sequence[Tool],
    documents: Mapping[str, Any],
    tool_names: Collection[str] | None,
    source_id: str | None,
) -> Callable[[Revision], Toolset]:
    """A change that accepts tools, if they are those that were compiled, with these documents."""

    def accepted(revision: Revision) -> Toolset:
        toolset, tools = accepting(revision.toolset, tool_names, source_id)
        # Python takes `1` and `true` for equal, and objects with other orders of keys.
        is_same = [tool.digest for tool in tools] == [tool.digest for tool in compiled]
        if not is_same or json.dumps(toolset.documents) != json.dumps(documents):
            raise _NotCompiled
        return toolset

    return accepted


def _recording(offer: Offer, offered: _EnforceableOffer) -> Callable[[Toolset], Toolset]:
    """A change of a toolset that records what the source has now."""
    unread = {*offer.unread, *(str(fault.tool) for fault in offered.faults)}

    def recorded(toolset: Toolset) -> Toolset:
        pinned = toolset.source(offer.source.source_id) or offer.source
        source = replace(pinned, selection=offer.source.selection)
        return toolset.with_source(source.seen(offered.toolset, toolset.by_name, unread))

    return recorded


def _differing(
    toolset: Toolset, source_id: str | None
) -> list[tuple[PinnedSource, str, Tool | None, Tool | None]]:
    """Each tool that differs at a source: its name, as it is served and as it is offered. Both are hashed."""
    differing: list[tuple[PinnedSource, str, Tool | None, Tool | None]] = []
    for source in toolset.sources:
        if source_id is not None and source.source_id != source_id:
            continue
        for tool in _bundled(source.offered, toolset):
            _ = tool.digest
            differing.append((source, tool.name, toolset.by_name.get(tool.name), tool))
        differing += [(source, name, toolset.by_name.get(name), None) for name in source.removed]
    return differing


def _bundled(tools: tuple[Tool, ...], toolset: Toolset) -> tuple[Tool, ...]:
    """The tools, each with the part of the toolset's documents that it refers to."""
    try:
        return bundle_tools(tools, toolset.documents)
    except InvalidTools:  # documents were removed since; then they cannot be accepted either
        return tools


def _with_source_ids(toolset: Toolset, source_id: str) -> Toolset:
    """The toolset with the id of their source in its tools, which are hashed too: a thread does that."""
    tools = tuple(with_source_id(tool, source_id) for tool in toolset)
    with_ids = Toolset(toolset.name, tools, are_bundled=True)
    _ = with_ids.digest
    return with_ids
