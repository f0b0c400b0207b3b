"""What is lowered: the constraints of a canonical view as plain values, and the context of a value."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, reduce
from typing import Any

from jsonschema_rs import CanonicalSchema, canonical

from compiler.doubles import FIRST_ROUNDED
from compiler.frontend.dependent_keys import NO_DEPENDENCIES, DependentKeys
from compiler.frontend.source_map import SchemaLocation, SourceMap
from compiler.frontend.symbolic_forms import DocumentForms
from compiler.guard.path_state_builder import KeyStep, PathStep
from compiler.regular.formats import FORMATS
from compiler.regular.language import is_valid_for_all
from compiler.scalars.numbers import IntegerConstraint, NumberConstraint
from compiler.scalars.string_constraint import StringConstraint
from toolspecs.schemas.drafts import NEWEST_DRAFT

Constant = tuple[bool, Any]
"""A scalar after whether it is a boolean, so that those are equal that JSON Schema takes for equal."""

_VALUES_OF_TYPES: Mapping[str, Sequence[Any]] = {"null": [None], "boolean": [False, True]}
"""The types that have few values."""
_MAX_COUNTED = 10**9
"""The highest number of items or keys that rules count to: more do not fit in any output."""


@dataclass(frozen=True, slots=True)
class Context:
    """Where a value stands in the text, and what its rules depend on besides its schema.

    `location`: the schemas of the document that apply to the value; `state`: its number in the guards' plan.
    `is_distinct`: a guard compares the text of the value with others, so equal values need one spelling.
    `is_root`: the value is the whole text. `dependent_keys`: what keys of an object there need.
    """

    location: SchemaLocation
    state: int
    is_distinct: bool = False
    is_root: bool = False
    dependent_keys: DependentKeys = NO_DEPENDENCIES

    def inside(self, location: SchemaLocation, step: PathStep) -> "Context":
        """The context for a member or an item; `state` is still that of the container."""
        inner = self.dependent_keys.under(step.key) if isinstance(step, KeyStep) else NO_DEPENDENCIES
        return replace(self, location=location, is_root=False, dependent_keys=inner)


@dataclass(frozen=True)
class ContainsConstraint:
    """Between `low` and `high` items (None: any number) satisfy `schema`."""

    schema: CanonicalSchema
    low: int = 1
    high: int | None = None


@dataclass(frozen=True)
class ArrayConstraint:
    """Which arrays are admitted; `items` is None where any value may follow the prefix."""

    min_items: int = 0
    max_items: int | None = None
    distinctness: canonical.Distinctness = canonical.Distinctness.UNCONSTRAINED
    prefix_items: tuple[CanonicalSchema, ...] = ()
    items: CanonicalSchema | None = None
    contains: tuple[ContainsConstraint, ...] = ()


Violation = canonical.NameFailsView | canonical.UndeclaredValueFailsView | canonical.PatternValueFailsView


@dataclass(frozen=True)
class FailingMember:
    """A member that must be there so that some key or value fails a schema; `value` None admits any value."""

    key: CanonicalSchema
    value: CanonicalSchema | None = None


@dataclass(frozen=True)
class ObjectConstraint:
    """Which objects are admitted; a schema that is None admits any value."""

    min_properties: int = 0
    max_properties: int | None = None
    required: tuple[str, ...] = ()
    property_names: CanonicalSchema | None = None
    properties: Mapping[str, CanonicalSchema] = field(default_factory=dict)
    pattern_properties: Mapping[str, CanonicalSchema] = field(default_factory=dict)
    additional_properties: CanonicalSchema | None = None
    violations: tuple[Violation, ...] = ()
    """Schemas each of which the key or the value of at least one member must fail."""
    failing_members: tuple[FailingMember, ...] = ()
    """Members under undeclared keys that must be there."""
    decisive: Mapping[str, tuple[CanonicalSchema | None, ...]] = field(default_factory=dict)
    """If not empty, one member must have one of these keys, and a value of one of the schemas beside it.

    That value need not satisfy `properties`; None admits any value.
    """
    dependent_keys: DependentKeys = NO_DEPENDENCIES


def intersection(*schemas: CanonicalSchema | None) -> CanonicalSchema | None:
    """The schema that admits what all of them admit; None admits any value."""
    constraining = [schema for schema in schemas if schema is not None]
    return reduce(CanonicalSchema.intersect, constraining) if constraining else None


def string_constraint(view: canonical.StringView, draft: int = NEWEST_DRAFT) -> StringConstraint:
    """The constraint of a string view; `draft` says what the formats mean that the string must not have.

    Texts that are not of its formats need not be excluded.
    """
    formats = [name for name in view.formats if name in FORMATS]
    excluded = [text for text in view.excluded if all(is_valid_for_all(name, text) for name in formats)]
    return StringConstraint(
        min_length=view.min_length or 0,
        max_length=view.max_length,
        patterns=tuple(view.patterns),
        excluded_patterns=tuple(view.excluded_patterns),
        formats=tuple(view.formats),
        excluded_formats=tuple(view.excluded_formats),
        excluded=tuple(excluded),
        content_media_types=tuple(view.content_media_types),
        content_encodings=tuple(view.content_encodings),
        draft=draft,
    )


def strings_only(schema: CanonicalSchema) -> StringConstraint | None:
    """The constraint of a schema of strings that are not listed; None for other schemas."""
    match schema.view():
        case canonical.StringView() as view:
            return string_constraint(view, schema.draft)
        case _:
            return None


def joinable(schemas: Iterable[CanonicalSchema]) -> list[list[CanonicalSchema]]:
    """Schemas in groups: those of strings that `StringConstraint.any_of` joins, every other one by itself.

    Formats are joined where one of them needs a guard, which could not tell it from the others.
    """
    pairs = [(schema, strings_only(schema)) for schema in schemas]
    guarded = {strings.max_length for _, strings in pairs if strings is not None and strings.needs_guard}
    groups: list[list[CanonicalSchema]] = []
    by_bound: dict[int | None, list[CanonicalSchema]] = {}
    for schema, strings in pairs:
        is_joined = strings is not None and strings.can_be_joined
        if strings is None or not is_joined or (strings.formats and strings.max_length not in guarded):
            groups.append([schema])
            continue
        if strings.max_length not in by_bound:
            groups.append(by_bound.setdefault(strings.max_length, []))
        by_bound[strings.max_length].append(schema)
    return groups


def strings_of(
    schema: CanonicalSchema, expand: Callable[[CanonicalSchema], list[CanonicalSchema]]
) -> Iterator[StringConstraint | list[str]]:
    """The strings that a schema admits, as a union of constraints and of lists of strings.

    `expand` resolves a view that canonicalization left symbolic; it raises where it cannot.
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


