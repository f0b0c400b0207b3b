"""Plainer documents: what canonicalization does not model, written in what it does."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from compiler.frontend.contested import NEGATIVE
from compiler.frontend.reporter import ASSERTIONS
from compiler.frontend.subschemas import inside, transformed

DIALECTS = (
    "http://json-schema.org/draft-04/schema",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-07/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
)
"""From the oldest to the newest."""
_GONE = frozenset({"dependencies", "additionalItems", "$recursiveRef", "$recursiveAnchor"})
"""Keywords that only older dialects assert."""
_ALIKE = frozenset(
    {
        "type",
        "enum",
        "minimum",
        "maximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "items",
        "minItems",
        "maxItems",
        "uniqueItems",
        "properties",
        "patternProperties",
        "additionalProperties",
        "required",
        "minProperties",
        "maxProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
    }
)
"""Assertions that mean the same in every dialect."""
_DIFFERENT = ASSERTIONS - _ALIKE
_PREFIX_ITEMS = 20
_REF_ALONE = 7
"""The last draft in which nothing stands beside `$ref`."""


def without_nested_dialects(document: Any) -> Any:
    """The document without `$schema` inside of it, where that makes no difference or asserts more.

    By the specification an inner `$schema` without `$id` has no force; validators follow it nonetheless.
    """
    if not isinstance(document, dict) or not any(map(_names_dialect, _within(document))):
        return document
    outer = _rank(document.get("$schema", DIALECTS[-1]))
    asserts_more = _newer_asserts_more(document)

    def change(schema: dict[str, Any]) -> dict[str, Any]:
        inner = _rank(schema.get("$schema"))
        is_same = inner == outer or (inner < outer and asserts_more) or _means_the_same(schema)
        if min(inner, outer) < 0 or not _names_dialect(schema) or not is_same:
            return schema
        return {keyword: value for keyword, value in schema.items() if keyword != "$schema"}

    plain = transformed(document, change)
    return {**plain, "$schema": document["$schema"]} if "$schema" in document else plain


def _means_the_same(schema: dict[str, Any]) -> bool:
    """Whether a schema, with all in it, admits the same values in every dialect."""
    return all(
        not part.keys() & _DIFFERENT and not isinstance(part.get("items"), list) for part in inside(schema)
    )


def _newer_asserts_more(document: dict[str, Any]) -> bool:
    used = {keyword for schema in inside(document) for keyword in schema}
    has_base = any(isinstance(schema.get("id"), str) for schema in _within(document))
    return not has_base and not used & (_GONE | NEGATIVE)


def _within(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Its schema objects but the outermost."""
    return islice(inside(document), 1, None)


def _rank(dialect: Any) -> int:
    name = dialect.removesuffix("#") if isinstance(dialect, str) else ""
    return DIALECTS.index(name) if name in DIALECTS else -1


def _names_dialect(schema: dict[str, Any]) -> bool:
    return "$schema" in schema and not schema.keys() & {"$id", "id"}


def with_values_described(document: Any, draft: int) -> Any:
    """The document with listed arrays and objects described by their parts, which can be negated."""

    def change(schema: dict[str, Any]) -> dict[str, Any]:
        if draft <= _REF_ALONE and "$ref" in schema:
            return schema
        listed = {"enum": schema.get("enum"), **({"const": [schema.get("const")]} if draft > 4 else {})}
        found = {
            keyword: {"anyOf": [_described(value, draft) for value in values]}
            for keyword, values in listed.items()
            if keyword in schema and isinstance(values, list) and any(map(_is_composite, values))
        }
        if not found:
            return schema
        kept = {keyword: value for keyword, value in schema.items() if keyword not in found}
        return {**kept, "allOf": [*kept.get("allOf", []), *found.values()]}

    return transformed(document, change)


def _is_composite(value: Any) -> bool:
    return isinstance(value, list | dict) and len(value) > 0


def _described(value: Any, draft: int) -> Any:
    """A schema of exactly this value."""
    match value:
        case list() if value:
            prefix = "prefixItems" if draft >= _PREFIX_ITEMS else "items"
            items = [_described(item, draft) for item in value]
            return {"type": "array", "minItems": len(value), "maxItems": len(value), prefix: items}
        case dict() if value:
            properties = {key: _described(item, draft) for key, item in value.items()}
            return {
                "type": "object",
                "required": list(value),
                "properties": properties,
                "additionalProperties": False,
            }
        case _:
            return {"enum": [value]}
