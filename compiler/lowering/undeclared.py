"""Lowering of members under undeclared keys.

With `patternProperties`, the value's schema depends on which patterns the key matches. So the keys are
divided into classes, one for each set of patterns that a key can match at once, and each class is lowered by
itself.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from jsonschema_rs import CanonicalSchema

from compiler.errors import UnsupportedSchema
from compiler.frontend.source_map import SchemaLocation
from compiler.grammar.grammar import Expr, Rule, choice, concat, union
from compiler.guard.path_state_builder import OtherKeyStep
from compiler.lowering.constraints import Context, FailingMember, ObjectConstraint, intersection, strings_of
from compiler.lowering.lowering import Lowering
from compiler.regular.language import TooManyOverlaps, overlaps
from compiler.report import Verdict
from compiler.scalars.string_constraint import StringConstraint

MAX_CLASSES = 40
"""The most sets of patterns that one key may match."""
_NOTED_AT = (
    "uniqueItems",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "properties",
    "type",
)
"""The keywords of which the first that a schema has gets the note on a single undeclared key."""
_NAMING = ("propertyNames", "patternProperties", "additionalProperties", "properties")
"""The keywords of which the first that a schema has gets the note on keys that are left out."""


def note_single(lowering: Lowering, location: SchemaLocation) -> None:
    """Note that objects there, which a guard compares, have at most one undeclared key."""
    note = (
        "where items must be distinct, an object has at most one undeclared key:"
        " declare its keys in properties to have more of them"
    )
    lowering.reporter.note_first(location, _NOTED_AT, Verdict.NARROWED, note)


@dataclass(frozen=True)
class UndeclaredMember:
    """The text of a member under an undeclared key; there are at least `num_keys` such keys."""

    text: Expr
    num_keys: float


def lower_undeclared(
    lowering: Lowering,
    constraint: ObjectConstraint,
    context: Context,
    keys: list[str],
    with_mark: Callable[[Expr], Expr],
    *,
    failing: FailingMember | None = None,
) -> UndeclaredMember | None:
    """A member whose key is not among `keys`, and which is `failing` if given; None if there is none.

    `with_mark` adds to a key the mark that may stand after it. A class of keys that cannot be lowered is
    left out if another one can be.

    Raises:
        UnsupportedSchema: the patterns overlap in too many ways, or no class of keys can be lowered.
    """
    options: list[Expr] = []
    refusals: list[UnsupportedSchema] = []
    num_keys = 0.0
    for matched in _classes(lowering, tuple(constraint.pattern_properties), context.location):
        key_schema = _key_schema(lowering, constraint, keys, matched, failing)
        try:
            key = lower_key(lowering, key_schema, context)
        except UnsupportedSchema as refusal:
            if _value(lowering, constraint, matched, context, failing) is not None:
                refusals.append(refusal)
            continue
        if key is None:
            continue  # before its values are planned for: there are none in this class
        value = _value(lowering, constraint, matched, context, failing)
        if value is not None:
            options.append(concat(with_mark(key), lowering.formatting.key_separator, value))
            num_keys = max(num_keys, lowering.cardinality.at_least(key_schema))
    if refusals and not options:
        raise refusals[0]
    _note_left_out(lowering, context.location, refusals)
    if not options:
        return None
    has_all_classes = len(options) == 2 ** len(constraint.pattern_properties)
    is_any = constraint.property_names is None and failing is None and has_all_classes
    if not is_any:
        lowering.planner.mark_can_run_out(context.state)
    lowering.planner.repeats_keys = True
    text = lowering.rules.define("undeclared", Rule(choice(*options)))
    return UndeclaredMember(text, math.inf if is_any else num_keys)


def _classes(
    lowering: Lowering, patterns: tuple[str, ...], location: SchemaLocation
) -> list[tuple[str, ...]]:
    """The sets of patterns that one key may match."""
    try:
        return overlaps(patterns, MAX_CLASSES)
    except TooManyOverlaps as error:
        raise lowering.reporter.refusal(
            location,
            "patternProperties",
            f"one key can match its {len(patterns)} patterns in more than {MAX_CLASSES} combinations",
            "Use fewer patterns, or patterns that exclude one another.",
        ) from error


def _key_schema(
    lowering: Lowering,
    constraint: ObjectConstraint,
    keys: list[str],
    matched: tuple[str, ...],
    failing: FailingMember | None,
) -> CanonicalSchema:
    """Keys that are not among `keys`, match exactly the patterns `matched`, and fit `failing` if given."""
    others = [pattern for pattern in constraint.pattern_properties if pattern not in matched]
    schema = lowering.form_of(
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
    return schema if failing is None else schema.intersect(failing.key)


def _value(
    lowering: Lowering,
    constraint: ObjectConstraint,
    matched: tuple[str, ...],
    context: Context,
    failing: FailingMember | None,
) -> Expr | None:
    """The values under the keys of a class; None if there is none."""
    matching = [constraint.pattern_properties[pattern] for pattern in matched]
    schema = intersection(*matching) if matching else constraint.additional_properties
    if failing is not None:
        schema = intersection(schema, failing.value)
    location = lowering.source_map.undeclared(context.location, matched)
    return lowering.inner_value(schema, context, location, OtherKeyStep())


def _note_left_out(lowering: Lowering, location: SchemaLocation, refusals: list[UnsupportedSchema]) -> None:
    for refusal in refusals:
        note = f"some undeclared keys never: {refusal.reason}"
        lowering.reporter.note_first(location, _NAMING, Verdict.NARROWED, note)


def lower_key(lowering: Lowering, schema: CanonicalSchema, context: Context) -> Expr | None:
    """The keys, in quotes, that a schema admits in an object; None if there is none.

    Raises:
        UnsupportedSchema: the schema cannot be resolved to strings.
    """
    options: list[Expr | None] = []
    context = replace(context, location=lowering.source_map.names(context.location))
    lowering.reporter.lowered(context.location)
    for strings in strings_of(schema, lambda inner: lowering.expand(inner, context.location)):
        if isinstance(strings, StringConstraint):
            options.append(lowering.string(strings, context, is_key=True))
        else:
            options += map(lowering.formatting.text, strings)
    return union(options)
