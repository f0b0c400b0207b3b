"""Reads what a client submits for registration, once: into faults, or into a checked toolset.

`read_toolset` reads every tool and document, and gives each tool the bundle of documents that it refers to.
It does not stop at the first fault. The caller compiles the tools and adds those that cannot be enforced;
`Submission.checked` then raises all faults in one error, or returns a `CheckedToolset`, which the catalog
stores as it is:

>>> unchecked = UncheckedToolset("mail", [{"name": "send", "inputSchema": {"type": "object"}}])
>>> submission = read_toolset(unchecked, Limits())
>>> [(tool.tool.name, tool.schema_pointer) for tool in submission.tools]
[('send', '/tools/0/inputSchema')]
>>> submission.checked().toolset.tool_names
('send',)
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from toolspecs.errors import Fault, InvalidTools, LimitExceeded
from toolspecs.json_value import Limits
from toolspecs.nearest import MAX_NAME, instead, shorten
from toolspecs.revisions.toolset_contents import encode_toolset
from toolspecs.schemas.bundle import bundle_tools
from toolspecs.schemas.schema_check import check_documents, document_faults
from toolspecs.tool import ShownTools, Tool, ToolSearch
from toolspecs.tool_parser import CheckedTool, check_tool, read_tools, submitted_name
from toolspecs.toolset import Toolset, check_toolset_name

_MAX_COMPARED_NAMES = 4
_INDEX = re.compile(r"/tools/(\d+)")


@dataclass(frozen=True, slots=True)
class UncheckedToolset:
    """A toolset as a client submits it: a list of tools in any shape, and documents by URI (None: none)."""

    name: str
    tools: Any
    documents: Any = None
    prompt_tools: ShownTools | None = None
    tool_search: ToolSearch | None = None


@dataclass(frozen=True, slots=True)
class CheckedToolset:
    """A toolset without faults and within the limits, its digest, and its content as JSON.

    Only this module makes one, so its receiver need not check, hash or encode the toolset again.
    """

    toolset: Toolset
    digest: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Submission:
    """A submitted toolset, as far as it could be read.

    `tools` are those without faults, each with its bundle; it is empty if a document has a fault or a bundle
    is too large. `faults` are all faults found, in no particular order.
    """

    unchecked: UncheckedToolset
    tools: tuple[CheckedTool, ...]
    faults: tuple[Fault, ...]
    limits: Limits

    def checked(self, refusals: Sequence[Fault] = ()) -> CheckedToolset:
        """The checked toolset; `refusals` are faults that were found after reading.

        Raises:
            InvalidTools: with every fault and refusal, those of documents first, then tool by tool.
            LimitExceeded: the toolset is too large.
        """
        if faults := sorted((*self.faults, *refusals), key=_document_order):
            raise InvalidTools(faults)
        unchecked, tools = self.unchecked, tuple(checked.tool for checked in self.tools)
        if faults := list(_unknown_tools(unchecked.tool_search, tools)):
            raise InvalidTools(faults)
        toolset = Toolset(
            unchecked.name,
            tools,
            unchecked.documents or {},
            are_bundled=True,
            prompt_tools=unchecked.prompt_tools,
            tool_search=unchecked.tool_search,
        )
        return check_size(toolset, self.limits)


def read_toolset(unchecked: UncheckedToolset, limits: Limits) -> Submission:
    """Read the tools and the documents that a client submitted.

    Raises:
        InvalidName: its name cannot be the name of a toolset.
        InvalidTools: its tools are not a list.
        LimitExceeded: there are too many tools or documents, or the bundles are too large together.
    """
    check_toolset_name(unchecked.name)
    documents = {} if unchecked.documents is None else unchecked.documents
    of_documents = document_faults(documents, limits)
    checked, of_tools = read_tools(unchecked.tools, limits=limits)
    faults = (*of_documents, *of_tools)
    if of_documents:
        return Submission(unchecked, (), faults, limits)
    try:
        bundled = bundle_checked(checked, documents, limits)
    except InvalidTools as error:
        return Submission(unchecked, (), (*faults, *error.faults), limits)
    return Submission(unchecked, bundled, faults, limits)


def without_faulty(tools: Sequence[Any], faults: Sequence[Fault]) -> list[Any]:
    """The submitted tools, in any shape, without those that the faults are about.

    A fault tells its tool by the pointer, or by the name: what is wrong may be in a document.
    """
    names = {fault.tool for fault in faults if isinstance(fault.tool, str)}
    places = {int(at[1]) for fault in faults if (at := _INDEX.match(fault.pointer))}
    return [tool for i, tool in enumerate(tools) if i not in places and submitted_name(tool) not in names]


def bundle_checked(
    tools: Sequence[CheckedTool], documents: Mapping[str, Any], limits: Limits
) -> tuple[CheckedTool, ...]:
    """The tools, each with its bundle. Raises `InvalidTools` and `LimitExceeded`, as `bundle_tools` does."""
    pointers = [checked.schema_pointer for checked in tools]
    bundled = bundle_tools([checked.tool for checked in tools], documents, pointers, limits=limits)
    return tuple(replace(checked, tool=tool) for checked, tool in zip(tools, bundled, strict=True))


def check_toolset(toolset: Toolset, limits: Limits) -> CheckedToolset:
    """Check a toolset that was not read by `read_toolset`.

    Raises:
        InvalidTools: with every fault of every tool, or of every document.
        LimitExceeded: there are too many tools or documents, or the toolset is too large.
    """
    check_documents(toolset.documents, limits=limits)
    _check_num_tools(toolset, limits)
    faults = [
        fault
        for index, tool in enumerate(toolset)
        for fault in check_tool(tool, limits, index=index, base=f"/tools/{index}")
    ]
    if faults:
        raise InvalidTools(faults)
    return check_size(toolset, limits)


def check_size(toolset: Toolset, limits: Limits) -> CheckedToolset:
    """Check the size of a toolset whose tools and documents were checked. Raises `LimitExceeded`.

    Its tools are measured here, so that no request has to wait for that.
    """
    _check_num_tools(toolset, limits)
    if len(toolset.sources) > limits.num_sources:
        raise LimitExceeded("num_sources", limits.num_sources, len(toolset.sources))
    if toolset.num_values > limits.num_values:
        raise LimitExceeded("num_values", limits.num_values, toolset.num_values)
    content = encode_toolset(toolset)
    if len(content) > limits.toolset_bytes:
        raise LimitExceeded("toolset_bytes", limits.toolset_bytes, len(content))
    toolset.measure()
    return CheckedToolset(toolset, toolset.digest, content)


def _check_num_tools(toolset: Toolset, limits: Limits) -> None:
    if len(toolset) > limits.num_tools:
        raise LimitExceeded("num_tools", limits.num_tools, len(toolset))


def _unknown_tools(search: ToolSearch | None, tools: Sequence[Tool]) -> Iterator[Fault]:
    """A fault for each tool in `always` that the toolset does not have."""
    names = {tool.name: None for tool in tools}
    unknown = ((i, name) for i, name in enumerate(search.always if search else ()) if name not in names)
    for num_faults, (i, name) in enumerate(unknown):
        others = instead(name, names) if num_faults < _MAX_COMPARED_NAMES else ""  # comparing takes time
        message = f"there is no tool {shorten(name, MAX_NAME)!r} in this toolset{others}"
        suggestion = "name tools of this toolset, or leave the list out"
        yield Fault(None, f"/tool_search/always/{i}", "tool_search", message, suggestion)


def _document_order(fault: Fault) -> int:
    """The index of the tool at fault, -1 for a document."""
    at = _INDEX.match(fault.pointer)
    return int(at[1]) if at else -1
