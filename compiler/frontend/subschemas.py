"""Subschemas: where a schema holds other schemas."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from compiler.frontend.pointer import child

IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
IN_PLACE = ("if", "then", "else")
IN_PLACE_MAPS = ("dependentSchemas", "dependencies")
"""What speaks about the same place of an instance as the schema that holds it."""
SINGLE = (
    *IN_PLACE,
    "not",
    "items",
    "additionalItems",
    "additionalProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "propertyNames",
    "contains",
)
LISTS = (*IN_PLACE_LISTS, "prefixItems", "items")
MAPS = (*IN_PLACE_MAPS, "properties", "patternProperties", "$defs", "definitions")


def children(pointer: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The schemas right inside the one at `pointer`, with their pointers."""
    for keyword, value in schema.items():
        if keyword in MAPS and isinstance(value, dict):
            yield from ((child(pointer, keyword, key), inner) for key, inner in value.items())
        elif keyword in LISTS and isinstance(value, list):
            yield from ((child(pointer, keyword, str(i)), inner) for i, inner in enumerate(value))
        elif keyword in SINGLE:
            yield child(pointer, keyword), value


def located(document: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema object of a document with its pointer, itself first."""
    stack = [("", document)]
    while stack:
        pointer, schema = stack.pop()
        if isinstance(schema, dict):
            yield pointer, schema
            stack += reversed(list(children(pointer, schema)))


def inside(document: Any) -> Iterator[dict[str, Any]]:
    """Every schema object of a document, itself first."""
    return (schema for _, schema in located(document))


def transformed(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """The schema with `change` applied to every schema object in it, from the inside out."""
    if not isinstance(schema, dict):
        return schema
    result: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in MAPS and isinstance(value, dict):
            result[keyword] = {key: transformed(inner, change) for key, inner in value.items()}
        elif keyword in LISTS and isinstance(value, list):
            result[keyword] = [transformed(inner, change) for inner in value]
        else:
            result[keyword] = transformed(value, change) if keyword in SINGLE else value
    return change(result)
