"""Contested keywords: those that engines read differently in one dialect.

`jsonschema-rs` asserts them, and canonicalization with it; other engines know them not, since their draft has
dropped them, takes them for annotations or came before them. Where asserting more admits less nobody is
misled. Under a negation it admits more: there, only what holds under either reading may be written.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from compiler.frontend.pointer import child
from compiler.frontend.subschemas import inside, located, transformed
from compiler.regular.formats import FORMATS, is_known

NEGATIVE = frozenset({"not", "oneOf", "if", "contains", "unevaluatedItems", "unevaluatedProperties"})
"""Keywords under which asserting more can admit more."""
_NEWER = 19
"""The draft, as a number, that dropped `dependencies`."""
_CONTENTS = (6, 7)
"""Drafts in which contents are asserted by some engines."""


def contested(schema: Mapping[str, Any], draft: int) -> list[str]:
    """The contested keywords that one schema object spells."""
    found = ["dependencies"] if draft >= _NEWER else []
    found += ["contentEncoding", "contentMediaType"] if draft in _CONTENTS else []
    name = schema.get("format")
    if isinstance(name, str) and name in FORMATS and not is_known(name, draft):
        found.append("format")
    return [keyword for keyword in found if keyword in schema]


def can_mislead(documents: Iterable[Any], draft: int) -> bool:
    """Whether some contested keyword may stand where asserting it admits more."""
    schemas = [schema for document in documents for schema in inside(document)]
    return any(schema.keys() & NEGATIVE for schema in schemas) and any(
        contested(schema, draft) for schema in schemas
    )


def without_contested(document: Any, draft: int) -> Any:
    """The document as those engines read it that do not assert the contested keywords."""

    def change(schema: dict[str, Any]) -> dict[str, Any]:
        left_out = contested(schema, draft)
        return {keyword: value for keyword, value in schema.items() if keyword not in left_out}

    return transformed(document, change)


def first_contested(document: Any, draft: int) -> tuple[str, str]:
    """Pointer and name of the first contested keyword of a document; empty if others hold them all."""
    for pointer, schema in located(document):
        for keyword in contested(schema, draft):
            return child(pointer, keyword), keyword
    return "", ""


def way_out(keyword: str) -> str:
    """What to write instead of a contested keyword."""
    if keyword == "dependencies":
        return "Write `dependentRequired` or `dependentSchemas`."
    return "Say it by `pattern`, or declare a newer draft."
