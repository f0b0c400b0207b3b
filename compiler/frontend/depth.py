"""How deep a schema is: nested, through chains of references, or without an end.

Code that reads a schema recurses as deep as it is nested. `jsonschema_rs` also recurses through references,
on the native stack: each schema takes about 3.5 KB of usually 8 MB, and an overflow ends the process. A
schema that refers back to itself for the same value has no defined meaning, and validators never return from
it.
"""

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from compiler.digraph import strongly_connected_components
from compiler.errors import UnsupportedSchema
from compiler.frontend.keywords import DEFINITIONS, child, children, resolve, split_uri
from toolspecs.bundle import KEYWORDS, absolute

MAX_DEPTH = 200
_ANCHORS = ("$anchor", "$dynamicAnchor")
_IDENTITIES = ("$id", "id")
_SAME_VALUE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas")
"""Keywords whose subschemas are applied to the same value."""
_PARTS = (
    "properties",
    "patternProperties",
    "additionalProperties",
    "propertyNames",
    "items",
    "prefixItems",
    "additionalItems",
    "contains",
    "unevaluatedItems",
    "unevaluatedProperties",
)
"""Keywords whose subschemas are applied to a member, a key or an item."""

_Bases = frozenset[str]
"""The URIs that references in a schema may be relative to: dialects differ beside a `$ref`."""


def check_depth(document: Any, most: int = MAX_DEPTH) -> None:
    """Refuse a document that is nested more than `most` levels deep.

    Raises:
        UnsupportedSchema: it is.
    """
    level = [document]
    for _ in range(most + 1):
        level = [
            inner
            for value in level
            if isinstance(value, dict | list | tuple)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return
    raise too_deep(f"nested more than {most} levels deep")


def too_deep(reason: str = "the schema is nested too deeply") -> UnsupportedSchema:
    """The refusal of a schema that is nested too deeply."""
    return UnsupportedSchema("", "", reason, "Flatten the schema, or use $defs and $ref.")


def longest_chain(document: Any, documents: Mapping[str, Any]) -> int:
    """The largest number of schemas in a row of which each holds or refers to the next.

    A circle counts as a row of all its schemas, so the result does not depend on where a reader enters it.

    >>> longest_chain({"items": {"properties": {"a": {"$ref": "#"}}}}, {})
    3
    """
    schemas = _ReferenceTable(document, documents)
    graph: dict[str, list[str]] = {}
    pending = [("", frozenset({""}))]
    while pending:
        pointer, bases = pending.pop()
        if pointer not in graph:
            found = list(schemas.successors(pointer, bases))
            graph[pointer] = [target for target, _ in found]
            pending += found
    return _longest_path(graph, "")


class _ReferenceTable:
    """The schemas of some documents by what references call them.

    A reference that may lead to several schemas, by another base or an anchor of the same name, leads to all
    of them: chains may be counted too long, never too short.
    """

    def __init__(self, document: Any, documents: Mapping[str, Any]) -> None:
        self._roots = {"": document, **{f"{uri}#": part for uri, part in documents.items()}}
        self._resources = {root[:-1]: root for root in self._roots}
        self._anchors: dict[str, list[tuple[str, _Bases]]] = {}
        self._bases: dict[str, _Bases] = {}
        for root, part in self._roots.items():
            self._add(root, part)

    def _add(self, root: str, document: Any) -> None:
        stack = [(root, document, root[:-1])]
        while stack:
            pointer, schema, outer = stack.pop()
            if isinstance(schema, dict):
                base = outer
                for name in _strings(schema, _IDENTITIES):
                    base = absolute(outer, name)[0]
                    self._resources.setdefault(base, pointer)
                self._bases[pointer] = frozenset({outer, base})
                for name in _strings(schema, (*_ANCHORS, *_IDENTITIES)):
                    anchored = self._anchors.setdefault(name.removeprefix("#"), [])
                    anchored.append((pointer, self._bases[pointer]))
                stack += ((inner, value, base) for inner, value in children(pointer, schema))

    def successors(self, pointer: str, bases: _Bases) -> Iterator[tuple[str, _Bases]]:
        """The schemas that the one at `pointer` holds or refers to, with the bases of their references.

        `bases` are those of the schema itself if it stands where no keyword expects a schema.
        """
        uri, inner = split_uri(pointer)
        schema = resolve(self._roots[f"{uri}#" if uri else ""], inner)
        if not isinstance(schema, dict):
            return
        bases = self._bases.get(pointer, bases)
        used = {keyword: value for keyword, value in schema.items() if keyword not in DEFINITIONS}
        yield from ((target, bases) for target, _ in children(pointer, used))
        for reference in _strings(schema, KEYWORDS):
            for uri, fragment in {absolute(base, reference) for base in bases}:
                if fragment[:1] not in ("", "/"):
                    yield from self._anchors.get(fragment, ())
                elif uri in self._resources:
                    yield f"{self._resources[uri]}{fragment}", frozenset({uri})


def _strings(schema: Mapping[str, Any], keywords: tuple[str, ...]) -> list[str]:
    return [schema[keyword] for keyword in keywords if isinstance(schema.get(keyword), str)]


def _longest_path(graph: Mapping[str, list[str]], start: str) -> int:
    """The number of nodes on the longest path from `start`.

    A strongly connected component counts as a path through all its nodes.
    """
    length: dict[str, int] = {}
    for component in reversed(strongly_connected_components(graph)):
        below = (length[target] for node in component for target in graph[node] if target not in component)
        length |= dict.fromkeys(component, max(below, default=0) + len(component))
    return length[start]


def find_cycle(document: Any, documents: Mapping[str, Any]) -> str | None:
    """The pointer of a `$ref` by which a schema applies itself to the same value, or None.

    A schema that refers to itself from a property or an item is recursive, and fine. Only references by JSON
    pointer are followed, in the document and into the `documents` by URI. A pointer into one of these is
    written as URI, `#` and pointer.

    >>> find_cycle({"anyOf": [{"type": "null"}, {"$ref": "#"}]}, {})
    '/anyOf/1/$ref'
    >>> find_cycle({"items": {"$ref": "#"}}, {})
    """
    graph: dict[str, list[str]] = {}
    references: set[str] = set()
    pending = [("", document)]
    while pending:
        pointer, schema = pending.pop()
        if pointer not in graph and isinstance(schema, dict):
            targets = [*_target(document, documents, pointer, schema)]
            if targets:
                references.add(pointer)
            same = [*targets, *_children_under(_SAME_VALUE, pointer, schema)]
            graph[pointer] = [name for name, _ in same]
            pending += [*same, *_children_under(_PARTS, pointer, schema)]
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        return next(child(pointer, "$ref") for pointer in cycle if pointer in references)
    return None


def _target(
    document: Any, documents: Mapping[str, Any], pointer: str, schema: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """The schema that `$ref` leads to, with its pointer."""
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return
    base, _ = split_uri(pointer)
    own = document.get("$id") if isinstance(document, dict) else None
    uri, fragment = absolute(base or (own if isinstance(own, str) else ""), reference)
    if fragment[:1] not in ("", "/"):
        return
    if uri in documents and uri != own:
        yield f"{uri}#{fragment}", resolve(documents[uri], fragment)
    elif not base and reference[:1] == "#":
        yield fragment, resolve(document, fragment)


def _children_under(
    keywords: tuple[str, ...], pointer: str, schema: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    return children(pointer, {keyword: schema[keyword] for keyword in keywords if keyword in schema})
