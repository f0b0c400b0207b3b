"""Which schemas hold, apply or refer to one another, by every reference that some validator might follow.

Validators differ on references: on the base beside a `$ref`, on an anchor in another resource, on where a
dynamic reference leads. So a reference here leads to every schema that it may lead to. Chains may be counted
too long, never too short. Among them is always the one that the specification names (`references`).

`jsonschema_rs` recurses through references on the native stack: each schema takes about 3.5 KB of usually
8 MB, and an overflow ends the process. A schema that refers back to itself for the same value has no defined
meaning, and validators never return from it.
"""

from collections.abc import Collection, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any, NamedTuple

from compiler.digraph import strongly_connected_components
from compiler.frontend.keywords import (
    DEFINITIONS,
    IDENTIFIERS,
    IN_PLACE_APPLICATORS,
    children,
    document_pointer,
    have_references,
)
from compiler.frontend.references import References
from toolspecs.json_pointer import child
from toolspecs.schemas.bundle import REFERENCES, absolute

_ANCHORS = ("$anchor", "$dynamicAnchor")
_RECURSIVE_ANCHOR = ""
"""The name by which `$recursiveRef` finds what `$recursiveAnchor` marks: its fragment is empty."""

_Bases = frozenset[str]
"""The URIs that references in a schema may be relative to: dialects differ beside a `$ref`."""
_Graph = Mapping[str, list[str]]
"""The pointers of schemas that each schema leads to, by its own pointer."""


def longest_chain(document: Any, documents: Mapping[str, Any]) -> int:
    """The length of the longest row of schemas in which each holds or refers to the next.

    A cycle counts as a path of all its schemas, so the result does not depend on where a reader enters it.

    >>> longest_chain({"items": {"properties": {"a": {"$ref": "#"}}}}, {})
    3
    """
    schemas = _LinkedSchemas(document, documents)
    graph = {
        pointer: [*schemas.children(pointer), *(reference.target for reference in references)]
        for pointer, references in schemas.reached()
    }
    return _longest_path(graph, "")


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
    if not have_references((document, *documents.values())):
        return None
    schemas = _LinkedSchemas(document, documents)
    graph: dict[str, list[str]] = {}
    keywords: dict[tuple[str, str], str] = {}
    for pointer, references in schemas.reached(only_certain=True):
        keywords |= {(pointer, reference.target): reference.keyword for reference in references}
        targets = [reference.target for reference in references]
        graph[pointer] = [*targets, *schemas.children(pointer, IN_PLACE_APPLICATORS)]
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
    schemas = _LinkedSchemas(document, documents)
    graph = {
        pointer: [
            *(reference.target for reference in references),
            *schemas.children(pointer, IN_PLACE_APPLICATORS),
        ]
        for pointer, references in schemas.reached()
    }
    for start in graph:
        applied = {start: schemas.schema(start)}
        pending = [start]
        while pending:
            new = [target for target in dict.fromkeys(graph[pending.pop()]) if target not in applied]
            applied |= {target: schemas.schema(target) for target in new}
            pending += new
        yield start, applied


def _longest_path(graph: _Graph, start: str) -> int:
    """The number of nodes on the longest path from `start`.

    A strongly connected component counts as a path through all its nodes.
    """
    length: dict[str, int] = {}
    for component in reversed(strongly_connected_components(graph)):
        below = (length[target] for node in component for target in graph[node] if target not in component)
        length |= dict.fromkeys(component, max(below, default=0) + len(component))
    return length[start]


class _Reference(NamedTuple):
    """A schema that a reference may lead to, and the bases of its own references.

    It is uncertain if only an anchor of the same name in another resource leads there.
    """

    keyword: str
    target: str
    bases: _Bases
    is_certain: bool = True


class _Anchored(NamedTuple):
    """The pointer of a schema with an anchor, and the bases of its references."""

    pointer: str
    bases: _Bases


class _LinkedSchemas:
    """The schemas of some documents, with the references between them."""

    def __init__(self, document: Any, documents: Mapping[str, Any]) -> None:
        self._specified = References(document, documents)
        self._resources = {uri: document_pointer(uri) for uri in ("", *documents)}
        """A pointer of a schema that each URI may identify."""
        self._anchors: dict[str, list[_Anchored]] = {}
        self._dynamic_anchors: dict[str, list[_Anchored]] = {_RECURSIVE_ANCHOR: []}
        self._bases: dict[str, _Bases] = {}
        for uri, content in {"": document, **documents}.items():
            self._add(content, uri)

    def _add(self, document: Any, uri: str) -> None:
        """Add the names of all schemas of the document at a URI."""
        pending = [(document_pointer(uri), document, uri)]
        while pending:
            pointer, schema, outer = pending.pop()
            if isinstance(schema, dict):
                base = outer
                for name in _strings(schema, IDENTIFIERS):
                    base = absolute(outer, name)[0]
                    self._resources.setdefault(base, pointer)
                self._bases[pointer] = frozenset({outer, base})
                self._add_anchors(schema, _Anchored(pointer, self._bases[pointer]))
                pending += ((inner, value, base) for inner, value in children(pointer, schema))

    def _add_anchors(self, schema: Mapping[str, Any], anchored: _Anchored) -> None:
        for name in _strings(schema, (*_ANCHORS, *IDENTIFIERS)):  # up to draft 7, `$id` may be an anchor
            self._anchors.setdefault(name.removeprefix("#"), []).append(anchored)
        for name in _strings(schema, ("$dynamicAnchor",)):
            self._dynamic_anchors.setdefault(name, []).append(anchored)
        if schema.get("$recursiveAnchor") is True:
            self._dynamic_anchors[_RECURSIVE_ANCHOR].append(anchored)

    def schema(self, pointer: str) -> Mapping[str, Any]:
        """The schema at a pointer; empty if it is a boolean, or no schema is there."""
        schema = self._specified.at(pointer)
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
                reference
                for reference in self._references(pointer, bases)
                if reference.is_certain or not only_certain
            ]
            yield pointer, references
            pending += [(reference.target, reference.bases) for reference in references]
            pending += [(inner, bases) for inner in self.children(pointer)]

    def children(self, pointer: str, keywords: Collection[str] | None = None) -> Iterator[str]:
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
        bases = self._bases.get(pointer, bases)
        for keyword in REFERENCES:
            for reference in _strings(schema, (keyword,)):
                if (target := self._specified.target(pointer, reference)) is not None:
                    _, base = self._specified.base(target)
                    yield _Reference(keyword, target, frozenset({base}))
                for uri, fragment in sorted({absolute(base, reference) for base in bases}):
                    yield from self._targets(keyword, uri, fragment)

    def _targets(self, keyword: str, uri: str, fragment: str) -> Iterator[_Reference]:
        """The schemas that a reference under `keyword` to `uri` and `fragment` may lead to."""
        if fragment[:1] not in ("", "/"):
            for target, bases in self._anchors.get(fragment, ()):
                yield _Reference(keyword, target, bases, is_certain=uri in bases)
        elif uri in self._resources:
            yield _Reference(keyword, f"{self._resources[uri]}{fragment}", frozenset({uri}))
        if keyword != "$ref":
            for target, bases in self._dynamic_anchors.get(fragment, ()):
                yield _Reference(keyword, target, bases)


def _strings(schema: Mapping[str, Any], keywords: tuple[str, ...]) -> list[str]:
    return [schema[keyword] for keyword in keywords if isinstance(schema.get(keyword), str)]
