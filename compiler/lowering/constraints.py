"""What the canonical views say, as plain values that lowerings take."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jsonschema_rs import CanonicalSchema, canonical

from compiler.scalars.numbers import IntegerConstraint, NumberConstraint
from compiler.scalars.strings import LATEST, StringConstraint


@dataclass(frozen=True)
class ContainsConstraint:
    """At least `low` and at most `high` items are of `schema`."""

    schema: CanonicalSchema
    low: int = 1
    high: int | None = None


@dataclass(frozen=True)
class ArrayConstraint:
    """Which arrays are admitted; `items` None admits anything after the prefix."""

    min_items: int = 0
    max_items: int | None = None
    distinctness: canonical.Distinctness = canonical.Distinctness.UNCONSTRAINED
    prefix_items: tuple[CanonicalSchema, ...] = ()
    items: CanonicalSchema | None = None
    contains: tuple[ContainsConstraint, ...] = ()


Violation = canonical.NameFailsView | canonical.UndeclaredValueFailsView | canonical.PatternValueFailsView


@dataclass(frozen=True)
class FailingMember:
    """A member with a key and a value of these schemas; None admits any value."""

    key: CanonicalSchema
    value: CanonicalSchema | None = None


@dataclass(frozen=True)
class ObjectConstraint:
    """Which objects are admitted; a schema that is None admits anything."""

    min_properties: int = 0
    max_properties: int | None = None
    required: tuple[str, ...] = ()
    property_names: CanonicalSchema | None = None
    properties: Mapping[str, CanonicalSchema] = field(default_factory=dict)
    pattern_properties: Mapping[str, CanonicalSchema] = field(default_factory=dict)
    additional_properties: CanonicalSchema | None = None
    violations: tuple[Violation, ...] = ()
    """What some member has to fail, each."""
    failing_members: tuple[FailingMember, ...] = ()
    """Quantifier under undeclared keys that there have to be."""


def string_constraint(view: canonical.StringView, draft: int = LATEST) -> StringConstraint:
    """The constraint of a string view; `draft` is that of its schema, where formats must not hold."""
    return StringConstraint(
        min_length=view.min_length or 0,
        max_length=view.max_length,
        patterns=tuple(view.patterns),
        excluded_patterns=tuple(view.excluded_patterns),
        formats=tuple(view.formats),
        excluded_formats=tuple(view.excluded_formats),
        excluded=tuple(view.excluded),
        content_media_types=tuple(view.content_media_types),
        content_encodings=tuple(view.content_encodings),
        draft=draft,
    )


def strings_of(
    schema: CanonicalSchema, expand: Callable[[CanonicalSchema], list[CanonicalSchema]]
) -> Iterator[StringConstraint | list[str]]:
    """The strings that a schema admits: all of these together, constraints or lists.

    `expand` is asked for what is left symbolic, and refuses what it cannot resolve.
    """
    match schema.view():
        case canonical.ConstView(str() as text):
            yield [text]
        case canonical.EnumView(values):
            yield [value for value in values if isinstance(value, str)]
        case canonical.StringView() as view:
            yield string_constraint(view, schema.draft)
        case canonical.TrueView():
            yield StringConstraint()
        case canonical.MultiTypeView(types):
            yield from [StringConstraint()] if "string" in types else ()
        case canonical.AnyOfView(branches):
            yield from (strings for branch in branches for strings in strings_of(branch, expand))
        case (
            canonical.ReferenceView()
            | canonical.NotView()
            | canonical.AllOfView()
            | canonical.OneOfView()
            | canonical.TypedGroupView()
            | canonical.RawView()
        ):
            yield from (strings for branch in expand(schema) for strings in strings_of(branch, expand))


def integer_constraint(view: canonical.IntegerView) -> IntegerConstraint:
    """The constraint of an integer view."""
    return IntegerConstraint(view.minimum, view.maximum, tuple(view.multiple_of), tuple(view.not_multiple_of))


def number_constraint(view: canonical.NumberView) -> NumberConstraint:
    """The constraint of a number view."""
    return NumberConstraint(
        view.minimum,
        view.exclusive_minimum,
        view.maximum,
        view.exclusive_maximum,
        tuple(view.multiple_of),
        tuple(view.not_multiple_of),
        view.excludes_integers,
    )


def array_constraint(view: canonical.ArrayView) -> ArrayConstraint:
    """The constraint of an array view."""
    return ArrayConstraint(
        min_items=view.min_items or 0,
        max_items=view.max_items,
        distinctness=view.distinctness,
        prefix_items=tuple(view.prefix_items),
        items=view.items,
        contains=tuple(
            ContainsConstraint(c.schema, 1 if c.min_contains is None else c.min_contains, c.max_contains)
            for c in view.contains
        ),
    )


def object_constraint(view: canonical.ObjectView) -> ObjectConstraint:
    """The constraint of an object view."""
    return ObjectConstraint(
        min_properties=view.min_properties or 0,
        max_properties=view.max_properties,
        required=tuple(view.required),
        property_names=view.property_names,
        properties=view.properties,
        pattern_properties=view.pattern_properties,
        additional_properties=view.additional_properties,
        violations=tuple(view.violations),
    )


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
