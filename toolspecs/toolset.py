"""A toolset: a named, ordered set of tools."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from toolspecs.bundle import bundle_tools
from toolspecs.errors import Fault, InvalidTools, UnknownTool
from toolspecs.names import check_toolset_name
from toolspecs.tool import Tool


@dataclass(frozen=True)
class Toolset:
    """Tools by name, in the order in which a model is shown them, and the schemas by URI they may refer to.

    Each tool's own `documents` are what it needs of the toolset's.

    Raises:
        InvalidName: `name` is not a toolset name.
        InvalidTools: two tools share a name, or a tool refers to too much.
        LimitExceeded: the tools refer to too much together.
    """

    name: str
    tools: tuple[Tool, ...] = ()
    documents: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_toolset_name(self.name)
        object.__setattr__(self, "tools", bundle_tools(self.tools, self.documents))
        if faults := tuple(find_duplicates(enumerate(tool.name for tool in self.tools))):
            raise InvalidTools(faults)

    @cached_property
    def by_name(self) -> Mapping[str, Tool]:
        """The tools by name, in order."""
        return {tool.name: tool for tool in self.tools}

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the ordered tools and the documents, hexadecimal; its own name does not count."""
        content = [tool.digest for tool in self.tools]
        if self.documents:
            content.append(json.dumps(self.documents, separators=(",", ":")))
        return hashlib.sha256("\n".join(content).encode()).hexdigest()

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

    def with_tool(self, tool: Tool) -> "Toolset":
        """The toolset with `tool` in the place of its namesake, or at the end."""
        return replace(self, tools=tuple({**self.by_name, tool.name: tool}.values()))

    def without_tool(self, name: str) -> "Toolset":
        """The toolset without the tool `name`; raises `UnknownTool` if it has none."""
        gone = self[name]
        return replace(self, tools=tuple(tool for tool in self.tools if tool is not gone))


def find_duplicates(names: Iterator[tuple[int, str]], pointer: str = "") -> Iterator[Fault]:
    """A fault for every name that an earlier one equals; `names` are pairs of index and name."""
    first: dict[str, int] = {}
    for index, name in names:
        if name in first:
            yield Fault(
                tool=name,
                pointer=f"{pointer}/{index}",
                keyword="name",
                message=f"the name is that of the tool at {pointer}/{first[name]} too",
                suggestion="give each tool of a toolset a name of its own",
            )
        first.setdefault(name, index)
