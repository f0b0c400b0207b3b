"""Refuses `unevaluated*` in alternatives of what it looks at.

Canonicalization writes a schema with `unevaluated*` anew for each alternative of the schemas that are applied
to the same value. If such an alternative holds the schema itself, as below, that has no end, and the native
stack overflows.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from compiler.digraph import strongly_connected_components
from compiler.errors import UnsupportedSchema
from compiler.frontend.keywords import (
    IN_PLACE_APPLICATORS,
    UNEVALUATED,
    children,
    inside,
)
from compiler.frontend.reference_graph import applied_to_same_value
from toolspecs.json_pointer import child

_DIVIDING = IN_PLACE_APPLICATORS - {"allOf", "not"}
"""Keywords that hold alternatives for one value."""


def check_endless_evaluation(document: Any, documents: Mapping[str, Any]) -> None:
    """Refuse a schema with `unevaluated*` that stands in an alternative of what it looks at.

    >>> tree = {"anyOf": [{}, {"items": {"$ref": "#", "unevaluatedItems": False}}]}
    >>> check_endless_evaluation(tree, {})
    Traceback (most recent call last):
    compiler.errors.UnsupportedSchema: /anyOf/1/items/unevaluatedItems: ...

    Raises:
        UnsupportedSchema: there is one, or one stands in an alternative of another, and so on in a cycle.
    """
    parts = (document, *documents.values())
    if not any(_unevaluated_keyword(schema) for part in parts for schema in inside(part)):
        return
    looking = dict(_looking(document, documents))
    inside_of: dict[str, list[str]] = {}
    for pointer in looking:
        for around in _around(pointer):
            inside_of.setdefault(around, []).append(pointer)
    successors = {
        pointer: [inner for place in alternatives for inner in inside_of.get(place, ())]
        for pointer, (_, alternatives) in looking.items()
    }
    for component in strongly_connected_components(successors):
        pointer = min(component)
        if len(component) > 1 or pointer in successors[pointer]:
            keyword, _ = looking[pointer]
            reason = "is inside an alternative of the schema that it looks at, so what it says has no end"
            suggestion = "Write it beside the keywords that it looks at, not beside a reference."
            raise UnsupportedSchema(child(pointer, keyword), keyword, reason, suggestion)


def _looking(document: Any, documents: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, list[str]]]]:
    """Pointers of the schemas with `unevaluated*`, with that keyword and the alternatives it looks at."""
    for pointer, reached in applied_to_same_value(document, documents):
        if (keyword := _unevaluated_keyword(reached[pointer])) is not None:
            divided = (_divided(place, schema) for place, schema in reached.items())
            yield pointer, (keyword, list(chain.from_iterable(divided)))


def _unevaluated_keyword(schema: Mapping[str, Any]) -> str | None:
    """The keyword that looks at what is not evaluated, None if it admits all of that."""
    return next((keyword for keyword in UNEVALUATED if schema.get(keyword, True) is not True), None)


def _divided(pointer: str, schema: Mapping[str, Any]) -> Iterator[str]:
    """The alternatives that the schema at a pointer holds."""
    dividing = {keyword: value for keyword, value in schema.items() if keyword in _DIVIDING}
    return (at for at, _ in children(pointer, dividing))


def _around(pointer: str) -> Iterator[str]:
    """The pointer and those of all that is around it."""
    end = len(pointer)
    while end > 0:
        yield pointer[:end]
        end = pointer.rfind("/", 0, end)
