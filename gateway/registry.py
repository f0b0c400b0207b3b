"""The registry: the catalog's toolsets, none of which is stored unless every tool of it can be upheld."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.cache import GrammarCache
from compiler.errors import UnsupportedToolset
from compiler.report import ToolReport
from gateway.difference import Change, compare
from gateway.errors import InvalidField
from runtime.protocol import Runtime
from toolspecs.catalog import Catalog
from toolspecs.errors import Fault, InvalidTools, UnknownToolset
from toolspecs.names import check_toolset_name
from toolspecs.revision import Revision
from toolspecs.shapes import SHAPES, detect_shape, parse_tool, parse_tools
from toolspecs.tool import Tool
from toolspecs.toolset import Toolset

_INDEX = re.compile(r"/tools/(\d+)")


@dataclass(frozen=True, slots=True)
class Check:
    """What a `put` would do: the reports of all tools, and their changes against the current revision."""

    reports: tuple[ToolReport, ...]
    changes: Mapping[str, Change]
    current: Revision | None


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
        self, name: str, documents: Any, *, if_match: str | None = None, if_none_match: bool = False
    ) -> Revision:
        """Replace a toolset by tools in any shape.

        Raises:
            InvalidTools: with every fault of every tool, whether it is malformed or cannot be upheld.
            ToolspecsError: as `Catalog.put`.
        """
        check_toolset_name(name)
        tools, _ = await self._read(documents)
        return await self.catalog.put(Toolset(name, tools), if_match=if_match, if_none_match=if_none_match)

    async def put_tool(
        self, name: str, tool_name: str, document: Any, *, if_match: str | None = None
    ) -> Revision:
        """Add or replace the tool `tool_name`; raises as `put`, `UnknownToolset` and `InvalidField`."""
        await self.catalog.head(name)
        tool = parse_tool(document, limits=self.catalog.limits)
        if tool.name != tool_name:
            raise InvalidField("name", f"it is {tool.name!r}, but the path says {tool_name!r}")
        _raise_if(await self._refusals([(tool, document, "")]))
        return await self.catalog.put_tool(name, tool, if_match=if_match)

    async def check(self, name: str, documents: Any) -> Check:
        """What `put` would do, done to nothing; raises as `put`."""
        check_toolset_name(name)
        tools, reports = await self._read(documents)
        Toolset(name, tools)
        try:
            current = await self.catalog.get(name)
        except UnknownToolset:
            current = None
        changes = await compare(current.toolset if current else (), tools, self._covers)
        return Check(tuple(reports), changes, current)

    async def report(self, name: str, number: int | None = None) -> tuple[Revision, list[ToolReport]]:
        """A revision and the reports of its tools."""
        revision = await self.catalog.get(name, number)
        return revision, await self._reports(revision.toolset.tools)

    async def _read(self, documents: Any) -> tuple[tuple[Tool, ...], list[ToolReport]]:
        """Tools and their reports; one error tells of every bad tool, malformed or not upheld."""
        faults: list[Fault] = []
        malformed: set[int] = set()
        try:
            tools = await asyncio.to_thread(parse_tools, documents, limits=self.catalog.limits)
        except InvalidTools as error:
            faults += error.faults
            malformed = {int(at[1]) for fault in faults if (at := _INDEX.match(fault.pointer))}
            if not malformed:
                raise
            tools = ()
        good = [(i, document) for i, document in enumerate(documents) if i not in malformed]
        if faults:
            parsed = [(parse_tool(document), document, f"/tools/{i}") for i, document in good]
        else:
            parsed = [(tools[i], document, f"/tools/{i}") for i, document in good]
        refusals = await self._refusals(parsed)
        _raise_if(sorted([*faults, *refusals], key=_document_order))
        return tools, await self._reports(tools)

    async def _covers(self, outer: Mapping[str, Any], inner: Mapping[str, Any]) -> bool:
        models = await self._runtime.models()
        return bool(models) and await self._grammars.covers(outer, inner, vocabulary=models[0].vocabulary)

    async def _reports(self, tools: Sequence[Tool]) -> list[ToolReport]:
        """Reports for the first model; the others' grammars are only proved to exist."""
        reports: list[list[ToolReport]] = [
            await self._grammars.check(tools, vocabulary=model.vocabulary, syntax=model.syntax)
            for model in await self._runtime.models()
        ]
        return reports[0] if reports else []

    async def _refusals(self, parsed: Sequence[tuple[Tool, Any, str]]) -> list[Fault]:
        """Faults for the tools that cannot be upheld, pointing into the submitted document."""
        try:
            await self._reports([tool for tool, _, _ in parsed])
        except UnsupportedToolset as error:
            refused = dict(error.refusals)
            return [
                Fault(
                    tool.name,
                    f"{base}{_schema_pointer(document)}{refused[tool.name].pointer}",
                    refused[tool.name].keyword,
                    refused[tool.name].reason,
                    refused[tool.name].suggestion,
                )
                for tool, document, base in parsed
                if tool.name in refused
            ]
        return []


def _schema_pointer(document: Any) -> str:
    row = SHAPES[detect_shape(document)]
    return (f"/{row.wrapper}" if row.wrapper else "") + f"/{row.schema_field}"


def _document_order(fault: Fault) -> int:
    at = _INDEX.match(fault.pointer)
    return int(at[1]) if at else -1


def _raise_if(faults: Sequence[Fault]) -> None:
    if faults:
        raise InvalidTools(faults)
