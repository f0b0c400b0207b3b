"""The registry: compiles every tool before the catalog stores it, and reports how each keyword is enforced.

One `PUT /v1/toolsets/{toolset}` takes these steps: `read_toolset` reads what was submitted, the grammar cache
compiles each tool for each model served, `Submission.checked` raises every fault in one error, and
`Catalog.put_checked` stores the checked toolset without reading it again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from compiler.argument_faults import ArgumentFault
from compiler.cache.grammar_cache import GrammarCache
from compiler.errors import CompilingUnfinished, UnsupportedSchema, UnsupportedToolset
from compiler.isolation.limits import CompileBudget
from compiler.report import ToolReport
from gateway.access.principal import Principal
from gateway.errors import InvalidField
from gateway.toolsets.tool_changes import Change, Covers, compare, compare_documents
from runtime.protocol import Runtime
from toolspecs.errors import Fault, InvalidTools, StaleRevision, UnknownToolset
from toolspecs.fairness.thread_time import between_turns, in_thread
from toolspecs.json_pointer import child
from toolspecs.revisions.catalog import Catalog
from toolspecs.revisions.preconditions import UNCONDITIONAL, Precondition
from toolspecs.revisions.submission import (
    CheckedToolset,
    Submission,
    UncheckedToolset,
    bundle_checked,
    read_toolset,
)
from toolspecs.tool import Tool
from toolspecs.tool_parser import CheckedTool, read_tool
from toolspecs.toolset import Revision, Toolset


@dataclass(frozen=True, slots=True)
class DryRun:
    """What `put` would do: the reports of all tools, and the changes from the current revision."""

    reports: tuple[ToolReport, ...]
    changes: Mapping[str, Change]
    document_changes: Mapping[str, Change]
    current: Revision | None


@dataclass(frozen=True, slots=True)
class RevisionChanges:
    """What changed between two revisions; `since` is the number of the earlier one, None if there is none."""

    revision: Revision
    since: int | None
    changes: Mapping[str, Change]
    document_changes: Mapping[str, Change]


@dataclass(frozen=True, slots=True)
class Registration:
    """What a write did: the revision, the reports of its tools, and whether it created the toolset."""

    revision: Revision
    reports: tuple[ToolReport, ...]
    is_created: bool = False


class Registry:
    """Checks, compiles and stores toolsets. Grammars are compiled for every model served.

    A principal's schemas wait for its turns in the compile queue. A write counts for its owner's quota.
    Without `tells_compile_times`, no report says how long compiling took: the time of a grammar that another
    tenant had compiled would show that it was.
    """

    def __init__(
        self, catalog: Catalog, grammars: GrammarCache, runtime: Runtime, *, tells_compile_times: bool = True
    ) -> None:
        self.catalog = catalog
        self._grammars = grammars
        self._runtime = runtime
        self._tells_compile_times = tells_compile_times

    def budget(self, principal: Principal) -> CompileBudget:
        """The compile budget for one request of a client."""
        return self._grammars.compile_budget(principal.client_id)

    async def put(
        self,
        unchecked: UncheckedToolset,
        *,
        principal: Principal,
        precondition: Precondition = UNCONDITIONAL,
    ) -> Registration:
        """Create or replace a toolset.

        Raises:
            InvalidTools: with every fault of every tool, whether it is malformed or cannot be enforced.
            CompilingUnfinished: compiling takes longer than one request may; finished grammars are kept.
            ToolspecsError: as `Catalog.put`.
        """
        checked, reports = await self.checked(unchecked, self.budget(principal))
        write = await self.catalog.put_checked(checked, precondition, owner=principal.owner)
        return Registration(write.revision, tuple(reports), is_created=write.is_created)

    async def put_tool(
        self,
        name: str,
        tool_name: str,
        submitted: Any,
        *,
        principal: Principal,
        precondition: Precondition = UNCONDITIONAL,
    ) -> Registration:
        """Add or replace the tool `tool_name`; it may refer to the toolset's documents.

        Raises what `put` raises, `UnknownToolset`, and `InvalidField` if the tool has another name.
        """
        budget = self.budget(principal)
        current = await self.catalog.last(name)
        checked = await in_thread(read_tool, submitted, limits=self.catalog.limits)
        if checked.tool.name != tool_name:
            raise InvalidField("name", f"it is {checked.tool.name!r}, but the path says {tool_name!r}")
        while True:
            precondition.check_tool(current, tool_name)
            [bundled] = await in_thread(
                bundle_checked, [checked], current.toolset.documents, self.catalog.limits
            )
            reports = await self.compile([bundled], budget)
            # A tool that refers to documents was compiled for the documents of this revision only.
            is_bound = bool(bundled.tool.documents)
            required = replace(precondition, if_match=current.etag) if is_bound else precondition
            try:
                revision = await self.catalog.put_checked_tool(
                    name, checked.tool, required, owner=principal.owner
                )
                return Registration(revision, tuple(reports))
            except StaleRevision:
                if not is_bound:
                    raise
            current = await self.catalog.last(name)

    async def check(self, unchecked: UncheckedToolset, *, principal: Principal) -> DryRun:
        """What `put` would do, without storing anything; raises what `put` raises, except for quotas."""
        budget = self.budget(principal)
        checked, reports = await self.checked(unchecked, budget)
        try:
            current = await self.catalog.get(unchecked.name)
        except UnknownToolset:
            current = None
        before = current.toolset if current else Toolset(unchecked.name)
        changes, document_changes = await self._changes(before, checked.toolset, budget)
        return DryRun(tuple(reports), changes, document_changes, current)

    async def compare_revisions(
        self, name: str, number: int, since: int | None, *, principal: Principal
    ) -> RevisionChanges:
        """What changed from an earlier revision (None: the one before) to this one.

        Raises:
            UnknownRevision, DroppedRevision: one of the two revisions is missing.
        """
        revision = await self.catalog.get(name, number)
        earlier = await self._earlier(name, number, since)
        before = earlier.toolset if earlier else Toolset(name)
        changes, document_changes = await self._changes(before, revision.toolset, self.budget(principal))
        return RevisionChanges(revision, earlier.number if earlier else None, changes, document_changes)

    async def _changes(
        self, before: Toolset, after: Toolset, budget: CompileBudget
    ) -> tuple[Mapping[str, Change], Mapping[str, Change]]:
        """What changed: the tools by name, and the documents by URI."""
        async with between_turns():
            changes = await compare(before, after, await self.covers(budget))
        return changes, await in_thread(compare_documents, before.documents, after.documents)

    async def _earlier(self, name: str, number: int, since: int | None) -> Revision | None:
        if since is not None:
            return await self.catalog.get(name, since)
        summaries = (await self.catalog.revisions(name, before=number, limit=1)).items
        return await self.catalog.get(name, summaries[0].number) if summaries else None

    async def report(
        self, name: str, number: int | None = None, tool_name: str | None = None, *, principal: Principal
    ) -> tuple[Revision, list[ToolReport]]:
        """A revision (None: the current one) and the reports of its tools, or of the one of that name.

        Raises:
            UnknownTool: there is no tool of that name.
        """
        revision = await self.catalog.get(name, number)
        toolset = revision.toolset
        tools = toolset.tools if tool_name is None else (toolset[tool_name],)
        return revision, await self._reports(tools, self.budget(principal))

    async def faults(self, tool: Tool, arguments: Any, *, principal: Principal) -> tuple[ArgumentFault, ...]:
        """What is wrong with the arguments of a call of a stored tool; nothing if they are valid.

        Arguments are validated against the schema, not a grammar; the vocabulary only selects a compile
        worker. Raises what `GrammarCache.find_faults` raises.
        """
        model, *_ = await self._runtime.models()
        return await self._grammars.find_faults(
            tool, arguments, prepared=model.prepared, client_id=principal.client_id
        )

    async def checked(
        self, unchecked: UncheckedToolset, budget: CompileBudget
    ) -> tuple[CheckedToolset, list[ToolReport]]:
        """Read a submitted toolset and compile its tools; a single error names everything that is wrong.

        Raises what `put` raises before it stores anything.
        """
        submission: Submission = await in_thread(read_toolset, unchecked, self.catalog.limits)
        refusals: Sequence[Fault] = ()
        reports: list[ToolReport] = []
        try:
            reports = await self.compile(submission.tools, budget)
        except InvalidTools as error:
            refusals = error.faults
        except CompilingUnfinished:
            if not submission.faults:
                raise
        return await in_thread(submission.checked, refusals), reports

    async def compile(self, tools: Sequence[CheckedTool], budget: CompileBudget) -> list[ToolReport]:
        """The reports of all tools; raises InvalidTools with every tool that cannot be enforced."""
        try:
            return await self._reports([checked.tool for checked in tools], budget)
        except UnsupportedToolset as error:
            refused = dict(error.refusals)
            faults = [
                _submitted_fault(checked, refused[checked.tool.name])
                for checked in tools
                if checked.tool.name in refused
            ]
            raise InvalidTools(faults) from error

    async def _reports(self, tools: Sequence[Tool], budget: CompileBudget) -> list[ToolReport]:
        """The reports for the first model. For the other models, this only checks that the tools compile."""
        async with between_turns():
            reports: list[list[ToolReport]] = [
                await self._grammars.check(tools, prepared=model.prepared, syntax=model.syntax, budget=budget)
                for model in await self._runtime.models()
            ]
        first = reports[0] if reports else []
        return first if self._tells_compile_times else [replace(each, compile_ms=None) for each in first]

    async def covers(self, budget: CompileBudget) -> Covers:
        """A function that proves whether one tool admits all arguments of another."""
        models = await self._runtime.models()

        async def covers(outer: Tool, inner: Tool) -> bool:
            return bool(models) and await self._grammars.covers(
                outer, inner, prepared=models[0].prepared, budget=budget
            )

        return covers


def _submitted_fault(checked: CheckedTool, refusal: UnsupportedSchema) -> Fault:
    pointer = _submitted_pointer(refusal.pointer, checked.schema_pointer)
    return Fault(checked.tool.name, pointer, refusal.keyword, refusal.reason, refusal.suggestion)


def _submitted_pointer(pointer: str, schema_pointer: str) -> str:
    """The pointer of a refusal in the submitted body: below the tool's schema, or in a document by its URI.

    >>> _submitted_pointer("/properties/to", "/tools/0/inputSchema")
    '/tools/0/inputSchema/properties/to'
    >>> _submitted_pointer("https://a.example/money#/type", "/tools/0/inputSchema")
    '/documents/https:~1~1a.example~1money/type'
    """
    if pointer[:1] in ("", "/"):
        return schema_pointer + pointer
    uri, _, inside = pointer.partition("#")
    return child("/documents", uri) + inside
