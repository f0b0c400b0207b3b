"""Whether one schema admits every object that another does: `jsonschema_rs` compares canonical forms."""

from collections.abc import Mapping
from typing import Any

import jsonschema_rs
from jsonschema_rs import CanonicalSchema, Registry, canonical

from compiler.frontend.canonical_form import draft_of, in_cases, registry_of
from compiler.frontend.dependent_keys import DependentKeys, take_dependent_keys
from compiler.frontend.keywords import transformed, without
from compiler.frontend.symbolic_forms import form_of
from compiler.frontend.undeclared_dialects import in_declared_dialect
from compiler.regular.formats import FORMATS
from toolspecs.schemas.drafts import DEFAULT_DRAFT, SchemaDraft

_MAX_MULTIPLIED = 8
"""The most keys with dependencies that canonicalization may multiply out."""
_INCOMPARABLE = (canonical.IncompatibleOperands, canonical.UnsupportedOperand, jsonschema_rs.ValidationError)
"""Two different recursive schemas, and parts that canonicalization leaves as they are.

In such a part, keywords of an older dialect may be of the wrong type in the newest one.
"""

Bundled = tuple[Mapping[str, Any], Mapping[str, Any]]
"""A schema, and the documents by URI that it refers to."""


def covers(outer: Bundled, inner: Bundled) -> bool:
    """Whether `outer` provably admits all objects that `inner` admits; formats are asserted, as in masks.

    >>> covers(({"required": ["a"]}, {}), ({"required": ["a", "b"]}, {}))
    True
    """
    outer, inner = _in_declared_dialect(*outer), _in_declared_dialect(*inner)
    outer_rest, outer_keys = _without_dependent_keys(*outer)
    inner_rest, inner_keys = _without_dependent_keys(*inner)
    if inner_keys.and_of(outer_keys) == inner_keys and _covers(outer_rest, inner_rest):
        return True
    has_many = max(outer_keys.num_needing, inner_keys.num_needing) > _MAX_MULTIPLIED
    return not has_many and _covers(outer, inner)


def _in_declared_dialect(schema: Mapping[str, Any], documents: Mapping[str, Any]) -> Bundled:
    return in_declared_dialect(dict(schema), documents), documents


def _without_dependent_keys(
    schema: Mapping[str, Any], documents: Mapping[str, Any]
) -> tuple[Bundled, DependentKeys]:
    rest, dependent_keys = take_dependent_keys(schema, documents, draft_of(schema))
    return (rest, documents), dependent_keys


def _covers(outer: Bundled, inner: Bundled) -> bool:
    try:
        return bool(_comparable(*outer).covers(_comparable(*inner)) == canonical.Containment.YES)
    except _INCOMPARABLE:
        return False


def _comparable(schema: Mapping[str, Any], documents: Mapping[str, Any]) -> CanonicalSchema:
    """The canonical form of the objects that a schema admits, in the newest dialect where possible."""
    form = _with_known_formats(schema, registry_of(schema, documents))
    # Forms of two dialects, or with two documents of one URI, can only be compared when written out.
    if documents or form.draft != _with_known_formats({"$schema": DEFAULT_DRAFT}).draft:
        form = _with_known_formats(_in_newest_dialect(form.to_json_schema(), form.draft))
    try:
        return form.intersect(form_of({"type": "object"}, form.draft))
    except canonical.CanonicalizationError:
        return form


def _with_known_formats(document: Any, registry: Registry | None = None) -> CanonicalSchema:
    """The canonical form, asserting the formats that masks assert."""
    known = transformed(document, _without_unknown_format)
    return jsonschema_rs.canonicalize(
        in_cases(known, known, {}), offline=True, registry=registry, validate_formats=True
    )


def _without_unknown_format(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != "format" or value in FORMATS}


def _in_newest_dialect(written: Any, draft: int) -> Any:
    """A canonical form, written as a schema of `draft`, in the newest dialect."""
    if draft == SchemaDraft.DRAFT_4 or not isinstance(written, dict):
        return written
    return transformed(written, _with_prefix_items) | {"$schema": DEFAULT_DRAFT}


def _with_prefix_items(schema: dict[str, Any]) -> dict[str, Any]:
    """A tuple of items as the newest dialect writes it."""
    if not isinstance(schema.get("items"), list):
        return schema
    others = without(schema, {"items", "additionalItems"})
    rest = {"items": schema["additionalItems"]} if "additionalItems" in schema else {}
    return others | {"prefixItems": schema["items"]} | rest
