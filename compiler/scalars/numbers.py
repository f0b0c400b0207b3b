"""Lowering of numbers: the JSON texts of integers and decimals within bounds and with divisors.

Integers are written as integers. Everything is decided on decimal text, exactly. Validators that parse IEEE
doubles must agree. Rounding is monotone, so inclusive bounds need no care; with an exclusive bound or a
divisor a decimal has at most fifteen significant digits: such decimals stay apart as doubles.
"""

from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import lcm
from typing import TypeVar

from compiler.errors import UnsupportedKeyword
from compiler.grammar.grammar import (
    CharClass,
    Expr,
    Literal,
    Repeat,
    choice,
    concatenation,
    optional,
    sequence,
    union,
)
from compiler.grammar.rules import RuleSink
from compiler.regular.dfa import TooManyStates
from compiler.scalars.digits import Interval, Magnitudes

Number = int | float | Decimal
Bound = TypeVar("Bound", int | None, Number | None)

MAX_DIGITS = 20
"""Where no bound says otherwise: every 64-bit integer has no more, and a run of digits comes to an end."""
MAX_BOUND_DIGITS = 40
FAR = 10**120
"""Larger than whatever is written where nothing bounds it: 20 digits and an exponent of two."""
MAX_FRACTION = 20

_DIGIT = CharClass.of((0x30, 0x39))
_NON_ZERO = CharClass.of((0x31, 0x39))
_SIGN = optional(Literal("-"))


@dataclass(frozen=True)
class IntegerConstraint:
    """Which integers are admitted; bounds are inclusive."""

    minimum: int | None = None
    maximum: int | None = None
    multiple_of: tuple[Number, ...] = ()
    not_multiple_of: tuple[Number, ...] = ()


@dataclass(frozen=True)
class NumberConstraint:
    """Which numbers are admitted."""

    minimum: Number | None = None
    exclusive_minimum: bool = False
    maximum: Number | None = None
    exclusive_maximum: bool = False
    multiple_of: tuple[Number, ...] = ()
    not_multiple_of: tuple[Number, ...] = ()
    excludes_integers: bool = False


@dataclass(frozen=True, slots=True)
class LoweredNumber:
    """The texts of a set of numbers; `notes` say in what way they are fewer than the valid ones."""

    expr: Expr
    notes: tuple[str, ...] = ()


def lower_integer(
    constraint: IntegerConstraint, rules: RuleSink, *, is_unique: bool = False
) -> LoweredNumber | None:
    """The integers that a constraint admits; None if there is none.

    They are written without fraction, exponent or `-0`; with `is_unique` no two are the same double.

    Raises:
        UnsupportedKeyword: bounds or divisors are too large for an automaton.
    """
    minimum, maximum = _felt(constraint.minimum, constraint.maximum)
    multiple_of, not_multiple_of = constraint.multiple_of, constraint.not_multiple_of
    notes = () if _is_bounded(minimum, maximum) else (f"at most {MAX_DIGITS} digits",)
    is_plain = not (is_unique or multiple_of or not_multiple_of or maximum is not None)
    if is_plain and minimum is None:
        return LoweredNumber(choice(Literal("0"), sequence(_SIGN, _positive())), notes)
    if is_plain and minimum in (0, 1):
        return LoweredNumber(_whole() if minimum == 0 else _positive(), notes)
    step = lcm(*(_exact(m).numerator for m in multiple_of))
    avoided = tuple(Fraction(_exact(m).numerator) for m in not_multiple_of)
    interval = Interval(_fraction(minimum), _fraction(maximum))
    expr = _automata(interval, Fraction(step) if step != 1 else None, avoided, 0, rules, is_unique=is_unique)
    return None if expr is None else LoweredNumber(expr, notes)


