"""Toolsets, their revisions, and references such as `name@revision`.

>>> toolset = Toolset("mail", (Tool("send", "Sends a mail.", {"type": "object"}),))
>>> toolset.with_tool(Tool("read", "Reads a mail.", {"type": "object"})).tool_names
('send', 'read')
>>> ToolsetReference.parse("mail@3")
ToolsetReference(name='mail', number=3)
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import chain, islice
from typing import Any, Generic, TypeVar

from toolspecs.errors import Fault, InvalidName, InvalidTools, NoDifference, UnknownTool
from toolspecs.json_value import count_values, json_size
from toolspecs.pinned_source import PinnedSource
from toolspecs.schemas.bundle import bundle_tools
from toolspecs.tool import ShownTools, Tool, ToolSearch

TOOLSET_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
TOOLSET_RULE = "1 to 64 of a-z, 0-9, '.', '_' and '-', the first a letter or a digit"

_SEGMENT = r"(?!\.{1,2}(?:/|$))[A-Za-z0-9_.:-]+"
TOOL_NAME = re.compile(f"{_SEGMENT}(?:/{_SEGMENT})*")
"""A tool's name ends the path of its URL. HTTP clients and proxies remove segments such as `.` and `..`."""
TOOL_RULE = "letters, digits, '_', '.', ':', '/' and '-', without '.', '..' or nothing between two '/'"

_REVISION = re.compile(r"[1-9][0-9]{0,17}")


def check_toolset_name(name: str) -> None:
    """Raise `InvalidName` unless `name` can be the name of a toolset."""
    if not TOOLSET_NAME.fullmatch(name):
        raise InvalidName("toolset name", name, TOOLSET_RULE)


@dataclass(frozen=True, slots=True)
class ToolsetReference:
    """A toolset by name, at one revision or (`number` None) at its current one."""

    name: str
    number: int | None = None

    @classmethod
    def parse(cls, text: str) -> "ToolsetReference":
        """Read `name` or `name@revision`.

        Raises:
            InvalidName: the text is neither.
        """
        name, at, number = text.partition("@")
        check_toolset_name(name)
        if not at:
            return cls(name)
        if not _REVISION.fullmatch(number):
            rule = f"write {name!r} for the current revision, or {f'{name}@1'!r} for the first"
            raise InvalidName("reference to a toolset", text, rule)
        return cls(name, int(number))

    def __str__(self) -> str:
        return self.name if self.number is None else f"{self.name}@{self.number}"


