"""Containment: whether one schema admits all that another does."""

from collections.abc import Mapping
from typing import Any

import jsonschema_rs
from jsonschema_rs import CanonicalSchema, canonical

from compiler.front import registry_of

Bundled = tuple[Mapping[str, Any], Mapping[str, Any]]
"""A schema, and the documents by URI that it leads to."""


def covers(outer: Bundled, inner: Bundled) -> bool:
    """Whether `outer` is proved to admit all that `inner` admits; formats are annotations here."""
    try:
        return bool(_canonical(*outer).covers(_canonical(*inner)) == canonical.Containment.YES)
    except canonical.IncompatibleOperands:  # recursive ones, of different schemas
        return False


def _canonical(schema: Mapping[str, Any], documents: Mapping[str, Any]) -> CanonicalSchema:
    registry = registry_of(schema, documents)
    form = jsonschema_rs.canonicalize(dict(schema), offline=True, registry=registry)
    if not documents:
        return form
    # Two documents of one URI cannot be compared; written into the schemas they can.
    written: Any = form.to_json_schema()
    return jsonschema_rs.canonicalize(written, offline=True)
