"""Witnesses: members that an object must have because some key or some value of it has to fail a schema."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from jsonschema_rs import CanonicalSchema, canonical

from compiler.grammar.grammar import union
from compiler.lowering.objects import declared_keys, lower_object, value_schema
from compiler.lowering.views import Violation, Witness
from compiler.report import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compiler.frontend.outline import Site
    from compiler.grammar.grammar import Expr
    from compiler.lowering.lowering import Lowering
    from compiler.lowering.views import ObjectConstraint

MAX_WAYS = 60
_STATE = "State what is allowed instead."


def lower_with_witnesses(lowering: Lowering, constraint: ObjectConstraint, site: Site) -> Expr | None:
    """The JSON texts of objects in which some key or value fails a schema; None if there is none.

    Raises:
        UnsupportedSchema: what has to fail cannot be negated, there are too many choices of it, or equal
            objects must be spelled alike.
    """
    if lowering.is_distinct:
        reason = "among distinct items, demands that some key or value fails a schema"
        raise lowering.reporter.refusal(site, "not", reason, _STATE)
    ways = [lower_object(lowering, way, site) for way in _ways(lowering, constraint, site)]
    note = "one of the keys that may fail, the others at will"
    lowering.reporter.note(site, "not", Verdict.NARROWED, note)
    return union(ways)


def _ways(lowering: Lowering, constraint: ObjectConstraint, site: Site) -> list[ObjectConstraint]:
    """The constraint without violations, once for every choice of the members that bring them about.

    A witness is a declared key, which then is required, or one member under an undeclared key.
    """
    ways = [replace(constraint, violations=())]
    for violation in constraint.violations:
        witness = _witness(lowering, violation, site)
        ways = [chosen for way in ways for chosen in _choices(lowering, way, witness, site)]
        if len(ways) > MAX_WAYS:
            reason = "demands too many keys or values that fail"
            raise lowering.reporter.refusal(site, "not", reason, _STATE)
    return ways


def _choices(
    lowering: Lowering, constraint: ObjectConstraint, witness: Witness, site: Site
) -> Iterator[ObjectConstraint]:
    keys, is_open = declared_keys(lowering, constraint, site)
    named = _names(witness.key.intersect(constraint.property_names or lowering.simple({})))
    named = [name for name in named if name not in keys] if is_open else []
    is_declared = False
    for key in (*keys, *named):
        if not lowering.admits(witness.key, key):
            continue
        schema = value_schema(constraint, key)
        if witness.value is not None:
            schema = witness.value if schema is None else schema.intersect(witness.value)
        schema = lowering.simple({}) if schema is None else schema
        if schema.satisfiability() == canonical.Satisfiability.NO:
            continue
        is_declared = True
        required = (*constraint.required, *(() if key in constraint.required else (key,)))
        yield replace(constraint, properties={**constraint.properties, key: schema}, required=required)
    if constraint.witnesses:  # a second one could have the same key
        yield replace(constraint, witnesses=(_both(constraint.witnesses[0], witness),))
    elif not _names(witness.key) and (is_open or not is_declared):
        yield replace(constraint, witnesses=(witness,))


def _names(schema: CanonicalSchema) -> list[str]:
    match schema.view():
        case canonical.ConstView(str() as name):
            return [name]
        case canonical.EnumView(names):
            return [name for name in names if isinstance(name, str)]
        case _:
            return []


def _both(first: Witness, second: Witness) -> Witness:
    values = [witness.value for witness in (first, second) if witness.value is not None]
    return Witness(
        first.key.intersect(second.key), reduce(CanonicalSchema.intersect, values) if values else None
    )


def _witness(lowering: Lowering, violation: Violation, site: Site) -> Witness:
    texts = lowering.simple({"type": "string"})
    try:
        match violation:
            case canonical.NameFailsView(schema):
                return Witness(texts.subtract(schema))
            case canonical.PatternValueFailsView(pattern, schema):
                return Witness(lowering.simple({"type": "string", "pattern": pattern}), schema.negate())
            case canonical.UndeclaredValueFailsView(names, patterns, additional):
                excluded: list[Any] = [{"pattern": pattern} for pattern in patterns]
                excluded.append({"enum": names} if names else {"not": {}})
                key = reduce(CanonicalSchema.subtract, map(lowering.simple, excluded), texts)
                return Witness(key, additional.negate())
    except canonical.CanonicalizationError as error:
        reason = f"what has to fail cannot be negated: {error}"
        raise lowering.reporter.refusal(site, "not", reason, _STATE) from error
