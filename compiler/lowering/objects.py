"""Lowering of objects: which keys, with which values; declared ones in order, then undeclared ones."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import jsonschema_rs
from jsonschema_rs import CanonicalSchema

from compiler.grammar.grammar import Expr, concat
from compiler.guard.planner import Key
from compiler.lowering.cardinality import finite_names
from compiler.lowering.members import Member, Shape
from compiler.lowering.undeclared import lower_undeclared
from compiler.report import Verdict

_DECLARING = ("properties", "required", "dependentRequired", "dependentSchemas", "dependencies")
"""What names keys, in the order in which it is blamed for how they are written."""

if TYPE_CHECKING:
    from compiler.frontend.outline import Site
    from compiler.lowering.lowering import Lowering
    from compiler.lowering.views import ObjectConstraint


def lower_object(lowering: Lowering, constraint: ObjectConstraint, site: Site) -> Expr | None:
    """The JSON texts of the objects admitted at a place; None if there is none.

    Raises:
        UnsupportedSchema: a constraint needs more than a context-free grammar of bounded size.
    """
    keys, is_open = declared_keys(lowering, constraint, site)
    members = _members(lowering, constraint, site, keys)
    if members is None:
        return None
    for witness in constraint.witnesses:
        member = lower_undeclared(lowering, constraint, site, keys, witness)
        if member is None:
            return None
        members.append(Member(member.text, is_required=True))
    extra = lower_undeclared(lowering, constraint, site, keys) if is_open else None
    _note(lowering, site, num_keys=len(members), is_open=extra is not None)
    if extra is not None:  # a witness takes one of the undeclared keys
        extra = replace(extra, num_keys=extra.num_keys - len(constraint.witnesses))
    return Shape(lowering, constraint, site, members, extra).lower()


def declared_keys(lowering: Lowering, constraint: ObjectConstraint, site: Site) -> tuple[list[str], bool]:
    """The declared keys in order of generation, and whether undeclared ones may follow."""
    declared = lowering.outline.declared(site)
    known = {*constraint.properties, *constraint.required}
    names = constraint.property_names
    finite = None if names is None else finite_names(names)
    if finite is not None:
        known = finite
    is_open = finite is None and not (lowering.is_closed and not lowering.outline.is_map(site))
    order = [key for key in declared if finite is None or key in finite]
    order += [key for key in lowering.outline.mentioned(site) if key in known and key not in declared]
    order += _in_order_of_patterns(lowering, known.difference(order), site)
    if names is not None and finite is None:
        order = [key for key in order if lowering.admits(names, key)]
        if not set(constraint.required) <= set(order):
            raise lowering.reporter.refusal(
                site, "propertyNames", "a required key is not known to be admitted"
            )
    return order, is_open


def _in_order_of_patterns(lowering: Lowering, keys: set[str], site: Site) -> list[str]:
    """Keys that only patterns name, in the order of the patterns and of the words in each."""
    if len(keys) <= 1:
        return list(keys)
    patterns = [
        p for _, schema in lowering.outline.schemas(site) for p in schema.get("patternProperties") or ()
    ]
    validators = [jsonschema_rs.validator_for({"pattern": pattern}) for pattern in patterns]

    def rank(key: str) -> tuple[int, int, str]:
        for index, (pattern, validator) in enumerate(zip(patterns, validators, strict=True)):
            if validator.is_valid(key):
                return index, pattern.find(key), key
        return len(patterns), 0, key

    return sorted(keys, key=rank)


def _members(
    lowering: Lowering, constraint: ObjectConstraint, site: Site, keys: list[str]
) -> list[Member] | None:
    """The members of the declared keys; None if a required one admits no value."""
    members = []
    for key in keys:
        schema = value_schema(constraint, key)
        place = lowering.outline.property(site, key)
        step = Key(key)
        value = lowering.anything.value(step) if schema is None else lowering.value(schema, place, step=step)
        is_required = key in constraint.required
        if value is not None:
            text = concat(lowering.style.text(key), lowering.style.colon, value)
            members.append(Member(text, is_required))
        elif is_required:
            return None
    if not set(constraint.required) <= set(keys):
        return None
    return members


def value_schema(constraint: ObjectConstraint, key: str) -> CanonicalSchema | None:
    """What the value under `key` must satisfy: canonical properties hold their patterns already."""
    if key in constraint.properties:
        return constraint.properties[key]
    matching = [
        schema
        for pattern, schema in constraint.pattern_properties.items()
        if jsonschema_rs.is_valid({"pattern": pattern}, key)
    ]
    return reduce(CanonicalSchema.intersect, matching) if matching else constraint.additional_properties


def _note(lowering: Lowering, site: Site, *, num_keys: int, is_open: bool) -> None:
    notes = []
    if num_keys > 1:
        notes.append("keys in their declared order")
    if lowering.is_closed and not lowering.outline.is_map(site):
        notes.append("undeclared keys never")
    elif is_open and num_keys:
        notes.append("undeclared keys after the declared ones")
    for note in notes:
        lowering.reporter.note_first(site, _DECLARING, Verdict.NARROWED, note)
