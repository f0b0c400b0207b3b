"""Lowering of objects with violations: some key or some value of the object must fail a schema.

That is what canonicalization makes of `{"not": {"additionalProperties": {"type": "string"}}}`: at least one
member has a value that is not a string. Each choice of this failing member gives an object without
violations.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from itertools import islice
from typing import Any

from jsonschema_rs import CanonicalSchema, canonical

from compiler.frontend.source_map import SchemaLocation
from compiler.grammar.grammar import Expr, union
from compiler.lowering.constraints import Context, FailingMember, ObjectConstraint, Violation, intersection
from compiler.lowering.joined_alternatives import PlacedObject, join_alternatives
from compiler.lowering.lowering import Lowering
from compiler.lowering.objects import ObjectLowering, declared_keys, value_schema

MAX_CHOICES = 60
_NUM_CHOSEN = 24
"""How many choices are written if there are more; each costs about as much as an object."""
_SAY_ALLOWED = "Say what is allowed instead."
_TELL_APART = (
    "Say what is allowed instead or, if these are alternatives of oneOf, give each a required key"
    " whose value (const) tells it apart."
)


def lower_with_violations(lowering: Lowering, constraint: ObjectConstraint, context: Context) -> Expr | None:
    """The JSON texts of objects in which some key or value fails a schema; None if there is none.

    Raises:
        UnsupportedSchema: a schema that must fail cannot be negated, there are too many choices of failing
            members and none of those tried can be written, or equal objects must have one text.
    """
    location = context.location
    if context.is_distinct:
        reason = "demands, inside distinct items, that some key or value fails a schema"
        raise lowering.reporter.refusal(location, "not", reason, _SAY_ALLOWED)
    alternatives, is_exhaustive = _without_violations(lowering, constraint, location)
    if not lowering.key_orders.is_any_wanted:
        placed = [PlacedObject(alternative, location) for alternative in alternatives]
        joined, rest = join_alternatives(lowering, placed)
        alternatives = [constraint for constraint, _ in (*joined, *rest)]
    written = union([ObjectLowering(lowering, alternative, context).lower() for alternative in alternatives])
    if written is None and not is_exhaustive:
        reason = "demands that too many keys or values fail a schema"
        raise lowering.reporter.refusal(location, "not", reason, _TELL_APART)
    note = "one chosen member fails the schema, the others are free to"
    lowering.reporter.note_narrowed(location, "not", note)
    if not is_exhaustive:
        note = f"{_NUM_CHOSEN} of the many choices of members that fail schemas"
        lowering.reporter.note_narrowed(location, "not", note)
    return written


def _without_violations(
    lowering: Lowering, constraint: ObjectConstraint, location: SchemaLocation
) -> tuple[list[ObjectConstraint], bool]:
    """The constraint without violations, once for every choice of the members that fail the schemas.

    A failing member has a declared key, which becomes required, or it is one member under an undeclared key.
    With it, whether these are all choices, or some of too many.
    """
    alternatives, is_exhaustive = [replace(constraint, violations=())], True
    for violation in constraint.violations:
        failing = _failing_member(lowering, violation, location)
        choices = (
            choice
            for alternative in alternatives
            for choice in _choices(lowering, alternative, failing, location)
        )
        chosen = list(islice(choices, MAX_CHOICES + 1))
        has_room = len(chosen) <= MAX_CHOICES
        alternatives, is_exhaustive = chosen if has_room else chosen[:_NUM_CHOSEN], is_exhaustive and has_room
    return alternatives, is_exhaustive


def _choices(
    lowering: Lowering, constraint: ObjectConstraint, failing: FailingMember, location: SchemaLocation
) -> Iterator[ObjectConstraint]:
    """The constraint once for every member that can be the failing one."""
    keys, is_open = declared_keys(lowering, constraint, location)
    named = _names(failing.key.intersect(constraint.property_names or lowering.form_of({})))
    named = [name for name in named if name not in keys] if is_open else []
    is_declared = False
    for key in (*keys, *named):
        if not lowering.admits(failing.key, key):
            continue
        schema = intersection(value_schema(constraint, key), failing.value) or lowering.form_of({})
        if schema.satisfiability() == canonical.Satisfiability.NO:
            continue
        is_declared = True
        required = (*constraint.required, *(() if key in constraint.required else (key,)))
        yield replace(constraint, properties={**constraint.properties, key: schema}, required=required)
    if constraint.failing_members:  # a second one could have the same key
        yield replace(constraint, failing_members=(_both(constraint.failing_members[0], failing),))
    elif not _names(failing.key) and (is_open or not is_declared):
        yield replace(constraint, failing_members=(failing,))


def _names(schema: CanonicalSchema) -> list[str]:
    match schema.view():
        case canonical.ConstView(str() as name):
            return [name]
        case canonical.EnumView(names):
            return [name for name in names if isinstance(name, str)]
        case _:
            return []


def _both(first: FailingMember, second: FailingMember) -> FailingMember:
    return FailingMember(first.key.intersect(second.key), intersection(first.value, second.value))


def _failing_member(lowering: Lowering, violation: Violation, location: SchemaLocation) -> FailingMember:
    texts = lowering.form_of({"type": "string"})
    try:
        match violation:
            case canonical.NameFailsView(schema):
                return FailingMember(texts.subtract(schema))
            case canonical.PatternValueFailsView(pattern, schema):
                return FailingMember(
                    lowering.form_of({"type": "string", "pattern": pattern}), schema.negate()
                )
            case canonical.UndeclaredValueFailsView(names, patterns, additional):
                excluded: list[Any] = [{"pattern": pattern} for pattern in patterns]
                excluded.append({"enum": names} if names else {"not": {}})
                key = reduce(CanonicalSchema.subtract, map(lowering.form_of, excluded), texts)
                return FailingMember(key, additional.negate())
    except canonical.CanonicalizationError as error:
        reason = f"demands that some key or value fails a schema which cannot be negated: {error}"
        raise lowering.reporter.refusal(location, "not", reason, _SAY_ALLOWED) from error
