"""How deep the references of a schema lead: `jsonschema_rs` recurses through them, on the native stack.

Each schema on its way takes about 3.5 KB of it, of 8 MB usually; beyond its end the process dies.
"""

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from compiler.errors import UnsupportedSchema
from compiler.frontend.keywords import child, children, resolve
from toolspecs.bundle import KEYWORDS, absolute

_UNREFERRED = ("$defs", "definitions")
_ANCHORS = ("$anchor", "$dynamicAnchor")
_IDENTITIES = ("$id", "id")

_Bases = frozenset[str]
"""The URIs that references in a schema may be relative to: dialects differ beside a `$ref`."""


def longest_chain(document: Any, documents: Mapping[str, Any]) -> int:
    """How many schemas can lead to one another in a row, by holding or by reference, at most.

    Those that lead to one another in a circle count as a row of all of them: so the order in which schemas
    are visited is of no matter.
    """
    places = _Places(document, documents)
    graph: dict[str, list[str]] = {}
    reached = [("", frozenset({""}))]
    while reached:
        pointer, bases = reached.pop()
        if pointer not in graph:
            found = list(places.after(pointer, bases))
            graph[pointer] = [target for target, _ in found]
            reached += found
    return _longest_path(graph, "")


class _Places:
    """The schemas of some documents. A pointer into one of `documents` begins with its URI and `#`."""

    def __init__(self, document: Any, documents: Mapping[str, Any]) -> None:
        self._roots = {"": document, **{f"{uri}#": part for uri, part in documents.items()}}
        self._resources = {root[:-1]: root for root in self._roots}
        self._anchors: dict[str, list[tuple[str, _Bases]]] = {}
        self._bases: dict[str, _Bases] = {}
        for root, part in self._roots.items():
            self._read(root, part)

    def _read(self, root: str, document: Any) -> None:
        """Note what the schemas of a document are called."""
        stack = [(root, document, root[:-1])]
        while stack:
            pointer, schema, outer = stack.pop()
            if isinstance(schema, dict):
                base = outer
                for name in _texts(schema, _IDENTITIES):
                    base = absolute(outer, name)[0]
                    self._resources.setdefault(base, pointer)
                self._bases[pointer] = frozenset({outer, base})
                for name in _texts(schema, (*_ANCHORS, *_IDENTITIES)):
                    anchored = self._anchors.setdefault(name.removeprefix("#"), [])
                    anchored.append((pointer, self._bases[pointer]))
                stack += ((inner, value, base) for inner, value in children(pointer, schema))

    def after(self, pointer: str, bases: _Bases) -> Iterator[tuple[str, _Bases]]:
        """Where the schema at `pointer` leads; its own are `bases` where no keyword puts a schema there."""
        root = "" if pointer[:1] in ("", "/") else f"{pointer.partition('#')[0]}#"
        schema = resolve(self._roots[root], pointer.removeprefix(root))
        if not isinstance(schema, dict):
            return
        bases = self._bases.get(pointer, bases)
        held = {keyword: value for keyword, value in schema.items() if keyword not in _UNREFERRED}
        yield from ((inner, bases) for inner, _ in children(pointer, held))
        for reference in _texts(schema, KEYWORDS):
            for uri, fragment in {absolute(base, reference) for base in bases}:
                if fragment[:1] not in ("", "/"):
                    yield from self._anchors.get(fragment, ())
                elif uri in self._resources:
                    yield f"{self._resources[uri]}{fragment}", frozenset({uri})


def _texts(schema: Mapping[str, Any], keywords: tuple[str, ...]) -> list[str]:
    return [schema[keyword] for keyword in keywords if isinstance(schema.get(keyword), str)]


def _longest_path(graph: Mapping[str, list[str]], start: str) -> int:
    """In nodes, of the graph with its strongly connected components (Tarjan, 1972) drawn out to paths."""
    number = {start: 0}
    lowest = {start: 0}
    length: dict[str, int] = {}
    """Of what is finished."""
    open_nodes = [start]
    visits = [(start, iter(graph[start]))]
    while visits:
        node, targets = visits[-1]
        for target in targets:
            if target not in number:
                number[target] = lowest[target] = len(number)
                open_nodes.append(target)
                visits.append((target, iter(graph[target])))
                break
            if target not in length:
                lowest[node] = min(lowest[node], number[target])
        else:
            visits.pop()
            if visits:
                before = visits[-1][0]
                lowest[before] = min(lowest[before], lowest[node])
            if lowest[node] == number[node]:
                component: set[str] = set()
                while node not in component:
                    component.add(open_nodes.pop())
                below = (length[to] for one in component for to in graph[one] if to not in component)
                length |= dict.fromkeys(component, max(below, default=0) + len(component))
    return length[start]


_SAME_VALUE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas")
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
_MAPS = ("dependentSchemas", "properties", "patternProperties")


def find_cycle(document: Any, documents: Mapping[str, Any]) -> str | None:
    """The pointer of a reference in such a cycle, or None.

    References by pointer are followed, in the document and into the `documents` by URI; a pointer into one of
    these is its URI, `#` and the pointer proper.
    """
    graph: dict[str, list[str]] = {}
    references: set[str] = set()
    reached = [("", document)]
    while reached:
        pointer, schema = reached.pop()
        if pointer not in graph and isinstance(schema, dict):
            targets = [*_target(document, documents, pointer, schema)]
            if targets:
                references.add(pointer)
            same = [*targets, *_children(pointer, schema, _SAME_VALUE)]
            graph[pointer] = [name for name, _ in same]
            reached += [*same, *_children(pointer, schema, _PARTS)]
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        return next(child(pointer, "$ref") for pointer in cycle if pointer in references)
    return None


def _target(
    document: Any, documents: Mapping[str, Any], pointer: str, schema: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return
    base = pointer.partition("#")[0] if pointer[:1] not in ("", "/") else ""
    own = document.get("$id") if isinstance(document, dict) else None
    uri, fragment = absolute(base or (own if isinstance(own, str) else ""), reference)
    if fragment[:1] not in ("", "/"):
        return
    if uri in documents and uri != own:
        yield f"{uri}#{fragment}", resolve(documents[uri], fragment)
    elif not base and reference[:1] == "#":
        yield fragment, resolve(document, fragment)


def _children(
    pointer: str, schema: Mapping[str, Any], keywords: tuple[str, ...]
) -> Iterator[tuple[str, Any]]:
    for keyword in keywords:
        value = schema.get(keyword)
        if isinstance(value, list):
            yield from ((child(pointer, keyword, str(at)), item) for at, item in enumerate(value))
        elif isinstance(value, dict) and keyword in _MAPS:
            yield from ((child(pointer, keyword, name), item) for name, item in value.items())
        elif isinstance(value, dict):
            yield child(pointer, keyword), value


MAX_DEPTH = 200


def check_depth(document: Any, most: int = MAX_DEPTH) -> None:
    """Refuse a document nested more than `most` levels deep.

    Raises:
        UnsupportedSchema: it is.
    """
    level = [document]
    for _ in range(most + 1):
        level = [
            child
            for value in level
            if isinstance(value, dict | list | tuple)
            for child in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return
    raise too_deep(f"nested more than {most} levels deep")


def too_deep(reason: str = "the schema is nested too deeply") -> UnsupportedSchema:
    """The refusal of a schema whose nesting is out of bounds."""
    return UnsupportedSchema("", "", reason, "Flatten the schema, or use $defs and $ref.")
