"""The last steps of the paths to the values that schemas apply to, which tell what a `format` is asked about.

The path to a value in an instance ends with the key of a member, with an item, or with a key itself. A format
below `properties: {"due": ...}` is asked about members of that key alone, never about a text that is listed
for another key. Where a reference leads to a schema, nothing is known of the paths to its values.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from compiler.frontend.dialect_dependent import NEGATIVE
from compiler.frontend.keywords import (
    IDENTIFIERS,
    IN_PLACE_APPLICATORS,
    document_pointer,
    held_schemas,
    inside,
    listed_values,
    references_of,
    resolve,
)
from toolspecs.json_pointer import child
from toolspecs.schemas.bundle import REFERENCES

LastStep = tuple[str, str] | None
"""A keyword and, after `properties`, the key; None if the step is not known. The whole instance has none."""
KEY_STEP = "propertyNames", ""
_ITEM_STEP = "items", ""
_NO_STEP = "", ""
_OF_ITEMS = {"items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"}


class AppliedSchema(NamedTuple):
    """A schema with its pointer, and the last step to the values that it applies to.

    It `is_negative` if it stands below a keyword under which asserting more can admit more.
    """

    pointer: str
    schema: Mapping[str, Any]
    last_step: LastStep
    is_negative: bool


def applied_schemas(document: Any, documents: Mapping[str, Any]) -> list[AppliedSchema]:
    """The schemas of a document and of the `documents` by URI that it refers to; boolean ones are left out.

    >>> schema = {"properties": {"a": {"not": {"format": "date"}}}}
    >>> [(applied.pointer, applied.last_step) for applied in applied_schemas(schema, {})]
    [('', ('', '')), ('/properties/a', ('properties', 'a')), ('/properties/a/not', ('properties', 'a'))]
    """
    is_known = not documents and _refers_by_pointers_alone(document)
    uris = [uri for schema in inside(document) for _, uri in references_of(schema)] if is_known else []
    targets = {id(resolve(document, unquote(uri.removeprefix("#")))) for uri in uris}
    found = []
    stack: list[tuple[str, Any, LastStep, bool]] = [("", document, _NO_STEP, False)]
    stack += [(document_pointer(uri), content, None, False) for uri, content in documents.items()]
    while stack:
        pointer, schema, last_step, is_negative = stack.pop()
        if not isinstance(schema, dict):
            continue
        if not is_known or id(schema) in targets:
            last_step = None
        found.append(AppliedSchema(pointer, schema, last_step, is_negative))
        for path, inner in reversed(list(held_schemas(schema))):
            keyword, *keys = map(str, path)
            step = _step_below(keyword, "".join(keys), last_step)
            stack.append((child(pointer, *path), inner, step, is_negative or keyword in NEGATIVE))
    return found


def below_negations(schemas: Collection[AppliedSchema]) -> Collection[AppliedSchema]:
    """Those that may stand below a negation: all of them, if one that does refers to others."""
    below = [each for each in schemas if each.is_negative]
    return schemas if any(each.schema.keys() & REFERENCES for each in below) else below


def listed_strings(applied: AppliedSchema) -> Iterator[tuple[str, str, LastStep]]:
    """Every string in `enum` and `const` of a schema, keys included: the keyword, the string, its last step.

    >>> list(listed_strings(AppliedSchema("", {"enum": ["a", ["b"]], "const": {"c": 1}}, None, False)))
    [('enum', 'a', None), ('enum', 'b', ('items', '')), ('const', 'c', ('propertyNames', ''))]
    """
    listed = list(listed_values(applied.schema))
    stack = [(keyword, value, applied.last_step) for keyword, value in reversed(listed)]
    while stack:
        match stack.pop():
            case keyword, str() as text, step:
                yield keyword, text, step
            case keyword, list() as items, _:
                stack += [(keyword, item, _ITEM_STEP) for item in items]
            case keyword, dict() as members, _:
                yield from ((keyword, key, KEY_STEP) for key in members)
                stack += [(keyword, member, ("properties", key)) for key, member in members.items()]


def _step_below(keyword: str, key: str, around: LastStep) -> LastStep:
    """The last step to the values of a subschema under a keyword; `key` is its name, or its index."""
    if keyword in IN_PLACE_APPLICATORS:
        return around
    if keyword == "properties":
        return keyword, key
    if keyword in _OF_ITEMS:
        return _ITEM_STEP
    return KEY_STEP if keyword == "propertyNames" else None


def _refers_by_pointers_alone(document: Any) -> bool:
    """Whether all references of a document are pointers into it, and relative to its root."""
    schemas = list(inside(document))
    return not any(schema.keys() & IDENTIFIERS for schema in schemas[1:]) and all(
        keyword == "$ref" and (uri == "#" or uri.startswith("#/"))
        for schema in schemas
        for keyword, uri in references_of(schema)
    )
