"""Lowering of objects: which keys, with which values; declared ones in order, then undeclared ones."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import jsonschema_rs
from jsonschema_rs import CanonicalSchema

from compiler.cardinality import finite_names
from compiler.errors import UnsupportedSchema
from compiler.grammar import Expr, Rule, choice, sequence
from compiler.guard.planner import Key, Rest
from compiler.keys import lower_key
from compiler.members import Member, Shape, Undeclared
from compiler.regular.overlaps import TooManyOverlaps, overlaps
from compiler.report import Verdict

if TYPE_CHECKING:
    from compiler.lowering import Lowering
    from compiler.outline import Site
    from compiler.views import ObjectConstraint, Witness

MAX_CLASSES = 40


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
        member = _undeclared(lowering, constraint, site, keys, witness)
        if member is None:
            return None
        members.append(Member(member.text, is_required=True))
    extra = _undeclared(lowering, constraint, site, keys) if is_open else None
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
    order += sorted(known.difference(order))
    if names is not None and finite is None:
        order = [key for key in order if lowering.admits(names, key)]
        if not set(constraint.required) <= set(order):
            raise lowering.reporter.refusal(
                site, "propertyNames", "a required key is not known to be admitted"
            )
    return order, is_open


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
            text = sequence(lowering.style.text(key), lowering.style.colon, value)
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


def _undeclared(  # noqa: C901 - one loop with three ways out
    lowering: Lowering,
    constraint: ObjectConstraint,
    site: Site,
    keys: list[str],
    witness: Witness | None = None,
) -> Undeclared | None:
    """A member under an undeclared key: per set of patterns it matches, the schemas of these together."""
    patterns = constraint.pattern_properties
    classes = _classes(lowering, tuple(patterns), site)
    options: list[Expr] = []
    refusals: list[UnsupportedSchema] = []
    num_keys = 0.0
    for matched in classes:
        schemas = [patterns[pattern] for pattern in matched]
        if not schemas and constraint.additional_properties is not None:
            schemas = [constraint.additional_properties]
        key_schema = _key_schema(lowering, constraint, keys, matched)
        if witness is not None:
            key_schema = key_schema.intersect(witness.key)
            schemas += [witness.value] if witness.value is not None else []
        place = lowering.outline.undeclared(site, matched)
        value = (
            lowering.value(reduce(CanonicalSchema.intersect, schemas), place, step=Rest())
            if schemas
            else lowering.anything.value(Rest())
        )
        if value is None:
            continue
        try:
            key = lower_key(lowering, key_schema, site)
        except UnsupportedSchema as refusal:
            refusals.append(refusal)
            continue
        if key is not None:
            options.append(sequence(key, lowering.style.colon, value))
            num_keys = max(num_keys, lowering.cardinality.at_least(key_schema))
    if refusals and not options:
        raise refusals[0]
    for left_out in refusals:
        for keyword in ("patternProperties", "additionalProperties", "properties"):
            note = f"some undeclared keys never: {left_out.reason}"
            lowering.reporter.note(site, keyword, Verdict.NARROWED, note)
    if not options:
        return None
    is_any = constraint.property_names is None and witness is None and len(options) == 2 ** len(patterns)
    if not is_any:
        lowering.planner.mark_tight(lowering.place)
    lowering.planner.repeats_keys = True
    text = lowering.rules.define("undeclared", Rule(choice(*options)))
    return Undeclared(text, math.inf if is_any else num_keys)


def _classes(lowering: Lowering, patterns: tuple[str, ...], site: Site) -> list[tuple[str, ...]]:
    """The sets of patterns that one key may match."""
    try:
        return overlaps(patterns, MAX_CLASSES)
    except TooManyOverlaps as error:
        raise lowering.reporter.refusal(
            site,
            "patternProperties",
            f"{len(patterns)} patterns can overlap in too many ways",
            "Use fewer, or such as exclude one another.",
        ) from error


def _key_schema(
    lowering: Lowering, constraint: ObjectConstraint, keys: list[str], matched: tuple[str, ...]
) -> CanonicalSchema:
    """Keys that are none of `keys` and match exactly the patterns `matched`."""
    others = [pattern for pattern in constraint.pattern_properties if pattern not in matched]
    schema = lowering.simple(
        {
            "type": "string",
            "allOf": [
                *({"pattern": pattern} for pattern in matched),
                *({"not": {"pattern": pattern}} for pattern in others),
                *([{"not": {"enum": keys}}] if keys else []),
                {},
            ],
        }
    )
    return schema if constraint.property_names is None else schema.intersect(constraint.property_names)


def _note(lowering: Lowering, site: Site, *, num_keys: int, is_open: bool) -> None:
    notes = []
    if num_keys > 1:
        notes.append("keys in their declared order")
    if lowering.is_closed and not lowering.outline.is_map(site):
        notes.append("undeclared keys never")
    elif is_open and num_keys:
        notes.append("undeclared keys after the declared ones")
    if notes:
        lowering.reporter.note(site, "properties", Verdict.NARROWED, "; ".join(notes))
