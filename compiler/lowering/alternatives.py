"""Alternatives: from which branch of a union in the source a canonical object came.

Each branch of a union declares its own order of keys. A canonical object forgets its branch, but it demands
whatever that branch demands.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from jsonschema_rs import CanonicalSchema, canonical

from compiler.lowering.views import ObjectConstraint


def may_stem_from(constraint: ObjectConstraint) -> Callable[[Mapping[str, Any]], bool]:
    """Whether an object of the constraint may stem from a schema of the source: it demands no less."""

    def fits(schema: Mapping[str, Any]) -> bool:
        required, properties = schema.get("required"), schema.get("properties")
        if isinstance(required, list) and not set(filter(_is_text, required)) <= set(constraint.required):
            return False
        if schema.get("additionalProperties") is False and not _is_closed(constraint):
            return False
        declared = properties if isinstance(properties, dict) else {}
        return all(_demands(constraint.properties.get(key), schema) for key, schema in declared.items())

    return fits


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_closed(constraint: ObjectConstraint) -> bool:
    return constraint.property_names is not None or constraint.additional_properties is not None


def _demands(value: CanonicalSchema | None, source: Any) -> bool:
    """Whether a value is one of those that the source lists, if it lists any."""
    if not isinstance(source, dict) or not source.keys() & {"const", "enum"}:
        return True
    listed = source["enum"] if isinstance(source.get("enum"), list) else [source.get("const")]
    match value.view() if value is not None else None:
        case canonical.ConstView(only):
            values = [only]
        case canonical.EnumView(values):
            pass
        case canonical.FalseView():
            return True
        case canonical.MultiTypeView(types) if set(types) <= {"null", "boolean"}:
            return True
        case _:
            return False
    return set(map(_spelled, values)) <= set(map(_spelled, listed))


def _spelled(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
