"""Subschemas: where a schema holds other schemas."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from toolspecs.bundle import pointer_keys

ASSERTIONS = frozenset(
    {
        "type",
        "enum",
        "const",
        "multipleOf",
        "maximum",
        "exclusiveMaximum",
        "minimum",
        "exclusiveMinimum",
        "maxLength",
        "minLength",
        "pattern",
        "format",
        "maxItems",
        "minItems",
        "uniqueItems",
        "contains",
        "maxContains",
        "minContains",
        "maxProperties",
        "minProperties",
        "required",
        "dependentRequired",
        "dependentSchemas",
        "dependencies",
        "properties",
        "patternProperties",
        "additionalProperties",
        "propertyNames",
        "prefixItems",
        "items",
        "additionalItems",
        "unevaluatedItems",
        "unevaluatedProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "$ref",
        "$dynamicRef",
        "$recursiveRef",
    }
)
STRUCTURE = frozenset(
    {
        "$schema",
        "$id",
        "id",
        "$anchor",
        "$dynamicAnchor",
        "$recursiveAnchor",
        "$vocabulary",
        "$defs",
        "definitions",
        "$comment",
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
    }
)
ANNOTATIONS = frozenset({"contentEncoding", "contentMediaType", "contentSchema"})
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


def escape(token: str) -> str:
    """A reference token as a pointer spells it."""
    return token.replace("~", "~0").replace("/", "~1")


def child(pointer: str, *tokens: str) -> str:
    """The pointer to a descendant."""
    return "".join((pointer, *(f"/{escape(token)}" for token in tokens)))


def resolve(document: Any, pointer: str) -> Any:
    """The value at `pointer`, or None where there is none."""
    value = document
    for key in pointer_keys(pointer):
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value
