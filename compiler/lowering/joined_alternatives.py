"""Alternatives that are objects and differ in only one member become one object.

What fails `{"properties": {"a": A, "b": B}}` is an object with an `a` that fails A, or one with a `b` that
fails B. Written one by one, `n` such alternatives of `n` keys take `n * n` members, and a mask reads all
alternatives at once. Here they are one object of which one *decisive* member must be there: `a` with a value
that fails A, or `b` with one that fails B. It has each key twice: until a decisive member was written, and
after that.

The *common* constraint requires what all alternatives require and has, under each key, the schema that most
have. An alternative that differs from it in one key, which it requires, admits exactly the objects that have
a value of its own schema under this key and whose other members satisfy the common constraint. So the union
of such alternatives is the common constraint with the keys where they differ as decisive ones.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from jsonschema_rs import CanonicalSchema

from compiler.frontend.source_map import SchemaLocation
from compiler.lowering.constraints import ObjectConstraint
from compiler.lowering.lowering import Lowering
from compiler.lowering.objects import declared_keys, value_schema


class PlacedObject(NamedTuple):
    """The constraint of an object, and the schemas that apply to it."""

    constraint: ObjectConstraint
    location: SchemaLocation


def join_alternatives(
    lowering: Lowering, objects: Sequence[PlacedObject]
) -> tuple[list[PlacedObject], list[PlacedObject]]:
    """The joined objects, with decisive members, and those not joined; together they admit the same.

    Objects are only joined if they have the same declared keys in the same order.
    """
    joined: list[PlacedObject] = []
    rest: list[PlacedObject] = []
    for joinable in _groups(objects, lambda placed: _without_members(placed.constraint)):
        groups = (
            _groups(joinable, lambda placed: _place(lowering, placed)) if len(joinable) > 1 else [joinable]
        )
        for group in groups:
            decisive, left = _join([placed.constraint for placed in group])
            joined += [PlacedObject(constraint, group[0].location) for constraint in decisive]
            rest += [placed for placed in group if any(placed.constraint is one for one in left)]
    return joined, rest


def _groups(
    objects: Sequence[PlacedObject], key: Callable[[PlacedObject], Hashable]
) -> list[list[PlacedObject]]:
    groups: dict[Hashable, list[PlacedObject]] = defaultdict(list)
    for placed in objects:
        groups[key(placed)].append(placed)
    return list(groups.values())


def _place(lowering: Lowering, placed: PlacedObject) -> Hashable:
    keys, _ = declared_keys(lowering, placed.constraint, placed.location)
    return placed.location, tuple(keys)


def _without_members(constraint: ObjectConstraint) -> Hashable:
    """What must be equal in constraints to be joined: all but `required` and `properties`."""
    if constraint.violations or constraint.failing_members or constraint.decisive:
        return id(constraint)
    return (
        constraint.min_properties,
        constraint.max_properties,
        constraint.property_names,
        frozenset(constraint.pattern_properties.items()),
        constraint.additional_properties,
    )


def _join(
    constraints: Sequence[ObjectConstraint],
) -> tuple[list[ObjectConstraint], list[ObjectConstraint]]:
    """The constraints that were joined, with decisive members, and those that were not."""
    joined: list[ObjectConstraint] = []
    left = list(constraints)
    while len(left) > 1:
        common = _common(left)
        keys = [_only_difference(constraint, common) for constraint in left]
        joinable = [(constraint, key) for constraint, key in zip(left, keys, strict=True) if key is not None]
        if len(joinable) < 2:
            break
        left = [constraint for constraint, key in zip(left, keys, strict=True) if key is None]
        joined.append(replace(common, decisive=_decisive(joinable)))
    return joined, left


def _common(constraints: Sequence[ObjectConstraint]) -> ObjectConstraint:
    first, *others = constraints
    required = [key for key in first.required if all(key in other.required for other in others)]
    properties: dict[str, CanonicalSchema] = {}
    for key in dict.fromkeys(key for constraint in constraints for key in constraint.properties):
        schemas = Counter(constraint.properties.get(key) for constraint in constraints)
        schema = schemas.most_common(1)[0][0]
        if schema is not None:
            properties[key] = schema
    return replace(first, required=tuple(required), properties=properties)


def _only_difference(constraint: ObjectConstraint, common: ObjectConstraint) -> str | None:
    """The one key in which a constraint differs from the common one, if it requires it."""
    keys = set(constraint.required).difference(common.required)
    for key in constraint.properties.keys() | common.properties.keys():
        if constraint.properties.get(key) != common.properties.get(key):
            keys.add(key)
    return next(iter(keys)) if len(keys) == 1 and keys <= set(constraint.required) else None


def _decisive(
    joinable: Sequence[tuple[ObjectConstraint, str]],
) -> Mapping[str, tuple[CanonicalSchema | None, ...]]:
    """By key, the schemas of the constraints that differ there from the common one."""
    decisive: dict[str, tuple[CanonicalSchema | None, ...]] = {}
    for constraint, key in joinable:
        decisive[key] = (*decisive.get(key, ()), value_schema(constraint, key))
    return decisive
