"""Bounds of numbers that hold for decimals and for doubles.

A validator reads a number exactly, or as the double nearest to it, or as the shortest decimal that is rounded
to this double (jsonschema-rs reads Python's floats so). Some read integers exactly and all other numbers as
doubles: to Python `9223372036854775807` is itself and `9223372036854775807.0` is 2**63. They read the numbers
in a schema likewise. Up to 2**53 rounding hardly matters: integers are doubles, and rounding is
monotone. Beyond it integers are rounded too, so a bound is replaced by the nearest double that is within it
however both are read.

>>> agreed_maximum(Fraction(2**63 - 1), is_strict=False) == (2**63 - 1024, False)
True
"""

import math
from decimal import Decimal
from fractions import Fraction

FIRST_ROUNDED = 2**53
"""The least integer that shares its double with another integer."""
_MAX_DOUBLE = 10**300
"""Numbers beyond it need no care: nothing that large is ever written."""


def is_large(value: float | Fraction | Decimal) -> bool:
    """Whether another integer may be the same double; False for numbers larger than any that is written."""
    return FIRST_ROUNDED <= value < _MAX_DOUBLE or -_MAX_DOUBLE < value <= -FIRST_ROUNDED


def agreed_maximum(bound: Fraction, *, is_strict: bool) -> tuple[Fraction, bool]:
    """An upper bound that keeps a number within `bound` under every reading, and whether it is exclusive.

    Let L be the smaller of the bound and the double that it is rounded to, and D the largest double that is
    within L (below L, if the bound is exclusive) together with its shortest decimal. A number of at most D is
    within L as it is written. Rounding is monotone and leaves D as it is, so the number is rounded to at most
    D. Shortest decimals are monotone too, so that of its double is at most that of D. All of these are within
    L, and so within both readings of the bound.

    A smaller bound stays as it is. Rounding is monotone, so an inclusive one holds for doubles if it holds
    for decimals. Beside an exclusive one decimals have so few digits that none is rounded onto it
    (`Interval.can_be_rounded_to`).
    """
    if not is_large(bound):
        return bound, is_strict
    limit = min(bound, Fraction(float(bound)))
    double = float(limit)
    while (read := max(Fraction(double), Fraction(repr(double)))) > limit or (is_strict and read == limit):
        double = math.nextafter(double, -math.inf)
    return Fraction(double), False


def agreed_minimum(bound: Fraction, *, is_strict: bool) -> tuple[Fraction, bool]:
    """The counterpart of `agreed_maximum` for lower bounds."""
    end, stays_strict = agreed_maximum(-bound, is_strict=is_strict)
    return -end, stays_strict


def agreed_integer_maximum(bound: int, *, is_strict: bool) -> int:
    """The largest integer within `bound`, which is inclusive, under every reading of integers.

    A validator reads digits without a point exactly, or reads all numbers as doubles; the bound may have been
    written with a point or an exponent, which makes it a double to both. So of a bound that the schema states
    the smaller of its readings counts: rounding is monotone. `is_strict`: the bound may stem from an
    exclusive one, or from a negation, that names the next integer. Then that must not be reached.
    """
    if not is_large(bound):
        return bound
    if not is_strict:
        return min(bound, int(float(bound)))
    end, stays_strict = agreed_maximum(Fraction(bound + 1), is_strict=True)
    return bound if stays_strict else min(bound, int(end))


def agreed_integer_minimum(bound: int, *, is_strict: bool) -> int:
    """The counterpart of `agreed_integer_maximum` for lower bounds."""
    return -agreed_integer_maximum(-bound, is_strict=is_strict)
