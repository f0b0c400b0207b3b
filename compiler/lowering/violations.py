"""Witnesses: members that an object must have because some key or some value of it has to fail a schema."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from jsonschema_rs import CanonicalSchema, canonical

from compiler.grammar.grammar import union
from compiler.lowering.constraints import FailingMember, Violation
from compiler.lowering.objects import declared_keys, lower_object, value_schema
from compiler.report import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compiler.frontend.source_map import SchemaLocation
    from compiler.grammar.grammar import Expr
    from compiler.lowering.constraints import ObjectConstraint
    from compiler.lowering.lowering import Lowering

MAX_CHOICES = 60
_STATE = "State what is allowed instead."


def lower_with_violations(
    lowering: Lowering, constraint: ObjectConstraint, location: SchemaLocation
) -> Expr | None:
    """The JSON texts of objects in which some key or value fails a schema; None if there is none.

    Raises:
        UnsupportedSchema: what has to fail cannot be negated, there are too many choices of it, or equal
            objects must be spelled alike.
    """
    if lowering.is_distinct:
        reason = "among distinct items, demands that some key or value fails a schema"
        raise lowering.reporter.refusal(location, "not", reason, _STATE)
    ways = [lower_object(lowering, way, location) for way in _ways(lowering, constraint, location)]
    note = "one of the keys that may fail, the others at will"
    lowering.reporter.note(location, "not", Verdict.NARROWED, note)
    return union(ways)


def _ways(
    lowering: Lowering, constraint: ObjectConstraint, location: SchemaLocation
) -> list[ObjectConstraint]:
    """The constraint without violations, once for every choice of the members that bring them about.

    A failing is a declared key, which then is required, or one member under an undeclared key.
    """
    ways = [replace(constraint, violations=())]
    for violation in constraint.violations:
        failing = _failing_member(lowering, violation, location)
        ways = [chosen for way in ways for chosen in _choices(lowering, way, failing, location)]
        if len(ways) > MAX_CHOICES:
            reason = "demands too many keys or values that fail"
            raise lowering.reporter.refusal(location, "not", reason, _STATE)
    return ways


def _choices(
    lowering: Lowering, constraint: ObjectConstraint, failing: FailingMember, location: SchemaLocation
) -> Iterator[ObjectConstraint]:
    keys, is_open = declared_keys(lowering, constraint, location)
    named = _names(failing.key.intersect(constraint.property_names or lowering.simple({})))
    named = [name for name in named if name not in keys] if is_open else []
    is_declared = False
    for key in (*keys, *named):
        if not lowering.admits(failing.key, key):
            continue
        schema = value_schema(constraint, key)
        if failing.value is not None:
            schema = failing.value if schema is None else schema.intersect(failing.value)
        schema = lowering.simple({}) if schema is None else schema
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
    values = [failing.value for failing in (first, second) if failing.value is not None]
    return FailingMember(
        first.key.intersect(second.key), reduce(CanonicalSchema.intersect, values) if values else None
    )


def _failing_member(lowering: Lowering, violation: Violation, location: SchemaLocation) -> FailingMember:
    texts = lowering.simple({"type": "string"})
    try:
        match violation:
            case canonical.NameFailsView(schema):
                return FailingMember(texts.subtract(schema))
            case canonical.PatternValueFailsView(pattern, schema):
                return FailingMember(lowering.simple({"type": "string", "pattern": pattern}), schema.negate())
            case canonical.UndeclaredValueFailsView(names, patterns, additional):
                excluded: list[Any] = [{"pattern": pattern} for pattern in patterns]
                excluded.append({"enum": names} if names else {"not": {}})
                key = reduce(CanonicalSchema.subtract, map(lowering.simple, excluded), texts)
                return FailingMember(key, additional.negate())
    except canonical.CanonicalizationError as error:
        reason = f"what has to fail cannot be negated: {error}"
        raise lowering.reporter.refusal(location, "not", reason, _STATE) from error
