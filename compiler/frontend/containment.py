"""Containment: whether one schema admits all that another does."""

from collections.abc import Mapping
from typing import Any

import jsonschema_rs
from jsonschema_rs import CanonicalSchema, canonical

from compiler.frontend.canonical_form import registry_of
from compiler.frontend.plain import DIALECTS
from compiler.frontend.subschemas import transformed
from compiler.regular.formats import FORMATS

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
    form = _canonical(dict(schema), registry)
    # Two documents of one URI, or two dialects, cannot be compared; written into the schemas they can.
    if documents or form.draft != _canonical({"$schema": _NEWEST}).draft:
        form = _canonical(_renewed(form.to_json_schema(), form.draft))
    objects = jsonschema_rs.canonicalize({"type": "object"}, draft=form.draft, validate_formats=True)
    try:
        return form.intersect(objects)
    except canonical.CanonicalizationError:
        return form


def _canonical(document: Any, registry: jsonschema_rs.Registry | None = None) -> CanonicalSchema:
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
