"""Lowering of members under undeclared keys: a class of keys for every set of patterns that one may match."""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING

from jsonschema_rs import CanonicalSchema

from compiler.errors import UnsupportedSchema
from compiler.grammar.grammar import Expr, Rule, choice, concat
from compiler.guard.planner import Rest
from compiler.lowering.keys import lower_key
from compiler.lowering.members import Undeclared
from compiler.regular.language import TooManyOverlaps, overlaps
from compiler.report import Verdict

if TYPE_CHECKING:
    from compiler.frontend.outline import Site
    from compiler.lowering.lowering import Lowering
    from compiler.lowering.views import ObjectConstraint, Witness

MAX_CLASSES = 40


def lower_undeclared(
    lowering: Lowering,
    constraint: ObjectConstraint,
    site: Site,
    keys: list[str],
    witness: Witness | None = None,
) -> Undeclared | None:
    """A member under a key that is none of `keys`, and as `witness` has it; None if there is none.

    Classes whose keys cannot be told are left out beside others.

    Raises:
        UnsupportedSchema: the patterns overlap in too many ways, or the keys of no class can be told.
    """
    options: list[Expr] = []
    refusals: list[UnsupportedSchema] = []
    num_keys = 0.0
    for matched in _classes(lowering, tuple(constraint.pattern_properties), site):
        key_schema = _key_schema(lowering, constraint, keys, matched, witness)
        value = _value(lowering, constraint, matched, site, witness)
        if value is None:
            continue
        try:
            key = lower_key(lowering, key_schema, site)
        except UnsupportedSchema as refusal:
            refusals.append(refusal)
            continue
        if key is not None:
            options.append(concat(key, lowering.style.colon, value))
            num_keys = max(num_keys, lowering.cardinality.at_least(key_schema))
    if refusals and not options:
        raise refusals[0]
    _note_left_out(lowering, site, refusals)
    if not options:
        return None
    has_all_classes = len(options) == 2 ** len(constraint.pattern_properties)
    is_any = constraint.property_names is None and witness is None and has_all_classes
    if not is_any:
        lowering.planner.mark_run_out(lowering.place)
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
    lowering: Lowering,
    constraint: ObjectConstraint,
    keys: list[str],
    matched: tuple[str, ...],
    witness: Witness | None,
) -> CanonicalSchema:
    """Keys that are none of `keys` and match exactly the patterns `matched`; a witness's, if there is one."""
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
    if constraint.property_names is not None:
        schema = schema.intersect(constraint.property_names)
    return schema if witness is None else schema.intersect(witness.key)


def _value(
    lowering: Lowering,
    constraint: ObjectConstraint,
    matched: tuple[str, ...],
    site: Site,
    witness: Witness | None,
) -> Expr | None:
    """The values under keys of a class; None if there is none."""
    schemas = [constraint.pattern_properties[pattern] for pattern in matched]
    if not schemas and constraint.additional_properties is not None:
        schemas = [constraint.additional_properties]
    if witness is not None and witness.value is not None:
        schemas.append(witness.value)
    if not schemas:
        return lowering.anything.value(Rest())
    place = lowering.outline.undeclared(site, matched)
    return lowering.value(reduce(CanonicalSchema.intersect, schemas), place, step=Rest())


def _note_left_out(lowering: Lowering, site: Site, refusals: list[UnsupportedSchema]) -> None:
    for refusal in refusals:
        for keyword in ("patternProperties", "additionalProperties", "properties"):
            note = f"some undeclared keys never: {refusal.reason}"
            lowering.reporter.note(site, keyword, Verdict.NARROWED, note)