@dataclass(frozen=True)
class Toolset:
    """A named, ordered set of tools, and the schemas by URI that the tools may refer to.

    A model is shown the tools in this order. The constructor gives each tool its bundle, which is the part of
    `documents` that the tool's schema refers to. With `are_bundled`, the tools already carry their bundles.
    `prompt_tools` says which of the tools prompts show, and `tool_search` how many. A request may override
    both; None leaves them to the model's settings. `sources` are the sources that tools were imported from.

    Raises:
        InvalidName: `name` cannot be the name of a toolset.
        InvalidTools: two tools share a name, or the bundle of a tool is too large.
        LimitExceeded: all bundles together are too large.
    """

    name: str
    tools: tuple[Tool, ...] = ()
    documents: Mapping[str, Any] = field(default_factory=dict)
    are_bundled: InitVar[bool] = False
    prompt_tools: ShownTools | None = None
    tool_search: ToolSearch | None = None
    sources: tuple[PinnedSource, ...] = ()

    def __post_init__(self, are_bundled: bool) -> None:
        check_toolset_name(self.name)
        if not are_bundled:
            object.__setattr__(self, "tools", bundle_tools(self.tools, self.documents))
        if faults := tuple(find_duplicates(enumerate(tool.name for tool in self.tools))):
            raise InvalidTools(faults)

    @cached_property
    def by_name(self) -> Mapping[str, Tool]:
        """The tools by name, in order."""
        return {tool.name: tool for tool in self.tools}

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the ordered tools and everything else except the name, in hexadecimal."""
        content = [tool.digest for tool in self.tools]
        if self.documents:
            content.append(json.dumps(self.documents, separators=(",", ":")))
        if self.prompt_tools:
            content.append(f"prompt_tools {self.prompt_tools}")
        if self.tool_search:
            search = [self.tool_search.limit, *self.tool_search.always]
            content.append(f"tool_search {json.dumps(search)}")
        for source in self.sources:
            offered = [tool.digest for tool in source.offered]
            content.append(f"source {json.dumps([source.fields(), offered])}")
        return hashlib.sha256("\n".join(content).encode()).hexdigest()

    @cached_property
    def num_values(self) -> int:
        """How many JSON values its tools and documents are made of."""
        of_sources = count_values([source.fields() for source in self.sources]) if self.sources else 0
        of_tools = sum(tool.num_values for tool in self._served_and_offered)
        return of_tools + count_values(self.documents) + of_sources

    @cached_property
    def num_bytes(self) -> int:
        """The size of its tools with their bundles, its documents and its sources, as compact JSON."""
        others = [self.documents, *(source.fields() for source in self.sources)]
        return sum(tool.num_bytes for tool in self._served_and_offered) + json_size(others)

    @property
    def _served_and_offered(self) -> Iterator[Tool]:
        """Its tools, and those that its sources offer instead."""
        return chain(self.tools, *(source.offered for source in self.sources))

    def measure(self) -> None:
        """Compute its sizes and those of its tools, which are cached; takes time, so call it in a thread."""
        _ = self.num_values, self.num_bytes

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The tools' names, in order."""
        return tuple(self.by_name)

    def __getitem__(self, name: str) -> Tool:
        if name not in self.by_name:
            raise UnknownTool(self.name, name, self.by_name)
        return self.by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self.by_name

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def __len__(self) -> int:
        return len(self.tools)

    def page(self, after: str | None = None, limit: int = 100, search: str = "") -> "Page[Tool]":
        """Tools after the tool `after`, in order; with `search`, only those whose text has all its words.

        Raises:
            UnknownTool: there is no tool `after`.
        """
        first = 0 if after is None else self.tools.index(self[after]) + 1
        words = search.casefold().split()
        tools = (tool for tool in self.tools[first:] if _has_words(tool, words))
        items = tuple(islice(tools, limit + 1))
        return Page(items[:limit], items[limit - 1].name if len(items) > limit else None)

    def with_tool(self, tool: Tool) -> "Toolset":
        """The toolset with `tool`, which replaces the tool of the same name or comes last."""
        return replace(self, tools=tuple({**self.by_name, tool.name: tool}.values()))

    def without_tool(self, name: str) -> "Toolset":
        """The toolset without the tool `name`; raises `UnknownTool` if it has none."""
        removed = self[name]
        tools = tuple(tool for tool in self.tools if tool is not removed)
        return replace(self._not_showing({name}), tools=tools, are_bundled=True)

    def _not_showing(self, gone: Collection[str]) -> "Toolset":
        """The toolset whose `tool_search` shows none of these tools always, since they are removed."""
        search = self.tool_search
        if search is None or not set(gone).intersection(search.always):
            return self
        always = tuple(name for name in search.always if name not in gone)
        return replace(self, tool_search=replace(search, always=always), are_bundled=True)

    def source(self, source_id: str) -> PinnedSource | None:
        """The source with this id, if tools were imported from it."""
        return next((source for source in self.sources if source.source_id == source_id), None)

    def with_source(self, source: PinnedSource) -> "Toolset":
        """The toolset with `source` in place of the source with the same id, or added last."""
        by_id = {known.source_id: known for known in self.sources} | {source.source_id: source}
        sources = tuple(known for known in by_id.values() if known.accepted or known.offered)
        return replace(self, sources=sources, are_bundled=True)

    def accepting(self, source_id: str, names: Collection[str]) -> "Toolset":
        """The toolset once these tools are served as the source offers them, including declined ones.

        Raises:
            NoDifference: there is no such source, or a tool of that name does not differ there.
        """
        names = frozenset(names)
        source = self._offering(source_id, names)
        newly_accepted = {tool.name: tool for tool in source.offered if tool.name in names}
        gone = {name for name in source.removed if name in names}
        tools = {name: tool for name, tool in self.by_name.items() if name not in gone} | newly_accepted
        accepted = replace(self._not_showing(gone), tools=tuple(tools.values()))
        return accepted.with_source(source.accepting(names))

    def declining(self, source_id: str, names: Collection[str]) -> "Toolset":
        """The toolset once these differences of a source are declined; raises as `accepting` does."""
        names = frozenset(names)
        return self.with_source(self._offering(source_id, names).declining(names))

    def _offering(self, source_id: str, names: Collection[str]) -> PinnedSource:
        """The source, checked to differ in each of these tools; raises NoDifference."""
        source = self.source(source_id)
        offers = source.offers if source else {}
        for name in names:
            if name not in offers:
                raise NoDifference(self.name, name, offers)
        assert source
        return source


