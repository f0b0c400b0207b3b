"""The registry: the catalog's toolsets, none of which is stored unless every tool of it can be upheld."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from compiler.cache.grammar_cache import GrammarCache
from compiler.errors import CompilingUnfinished, UnsupportedToolset
from compiler.frontend.keywords import child
from compiler.isolation.limits import CompileBudget
from compiler.report import ToolReport
from gateway.errors import InvalidField
from runtime.protocol import Runtime
from toolspecs.bundle import bundle_tools
from toolspecs.catalog import Catalog
from toolspecs.errors import Fault, InvalidTools, StaleRevision, UnknownToolset
from toolspecs.schema_check import check_documents
from toolspecs.shapes import SHAPES, detect_shape, parse_tool, parse_tools
from toolspecs.tool import Tool
from toolspecs.toolset import Revision, Toolset, check_toolset_name

_INDEX = re.compile(r"/tools/(\d+)")

_Parsed = tuple[Tool, Any, str]
"""A tool, as it was submitted, and the JSON pointer where."""


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


@dataclass(frozen=True, slots=True)
class Check:
    """What a `put` would do: the reports of all tools, and what changes against the current revision."""

    reports: tuple[ToolReport, ...]
    changes: Mapping[str, Change]
    document_changes: Mapping[str, Change]
    current: Revision | None


@dataclass(frozen=True, slots=True)
class Written:
    """A revision, and the reports of the tools that were written with it."""

    revision: Revision
    reports: tuple[ToolReport, ...]


class Registry:
    """Writes that check first, and reports. Grammars are checked for every model served."""

    def __init__(self, catalog: Catalog, grammars: GrammarCache, runtime: Runtime) -> None:
        self.catalog = catalog
        self._grammars = grammars
        self._runtime = runtime

    async def has(self, name: str) -> bool:
        """Whether there is such a toolset."""
        try:
            await self.catalog.head(name)
        except UnknownToolset:
            return False
        return True

    async def put(
        self,
        name: str,
        tools: Any,
        documents: Any = None,
        *,
        if_match: str | None = None,
        if_none_match: bool = False,
    ) -> Written:
        """Replace a toolset by tools in any shape, and the documents by URI that they may refer to.

        Raises:
            InvalidTools: with every fault of every tool, whether it is malformed or cannot be upheld.
            CompilingUnfinished: it takes longer than one request may; what was compiled is kept.
            ToolspecsError: as `Catalog.put`.
        """
        toolset, reports = await self._read(name, tools, documents, self._grammars.compile_budget())
        revision = await self.catalog.put(toolset, if_match=if_match, if_none_match=if_none_match)
        return Written(revision, tuple(reports))

    async def put_tool(
        self, name: str, tool_name: str, submitted: Any, *, if_match: str | None = None
    ) -> Written:
        """Add or replace the tool `tool_name`, which may refer to the toolset's documents.

        Raises as `put`, `UnknownToolset` and `InvalidField`.
        """
        budget = self._grammars.compile_budget()
        while True:
            current = await self.catalog.get(name)
            tool = parse_tool(submitted, limits=self.catalog.limits)
            if tool.name != tool_name:
                raise InvalidField("name", f"it is {tool.name!r}, but the path says {tool_name!r}")
            bundled = await self._bundled([(tool, submitted, "")], current.toolset.documents)
            faults, reports = await self._judged(bundled, budget)
            _raise_if(faults)
            # What was checked holds for these documents alone.
            is_bound = if_match is None and bool(bundled[0][0].documents)
            try:
                revision = await self.catalog.put_tool(
                    name, tool, if_match=current.etag if is_bound else if_match
                )
                return Written(revision, tuple(reports))
            except StaleRevision:
                if not is_bound:
                    raise

    async def check(self, name: str, tools: Any, documents: Any = None) -> Check:
        """What `put` would do, done to nothing; raises as `put`."""
        budget = self._grammars.compile_budget()
        toolset, reports = await self._read(name, tools, documents, budget)
        try:
            current = await self.catalog.get(name)
        except UnknownToolset:
            current = None
        before = current.toolset if current else Toolset(name)
        changes = await compare(before, toolset, await self._covers(budget))
        return Check(tuple(reports), changes, compare_documents(before.documents, toolset.documents), current)

    async def report(self, name: str, number: int | None = None) -> tuple[Revision, list[ToolReport]]:
        """A revision and the reports of its tools."""
        revision = await self.catalog.get(name, number)
        return revision, await self._reports(revision.toolset.tools, self._grammars.compile_budget())

    async def _read(
        self, name: str, submitted: Any, documents: Any, budget: CompileBudget
    ) -> tuple[Toolset, list[ToolReport]]:
        """A toolset and its tools' reports; one error tells of all that is bad, malformed or not upheld."""
        check_toolset_name(name)
        documents = {} if documents is None else documents
        faults = [*await self._document_faults(documents)]
        reports: list[ToolReport] = []
        are_readable = not faults
        try:
            tools = await asyncio.to_thread(parse_tools, submitted, limits=self.catalog.limits)
            good = [(tool, submitted[i], f"/tools/{i}") for i, tool in enumerate(tools)]
        except InvalidTools as error:
            faults += error.faults
            malformed = {int(at[1]) for fault in error.faults if (at := _INDEX.match(fault.pointer))}
            if not malformed:
                raise
            left = [(i, item) for i, item in enumerate(submitted) if i not in malformed]
            good = [(parse_tool(item), item, f"/tools/{i}") for i, item in left]
        if are_readable:
            try:
                refusals, reports = await self._judged(await self._bundled(good, documents), budget)
                faults += refusals
            except InvalidTools as error:
                faults += error.faults
            except CompilingUnfinished:
                if not faults:
                    raise
        _raise_if(sorted(faults, key=_document_order))
        return await asyncio.to_thread(Toolset, name, tools, documents), reports

    async def _document_faults(self, documents: Any) -> Sequence[Fault]:
        try:
            await asyncio.to_thread(check_documents, documents, limits=self.catalog.limits)
        except InvalidTools as error:
            return error.faults
        return ()

    async def _bundled(self, parsed: Sequence[_Parsed], documents: Mapping[str, Any]) -> list[_Parsed]:
        """The tools with what they refer to."""
        tools = [tool for tool, _, _ in parsed]
        places = [base + _schema_pointer(item) for _, item, base in parsed]
        bundled = await asyncio.to_thread(bundle_tools, tools, documents, places, limits=self.catalog.limits)
        return [(tool, item, base) for tool, (_, item, base) in zip(bundled, parsed, strict=True)]

    async def _covers(self, budget: CompileBudget) -> Covers:
        models = await self._runtime.models()

        async def covers(outer: Tool, inner: Tool) -> bool:
            return bool(models) and await self._grammars.covers(
                outer, inner, vocabulary=models[0].vocabulary, budget=budget
            )

        return covers

    async def _reports(self, tools: Sequence[Tool], budget: CompileBudget) -> list[ToolReport]:
        """Reports for the first model; the others' grammars are only proved to exist."""
        reports: list[list[ToolReport]] = [
            await self._grammars.check(tools, vocabulary=model.vocabulary, syntax=model.syntax, budget=budget)
            for model in await self._runtime.models()
        ]
        return reports[0] if reports else []

    async def _judged(
        self, parsed: Sequence[_Parsed], budget: CompileBudget
    ) -> tuple[list[Fault], list[ToolReport]]:
        """Faults of the tools that cannot be upheld, pointing into what was submitted, or all reports."""
        try:
            return [], await self._reports([tool for tool, _, _ in parsed], budget)
        except UnsupportedToolset as error:
            refused = dict(error.refusals)
            faults = [
                Fault(
                    tool.name,
                    _place(refused[tool.name].pointer, base + _schema_pointer(item)),
                    refused[tool.name].keyword,
                    refused[tool.name].reason,
                    refused[tool.name].suggestion,
                )
                for tool, item, base in parsed
                if tool.name in refused
            ]
        return faults, []


def _place(pointer: str, schema: str) -> str:
    """A refusal's pointer in what was submitted: below the tool's schema, or in a document by its URI."""
    if pointer[:1] in ("", "/"):
        return schema + pointer
    uri, _, inside = pointer.partition("#")
    return child("/documents", uri) + inside


def _schema_pointer(document: Any) -> str:
    row = SHAPES[detect_shape(document)]
    return (f"/{row.wrapper}" if row.wrapper else "") + f"/{row.schema_field}"


def _document_order(fault: Fault) -> int:
    at = _INDEX.match(fault.pointer)
    return int(at[1]) if at else -1


def _raise_if(faults: Sequence[Fault]) -> None:
    if faults:
        raise InvalidTools(faults)


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
