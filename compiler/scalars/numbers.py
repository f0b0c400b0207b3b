"""Lowering of numbers: what a schema says of a number becomes the rules of its JSON texts.

Integers are written as integers. Everything is decided on decimal texts, exactly, but validators that parse
IEEE doubles must agree. Rounding is monotone, so inclusive bounds up to 2**53 need no care; larger bounds are
narrowed (`compiler.doubles`). With an exclusive bound or a divisor a decimal has at most fifteen
significant digits: such decimals are distinct as doubles.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from typing import Any, TypeVar

from compiler.doubles import agreed_integer_maximum, agreed_integer_minimum, is_large
from compiler.errors import UnsupportedKeyword
from compiler.grammar.grammar import (
    CharClass,
    Expr,
    Literal,
    Repeat,
    choice,
    concat,
    optional,
    union,
)
from compiler.grammar.rules import RuleTable
from compiler.report import Note, Verdict
from compiler.scalars.decimal_texts import DOUBLE_DIGITS, MAX_COUNTED_PLACES, Interval, lower_magnitudes
from compiler.scalars.multiples import Multiples, common_multiple

JsonNumber = int | float | Decimal
_Bound = TypeVar("_Bound", int | None, JsonNumber | None)

MAX_DIGITS = 20
"""The most digits of an integer without bounds: enough for 64 bits, and a model cannot go on for ever."""
MAX_BOUND_DIGITS = 40
FAR = 10**120
"""More than any number that is written without bounds: those have 20 digits and an exponent of two digits."""
MAX_FRACTION = 20
DIGITS_OF_NUMBERS = (
    f"numbers have at most {MAX_DIGITS} digits before the point and {MAX_FRACTION} after it,"
    " and exponents of two digits"
)

_DIGITS = f"no exponent, at most {MAX_FRACTION} digits after the point"
_COUNTED_DIGITS = (
    f"no exponent, at most {DOUBLE_DIGITS} significant digits, {MAX_COUNTED_PLACES} after the point"
)

_DIGIT = CharClass.of((0x30, 0x39))
_NON_ZERO = CharClass.of((0x31, 0x39))
_SIGN = optional(Literal("-"))
_EXACT = Context(prec=2 * MAX_BOUND_DIGITS)


@dataclass(frozen=True)
class IntegerConstraint:
    """Which integers a schema admits; bounds are inclusive.

    `may_exclude`: a bound may stem from a number that the schema excludes, next to the bound.
    """

    minimum: int | None = None
    maximum: int | None = None
    multiple_of: tuple[JsonNumber, ...] = ()
    not_multiple_of: tuple[JsonNumber, ...] = ()
    may_exclude: bool = False

    @property
    def values(self) -> Mapping[str, Collection[Any]]:
        """The values of the keywords that it stems from, by keyword."""
        return {"minimum": (self.minimum,), "maximum": (self.maximum,), "multipleOf": self.multiple_of}

    @property
    def agreed(self) -> "IntegerConstraint":
        """The constraint with bounds that hold under every reading of integers."""
        minimum, maximum = self.minimum, self.maximum
        if minimum is not None:
            minimum = agreed_integer_minimum(minimum, is_strict=self.may_exclude)
        if maximum is not None:
            maximum = agreed_integer_maximum(maximum, is_strict=self.may_exclude)
        return replace(self, minimum=minimum, maximum=maximum)


@dataclass(frozen=True)
class NumberConstraint:
    """Which numbers a schema admits; `may_exclude` means the same as for integers."""

    minimum: JsonNumber | None = None
    exclusive_minimum: bool = False
    maximum: JsonNumber | None = None
    exclusive_maximum: bool = False
    multiple_of: tuple[JsonNumber, ...] = ()
    not_multiple_of: tuple[JsonNumber, ...] = ()
    excludes_integers: bool = False
    may_exclude: bool = False

    @property
    def values(self) -> Mapping[str, Collection[Any]]:
        """The values of the keywords that it stems from, by keyword."""
        low, high = (self.minimum,), (self.maximum,)
        return {
            "minimum": low,
            "exclusiveMinimum": low,
            "maximum": high,
            "exclusiveMaximum": high,
            "multipleOf": self.multiple_of,
        }

    def is_strict(self, bound: JsonNumber | None, *, is_exclusive: bool) -> bool:
        """Whether a bound must not be reached.

        Canonicalization keeps the closest bound. Beyond 2**53 an exclusive one next to it may be the same
        double.
        """
        return bound is not None and (is_exclusive or (self.may_exclude and is_large(bound)))


_Constraint = TypeVar("_Constraint", bound=IntegerConstraint | NumberConstraint)


@dataclass(frozen=True, slots=True)
class LoweredNumber:
    """The texts of a set of numbers; `notes` say which valid numbers are left out."""

    expr: Expr
    notes: tuple[Note, ...] = ()

    def after(self, notes: tuple[Note, ...]) -> "LoweredNumber":
        """The same with more notes before its own."""
        return LoweredNumber(self.expr, (*notes, *self.notes))


def without_doubles(constraint: _Constraint, doubles: Iterable[float]) -> list[_Constraint]:
    """The numbers of a constraint that are rounded to none of some large doubles, as several constraints.

    >>> without_doubles(IntegerConstraint(minimum=0, maximum=2**60), [2.0**60])
    [IntegerConstraint(minimum=0, maximum=1152921504606846975, ..., may_exclude=True)]
    """
    parts = [constraint]
    for double in doubles:
        parts = [rest for part in parts for rest in _without_double(part, double)]
    return parts


def _without_double(constraint: _Constraint, double: float) -> list[_Constraint]:
    """The numbers below the double, and those above it.

    Numbers beyond a double of too many digits are left out: there is no automaton for them.
    """
    minimum, maximum = _relevant_bounds(constraint.minimum, constraint.maximum)
    low = -math.inf if minimum is None else float(minimum)
    high = math.inf if maximum is None else float(maximum)
    if abs(double) >= FAR or not low <= double <= high:
        return [constraint]
    end, limit = int(double), 10 ** (MAX_BOUND_DIGITS - 1)
    below: dict[str, Any] = {"maximum": end, "exclusive_maximum": True}
    above: dict[str, Any] = {"minimum": end, "exclusive_minimum": True}
    if isinstance(constraint, IntegerConstraint):
        below = {"maximum": end - 1, "may_exclude": True}
        above = {"minimum": end + 1, "may_exclude": True}
    parts = [replace(constraint, **below)] * (low < double and end > -limit)
    return parts + [replace(constraint, **above)] * (double < high and end < limit)


def lower_integer(
    constraint: IntegerConstraint, rules: RuleTable, *, is_unique: bool = False
) -> LoweredNumber | None:
    """The integers that a constraint admits; None if there are none.

    They are written without fraction, exponent or `-0`; with `is_unique` no two texts are the same double.

    Raises:
        UnsupportedKeyword: a bound is too far from zero.
    """
    agreed = constraint.agreed
    minimum, maximum = _relevant_bounds(agreed.minimum, agreed.maximum)
    notes = (
        *_digit_notes(minimum, maximum, is_unique=is_unique),
        *_moved_bound_notes(_fraction(constraint.minimum), _fraction(minimum), "minimum"),
        *_moved_bound_notes(_fraction(constraint.maximum), _fraction(maximum), "maximum"),
    )
    multiples = _integer_multiples(constraint, is_unique=is_unique)
    if multiples is None and not is_unique and maximum is None and minimum in (None, 0, 1):
        return LoweredNumber(_plain_integers(minimum), notes)
    if multiples is not None and minimum is None and maximum is None:
        lowered = _lower_multiples_of_either_sign(multiples, rules)
    else:
        interval = Interval(_fraction(minimum), _fraction(maximum))
        lowered = _lower_interval(interval, multiples, 0, rules, is_unique=is_unique)
    return lowered and lowered.after(notes)


def _digit_notes(
    minimum: JsonNumber | None, maximum: JsonNumber | None, *, is_unique: bool
) -> tuple[Note, ...]:
    """The note on how many digits integers have, where the bounds do not say it."""
    if is_unique and not _is_bounded(minimum, maximum, DOUBLE_DIGITS):
        return (_narrowed_note("type", f"at most {DOUBLE_DIGITS} digits"),)
    if not _is_bounded(minimum, maximum, MAX_BOUND_DIGITS):
        return (_narrowed_note("type", f"at most {MAX_DIGITS} digits"),)
    return ()


def _integer_multiples(constraint: IntegerConstraint, *, is_unique: bool) -> Multiples | None:
    """The multiples that a constraint asks for; None if it admits all integers within its bounds."""
    if not constraint.multiple_of and not constraint.not_multiple_of:
        return None
    step = Fraction(math.lcm(*(exact(number).numerator for number in constraint.multiple_of)))
    avoided = tuple(Fraction(exact(number).numerator) for number in constraint.not_multiple_of)
    return Multiples(step, avoided, 0, is_unique=is_unique)


def _plain_integers(minimum: JsonNumber | None) -> Expr:
    """All integers, or those from 0 or 1 on."""
    if minimum is None:
        return choice(Literal("0"), concat(_SIGN, _positive()))
    return _whole() if minimum == 0 else _positive()


def lower_number(
    constraint: NumberConstraint, rules: RuleTable, *, is_unique: bool = False
) -> LoweredNumber | None:
    """The numbers that a constraint admits; None if there are none.

    With `is_unique` no two texts are the same number or the same double.

    Raises:
        UnsupportedKeyword: a bound is too far from zero.
    """
    minimum, maximum = _relevant_bounds(constraint.minimum, constraint.maximum)
    multiples = _number_multiples(constraint, is_unique=is_unique)
    is_above = constraint.is_strict(minimum, is_exclusive=constraint.exclusive_minimum)
    is_plain = multiples is None and not is_unique and maximum is None and not is_above
    if is_plain and minimum in (None, 0):
        note = _narrowed_note("type", DIGITS_OF_NUMBERS)
        return LoweredNumber(_decimal(is_signed=minimum is None), (note,))
    is_below = constraint.is_strict(maximum, is_exclusive=constraint.exclusive_maximum)
    interval = Interval(_fraction(minimum), _fraction(maximum), is_above, is_below).agreed
    is_counted = multiples is not None or is_unique or interval.can_be_rounded_to
    notes = (
        _narrowed_note("type", _COUNTED_DIGITS if is_counted else _DIGITS),
        *_moved_bound_notes(_fraction(minimum), interval.low, "minimum"),
        *_moved_bound_notes(_fraction(maximum), interval.high, "maximum"),
    )
    lowered = _lower_interval(interval, multiples, MAX_FRACTION, rules, is_unique=is_unique)
    return lowered and lowered.after(notes)


def _number_multiples(constraint: NumberConstraint, *, is_unique: bool) -> Multiples | None:
    """The multiples that a constraint asks for; None if it admits all numbers within its bounds."""
    steps = tuple(map(exact, constraint.multiple_of))
    avoided = tuple(map(exact, constraint.not_multiple_of))
    avoided += (Fraction(1),) if constraint.excludes_integers else ()
    if not steps and not avoided:
        return None
    step = common_multiple(steps) if steps else Fraction(1, 10**MAX_COUNTED_PLACES)
    return Multiples(step, avoided, MAX_FRACTION, is_unique=is_unique)


def _whole() -> Expr:
    return choice(Literal("0"), _positive())


def _positive() -> Expr:
    return concat(_NON_ZERO, Repeat(_DIGIT, 0, MAX_DIGITS - 1))


@cache
def _decimal(*, is_signed: bool) -> Expr:
    """Any decimal, with limits on its digits and an exponent that cannot overflow."""
    fraction = concat(Literal("."), Repeat(_DIGIT, 1, MAX_FRACTION))
    sign = CharClass.of("+", "-")
    exponent = concat(CharClass.of("e", "E"), optional(sign), Repeat(_DIGIT, 1, 2))
    magnitude = concat(_whole(), optional(fraction), optional(exponent))
    return concat(_SIGN, magnitude) if is_signed else magnitude


def _lower_interval(
    interval: Interval,
    multiples: Multiples | None,
    places: int,
    rules: RuleTable,
    *,
    is_unique: bool,
) -> LoweredNumber | None:
    """The non-negative numbers of an interval and, after a sign, the negative ones.

    An end that is too far from zero for an automaton is dropped. Written numbers have at most one digit more
    than the other end, so they do not reach the dropped end; if they might, it is kept.
    """
    options: list[Expr | None] = []
    notes: tuple[Note, ...] = ()
    for part, sign, nearest in ((interval.from_zero, "", "minimum"), (interval.below_zero, "-", "maximum")):
        if part is None:
            continue
        if part.num_digits > MAX_BOUND_DIGITS:
            near = replace(part, high=None, is_high_strict=False)
            if near.num_digits > MAX_BOUND_DIGITS:
                reason = f"is too far from zero: the limit is {MAX_BOUND_DIGITS} digits"
                raise UnsupportedKeyword(nearest, reason, "Use a bound nearer to zero.")
            if part.num_digits > near.num_digits + 1:
                part = near  # noqa: PLW2901 - the same part without its far end
        if multiples is None:
            magnitude = lower_magnitudes(part, places, rules, is_unique=is_unique)
        else:
            magnitude, end = multiples.lower(part, rules)
            notes += _largest_multiple_notes(multiples, end)
        options.append(concat(Literal(sign), magnitude))
    expr = union(options)
    return None if expr is None else LoweredNumber(expr, notes)


def _lower_multiples_of_either_sign(multiples: Multiples, rules: RuleTable) -> LoweredNumber | None:
    """All integers among some multiples; one automaton is enough for both signs."""
    magnitude, end = multiples.lower(Interval(Fraction(0), None, is_low_strict=True), rules)
    zero = None if multiples.avoided else Literal("0")  # zero is a multiple of every number
    expr = union((zero, concat(_SIGN, magnitude)))
    return None if expr is None else LoweredNumber(expr, _largest_multiple_notes(multiples, end))


def _moved_bound_notes(bound: Fraction | None, agreed: Fraction | None, keyword: str) -> tuple[Note, ...]:
    """Notes on a bound that was replaced by one within it; none if it was not, or does not matter."""
    if bound is None or agreed is None or bound == agreed:
        return ()
    strict = {"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}[keyword]
    note = f"{agreed} instead: not all validators tell the numbers between from the bound"
    return _narrowed_note(keyword, note), _narrowed_note(strict, note)


def _narrowed_note(keyword: str, note: str) -> Note:
    return keyword, Verdict.NARROWED, note


def _largest_multiple_notes(multiples: Multiples, end: Fraction | None) -> tuple[Note, ...]:
    """The note on multiples that are all less than `end`; none if that is None."""
    if end is None:
        return ()
    distance = _EXACT.divide(Decimal(end.numerator), Decimal(end.denominator))
    keyword = "not" if multiples.avoided else "multipleOf"
    return (
        _narrowed_note(keyword, f"less than {distance:f} from zero; the automaton for more is too large"),
    )


def _relevant_bounds(minimum: _Bound, maximum: _Bound) -> tuple[_Bound, _Bound]:
    """The bounds without those that are beyond any number that is written without bounds."""
    return (
        None if minimum is not None and minimum <= -FAR else minimum,
        None if maximum is not None and maximum >= FAR else maximum,
    )


def _is_bounded(minimum: JsonNumber | None, maximum: JsonNumber | None, num_digits: int) -> bool:
    """Whether all integers between the bounds have at most so many digits."""
    return all(bound is not None and len(str(abs(int(bound)))) <= num_digits for bound in (minimum, maximum))


def exact(value: JsonNumber) -> Fraction:
    """The number as it is written: 0.1 is a tenth."""
    return Fraction(Decimal(str(value)))


def _fraction(value: JsonNumber | None) -> Fraction | None:
    return None if value is None else exact(value)
