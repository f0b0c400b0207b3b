"""The keywords of JSON Schema: what they do, which drafts ignore them, which hold schemas; pointers to these.

The specification's words: an *assertion* can fail a value, an *annotation* cannot, an *applicator* applies
subschemas, an in-place applicator to the same value as the schema that holds it.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from typing import Any

from compiler.report import IGNORED
from toolspecs.json_pointer import child, is_index, pointer_keys
from toolspecs.schemas.bundle import REFERENCES
from toolspecs.schemas.drafts import (
    FIRST_WITH,
    FIRST_WITH_PREFIX_ITEMS,
    LAST_WITH,
    LAST_WITH_REF_ALONE,
    NEWEST_DRAFT,
    SchemaDraft,
)
from toolspecs.schemas.metaschemas import SCHEMA_LISTS, SCHEMAS_BY_NAME, SINGLE_SCHEMAS

IDENTIFIERS = ("$id", "id")
UNEVALUATED = ("unevaluatedItems", "unevaluatedProperties")
IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
"""The in-place applicators that hold a list of schemas."""
IN_PLACE = ("if", "then", "else")
"""Those that hold one schema."""
IN_PLACE_MAPS = ("dependentSchemas", "dependencies")
"""Those that hold schemas by name."""
IN_PLACE_APPLICATORS = frozenset({*IN_PLACE_LISTS, *IN_PLACE, *IN_PLACE_MAPS, "not"})
"""All keywords whose subschemas are applied to the same value."""
SINGLE = SINGLE_SCHEMAS
"""All keywords that hold one schema."""
LISTS = SCHEMA_LISTS
"""Those that hold a list of schemas."""
DEFINITIONS = ("$defs", "definitions")
MAPS = SCHEMAS_BY_NAME
"""Those that hold schemas by name, definitions included."""

ASSERTIONS = frozenset(
    {
        *SINGLE,
        *LISTS,
        *MAPS,
        *REFERENCES,
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
        "maxContains",
        "minContains",
        "maxProperties",
        "minProperties",
        "required",
        "dependentRequired",
    }
).difference(DEFINITIONS)
"""Keywords that can fail a value, applicators and references included."""
DESCRIPTIONS = frozenset(
    {"$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}
)
"""Annotations that only describe a schema to readers."""
STRUCTURE = frozenset(
    {
        "$schema",
        "$id",
        "id",
        "$anchor",
        "$dynamicAnchor",
        "$recursiveAnchor",
        "$vocabulary",
        *DEFINITIONS,
        *DESCRIPTIONS,
    }
)
"""Keywords that structure or describe a document; a report leaves them out."""
NUMBERS = ("integer", "number")
TYPES = ("string", *NUMBERS, "boolean", "null", "array", "object")
_TYPES_OF_VALUES: Mapping[type, frozenset[str]] = {
    str: frozenset({"string"}),
    bool: frozenset({"boolean"}),
    type(None): frozenset({"null"}),
    list: frozenset({"array"}),
    dict: frozenset({"object"}),
}
"""The JSON types of Python's values; all other values are numbers."""
ANNOTATIONS = frozenset({"contentEncoding", "contentMediaType", "contentSchema"})
_DRAFT_NAMES = {SchemaDraft.DRAFT_2019_09: "2019-09", SchemaDraft.DRAFT_2020_12: "2020-12"}


