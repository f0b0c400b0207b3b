"""What an import found: tools, and what it could not make tools of."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Any

from toolspecs.errors import Fault
from toolspecs.tool import Tool

MAX_NAME = 64
"""Characters of a name that every API of tools takes."""
SOURCE = "callgate/source"
"""The field of a tool's `_meta` that says where the tool was imported from.

Two imports of the same source make the same tools, so nothing that differs between them is kept here.
"""

_INVALID = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Imported:
    """The tools of a source, in its order, and what could not be made a tool.

    `kind` says what the source is (openapi, python, mcp), and `title` what it calls itself.
    """

    kind: str
    title: str
    tools: tuple[Tool, ...]
    faults: tuple[Fault, ...] = ()

    @property
    def origin(self) -> str:
        """What tells this source from others."""
        return f"{self.kind} {self.title}"

    def marked(self) -> tuple[Tool, ...]:
        """The tools, each with the origin in its `_meta`."""
        return tuple(from_source(tool, {**_source(tool), "from": self.origin}) for tool in self.tools)


def from_source(tool: Tool, source: Mapping[str, Any]) -> Tool:
    """The tool with a note where it came from; other fields of its `_meta` stay."""
    meta = {**tool.extras.get("_meta", {}), SOURCE: dict(source)}
    return replace(tool, extras={**tool.extras, "_meta": meta})


def origin_of(meta: Any) -> str | None:
    """The origin of a tool with this `_meta`; None if it was not imported."""
    source = meta.get(SOURCE) if isinstance(meta, dict) else None
    return source.get("from") if isinstance(source, dict) else None


def _source(tool: Tool) -> Mapping[str, Any]:
    noted = tool.extras.get("_meta", {}).get(SOURCE)
    return noted if isinstance(noted, dict) else {}


def valid_name(text: str, taken: Collection[str] = (), hint: str = "") -> str:
    """A name that every API takes, made of `text`, and not among those `taken`.

    Names of tools and of arguments have the same characters. If the name is taken, `hint` is appended, or
    else a number.

    >>> valid_name("get /pets/{id}"), valid_name("filter[]", {"filter"}), valid_name("id", {"id"}, "query")
    ('get_pets_id', 'filter_2', 'id_query')
    """
    name = _INVALID.sub("_", text).strip("_")[:MAX_NAME] or "unnamed"
    endings = chain(["", f"_{hint}"] if hint else [""], (f"_{number}" for number in count(2)))
    return next(
        tried for ending in endings if (tried := name[: MAX_NAME - len(ending)] + ending) not in taken
    )


def toolset_name(title: str) -> str:
    """The name of a toolset for a source of this title.

    >>> toolset_name("Swagger Petstore - OpenAPI 3.0")
    'swagger-petstore-openapi-3.0'
    """
    return re.sub(r"[^a-z0-9._]+", "-", title.lower()).strip("-._")[:64] or "imported"
