"""Multiples of a number that are not multiples of others: automata over digits, and their rules.

For every number of digits that are still to come before and after the point, the texts that may follow form
an arithmetic progression, if their digits are read as one integer. A state of the automaton is the set of
these progressions and nothing else, so texts with the same continuations share a state, however large the
divisor is. For multiples of 1,000 a state says how many zeros are missing; a few scattered multiples become a
trie of their digits whose ends are shared.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor, lcm
from typing import NamedTuple

from compiler.grammar.grammar import Expr
from compiler.grammar.rules import RuleTable
from compiler.regular.dfa import MAX_STATES, Dfa, TooManyStates, build_dfa
from compiler.scalars.decimal_texts import (
    ALPHABET,
    POINT,
    SYMBOLS,
    DigitLimits,
    Interval,
    digit_rules,
    num_places,
    without_trailing_zeros,
)


class _Continuations(NamedTuple):
    """Texts of one shape that may follow or, with `is_avoided`, must not: their digits read as integers.

    Two ranges are equal if they have the same members.
    """

    shape: str  # a `#` for every digit, and the point
    numbers: range
    is_avoided: bool = False

    def successors(self) -> Iterator[tuple[int, "_Continuations"]]:
        """Each symbol that may come next, and the continuations after it."""
        if self.shape.startswith("."):
            yield POINT, self._replace(shape=self.shape[1:])
        elif self.shape:
            shape, step = self.shape[1:], self.numbers.step
            size = 10 ** shape.count("#")
            for digit in range(self.numbers[0] // size, self.numbers[-1] // size + 1):
                start, stop = self.numbers.start - digit * size, self.numbers.stop - digit * size
                if numbers := range(max(start, start % step), min(stop, size), step):
                    yield digit, _Continuations(shape, numbers, self.is_avoided)


class _ContinuationAutomaton:
    """Builds automata whose states are sets of continuations, by number; successors are computed once."""

    def __init__(self) -> None:
        self._continuations: list[_Continuations] = []
        self._numbers: dict[_Continuations, int] = {}
        self._transitions: dict[int, list[tuple[int, int]]] = {}
        self._end = self._number(_Continuations("", range(1)))
        self._avoided_end = self._number(_Continuations("", range(1), is_avoided=True))

    def build(self, continuations: Iterable[_Continuations]) -> Dfa:
        """The automaton of the texts that are wanted and not avoided.

        Raises:
            TooManyStates: there are too many states.
        """
        start = tuple(map(self._number, continuations))
        return build_dfa(ALPHABET, start, self._successors, self._accepts)

    def _number(self, continuations: _Continuations) -> int:
        if continuations not in self._numbers:
            self._numbers[continuations] = len(self._continuations)
            self._continuations.append(continuations)
        return self._numbers[continuations]

    def _successors(self, state: tuple[int, ...]) -> Iterator[tuple[int, ...] | None]:
        targets: list[list[int]] = [[] for _ in SYMBOLS]
        for number in state:
            for symbol, target in self._transitions_from(number):
                targets[symbol].append(target)
        return (tuple(numbers) or None for numbers in targets)

    def _transitions_from(self, number: int) -> list[tuple[int, int]]:
        if number not in self._transitions:
            successors = self._continuations[number].successors()
            self._transitions[number] = [(symbol, self._number(after)) for symbol, after in successors]
        return self._transitions[number]

    def _accepts(self, state: tuple[int, ...]) -> bool:
        return self._end in state and self._avoided_end not in state


class Multiples:
    """The multiples of `step` that are not multiples of any of `avoided`.

    They are written with at most `places` digits after the point; with `is_unique` no two texts are the same
    double.
    """

    def __init__(
        self, step: Fraction, avoided: Iterable[Fraction], places: int, *, is_unique: bool = False
    ) -> None:
        self.step = step
        self.avoided = [common_multiple([step, other]) for other in avoided]
        self.places = places
        self.is_unique = is_unique
        self._automata = _ContinuationAutomaton()

    def lower(self, interval: Interval, rules: RuleTable) -> tuple[Expr | None, Fraction | None]:
        """The texts of the multiples in an interval from zero up; None if there are none.

        If their automaton is too large, only the smallest multiples are written. The second value is the
        number that they are less than then, else None.
        """
        if (dfa := self._automaton(interval)) is not None:
            return digit_rules(dfa, rules), None
        fitting = None
        for part in self._parts(interval):
            if (dfa := self._automaton(part)) is None:
                break
            fitting = part, dfa
        assert fitting is not None, "the smallest part holds ten numbers at most"
        return digit_rules(fitting[1], rules), fitting[0].high

    def _parts(self, interval: Interval) -> list[Interval]:
        """Parts of the interval that end a power of ten above the smallest multiple, for rising powers."""
        limits = self._limits(interval)
        sizes = (Fraction(10) ** exponent for exponent in range(-limits.places, limits.whole))
        smallest = ceil((interval.low or 0) / self.step) * self.step
        ends = [smallest + size for size in sizes if size >= self.step]
        return [
            replace(interval, high=end, is_high_strict=True)
            for end in ends
            if interval.high is None or end < interval.high
        ]

    def _automaton(self, interval: Interval) -> Dfa | None:
        """The automaton of the multiples in an interval; None if it has too many states."""
        limits = self._limits(interval)
        if self._min_states(interval, limits) > MAX_STATES:
            return None
        allowed = _continuations(interval, limits, self.step)
        avoided = (
            continuations._replace(is_avoided=True)
            for step in self.avoided
            for continuations in _continuations(interval, limits, step)
        )
        with suppress(TooManyStates):
            dfa = self._automata.build((*allowed, *avoided))
            return dfa.intersect(without_trailing_zeros()) if self.is_unique else dfa
        return None

    def _min_states(self, interval: Interval, limits: DigitLimits) -> int:
        """A lower bound for the states before minimisation, so that too large automata are not tried.

        Let `m` be what is left of the common multiple of all steps without factors of two and five. Two
        beginnings of texts that differ modulo `m` have different continuations, if enough digits are to come
        that these take every value modulo `m`. That is so at all places of a text with as many digits before
        and after it, inside a block of numbers with a common beginning that the interval holds as a whole.
        """
        unit = 10**limits.places
        high = 10**limits.whole if interval.high is None else interval.high
        width = int((high - (interval.low or 0)) * unit)
        modulus = _without_tens(lcm(*((step * unit).numerator for step in (self.step, *self.avoided))))
        num_digits, num_before = len(str(width)) - 2, len(str(modulus))
        return modulus * max(0, num_digits - 2 * num_before + 1)

    def _limits(self, interval: Interval) -> DigitLimits:
        limits = DigitLimits.of(interval, self.places, is_counted=True, is_unique=self.is_unique)
        return replace(limits, places=min(limits.places, num_places(self.step)))


def _continuations(interval: Interval, limits: DigitLimits, step: Fraction) -> Iterator[_Continuations]:
    """The multiples of `step` in an interval, by the number of digits before and after the point."""
    for places in range(limits.places + 1):
        most = min(limits.whole, limits.significant - places) if places else limits.whole
        for whole in range(1, most + 1):
            if numbers := _numbers(interval, step, whole, places):
                yield _Continuations("#" * whole + ("." + "#" * places) * bool(places), numbers)


def _numbers(interval: Interval, step: Fraction, whole: int, places: int) -> range:
    """The multiples of `step` with so many digits before and after the point, read as integers."""
    unit = 10**places
    first, stop = 0 if whole == 1 else unit * 10 ** (whole - 1), unit * 10**whole
    low, high = (interval.low or Fraction(0)) * unit, interval.high
    first = max(first, floor(low) + 1 if interval.is_low_strict else ceil(low))
    if high is not None:
        stop = min(stop, ceil(high * unit) if interval.is_high_strict else floor(high * unit) + 1)
    distance = (step * unit).numerator  # between integers that are multiples once the point is set
    return range(first + -first % distance, stop, distance)


def _without_tens(number: int) -> int:
    """What is left of a positive number without its factors of two and five."""
    for factor in (2, 5):
        while number % factor == 0:
            number //= factor
    return number


def common_multiple(values: Iterable[Fraction]) -> Fraction:
    """The least positive number that is a multiple of every one of `values`.

    >>> common_multiple([Fraction(1, 2), Fraction(1, 3)])
    Fraction(1, 1)
    """
    values = list(values)
    denominator = lcm(*(value.denominator for value in values))
    return Fraction(lcm(*(int(value * denominator) for value in values)), denominator)