def children(pointer: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The direct subschemas of the schema at `pointer`, with their pointers."""
    return ((child(pointer, *path), inner) for path, inner in held_schemas(schema))


def held_schemas(schema: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """The direct subschemas of a schema, each after its path."""
    for keyword, value in schema.items():
        if keyword in MAPS and isinstance(value, dict):
            yield from (((keyword, key), inner) for key, inner in value.items())
        elif keyword in LISTS and isinstance(value, list):
            yield from (((keyword, index), inner) for index, inner in enumerate(value))
        elif keyword in SINGLE:
            yield (keyword,), value


def references_of(schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The references of one schema: the keyword of each, and where it leads."""
    for keyword in REFERENCES:
        if isinstance(uri := schema.get(keyword), str):
            yield keyword, uri


def without(schema: Mapping[str, Any], keywords: Container[str]) -> dict[str, Any]:
    """A schema without some of its keywords."""
    return {keyword: value for keyword, value in schema.items() if keyword not in keywords}


def listed_values(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The values that one schema lists, each after its keyword: `enum` or `const`."""
    if isinstance(values := schema.get("enum"), list):
        yield from (("enum", value) for value in values)
    if "const" in schema:
        yield "const", schema["const"]


def located(document: Any, start: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """A schema at the pointer `start` and all its subschemas in document order, with their pointers.

    Boolean schemas are left out.

    >>> [pointer for pointer, _ in located({"items": {"not": {}}, "properties": {"a": {}}})]
    ['', '/items', '/items/not', '/properties/a']
    """
    stack = [(start, document)]
    while stack:
        pointer, schema = stack.pop()
        if isinstance(schema, dict):
            yield pointer, schema
            stack += reversed(list(children(pointer, schema)))


def located_in_all(document: Any, documents: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """As `located`, of a schema and then of its `documents` by URI (see `split_uri`)."""
    for uri, content in {"": document, **documents}.items():
        yield from located(content, document_pointer(uri))


def inside(document: Any) -> Iterator[dict[str, Any]]:
    """A schema and all its subschemas in document order, as `located` has them."""
    stack = [document]
    while stack:
        schema = stack.pop()
        if isinstance(schema, dict):
            yield schema
            stack += reversed([inner for _, inner in held_schemas(schema)])


def have_references(documents: Iterable[Any]) -> bool:
    """Whether any schema in some documents refers to one."""
    return any(any(references_of(schema)) for document in documents for schema in inside(document))


def transformed(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """The schema with `change` applied to itself and all its subschemas, the innermost first."""
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


def may_have_type(schema: Any, types: Collection[str]) -> bool:
    """Whether a schema may admit values of one of the JSON types, by its `type`, `const` and `enum` alone.

    >>> may_have_type({"enum": [1, None]}, ("string",)), may_have_type({"minimum": 1}, ("string",))
    (False, True)
    """
    if not isinstance(schema, dict):
        return schema is not False
    named = schema.get("type")
    if isinstance(named, str | list) and set(types).isdisjoint([named] if isinstance(named, str) else named):
        return False
    if not schema.keys() & {"const", "enum"}:
        return True
    values = schema["enum"] if isinstance(schema.get("enum"), list) else [schema.get("const")]
    return any(
        not _TYPES_OF_VALUES.get(type(value), frozenset(NUMBERS)).isdisjoint(types) for value in values
    )


def prefix_items_keyword(draft: int) -> str:
    """The keyword that lists the schemas of the first items."""
    return "prefixItems" if draft >= FIRST_WITH_PREFIX_ITEMS else "items"


MAX_POINTER = 500
"""The most characters of a pointer in a report. A report has a pointer for each keyword: 8 MB of them for a
schema of 23 kB, if they were not bounded."""


def short_pointer(pointer: str, most: int = MAX_POINTER) -> str:
    """The pointer if it has at most so many characters, else the pointer of the innermost value around it.

    >>> short_pointer("/properties/a/properties/" + 500 * "b")
    '/properties/a/properties'
    """
    return pointer if len(pointer) <= most else pointer[: most + 1].rpartition("/")[0]


def resolve(document: Any, pointer: str) -> Any:
    """The value at `pointer`, or None where there is none.

    >>> resolve({"allOf": [{"$defs": {"a/b": 1}}]}, "/allOf/0/$defs/a~1b")
    1
    """
    value = document
    for key in pointer_keys(pointer):
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and is_index(key) and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value


def split_uri(pointer: str) -> tuple[str, str]:
    """The URI of the document that a pointer leads into, and the pointer inside that document.

    Pointers into other documents than the schema are written as URI, `#` and pointer; the schema's URI is "".

    >>> split_uri("https://example.com/a#/items"), split_uri("/items")
    (('https://example.com/a', '/items'), ('', '/items'))
    """
    uri, _, inner = ("", "", pointer) if pointer[:1] in ("", "/") else pointer.partition("#")
    return uri, inner


def document_pointer(uri: str) -> str:
    """The pointer of a whole document, which is empty for the schema itself (see `split_uri`)."""
    return f"{uri}#" if uri else ""


def is_definition(fragment: str) -> bool:
    """Whether the fragment of a reference is the pointer of a definition at the root of a document."""
    root, *keys = fragment.split("/")
    return not root and len(keys) == 2 and keys[0] in DEFINITIONS


def ignored_by_draft(schema: Mapping[str, Any], draft: int) -> dict[str, str]:
    """The keywords of one schema that its draft ignores, each with a note that says why.

    >>> ignored_by_draft({"$ref": "#/a", "minLength": 3, "title": "b"}, SchemaDraft.DRAFT_7)
    {'minLength': 'ignored beside $ref up to draft 7; write both in allOf'}
    >>> ignored_by_draft({"prefixItems": []}, SchemaDraft.DRAFT_7)
    {'prefixItems': 'ignored: draft 7 does not have it; declare draft 2020-12'}
    """
    asserted = [keyword for keyword in schema if keyword in ASSERTIONS]
    if "$ref" in schema and draft <= LAST_WITH_REF_ALONE:
        note = f"{IGNORED} beside $ref up to draft 7; write both in allOf"
        return {keyword: note for keyword in asserted if keyword != "$ref"}
    notes = {}
    for keyword in asserted:
        first = FIRST_WITH.get(keyword, SchemaDraft.DRAFT_4)
        last = LAST_WITH.get(keyword, NEWEST_DRAFT)
        if not first <= draft <= last:
            having = _name_of(first if draft < first else last)
            notes[keyword] = f"{IGNORED}: draft {_name_of(draft)} does not have it; declare draft {having}"
    return notes


def _name_of(draft: int) -> str:
    return _DRAFT_NAMES.get(SchemaDraft(draft), str(int(draft)))
