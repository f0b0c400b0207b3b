"""The front end: a document becomes its canonical form, or a refusal that names the culprit."""

import json
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import jsonschema_rs
from jsonschema_rs import CanonicalSchema, Registry, canonical

from compiler.errors import UnsupportedSchema
from compiler.frontend.depth import check_depth, find_cycle, longest_chain
from compiler.frontend.diagnostics import invalid_pattern, invalid_schema, unresolved, unsatisfiable
from compiler.frontend.dialect_dependent import (
    DIALECTS,
    can_mislead,
    first_dialect_dependent,
    suggestion_for,
    without_dialect_dependent,
    without_nested_dialects,
)
from compiler.frontend.keywords import transformed
from compiler.frontend.literals import check_literals
from compiler.regular.formats import FORMATS
from toolspecs.bundle import Bundler, objects_in

MAX_CHAIN = 1_000
"""Schemas that lead to one another in a row; twice as many are too many for a native stack of 8 MB."""

NO_DOCUMENTS: Mapping[str, Any] = MappingProxyType({})
_SHORTEN = "Refer to the last schema of the chain directly, or write it out."


def canonical_form(
    document: Any, *, documents: Mapping[str, Any] = NO_DOCUMENTS, only_objects: bool = False
) -> CanonicalSchema:
    """The canonical form of a JSON Schema, formats asserted; the dialect is what `$schema` says.

    Nothing is ever fetched: a reference out of the document leads to one of `documents`, by URI, or is
    refused.

    Raises:
        UnsupportedSchema: the document is no schema, cannot be resolved, or admits nothing.
    """
    _check(document, documents)
    check_literals((document, *documents.values()))
    registry = registry_of(document, documents)
    schema = _agreed(_canonical(document, documents, registry), document, documents)
    if (cycle := find_cycle(document, documents)) is not None:
        reason = "refers back to itself for the same value, so that nothing says what it admits"
        raise UnsupportedSchema(cycle, "$ref", reason, "Refer to it from a property or an item.")
    if only_objects:
        schema = _only_objects(schema)
    if schema.satisfiability() == canonical.Satisfiability.NO:
        raise unsatisfiable(document, registry)
    return schema


def _only_objects(schema: CanonicalSchema) -> CanonicalSchema:
    objects = jsonschema_rs.canonicalize({"type": "object"}, draft=schema.draft, validate_formats=True)
    try:
        return schema.intersect(objects)
    except canonical.CanonicalizationError as error:
        # Of objects alone there is nothing to leave out; what is raw the lowering refuses, and tells where.
        if isinstance(schema.view(), canonical.ObjectView | canonical.RawView):
            return schema
        reason = f"its combination of keywords cannot be resolved: {error}"
        raise UnsupportedSchema("", "", reason, "State the parameters as one object.") from None


def _check(document: Any, documents: Mapping[str, Any]) -> None:
    """Refuse what canonicalization would not survive, or take for something else than validators do."""
    contents = (document, *documents.values())
    for content in contents:
        check_depth(content)
        _check_text(content)
    _check_dialects(document, documents)
    num_objects = sum(1 for content in contents for _ in objects_in(content))
    if num_objects > MAX_CHAIN and longest_chain(document, documents) > MAX_CHAIN:
        raise UnsupportedSchema(
            "", "$ref", f"leads too deep: through over {MAX_CHAIN} schemas in a row", _SHORTEN
        )


def _canonical(document: Any, documents: Mapping[str, Any], registry: Registry | None) -> CanonicalSchema:
    """The canonical form of the document, or of a plainer one that says the same."""
    canonicalize = partial(jsonschema_rs.canonicalize, validate_formats=True, offline=True, registry=registry)
    try:
        plain = without_nested_dialects(document)
        schema = canonicalize(plain)
        if schema.kind != canonical.CanonicalKind.RAW:
            return schema
        return canonicalize(with_values_described(plain, schema.draft))
    except jsonschema_rs.ValidationError as error:
        raise invalid_schema(document, error) from None
    except canonical.InvalidPattern as error:
        raise invalid_pattern(document, documents, error) from None
    except (jsonschema_rs.ReferencingError, canonical.CanonicalizationError) as error:
        raise unresolved(document, documents, str(error)) from None


def _agreed(schema: CanonicalSchema, document: Any, documents: Mapping[str, Any]) -> CanonicalSchema:
    """What of a schema engines admit that read its dialect_dependent keywords otherwise."""
    draft = schema.draft
    if not can_mislead((document, *documents.values()), draft):
        return schema
    plain = without_dialect_dependent(document, draft)
    others = {uri: without_dialect_dependent(content, draft) for uri, content in documents.items()}
    try:
        return schema.intersect(_canonical(plain, others, registry_of(plain, others)))
    except canonical.CanonicalizationError:
        pointer, keyword = first_dialect_dependent(document, draft)
        reason = "has no force for some engines, and the schema combines it in ways in which that matters"
        raise UnsupportedSchema(pointer, keyword, reason, suggestion_for(keyword)) from None


