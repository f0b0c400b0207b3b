"""Intervals of the real line, as bounds of a schema make them."""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Interval:
    """A set of reals between two ends; None is no end."""

    low: Fraction | None
    high: Fraction | None
    is_low_strict: bool = False
    is_high_strict: bool = False

    @property
    def is_rounded_upon(self) -> bool:
        """Whether an exclusive end other than zero could be reached by rounding."""
        return bool((self.is_low_strict and self.low) or (self.is_high_strict and self.high))

    @property
    def num_digits(self) -> int:
        """The number of digits before the point of the larger end."""
        return max((len(str(abs(end) // 1)) for end in (self.low, self.high) if end is not None), default=1)

    @property
    def from_zero(self) -> "Interval | None":
        """The part from zero up; None if there is none."""
        if self.high is not None and (self.high < 0 or (self.high == 0 and self.is_high_strict)):
            return None
        if self.low is None or self.low < 0:
            return Interval(Fraction(0), self.high, is_high_strict=self.is_high_strict)
        return self

    @property
    def below_zero(self) -> "Interval | None":
        """The part below zero, mirrored: its magnitudes; None if there is none."""
        if self.low is not None and self.low >= 0:
            return None
        low, is_strict = Fraction(0), True
        if self.high is not None and self.high < 0:
            low, is_strict = -self.high, self.is_high_strict
        return Interval(low, None if self.low is None else -self.low, is_strict, self.is_low_strict)
