"""Lower bounds for the number of values that a schema admits.

With enough values, the guard of `uniqueItems` never runs out of distinct ones.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any

from jsonschema_rs import CanonicalSchema, canonical

from compiler.errors import UnsupportedKeyword
from compiler.frontend.expansion import Expander
from compiler.frontend.large_numbers import LargeNumbers
from compiler.lowering.constraints import (
    ArrayConstraint,
    ObjectConstraint,
    array_constraint,
    integer_constraint,
    number_constraint,
    object_constraint,
    string_constraint,
)
from compiler.regular import charset
from compiler.regular.dfa import DEAD, Dfa
from compiler.scalars.decimal_texts import DOUBLE_DIGITS
from compiler.scalars.multiples import common_multiple
from compiler.scalars.numbers import IntegerConstraint, JsonNumber, NumberConstraint, exact, without_doubles
from compiler.scalars.string_constraint import StringConstraint
from compiler.scalars.strings import SHORTEST_GUARDED

MOST_DISTINCT = 64
"""The most distinct items or keys that a schema may demand; the budget closer finds these in two seconds."""
PLENTY = 10**9
"""More values than fit in any output."""
_LONGEST_COUNTED = 64
_MORE_ITEMS = 3
_NUM_UNBOUNDED: int = 10**DOUBLE_DIGITS
"""Distinct numbers are nearer to zero: they are written with up to fifteen digits."""
_NUM_NEAR: int = 10 ** (DOUBLE_DIGITS - 1)
"""At least so many numbers with up to fifteen digits are beyond a bound that is as near to zero."""
_SURE_DIGITS, _SURE_DECIMALS = 14, 9
"""Of bounded numbers, those with so many digits, and so many of them after the point, are all written."""
_HUNDREDTH, _SMALLEST = Fraction(1, 100), Fraction(1, 10**_SURE_DECIMALS)


class Cardinality:
    """Lower bounds for the schemas of one document; 0 also means that nothing is known."""

    def __init__(self, expander: Expander, large_numbers: LargeNumbers) -> None:
        self._expander = expander
        self._large_numbers = large_numbers
        self._open: set[CanonicalSchema] = set()
        self._known: dict[CanonicalSchema, float] = {}

    def at_least(self, schema: CanonicalSchema | None) -> float:
        """A lower bound for the number of values that the schema admits; None admits any value."""
        if schema is None:
            return math.inf
        if schema in self._open:  # values that contain a value of the same schema are not counted
            return 0
        if schema not in self._known:
            self._open.add(schema)
            count = self._count(schema)
            self._open.remove(schema)
            self._known[schema] = count  # lower than it could be if it contains an open schema
        return self._known[schema]

    def _count(self, schema: CanonicalSchema) -> float:  # noqa: C901, PLR0911, PLR0912 - one case per canonical view
        match schema.view():
            case canonical.FalseView():
                return 0
            case canonical.TrueView():
                return math.inf
            case canonical.ConstView(value):
                return self._num_listed([value])
            case canonical.EnumView(values):
                return self._num_listed(values)
            case canonical.MultiTypeView(types):
                return sum({"null": 1, "boolean": 2}.get(name, math.inf) for name in types)
            case canonical.AnyOfView(branches):
                return max(map(self.at_least, branches))
            case canonical.StringView() as view:
                return _num_strings(string_constraint(view))
            case canonical.IntegerView() as view:
                parts = without_doubles(integer_constraint(view), self._large_numbers.confused)
                return max((_num_integers(part.agreed) for part in parts), default=0)
            case canonical.NumberView() as view:
                constraint = number_constraint(view)
                if without_doubles(constraint, self._large_numbers.confused) != [constraint]:
                    return 0
                return _num_numbers(constraint)
            case canonical.ArrayView() as view:
                return self._num_arrays(array_constraint(view))
            case canonical.ObjectView() as view:
                return self._num_objects(object_constraint(view))
            case canonical.RawView():
                return 0
            case _:
                with suppress(canonical.CanonicalizationError):
                    cases, _ = self._expander.expand(schema)
                    return max(map(self.at_least, cases), default=0) if cases != [schema] else 0
                return 0

    def _num_listed(self, values: Sequence[Any]) -> int:
        can_be_listed = self._large_numbers.can_be_listed
        return sum(can_be_listed(value, has_only_digits=True, is_distinct=True) for value in values)

    def _num_arrays(self, constraint: ArrayConstraint) -> float:
        is_repeated = constraint.distinctness == canonical.Distinctness.SOME_REPEATED
        if constraint.contains or is_repeated or constraint.min_items > _LONGEST_COUNTED:
            return 0
        # The guard may keep the items distinct although this schema does not demand it (`Planner.plan`).
        is_distinct = (
            constraint.distinctness == canonical.Distinctness.ALL_DISTINCT or constraint.min_items < 2
        )
        counts = [*map(self.at_least, constraint.prefix_items)]
        longest = constraint.min_items + _MORE_ITEMS
        if constraint.max_items is not None:
            longest = min(longest, constraint.max_items)
        counts += [self.at_least(constraint.items)] * (longest - len(counts))
        total, arrays = 0.0, 1.0
        for length in range(longest + 1):
            if length >= constraint.min_items:
                total += arrays
            num_items = counts[length] - length * is_distinct if length < longest else 0
            if num_items <= 0 or total >= PLENTY:
                break
            arrays *= num_items
        return total

    def _num_objects(self, constraint: ObjectConstraint) -> float:
        names = constraint.property_names
        known = None if names is None else finite_names(names)
        if (names is not None and known is None) or constraint.violations or constraint.pattern_properties:
            return 0
        if names is None and not constraint.properties and not constraint.required:
            if constraint.max_properties != 0 and self.at_least(constraint.additional_properties):
                return math.inf
            return 1 if constraint.min_properties == 0 else 0  # the empty object
        if known is not None and not known.issuperset(constraint.required):
            return 0
        # With `maxProperties`, only objects of the required keys are counted.
        optional = constraint.properties.keys() - constraint.required
        if known is not None:
            optional &= known
        if constraint.max_properties is not None:
            optional = set()
        if constraint.min_properties > len(constraint.required) + len(optional):
            return 0
        # Where some optional keys are needed, only objects with all of them are counted.
        num_left_out = 0 if constraint.min_properties > len(constraint.required) else 1
        others = constraint.additional_properties
        required = (self.at_least(constraint.properties.get(key, others)) for key in constraint.required)
        added = (self.at_least(constraint.properties[key]) + num_left_out for key in optional)
        return math.prod((*required, *added), start=1.0)


def is_roomy(schema: CanonicalSchema | None, *, guards_lengths: bool) -> bool:
    """Whether every beginning of a text of the schema is known to have countless continuations.

    With `guards_lengths`, beginnings that leave no room for another character do not count: the guard that
    counts the characters knows them.
    """
    match schema.view() if schema is not None else None:
        case canonical.StringView() as view:
            constraint = string_constraint(view)
            is_counted = constraint.max_length is not None and constraint.max_length < SHORTEST_GUARDED
            may_be_bounded = guards_lengths and not is_counted
            return constraint.has_only_lengths and (constraint.max_length is None or may_be_bounded)
        case canonical.MultiTypeView(types):
            return tuple(types) == ("string",)
        case _:
            return False


def finite_names(names: CanonicalSchema) -> set[str] | None:
    """The keys that `propertyNames` lists; None if it does not list them."""
    match names.view():
        case canonical.ConstView(value):
            return {str(value)}
        case canonical.EnumView(values):
            return set(map(str, values))
        case canonical.FalseView():
            return set()
        case _:
            return None


def _num_integers(constraint: IntegerConstraint) -> float:
    if constraint.not_multiple_of:
        return _at_least_one(constraint)
    if constraint.multiple_of:
        step = Fraction(common_multiple(map(exact, constraint.multiple_of)).numerator)
        return max(_at_least_one(constraint), _num_multiples(step, constraint.minimum, constraint.maximum))
    low = -_NUM_UNBOUNDED if constraint.minimum is None else max(-_NUM_UNBOUNDED, constraint.minimum - 1)
    high = _NUM_UNBOUNDED if constraint.maximum is None else min(_NUM_UNBOUNDED, constraint.maximum + 1)
    return max(0, high - low - 1)


def _num_numbers(constraint: NumberConstraint) -> float:
    if constraint.not_multiple_of:
        return _at_least_one(constraint)
    if not constraint.multiple_of and constraint.maximum is None:
        return _NUM_NEAR * _at_least_one(constraint)
    steps = map(exact, constraint.multiple_of)
    step = common_multiple(steps) if constraint.multiple_of else _HUNDREDTH
    count = _num_multiples(step, constraint.minimum, constraint.maximum)
    if not count and not constraint.multiple_of:
        count = min(3, _num_multiples(_SMALLEST, constraint.minimum, constraint.maximum))
    count -= constraint.exclusive_minimum + constraint.exclusive_maximum
    if constraint.excludes_integers:
        count -= _num_multiples(Fraction(1), constraint.minimum, constraint.maximum)
    return max(0, count)


def _at_least_one(constraint: IntegerConstraint | NumberConstraint) -> int:
    """1 if a number that the constraint admits is known to have few digits, else 0."""
    is_near = constraint.minimum is None or constraint.minimum <= _NUM_NEAR
    is_near &= constraint.maximum is None or constraint.maximum >= -_NUM_NEAR
    return int(is_near and all(step <= _NUM_NEAR for step in constraint.multiple_of))


def _num_multiples(step: Fraction, minimum: JsonNumber | None, maximum: JsonNumber | None) -> int:
    """How many multiples there are between two bounds, of those that are written with few digits."""
    decimals = next((n for n in range(_SURE_DECIMALS + 1) if (step * 10**n).denominator == 1), None)
    if decimals is None:
        return 0
    most = Fraction(10 ** (_SURE_DIGITS - decimals))
    low = -most if minimum is None else max(-most, exact(minimum))
    high = most if maximum is None else min(most, exact(maximum))
    return math.floor(high / step) - math.ceil(low / step) + 1


def _num_strings(constraint: StringConstraint) -> float:
    if constraint.only_excludes and constraint.max_length is None:
        return math.inf
    if constraint.excluded_formats:
        return 0
    try:
        dfa = constraint.automaton()
    except UnsupportedKeyword:
        return 0
    return num_texts(dfa, constraint.min_length, constraint.max_length)


def num_texts(dfa: Dfa, low: int, high: int | None) -> float:
    """A lower bound for the number of texts of an automaton with lengths from `low` to `high`.

    Long texts are not counted, nor is anything beyond `PLENTY`.
    """
    if dfa.is_empty:
        return 0
    if dfa.max_length is None and high is None:
        return math.inf
    sizes = [charset.size(atom) for atom in dfa.alphabet.atoms]
    reached, total = {0: 1}, 0
    for length in range(min(high if high is not None else _LONGEST_COUNTED, _LONGEST_COUNTED) + 1):
        if length >= low:
            total += sum(number for state, number in reached.items() if state in dfa.accepting)
        if total >= PLENTY:
            break
        reached = _after_one_more(dfa, sizes, reached)
    return total


def _after_one_more(dfa: Dfa, sizes: Sequence[int], reached: Mapping[int, int]) -> dict[int, int]:
    """How many texts lead to each state, `PLENTY` at most, from those of one character less."""
    following: dict[int, int] = {}
    for state, number in reached.items():
        for target, size in zip(dfa.table[state], sizes, strict=True):
            if target != DEAD:
                following[target] = min(PLENTY, following.get(target, 0) + number * size)
    return following