def registry_of(document: Any, documents: Mapping[str, Any]) -> Registry | None:
    """The documents that a schema may refer to, in the schema's dialect where they name none."""
    if not documents:
        return None
    newest = DIALECTS[-1]
    dialect = document.get("$schema", newest) if isinstance(document, dict) else newest
    try:
        draft = jsonschema_rs.canonicalize({"$schema": dialect}, offline=True).draft
        return Registry(list(documents.items()), draft=draft)
    except (ValueError, TypeError, jsonschema_rs.ReferencingError) as error:
        raise unresolved(document, documents, str(error)) from None


def _check_dialects(document: Any, documents: Mapping[str, Any]) -> None:
    """Refuse documents of other dialects than the schema's: engines read what refers to them differently."""
    if not documents:
        return
    own = _dialect(document.get("$schema", DIALECTS[-1]) if isinstance(document, dict) else DIALECTS[-1])
    reached, _ = Bundler(documents).bundle(document)
    for uri, part in reached.items():
        for schema in objects_in(part):
            other = schema.get("$schema")
            if isinstance(other, str) and _dialect(other) != own:
                reason = f"is written in another dialect ({other}) than the schema that refers to it ({own})"
                raise UnsupportedSchema(f"{uri}#/$schema", "$schema", reason, "Write both in one dialect.")


def _dialect(uri: Any) -> Any:
    return uri.removesuffix("#") if isinstance(uri, str) else uri


def _check_text(document: Any) -> None:
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UnsupportedSchema("", "", "has a lone surrogate in a text", "Remove it.") from None
    except ValueError:  # of more digits than Python writes
        raise UnsupportedSchema("", "", "has a number of too many digits", "Shorten it.") from None


_PREFIX_ITEMS = 20
_REF_ALONE = 7
"""The last draft in which nothing stands beside `$ref`."""


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


Bundled = tuple[Mapping[str, Any], Mapping[str, Any]]
"""A schema, and the documents by URI that it leads to."""

_NEWEST = DIALECTS[-1]
_OLDEST = 4
"""The draft in which 1.0 is no integer: what is written in it cannot be compared with others."""


def covers(outer: Bundled, inner: Bundled) -> bool:
    """Whether `outer` is proved to admit all objects that `inner` admits, formats asserted as masks do."""
    try:
        return bool(_objects(*outer).covers(_objects(*inner)) == canonical.Containment.YES)
    except canonical.IncompatibleOperands:  # recursive ones, of different schemas
        return False


def _objects(schema: Mapping[str, Any], documents: Mapping[str, Any]) -> CanonicalSchema:
    """The canonical form, in the newest dialect where it can be, of what a schema admits of objects."""
    registry = registry_of(schema, documents)
    form = _forceful(dict(schema), registry)
    # Two documents of one URI, or two dialects, cannot be compared; written into the schemas they can.
    if documents or form.draft != _forceful({"$schema": _NEWEST}).draft:
        form = _forceful(_renewed(form.to_json_schema(), form.draft))
    objects = jsonschema_rs.canonicalize({"type": "object"}, draft=form.draft, validate_formats=True)
    try:
        return form.intersect(objects)
    except canonical.CanonicalizationError:
        return form


def _forceful(document: Any, registry: jsonschema_rs.Registry | None = None) -> CanonicalSchema:
    """The canonical form, formats asserted, but those without force."""
    forceful = transformed(document, _without_unknown_format)
    return jsonschema_rs.canonicalize(forceful, offline=True, registry=registry, validate_formats=True)


def _without_unknown_format(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != "format" or value in FORMATS}


def _renewed(written: Any, draft: int) -> Any:
    """A canonical form, as it is written in its draft, in the newest dialect."""
    if draft == _OLDEST or not isinstance(written, dict):
        return written
    return transformed(written, _with_prefix_items) | {"$schema": _NEWEST}


def _with_prefix_items(schema: dict[str, Any]) -> dict[str, Any]:
    """Items by their place, as the newest dialect says it."""
    if not isinstance(schema.get("items"), list):
        return schema
    kept = {key: value for key, value in schema.items() if key not in {"items", "additionalItems"}}
    rest = {"items": schema["additionalItems"]} if "additionalItems" in schema else {}
    return kept | {"prefixItems": schema["items"]} | rest
