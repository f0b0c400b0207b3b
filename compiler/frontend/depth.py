"""How deep a schema is: nested, through chains of references, or without an end.

Code that reads a schema recurses as deep as it is nested. `jsonschema_rs` also recurses through references,
on the native stack: each schema takes about 3.5 KB of usually 8 MB, and an overflow ends the process. A
schema that refers back to itself for the same value has no defined meaning, and validators never return from
it.
"""

from collections.abc import Container, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any, NamedTuple

from compiler.digraph import strongly_connected_components
from compiler.errors import UnsupportedSchema
from compiler.frontend.keywords import (
    DEFINITIONS,
    IN_PLACE,
    IN_PLACE_LISTS,
    IN_PLACE_MAPS,
    child,
    children,
    resolve,
    split_uri,
)
from toolspecs.bundle import KEYWORDS, absolute

MAX_DEPTH = 200
_ANCHORS = ("$anchor", "$dynamicAnchor")
_IDENTITIES = ("$id", "id")
_SAME_VALUE = frozenset({*IN_PLACE, *IN_PLACE_LISTS, *IN_PLACE_MAPS, "not"})
"""Keywords whose subschemas are applied to the same value."""

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
    """The length of the longest row of schemas in which each holds or refers to the next.

    A circle counts as a row of all its schemas, so the result does not depend on where a reader enters it.

    >>> longest_chain({"items": {"properties": {"a": {"$ref": "#"}}}}, {})
    3
    """
    schemas = _ReferenceTable(document, documents)
    graph = {
        pointer: [*schemas.children(pointer), *(reference.target for reference in references)]
        for pointer, references in schemas.reached()
    }
    return _longest_path(graph, "")


class _Reference(NamedTuple):
    """A schema that a reference may lead to, and the bases of its own references.

    It is uncertain if only an anchor of the same name in another resource leads there.
    """

    keyword: str
    target: str
    bases: _Bases
    is_certain: bool = True


class _ReferenceTable:
    """The schemas of some documents by what references call them.

    A reference that may lead to several schemas, by another base or an anchor of the same name, leads to all
    of them: chains may be counted too long, never too short.
    """

    def __init__(self, document: Any, documents: Mapping[str, Any]) -> None:
        self._roots = {"": document, **{f"{uri}#": part for uri, part in documents.items()}}
        self._resources = {root[:-1]: root for root in self._roots}
        self._anchors: dict[str, list[tuple[str, _Bases]]] = {}
        self._dynamic: dict[str, list[tuple[str, _Bases]]] = {"": []}  # "" for `$recursiveAnchor`
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
                for name in _strings(schema, ("$dynamicAnchor",)):
                    self._dynamic.setdefault(name, []).append((pointer, self._bases[pointer]))
                if schema.get("$recursiveAnchor") is True:
                    self._dynamic[""].append((pointer, self._bases[pointer]))
                stack += ((inner, value, base) for inner, value in children(pointer, schema))

    def schema(self, pointer: str) -> Mapping[str, Any]:
        """The schema at a pointer; empty if it is a boolean, or no schema is there."""
        uri, inner = split_uri(pointer)
        schema = resolve(self._roots[f"{uri}#" if uri else ""], inner)
        return schema if isinstance(schema, dict) else {}

    def reached(self, *, only_certain: bool = False) -> Iterator[tuple[str, list[_Reference]]]:
        """The pointer of every schema that the document holds or refers to, with the references in it."""
        seen: set[str] = set()
        pending = [("", frozenset({""}))]
        while pending:
            pointer, bases = pending.pop()
            if pointer in seen:
                continue
            seen.add(pointer)
            references = [
                ref for ref in self._references(pointer, bases) if ref.is_certain or not only_certain
            ]
            yield pointer, references
            pending += [(reference.target, reference.bases) for reference in references]
            pending += [(inner, bases) for inner in self.children(pointer)]

    def children(self, pointer: str, keywords: Container[str] | None = None) -> Iterator[str]:
        """The schemas that the one at `pointer` holds under some keywords, definitions left out."""
        used = {
            keyword: value
            for keyword, value in self.schema(pointer).items()
            if keyword not in DEFINITIONS and (keywords is None or keyword in keywords)
        }
        return (target for target, _ in children(pointer, used))

    def _references(self, pointer: str, bases: _Bases) -> Iterator[_Reference]:
        """The schemas that the one at `pointer` refers to.

        `bases` are those of its references if it stands where no keyword expects a schema.
        """
        schema = self.schema(pointer)
        for keyword in KEYWORDS:
            for reference in _strings(schema, (keyword,)):
                for uri, fragment in sorted(
                    {absolute(b, reference) for b in self._bases.get(pointer, bases)}
                ):
                    yield from self._referred(keyword, uri, fragment)

    def _referred(self, keyword: str, uri: str, fragment: str) -> Iterator[_Reference]:
        if fragment[:1] not in ("", "/"):
            for target, bases in self._anchors.get(fragment, ()):
                yield _Reference(keyword, target, bases, is_certain=uri in bases)
        elif uri in self._resources:
            yield _Reference(keyword, f"{self._resources[uri]}{fragment}", frozenset({uri}))
        if keyword != "$ref":
            for target, bases in self._dynamic.get(fragment, ()):
                yield _Reference(keyword, target, bases)


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
    """The pointer of a reference by which a schema applies itself to the same value, or None.

    A schema that refers to itself from a property or an item is recursive, and fine. References of every kind
    are followed, in the document and into the `documents` by URI. A dynamic reference counts as leading to
    every dynamic anchor of its name: which one it is depends on where a validator comes from. A pointer into
    one of the documents is written as URI, `#` and pointer.

    >>> find_cycle({"anyOf": [{"type": "null"}, {"$ref": "#"}]}, {})
    '/anyOf/1/$ref'
    >>> find_cycle({"$anchor": "a", "not": {"$dynamicRef": "#a"}}, {})
    '/not/$dynamicRef'
    >>> find_cycle({"items": {"$ref": "#"}}, {})
    """
    schemas = _ReferenceTable(document, documents)
    graph: dict[str, list[str]] = {}
    keywords: dict[tuple[str, str], str] = {}
    for pointer, references in schemas.reached(only_certain=True):
        keywords |= {(pointer, reference.target): reference.keyword for reference in references}
        targets = [reference.target for reference in references]
        graph[pointer] = [*targets, *schemas.children(pointer, _SAME_VALUE)]
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        targets_and_sources = pairwise(error.args[1])
        return next(child(s, keywords[s, t]) for t, s in targets_and_sources if (s, t) in keywords)
    return None


def applied_to_same_value(
    document: Any, documents: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, Mapping[str, Any]]]]:
    """The pointer of every schema, with all schemas by pointer that it applies to the same value.

    The schema itself is among them. References of every kind are followed, also uncertain ones.

    >>> {pointer: [*found] for pointer, found in applied_to_same_value({"allOf": [{"items": {}}]}, {})}
    {'': ['', '/allOf/0'], '/allOf/0': ['/allOf/0'], '/allOf/0/items': ['/allOf/0/items']}
    """
    schemas = _ReferenceTable(document, documents)
    graph = {
        pointer: [*(reference.target for reference in references), *schemas.children(pointer, _SAME_VALUE)]
        for pointer, references in schemas.reached()
    }
    for start in graph:
        reached = {start: schemas.schema(start)}
        stack = [start]
        while stack:
            new = [target for target in dict.fromkeys(graph[stack.pop()]) if target not in reached]
            reached |= {target: schemas.schema(target) for target in new}
            stack += new
        yield start, reached