def lower_number(
    constraint: NumberConstraint, rules: RuleSink, *, is_unique: bool = False
) -> LoweredNumber | None:
    """The numbers that a constraint admits; None if there is none.

    With `is_unique` no two texts are the same number, nor the same double.

    Raises:
        UnsupportedKeyword: bounds or divisors are too large for an automaton.
    """
    notes = (f"at most {MAX_FRACTION} digits after the point",)
    multiple_of = constraint.multiple_of
    minimum, maximum = _felt(constraint.minimum, constraint.maximum)
    avoided = tuple(map(_exact, constraint.not_multiple_of))
    avoided += (Fraction(1),) if constraint.excludes_integers else ()
    is_above = constraint.exclusive_minimum and minimum is not None
    is_plain = not multiple_of and not avoided and maximum is None and not is_above
    if is_plain and minimum in (None, 0) and not is_unique:
        return LoweredNumber(_decimal(is_signed=minimum is None), notes)
    step = _common_multiple(list(map(_exact, multiple_of))) if multiple_of else None
    interval = Interval(
        _fraction(minimum), _fraction(maximum), is_above, constraint.exclusive_maximum and maximum is not None
    )
    expr = _automata(interval, step, avoided, MAX_FRACTION, rules, is_unique=is_unique)
    return None if expr is None else LoweredNumber(expr, notes)


def _whole() -> Expr:
    return choice(Literal("0"), _positive())


def _positive() -> Expr:
    return sequence(_NON_ZERO, Repeat(_DIGIT, 0, MAX_DIGITS - 1))


def _decimal(*, is_signed: bool) -> Expr:
    """Any decimal: few enough digits before and after the point, an exponent that cannot overflow."""
    fraction = sequence(Literal("."), Repeat(_DIGIT, 1, MAX_FRACTION))
    sign = CharClass.of("+", "-")
    exponent = sequence(CharClass.of("e", "E"), optional(sign), Repeat(_DIGIT, 1, 2))
    magnitude = sequence(_whole(), optional(fraction), optional(exponent))
    return sequence(_SIGN, magnitude) if is_signed else magnitude


def _automata(
    interval: Interval,
    step: Fraction | None,
    avoided: tuple[Fraction, ...],
    places: int,
    rules: RuleSink,
    *,
    is_unique: bool,
) -> Expr | None:
    """Non-negative texts and, behind a sign, negative ones.

    An end too far from zero for an automaton is none: what is written stays short of it, with one digit more
    than the other end at most.
    """
    options: list[Expr | None] = []
    for part, sign, nearest in ((interval.from_zero, "", "minimum"), (interval.below_zero, "-", "maximum")):
        if part is None:
            continue
        if part.num_digits > MAX_BOUND_DIGITS:
            part = replace(part, high=None, is_high_strict=False)  # noqa: PLW2901 - the same part, cut short
            if part.num_digits >= MAX_BOUND_DIGITS:
                reason = f"has {part.num_digits} digits: no number beyond it is written"
                raise UnsupportedKeyword(nearest, reason, "Use a bound nearer to zero.")
        try:
            magnitude = Magnitudes(part, step, avoided, places, is_unique=is_unique).lower(rules)
        except TooManyStates as error:
            raise UnsupportedKeyword(
                "multipleOf", f"{error} with these bounds", "Use a smaller divisor."
            ) from error
        options.append(concatenation(Literal(sign), magnitude))
    return union(options)


def _felt(minimum: Bound, maximum: Bound) -> tuple[Bound, Bound]:
    """The bounds, but for those beyond whatever is written without them."""
    return (
        None if minimum is not None and minimum <= -FAR else minimum,
        None if maximum is not None and maximum >= FAR else maximum,
    )


def _is_bounded(*bounds: Number | None) -> bool:
    """Whether every integer between the bounds is written."""
    return all(bound is not None and len(str(abs(int(bound)))) <= MAX_BOUND_DIGITS for bound in bounds)


def _exact(value: Number) -> Fraction:
    """The number as written: 0.1 is a tenth."""
    return Fraction(Decimal(str(value)))


def _fraction(value: Number | None) -> Fraction | None:
    return None if value is None else _exact(value)


def _common_multiple(values: list[Fraction]) -> Fraction:
    denominator = lcm(*(value.denominator for value in values))
    return Fraction(lcm(*(int(value * denominator) for value in values)), denominator)
