"""What an import found: the tools of a source, and the faults of what could not be imported."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from toolspecs.errors import Fault
from toolspecs.json_value import Limits
from toolspecs.nearest import shorten
from toolspecs.pinned_source import spell_source_id
from toolspecs.tool import Tool
from toolspecs.tool_parser import read_tools

MAX_TOOL_NAME = 64
"""The longest name, in characters, that every API of tools accepts."""
MAX_TITLE = 200
SOURCE = "callgate/source"
"""The field of a tool's `_meta` that says where the tool was imported from.

Two imports of the same source make the same tools, so nothing that differs between them is kept here.
"""

_CONTROL = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029]")
"""Characters that end a line or control a terminal."""
_INVALID = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Imported:
    """The tools of a source, in its order, and the faults of what could not be imported.

    `kind` says what the source is (openapi, python, mcp), `title` what it calls itself, and `url` its URL,
    if it has one.
    """

    kind: str
    title: str
    tools: tuple[Tool, ...]
    faults: tuple[Fault, ...] = ()
    url: str = ""

    @property
    def location(self) -> str:
        """The URL, which no source can choose, or else the title, with escapes for control characters."""
        title = _CONTROL.sub(lambda found: ascii(found[0])[1:-1], self.title)
        return self.url or shorten(title.encode("utf-8", "replace").decode(), MAX_TITLE)

    @property
    def source_id(self) -> str:
        """See `spell_source_id`."""
        return spell_source_id(self.kind, self.location)

    def with_source_ids(self) -> tuple[Tool, ...]:
        """The tools, each with the id of its source in `_meta`."""
        return tuple(with_source_id(tool, self.source_id) for tool in self.tools)


def with_source_note(tool: Tool, source: Mapping[str, Any]) -> Tool:
    """The tool with a note of where it came from; the other fields of its `_meta` stay."""
    meta = {**tool.extras.get("_meta", {}), SOURCE: dict(source)}
    return replace(tool, extras={**tool.extras, "_meta": meta})


def with_source_id(tool: Tool, source_id: str) -> Tool:
    """The tool with the id of its source added to the note of where it came from."""
    return with_source_note(tool, {**_source(tool), "from": source_id})


def source_id_of(meta: Any) -> str | None:
    """The id of the source of a tool with this `_meta`; None if the tool was not imported."""
    source = meta.get(SOURCE) if isinstance(meta, dict) else None
    return source.get("from") if isinstance(source, dict) else None


def _source(tool: Tool) -> Mapping[str, Any]:
    source = tool.extras.get("_meta", {}).get(SOURCE)
    return source if isinstance(source, dict) else {}


def valid_name(text: str) -> str:
    """A name for a tool or an argument, made from `text`, that every API accepts.

    >>> valid_name("get /pets/{id}")
    'get_pets_id'
    """
    return _INVALID.sub("_", text).strip("_")[:MAX_TOOL_NAME] or "unnamed"


class UniqueNames:
    """Gives valid names, each once. If a name is taken, a hint is appended, or else a number.

    >>> names = UniqueNames()
    >>> [names.name("id"), names.name("id", "query"), names.name("id", "query"), names.name("id")]
    ['id', 'id_query', 'id_2', 'id_3']
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next_number: dict[str, int] = {}

    def name(self, text: str, hint: str = "") -> str:
        """A name made of `text` that was not given before."""
        base = valid_name(text)
        chosen = next(name for name in self._candidates(base, hint) if name not in self._taken)
        self._taken.add(chosen)
        return chosen

    def _candidates(self, base: str, hint: str) -> Iterator[str]:
        yield base
        if hint:
            yield _ended(base, f"_{hint}")
        while True:  # each number is tried once: a document may repeat a name very often
            number = self._next_number.get(base, 2)
            self._next_number[base] = number + 1
            yield _ended(base, f"_{number}")


def _ended(name: str, ending: str) -> str:
    return name[: MAX_TOOL_NAME - len(ending)] + ending


def toolset_name(title: str) -> str:
    """The toolset name for a source with this title.

    >>> toolset_name("Swagger Petstore - OpenAPI 3.0")
    'swagger-petstore-openapi-3.0'
    """
    return re.sub(r"[^a-z0-9._]+", "-", title.lower()).strip("-._")[:64] or "imported"


def import_listing(title: str, listing: Iterable[Mapping[str, Any]]) -> Imported:
    """The tools that an MCP server lists.

    A `callgate/source` field in a tool's `_meta` is removed: only this gateway may write that note.

    Raises:
        LimitExceeded: there are more tools than a toolset may have.
    """
    tools = [
        {**tool, "_meta": {key: value for key, value in (tool.get("_meta") or {}).items() if key != SOURCE}}
        for tool in listing
    ]
    checked, faults = read_tools(tools, limits=Limits())
    return Imported("mcp", title, tuple(checked_tool.tool for checked_tool in checked), tuple(faults))
