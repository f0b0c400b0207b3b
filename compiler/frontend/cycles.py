"""Reference cycles with no way out: schemas that apply themselves to the very value they are applied to.

The specification leaves these undefined, and validators never come back from them. A recursive schema that
goes on to a part of the value (a property, an item) is no such cycle.
"""

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from compiler.frontend.pointer import child, resolve
from toolspecs.bundle import absolute

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
