"""Decimal numbers in an interval: automata over digits and the point, and their rules.

Signs are not part of the automata: a number is lowered as a sign and its magnitude.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import count
from typing import NamedTuple, Self

from compiler.digraph import reverse_topological_order
from compiler.doubles import agreed_maximum, agreed_minimum
from compiler.grammar.grammar import EMPTY, CharClass, Expr, Literal, Rule, RuleRef, choice, concat
from compiler.grammar.rules import RuleTable
from compiler.regular import charset
from compiler.regular.dfa import DEAD, Alphabet, Dfa, build_dfa


@dataclass(frozen=True, slots=True)
class Interval:
    """The real numbers between two ends; None is no end."""

    low: Fraction | None
    high: Fraction | None
    is_low_strict: bool = False
    is_high_strict: bool = False

    @property
    def can_be_rounded_to(self) -> bool:
        """Whether rounding to a double could reach an exclusive end; zero cannot be reached."""
        return bool((self.is_low_strict and self.low) or (self.is_high_strict and self.high))

    @property
    def agreed(self) -> "Interval":
        """The interval with ends that hold for its decimals and for the doubles that these are rounded to."""
        low, is_low_strict = self.low, self.is_low_strict
        if low is not None:
            low, is_low_strict = agreed_minimum(low, is_strict=is_low_strict)
        high, is_high_strict = self.high, self.is_high_strict
        if high is not None:
            high, is_high_strict = agreed_maximum(high, is_strict=is_high_strict)
        return Interval(low, high, is_low_strict, is_high_strict)

    @property
    def num_digits(self) -> int:
        """The number of digits before the point of the end that has more of them."""
        return max((len(str(abs(end) // 1)) for end in (self.low, self.high) if end is not None), default=1)

    @property
    def from_zero(self) -> "Interval | None":
        """The part of the interval from zero up; None if that is empty."""
        if self.high is not None and (self.high < 0 or (self.high == 0 and self.is_high_strict)):
            return None
        if self.low is None or self.low < 0:
            return Interval(Fraction(0), self.high, is_high_strict=self.is_high_strict)
        return self

    @property
    def below_zero(self) -> "Interval | None":
        """The magnitudes of the numbers below zero in the interval; None if there are no such numbers."""
        if self.low is not None and self.low >= 0:
            return None
        low, is_strict = Fraction(0), True
        if self.high is not None and self.high < 0:
            low, is_strict = -self.high, self.is_high_strict
        return Interval(low, None if self.low is None else -self.low, is_strict, self.is_low_strict)


_CHARS = "0123456789."
ALPHABET = Alphabet(tuple(charset.of(char) for char in _CHARS))
SYMBOLS = range(len(_CHARS))
POINT = len(_CHARS) - 1
_DEFAULT_DIGITS = 20
DOUBLE_DIGITS = 15  # decimals of so many significant digits are distinct as doubles
MAX_COUNTED_PLACES = 10
"""The most digits after the point where digits are counted."""


@dataclass(frozen=True, slots=True)
class DigitLimits:
    """The most digits before the point, after it, and both together in a text with a point."""

    whole: int
    places: int
    significant: int

    @classmethod
    def of(cls, interval: Interval, places: int, *, is_counted: bool, is_unique: bool) -> Self:
        """The limits for an interval from zero up, with at most `places` digits after the point.

        `is_counted`: a decimal with more digits might be rounded to a double outside the interval, or to one
        that is no multiple. `is_unique`: no two decimals may be the same double.
        """
        is_double = is_unique or (is_counted and places > 0)
        significant = DOUBLE_DIGITS if is_double else _DEFAULT_DIGITS + places
        default = max(min(significant, _DEFAULT_DIGITS), len(str(int(interval.low or 0))) + 1)
        whole = default if interval.high is None else len(str(int(interval.high)))
        whole = min(whole, DOUBLE_DIGITS) if is_unique else whole
        return cls(whole, min(places, MAX_COUNTED_PLACES) if is_counted or is_unique else places, significant)


def without_trailing_zeros() -> Dfa:
    """The automaton of the texts that do not end in a zero after the point, nor in the point."""

    def step(state: str, symbol: int) -> str:
        if symbol == POINT:
            return "point"
        return "whole" if state == "whole" else "zero" if symbol == 0 else "digit"

    def successors(state: str) -> list[str]:
        return [step(state, symbol) for symbol in SYMBOLS]

    return build_dfa(ALPHABET, "whole", successors, lambda state: state in ("whole", "digit"))


def digit_rules(dfa: Dfa, rules: RuleTable) -> Expr | None:
    """The texts of a minimised automaton over digits; None if there are none. The automaton has no cycles."""
    if dfa.is_empty:
        return None
    order = reverse_topological_order([[target for target in row if target != DEAD] for row in dfa.table])
    assert order is not None, "digits are bounded"
    texts: dict[int, Expr] = {}
    for state in order:
        texts[state] = _texts_from(state, dfa, texts, rules)
    return texts[0]


def _texts_from(state: int, dfa: Dfa, texts: Mapping[int, Expr], rules: RuleTable) -> Expr:
    """The texts from a state on, given those from its successors on."""
    chars_to: dict[int, list[str]] = {}
    for symbol, target in enumerate(dfa.table[state]):
        if target != DEAD:
            chars_to.setdefault(target, []).append(_CHARS[symbol])
    options: list[Expr] = [
        concat(Literal(chars[0]) if len(chars) == 1 else CharClass.of(*chars), texts[target])
        for target, chars in chars_to.items()
    ]
    if state in dfa.accepting:
        options.append(EMPTY)
    body = choice(*options)
    return body if isinstance(body, Literal | RuleRef) else rules.define("digits", Rule(body))


def num_places(value: Fraction) -> int:
    """The number of digits after the point of a finite decimal."""
    return next(places for places in count() if (value * 10**places).denominator == 1)


class _State(NamedTuple):
    """What matters of a text so far."""

    whole: int
    """The number of digits before the point."""
    places: int
    """The number of digits after the point; -1 without a point."""
    low: int
    """How the text compares with the lower end: -1, 0 or 1."""
    high: int
    """How it compares with the upper end."""
    is_zero: bool
    """Whether it is a single zero, which no digit may follow."""


class _End:
    """An end of an interval as digits, to which numbers are compared digit by digit from the left."""

    def __init__(self, value: Fraction) -> None:
        places = num_places(value)
        digits = str((value * 10**places).numerator).rjust(places + 1, "0")
        self.whole = digits[: len(digits) - places].lstrip("0") or "0"
        self.fraction = digits[len(digits) - places :]

    def after_whole(self, order: int, index: int, digit: int) -> int:
        """The comparison after one more digit before the point, if the number has as many as the end."""
        return order or (_compare(digit, int(self.whole[index])) if index < len(self.whole) else 1)

    def at_point(self, order: int, num_whole: int) -> int:
        """The comparison once all digits before the point are read."""
        return _compare(num_whole, len(self.whole)) or order

    def after_place(self, order: int, index: int, digit: int) -> int:
        """The comparison after one more digit after the point."""
        return order or _compare(digit, int(self.fraction[index]) if index < len(self.fraction) else 0)

    def at_end(self, order: int, num_places: int) -> int:
        """The comparison of the complete number."""
        return order or (-1 if self.fraction[num_places:].strip("0") else 0)


def _compare(first: int, second: int) -> int:
    return (first > second) - (first < second)


def lower_magnitudes(interval: Interval, places: int, rules: RuleTable, *, is_unique: bool) -> Expr | None:
    """The non-negative numbers of an interval with at most `places` digits after the point; None if none.

    With `is_unique` no two of the texts are the same double: digits are few, and no zeros end them.
    """
    return digit_rules(_automaton(interval, places, is_unique), rules)


@lru_cache(maxsize=256)
def _automaton(interval: Interval, places: int, is_unique: bool) -> Dfa:  # noqa: FBT001 - a key
    """Cached, since it takes 8 ms to build and schemas have few distinct intervals."""
    return _MagnitudeAutomaton(interval, places, is_unique=is_unique).build()


class _MagnitudeAutomaton:
    """Builds the automaton of the magnitudes in an interval by comparing digits with its ends."""

    def __init__(self, interval: Interval, places: int, *, is_unique: bool) -> None:
        self.is_unique = is_unique
        self.interval = interval
        self.low = _End(interval.low or Fraction(0))
        self.high = None if interval.high is None else _End(interval.high)
        self.limits = DigitLimits.of(
            interval, places, is_counted=interval.can_be_rounded_to, is_unique=is_unique
        )

    def build(self) -> Dfa:
        start = _State(0, -1, 0, 0, is_zero=False)
        dfa = build_dfa(ALPHABET, start, self._successors, self._accepts)
        return dfa.intersect(without_trailing_zeros()) if self.is_unique else dfa

    def _successors(self, state: _State) -> list[_State | None]:
        return [self._step(state, symbol) for symbol in SYMBOLS]

    def _step(self, state: _State, symbol: int) -> _State | None:
        if symbol == POINT:
            return self._point(state)
        return self._after_point(state, symbol) if state.places >= 0 else self._before_point(state, symbol)

    def _before_point(self, state: _State, digit: int) -> _State | None:
        if state.is_zero or state.whole >= self.limits.whole:
            return None
        is_longer = state.whole >= len(self.low.whole)
        return state._replace(
            whole=state.whole + 1,
            low=1 if is_longer else self.low.after_whole(state.low, state.whole, digit),
            high=0 if self.high is None else self.high.after_whole(state.high, state.whole, digit),
            is_zero=state.whole == 0 and digit == 0,
        )

    def _point(self, state: _State) -> _State | None:
        if state.places >= 0 or state.whole == 0 or not self.limits.places:
            return None
        # All numbers with at most so many digits before the point may have the same digits after it.
        spare = self.limits.significant - self.limits.places
        return self._at_point(state)._replace(places=0, is_zero=False, whole=max(state.whole, spare))

    def _at_point(self, state: _State) -> _State:
        low = self.low.at_point(state.low, state.whole)
        high = 0 if self.high is None else self.high.at_point(state.high, state.whole)
        return state._replace(low=low, high=high)

    def _after_point(self, state: _State, digit: int) -> _State | None:
        if state.places >= self.limits.places or state.whole + state.places >= self.limits.significant:
            return None
        return state._replace(
            places=state.places + 1,
            low=self.low.after_place(state.low, state.places, digit),
            high=0 if self.high is None else self.high.after_place(state.high, state.places, digit),
        )

    def _accepts(self, state: _State) -> bool:
        if state.whole == 0 or state.places == 0:
            return False
        num_places = max(state.places, 0)
        whole = state if state.places > 0 else self._at_point(state)
        low = self.low.at_end(whole.low, num_places)
        if low < 0 or (low == 0 and self.interval.is_low_strict):
            return False
        if self.high is not None:
            high = self.high.at_end(whole.high, num_places)
            if high > 0 or (high == 0 and self.interval.is_high_strict):
                return False
        return True