def _has_words(tool: Tool, words: Sequence[str]) -> bool:
    text = f"{tool.name} {tool.description}".casefold() if words else ""
    return all(word in text for word in words)


def find_duplicates(names: Iterator[tuple[int, str]], pointer: str = "") -> Iterator[Fault]:
    """A fault for every name that an earlier tool has too; `names` are pairs of index and name."""
    first: dict[str, int] = {}
    for index, name in names:
        if name in first:
            yield Fault(
                tool=name,
                pointer=f"{pointer}/{index}",
                keyword="name",
                message=f"the tool at {pointer}/{first[name]} has the same name",
                suggestion="give each tool of a toolset a name of its own",
            )
        first.setdefault(name, index)


@dataclass(frozen=True)
class RevisionSummary:
    """A revision without its tools.

    Numbers count up from 1 for each toolset name. No number is used twice, even after a deletion.
    """

    name: str
    number: int
    digest: str
    created_at: datetime
    num_tools: int

    @property
    def etag(self) -> str:
        """The strong HTTP entity tag with its quotes: the number and the first 12 digits of the digest."""
        return f'"{self.number}-{self.digest[:12]}"'


@dataclass(frozen=True)
class Revision:
    """The content that a toolset had from one write to the next; `digest` is the toolset's digest."""

    toolset: Toolset
    number: int
    digest: str
    created_at: datetime

    @property
    def summary(self) -> RevisionSummary:
        """The revision without its tools."""
        return RevisionSummary(
            self.toolset.name, self.number, self.digest, self.created_at, len(self.toolset)
        )

    @property
    def etag(self) -> str:
        """The strong HTTP entity tag; see `RevisionSummary.etag`."""
        return self.summary.etag


def etag_matches(condition: str, etag: str | None, *, allows_weak: bool = False) -> bool:
    """Whether a condition names the current `etag` (None: there is no toolset).

    The condition is `*`, or one or more entity tags with commas between them (RFC 9110, 13.1). If-Match
    compares strongly: weak tags never match. If-None-Match compares weakly: with `allows_weak`, a tag matches
    with and without `W/` (RFC 9110, 8.8.3.2).

    >>> etag_matches('"1-0123456789ab", "2-456789abcdef"', '"2-456789abcdef"')
    True
    >>> etag_matches('W/"2-456789abcdef"', '"2-456789abcdef"')
    False
    """
    if etag is None:
        return False
    tags = [tag.strip() for tag in condition.split(",")]
    return tags == ["*"] or etag in tags or (allows_weak and f"W/{etag}" in tags)


ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class Page(Generic[ItemT]):
    """One page of a listing; `next_key` is the `after` or `before` of the next one, None on the last."""

    items: tuple[ItemT, ...]
    next_key: str | None = None
