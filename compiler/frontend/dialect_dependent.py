"""Plainer documents: what canonicalization does not model, written in what it does."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from compiler.frontend.keywords import ASSERTIONS, child, inside, located, transformed
from compiler.regular.formats import FORMATS, is_known

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


NEGATIVE = frozenset({"not", "oneOf", "if", "contains", "unevaluatedItems", "unevaluatedProperties"})
"""Keywords under which asserting more can admit more."""
_NEWER = 19
"""The draft, as a number, that dropped `dependencies`."""
_CONTENTS = (6, 7)
"""Drafts in which contents are asserted by some engines."""


def dialect_dependent(schema: Mapping[str, Any], draft: int) -> list[str]:
    """The dialect_dependent keywords that one schema object spells."""
    found = ["dependencies"] if draft >= _NEWER else []
    found += ["contentEncoding", "contentMediaType"] if draft in _CONTENTS else []
    name = schema.get("format")
    if isinstance(name, str) and name in FORMATS and not is_known(name, draft):
        found.append("format")
    return [keyword for keyword in found if keyword in schema]


def can_mislead(documents: Iterable[Any], draft: int) -> bool:
    """Whether some dialect_dependent keyword may stand where asserting it admits more."""
    schemas = [schema for document in documents for schema in inside(document)]
    return any(schema.keys() & NEGATIVE for schema in schemas) and any(
        dialect_dependent(schema, draft) for schema in schemas
    )


def without_dialect_dependent(document: Any, draft: int) -> Any:
    """The document as those engines read it that do not assert the dialect_dependent keywords."""

    def change(schema: dict[str, Any]) -> dict[str, Any]:
        left_out = dialect_dependent(schema, draft)
        return {keyword: value for keyword, value in schema.items() if keyword not in left_out}

    return transformed(document, change)


def first_dialect_dependent(document: Any, draft: int) -> tuple[str, str]:
    """Pointer and name of the first dialect-dependent keyword of a document; empty if it has none."""
    for pointer, schema in located(document):
        for keyword in dialect_dependent(schema, draft):
            return child(pointer, keyword), keyword
    return "", ""


def suggestion_for(keyword: str) -> str:
    """What to write instead of a dialect_dependent keyword."""
    if keyword == "dependencies":
        return "Write `dependentRequired` or `dependentSchemas`."
    return "Say it by `pattern`, or declare a newer draft."