def integer_constraint(view: canonical.IntegerView, *, may_exclude: bool = True) -> IntegerConstraint:
    """The constraint of an integer view; `may_exclude`: the schema excludes numbers, or may do so."""
    multiple_of, not_multiple_of = tuple(view.multiple_of), tuple(view.not_multiple_of)
    return IntegerConstraint(view.minimum, view.maximum, multiple_of, not_multiple_of, may_exclude)


def number_constraint(view: canonical.NumberView, *, may_exclude: bool = True) -> NumberConstraint:
    """The constraint of a number view; `may_exclude` as of integers."""
    return NumberConstraint(
        minimum=view.minimum,
        exclusive_minimum=view.exclusive_minimum,
        maximum=view.maximum,
        exclusive_maximum=view.exclusive_maximum,
        multiple_of=tuple(view.multiple_of),
        not_multiple_of=tuple(view.not_multiple_of),
        excludes_integers=view.excludes_integers,
        may_exclude=may_exclude,
    )


def _counted(bound: int | None) -> int | None:
    """A bound that rules can count to; no output has so many items."""
    return None if bound is None else min(bound, _MAX_COUNTED)


def array_constraint(view: canonical.ArrayView) -> ArrayConstraint:
    """The constraint of an array view."""
    return ArrayConstraint(
        min_items=view.min_items or 0,
        max_items=_counted(view.max_items),
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
        max_properties=_counted(view.max_properties),
        required=tuple(view.required),
        property_names=view.property_names,
        properties=view.properties,
        pattern_properties=view.pattern_properties,
        additional_properties=view.additional_properties,
        violations=tuple(view.violations),
    )


