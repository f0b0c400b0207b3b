"""Dialects, and what validators read differently in one of them.

A keyword is *dialect-dependent* if some validators assert it and others do not, because its draft dropped it,
calls it an annotation or is older than it. `jsonschema-rs` asserts it, and so does canonicalization. If
asserting more admits less, this is safe under both readings. Under a negation, asserting more admits more;
there, the grammar may only write what is valid under both readings.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from compiler.errors import UnsupportedSchema
from compiler.frontend.keywords import (
    ASSERTIONS,
    DEFINITIONS,
    IDENTIFIERS,
    UNEVALUATED,
    children,
    inside,
    located,
    transformed,
    without,
)
from compiler.frontend.references import References
from compiler.regular.formats import FORMATS, is_known
from toolspecs.json_pointer import child
from toolspecs.schemas.bundle import REFERENCES
from toolspecs.schemas.drafts import (
    FIRST_WITH_DEPENDENT_REQUIRED,
    LAST_WITH_REF_ALONE,
    NEWEST_DRAFT,
    SchemaDraft,
    declared_draft,
    draft_named,
)

NEGATIVE = frozenset({"not", "oneOf", "if", "contains", *UNEVALUATED})
"""Keywords under which asserting more can admit more."""
_ASSERTING_CONTENT = (SchemaDraft.DRAFT_6, SchemaDraft.DRAFT_7)
"""Drafts in which some validators assert `contentEncoding` and `contentMediaType`."""
_DROPPED = frozenset({"dependencies", "additionalItems", "$recursiveRef", "$recursiveAnchor"})
"""Keywords that only older dialects assert."""
_SAME_IN_ALL = frozenset(
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


def dialect_dependent(schema: Mapping[str, Any], draft: int) -> list[str]:
    """The dialect-dependent keywords of one schema, without its subschemas.

    >>> dialect_dependent({"dependencies": {}, "type": "object"}, draft=20)
    ['dependencies']
    """
    keywords = ["dependencies"] if draft >= FIRST_WITH_DEPENDENT_REQUIRED else []
    keywords += ["contentEncoding", "contentMediaType"] if draft in _ASSERTING_CONTENT else []
    name = schema.get("format")
    if isinstance(name, str) and name in FORMATS and not is_known(name, draft):
        keywords.append("format")
    return [keyword for keyword in keywords if keyword in schema]


DialectAssertion = tuple[str, str]
"""A dialect-dependent keyword, and of `format` the name: some validators assert it, and others do not."""


def misleading(
    schemas: Collection[Mapping[str, Any]], below: Collection[Mapping[str, Any]], draft: int
) -> list[DialectAssertion]:
    """The dialect-dependent assertions that may admit more where they are made.

    `below` has those of the schemas that may stand below a keyword under which asserting more can admit more.
    `dependencies` count wherever they stand: they also evaluate keys.

    >>> misleading([{"not": {"format": "time"}, "format": "date"}], [{"format": "time"}], draft=4)
    [('format', 'time')]
    """
    if not any(schema.keys() & NEGATIVE for schema in schemas):
        return []
    found = [assertion for schema in below for assertion in _assertions(schema, draft)]
    evaluating = [assertion for schema in schemas for assertion in _assertions(schema, draft)]
    return list(dict.fromkeys([*found, *(each for each in evaluating if each[0] == "dependencies")]))


def _assertions(schema: Mapping[str, Any], draft: int) -> list[DialectAssertion]:
    keywords = dialect_dependent(schema, draft)
    return [(keyword, schema["format"] if keyword == "format" else "") for keyword in keywords]


def without_assertions(document: Any, assertions: Collection[DialectAssertion], draft: int) -> Any:
    """The document as validators read it that do not make some dialect-dependent assertions.

    It need not admit the same instances: only those are written that all readings admit. A keyword that is
    not asserted evaluates nothing either.
    """

    def change(schema: dict[str, Any]) -> dict[str, Any]:
        left_out = [keyword for keyword, name in _assertions(schema, draft) if (keyword, name) in assertions]
        return without(schema, left_out)

    return transformed(document, change) if assertions else document


def first_dialect_dependent(schemas: Iterable[tuple[str, Mapping[str, Any]]], draft: int) -> tuple[str, str]:
    """Pointer and name of the first dialect-dependent keyword of schemas; empty if they have none."""
    for pointer, schema in schemas:
        for keyword in dialect_dependent(schema, draft):
            return child(pointer, keyword), keyword
    return "", ""


def replacement_for(keyword: str) -> str:
    """The suggestion what to write instead of a dialect-dependent keyword."""
    if keyword == "dependencies":
        return "Use `dependentRequired` or `dependentSchemas`."
    return "Use `pattern` instead, or declare a newer draft."


def has_other_dialects(document: Any) -> bool:
    """Whether a subschema of a document names another dialect than the document does."""
    own = document.get("$schema") if isinstance(document, dict) else None
    return any("$schema" in schema and schema["$schema"] != own for schema in inside(document))


def without_nested_dialects(document: Any) -> Any:
    """The document without `$schema` in subschemas, where removing it changes nothing or asserts more.

    The specification gives a `$schema` in a subschema without `$id` no force, but validators obey it. What is
    admitted without it is admitted with it:

    - Where it names the dialect of the document it says nothing.
    - An older dialect asserts no more than the document's, since none of the keywords that were dropped are
      used. More assertions admit less, as no keyword is used under which they admit more. `unevaluated*` is
      one of these: in a newer dialect a subschema may also evaluate more. Keywords of definitions that
      nothing refers to are not used: no value is looked at by them.
    - A subschema may use only keywords that mean the same in every dialect. Which items and properties these
      evaluate is the same too: validators collect that by keyword, whatever dialect a subschema names.
    - The whole document may use only these, formats that all of its dialects define, and references that
      stand alone and lead into it: then it does not matter which dialect their targets are read in.
    """
    if not isinstance(document, dict) or not any(map(_names_dialect, _subschemas(document))):
        return document
    outer = declared_draft(document)
    asserts_more = _newer_asserts_more(document)
    is_same_as_whole = _is_same_as_whole(document)

    def change(schema: dict[str, Any]) -> dict[str, Any]:
        inner = draft_named(schema.get("$schema"))
        if inner is None or outer is None or not _names_dialect(schema):
            return schema
        is_same = inner == outer or is_same_as_whole or _is_same_in_all(schema)
        if not is_same and not (inner < outer and asserts_more):
            return schema
        return without(schema, {"$schema"})

    changed = transformed(document, change)
    return {**changed, "$schema": document["$schema"]} if "$schema" in document else changed


def check_nested_dialects(document: Any) -> None:
    """Refuse a `$schema` that `without_nested_dialects` has left beside `$ref`, up to draft 7.

    Canonicalization drops what stands beside `$ref` there, this too, and refuses it elsewhere. Validators
    obey it: in a newer dialect, what stands beside `$ref` has force.

    Raises:
        UnsupportedSchema: there is one.
    """
    outer = declared_draft(document)
    if outer is None or outer > LAST_WITH_REF_ALONE:
        return
    for pointer, schema in islice(located(document), 1, None):
        if "$ref" in schema and draft_named(schema.get("$schema")) not in (None, outer):
            reason = "names another dialect beside $ref, which has no force there, but validators obey it"
            suggestion = "Leave it out, or write the whole schema in that dialect."
            raise UnsupportedSchema(child(pointer, "$schema"), "$schema", reason, suggestion)


def _is_same_in_all(schema: dict[str, Any]) -> bool:
    """Whether a schema, subschemas included, admits the same values in every dialect."""
    differing = ASSERTIONS - _SAME_IN_ALL
    return all(
        not part.keys() & differing and not isinstance(part.get("items"), list) for part in inside(schema)
    )


def _is_same_as_whole(document: dict[str, Any]) -> bool:
    """Whether a document admits the same values whichever of its dialects any part of it is read in."""
    differing = ASSERTIONS - _SAME_IN_ALL - {"format", "$ref"}
    drafts = {draft_named(schema["$schema"]) for schema in inside(document) if "$schema" in schema}
    drafts |= set() if "$schema" in document else {NEWEST_DRAFT}
    known = [draft for draft in drafts if draft is not None]
    return len(known) == len(drafts) and all(
        not schema.keys() & {*differing, *IDENTIFIERS}
        and not isinstance(schema.get("items"), list)
        and all(_means_same(schema.get("format"), draft) for draft in known)
        and ("$ref" not in schema or _is_plain_reference(schema))
        for schema in inside(document)
    )


def _means_same(name: Any, draft: int) -> bool:
    """Whether a format is defined in a draft, or unknown to all validators; None stands for no format."""
    return name is None or (isinstance(name, str) and (name not in FORMATS or is_known(name, draft)))


def _is_plain_reference(schema: dict[str, Any]) -> bool:
    """Whether a schema only asserts a reference by pointer into its own document."""
    uri = schema["$ref"]
    return isinstance(uri, str) and uri.startswith("#/") and schema.keys() & ASSERTIONS == {"$ref"}


def _newer_asserts_more(document: dict[str, Any]) -> bool:
    """Whether a newer dialect asserts at least as much of this document as an older one."""
    used = {keyword for schema in _applied(document) for keyword in schema}
    has_base = any(isinstance(schema.get("id"), str) for schema in _subschemas(document))
    return not has_base and not used & (_DROPPED | NEGATIVE)


def _applied(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The schemas of a document that it applies to some value; all if a reference may lead elsewhere."""
    references = References(document, {})
    applied: dict[str, dict[str, Any]] = {}
    pending = [""]
    while pending:
        pointer = pending.pop()
        schema = references.at(pointer)
        if pointer in applied or not isinstance(schema, dict):
            continue
        applied[pointer] = schema
        applicators = without(schema, DEFINITIONS)
        pending += [at for at, _ in children(pointer, applicators)]
        for keyword in (name for name in REFERENCES if name in schema):
            uri = schema[keyword]
            target = references.target(pointer, uri) if keyword == "$ref" and isinstance(uri, str) else None
            if target is None:
                return inside(document)
            pending.append(target)
    return iter(applied.values())


def _subschemas(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return islice(inside(document), 1, None)


def _names_dialect(schema: dict[str, Any]) -> bool:
    return "$schema" in schema and not schema.keys() & IDENTIFIERS
