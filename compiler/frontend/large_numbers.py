"""The numbers of a schema that a validator may take for one another, because doubles round them alike.

Up to 2**53 all integers are doubles. Beyond it a validator that reads doubles compares other numbers than one
that reads integers exactly, and canonicalization reads exactly. That is safe as long as the schema only says
which numbers are admitted, inclusively, and in one spelling: rounding is monotone. It matters where a number
is excluded, by an exclusive bound or below a negation, and where a number that is no double has a point or an
exponent beside one that has neither: to Python `1e23` is less than `100000000000000000000000`.

Two named numbers are *confused* if they are the same double and validators may disagree which is less. A
number that is rounded to another double is on the same side of both under every reading. So where none is
written that is rounded to the double of confused ones, all validators agree how it compares with them.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Self

from compiler.doubles import FIRST_ROUNDED
from compiler.frontend.dialect_dependent import NEGATIVE
from compiler.frontend.keywords import inside

_STRICT = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
"""Exclusive bounds, and the bound that each makes exclusive in draft 4."""
_NUMERIC = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "const", "enum")


@dataclass(frozen=True, slots=True)
class LargeNumbers:
    """The numbers beyond 2**53 that a schema names, its other documents included.

    `integers` are written with digits alone, `floats` with a point or an exponent; both are read as decimals.
    `are_excluded`: the schema may exclude some numbers, rather than only admit others.
    `confused`: the doubles that confused numbers are rounded to, in ascending order.
    """

    integers: frozenset[int]
    floats: frozenset[int]
    are_excluded: bool
    confused: tuple[float, ...]

    @classmethod
    def of(cls, documents: Iterable[Any]) -> Self:
        """The large numbers of a schema and the documents that it refers to.

        >>> LargeNumbers.of([{"maximum": 2**63, "const": 1e23}]).floats == {10**23}
        True
        """
        schemas = [schema for document in documents for schema in inside(document)]
        named = [
            number
            for schema in schemas
            for keyword in _NUMERIC
            for number in _large_numbers(schema.get(keyword))
        ]
        integers = frozenset(number for number in named if isinstance(number, int))
        floats = frozenset(_as_decimal(number) for number in named if not isinstance(number, int))
        are_excluded = any(map(_excludes, schemas))
        return cls(integers, floats, are_excluded, _confused(integers, floats, are_excluded=are_excluded))

    def can_be_listed(self, value: Any, *, has_only_digits: bool, is_distinct: bool) -> bool:
        """Whether `const` and `enum` admit a value under every reading, if it is written as they list it.

        A large number that the schema lists is equal to itself under every reading. It is left out if

        - it is rounded to the same double as confused numbers or, if numbers are excluded and the schema does
          not name it, as another number;
        - or the schema names it both with and without a point, so that it is not known how it is listed;
        - or it is listed with a point, but must be written with digits alone (`has_only_digits`), and is no
          double: then these digits are another number to validators that read integers exactly;
        - or it must be another value than others (`is_distinct`), and is the same double as another number.
        """
        return all(
            self._can_be_listed(number, has_only_digits) and not (is_distinct and self._shares_double(number))
            for number in _large_numbers(value)
        )

    def _shares_double(self, number: float | Decimal) -> bool:
        named = self.integers | self.floats | {_as_decimal(number)}
        return sum(float(other) == float(number) for other in named) > 1

    def _can_be_listed(self, number: float | Decimal, has_only_digits: bool) -> bool:  # noqa: FBT001 - private
        exact = _as_decimal(number)
        is_double = exact not in self.floats or _is_double(exact)
        if not is_double and (has_only_digits or exact in self.integers):
            return False
        named = self.integers | self.floats
        if self.are_excluded and exact not in named and float(exact) in map(float, named):
            return False
        return float(exact) not in self.confused

    def as_read(self, value: Any) -> Any:
        """The value with its large numbers as the schema lists them: `1e+23`, where digits are no double."""
        match value:
            case int() if value in self.floats and not _is_double(value):
                return float(value)
            case list():
                return [self.as_read(item) for item in value]
            case dict():
                return {key: self.as_read(item) for key, item in value.items()}
        return value


def _confused(integers: frozenset[int], floats: frozenset[int], *, are_excluded: bool) -> tuple[float, ...]:
    """The doubles of confused numbers.

    Where numbers are excluded, all different numbers count that are the same double. A float that is no
    double is another number than an integer, even with the same digits: it may be read as its double.
    """
    rounded = frozenset(number for number in floats if not _is_double(number))
    exact = integers | (floats - rounded)
    num_exact, num_rounded = Counter(map(float, exact)), Counter(map(float, rounded))
    confused = num_exact.keys() & num_rounded.keys()
    if are_excluded:
        confused |= {double for double, num in (num_exact + num_rounded).items() if num > 1}
    return tuple(sorted(confused))


def _is_double(number: int) -> bool:
    """Whether a double is exactly this large number."""
    return int(float(number)) == number


def _large_numbers(value: Any) -> Iterator[int | float | Decimal]:
    stack = [value]
    while stack:
        match stack.pop():
            case int() | float() | Decimal() as number if _is_rounded(number):
                yield number
            case list() as items:
                stack += items
            case dict() as members:
                stack += members.values()


def _is_rounded(number: float | Decimal) -> bool:
    """Whether another number may be the same double; what is listed may have hundreds of digits."""
    magnitude = -number if number < 0 else number
    return FIRST_ROUNDED <= magnitude <= sys.float_info.max


def _as_decimal(number: float | Decimal) -> int:
    """A large number as it is written: beyond 2**53 even floats are integers."""
    return number if isinstance(number, int) else int(Decimal(str(number)))


def _excludes(schema: dict[str, Any]) -> bool:
    """Whether a schema may exclude a large number: by a negation, or by an exclusive bound."""
    if schema.keys() & NEGATIVE:
        return True
    bounds = (
        schema.get(bound) if schema.get(strict) is True else schema.get(strict)
        for strict, bound in _STRICT.items()
    )
    return any(True for bound in bounds for _ in _large_numbers(bound))