def may_stem_from(constraint: ObjectConstraint, source_map: SourceMap) -> Callable[[str], bool]:
    """A test: can objects of the constraint come from the object schema at a pointer?

    A canonical object does not say from which branch of an `anyOf` it came, but it demands all that its
    branch demands: the required keys, the constants, that there are no other keys. The source map asks this
    to find the branch whose order of keys applies.
    """

    def fits(pointer: str) -> bool:
        schema = source_map.at(pointer)
        required = schema.get("required")
        names = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
        if not names <= set(constraint.required):
            return False
        is_closed = constraint.property_names is not None or constraint.additional_properties is not None
        if schema.get("additionalProperties") is False and not is_closed:
            return False
        listed = source_map.listed_by_key(pointer)
        return all(_is_listed(constraint.properties.get(key), values) for key, values in listed.items())

    return fits


def excluded_by_constants(constraint: ObjectConstraint, source_map: SourceMap) -> Callable[[str], bool]:
    """A test: does a required key have only other constants than the object schema at a pointer?

    No object of the constraint satisfies such a schema, which is mostly another alternative of a union.
    """

    @cache
    def constants(key: str) -> frozenset[Constant] | None:
        return constants_of(constraint.properties.get(key)) if key in constraint.required else None

    def excludes(pointer: str) -> bool:
        return any(
            (own := constants(key)) and (others := _constants(values)) and own.isdisjoint(others)
            for key, values in source_map.listed_by_key(pointer).items()
        )

    return excludes


def constants_of(value: CanonicalSchema | None) -> frozenset[Constant] | None:
    """The constants that a canonical schema lists; None if it admits other values, too."""
    return _constants(_listed(value))


def _constants(values: Sequence[Any] | None) -> frozenset[Constant] | None:
    """The values as constants; None if others are among them."""
    if values is None or not all(map(_is_constant, values)):
        return None
    return frozenset((isinstance(value, bool), value) for value in values)


def _is_constant(value: Any) -> bool:
    """Whether a value is a scalar and equals its canonical form; that of a large float is another integer."""
    if isinstance(value, float):
        return abs(value) < FIRST_ROUNDED
    return isinstance(value, str | int | None)


def _listed(value: CanonicalSchema | None) -> list[Any] | None:  # noqa: PLR0911 - one case per view
    """The values of a canonical schema; None if it does not list them."""
    match value.view() if value is not None else None:
        case canonical.ReferenceView() if value is not None:
            with suppress(canonical.CanonicalizationError):
                return _listed(DocumentForms(value).target(value))
            return None
        case canonical.FalseView():
            return []
        case canonical.ConstView(only):
            return [only]
        case canonical.EnumView(values):
            return list(values)
        case canonical.MultiTypeView(types) if set(types) <= _VALUES_OF_TYPES.keys():
            return [each for name in types for each in _VALUES_OF_TYPES[name]]
        case _:
            return None


def _is_listed(value: CanonicalSchema | None, listed: list[Any]) -> bool:
    """Whether all values of a canonical schema are among some."""
    values = _listed(value)
    return values is not None and {*map(without_key_order, values)} <= {*map(without_key_order, listed)}


def without_key_order(value: Any) -> str:
    """Equal for values that differ only in the order of keys; unlike `==`, it tells 1 from true."""
    return json.dumps(value, sort_keys=True, default=str)
