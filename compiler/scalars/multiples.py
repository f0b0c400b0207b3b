"""Automata over decimal digits: multiples of a number in an interval, and what are none of others.

What may follow a text is, for every number of digits still to come before and behind the point, an arithmetic
progression, the digits read as one integer. A state is named by these progressions alone, so that texts that
may go on alike are one state, however large the divisor: what leads to a multiple of 1,000 is told by the
zeros that are missing, and few multiples are a tree of their digits whose ends are shared.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import count
from math import ceil, floor, lcm
from typing import NamedTuple

from compiler.grammar.grammar import Expr
from compiler.grammar.rules import RuleSink
from compiler.regular.dfa import Dfa, TooManyStates, build_dfa
from compiler.scalars.decimal_texts import (
    ALPHABET,
    POINT,
    SYMBOLS,
    DigitLimits,
    Interval,
    without_trailing_zeros,
    write,
)


class _Rest(NamedTuple):
    """What may follow a text, or must not: digits of one shape, read as one integer.

    Ranges are equal if their members are.
    """

    shape: str  # a `#` for every digit, and the point
    numbers: range
    is_avoided: bool = False

    def following(self) -> Iterator[tuple[int, "_Rest"]]:
        """Each symbol that may come next, and what may then."""
        if self.shape.startswith("."):
            yield POINT, self._replace(shape=self.shape[1:])
        elif self.shape:
            shape, step = self.shape[1:], self.numbers.step
            size = 10 ** shape.count("#")
            for digit in range(self.numbers[0] // size, self.numbers[-1] // size + 1):
                start, stop = self.numbers.start - digit * size, self.numbers.stop - digit * size
                if numbers := range(max(start, start % step), min(stop, size), step):
                    yield digit, _Rest(shape, numbers, self.is_avoided)


class _Texts:
    """Texts by what may follow them: the numbers of rests, each of which is looked into once."""

    def __init__(self) -> None:
        self._rests: list[_Rest] = []
        self._numbers: dict[_Rest, int] = {}
        self._arcs: dict[int, list[tuple[int, int]]] = {}
        self._end = self._number(_Rest("", range(1)))
        self._avoided_end = self._number(_Rest("", range(1), is_avoided=True))

    def automaton(self, rests: Iterable[_Rest]) -> Dfa:
        """The texts of wanted rests that are none of avoided ones.

        Raises:
            TooManyStates: there are too many states.
        """
        start = tuple(map(self._number, rests))
        return build_dfa(ALPHABET, start, self._following, self._accepts)

    def _number(self, rest: _Rest) -> int:
        if rest not in self._numbers:
            self._numbers[rest] = len(self._rests)
            self._rests.append(rest)
        return self._numbers[rest]

    def _following(self, state: tuple[int, ...]) -> Iterator[tuple[int, ...] | None]:
        targets: list[list[int]] = [[] for _ in SYMBOLS]
        for rest in state:
            for symbol, target in self._arcs_from(rest):
                targets[symbol].append(target)
        return (tuple(rests) or None for rests in targets)

    def _arcs_from(self, rest: int) -> list[tuple[int, int]]:
        if rest not in self._arcs:
            following = self._rests[rest].following()
            self._arcs[rest] = [(symbol, self._number(after)) for symbol, after in following]
        return self._arcs[rest]

    def _accepts(self, state: tuple[int, ...]) -> bool:
        return self._end in state and self._avoided_end not in state


class Multiples:
    """Texts of the multiples of `step` that are multiples of none of `avoided`.

    They have at most `places` digits after the point; with `is_unique` no two of them are the same double.
    """

    def __init__(
        self, step: Fraction, avoided: Iterable[Fraction], places: int, *, is_unique: bool = False
    ) -> None:
        self.step = step
        self.avoided = [common_multiple([step, other]) for other in avoided]
        self.places = places
        self.is_unique = is_unique
        self._texts = _Texts()

    def lower(self, interval: Interval, rules: RuleSink) -> tuple[Expr | None, Fraction | None]:
        """The texts of those in an interval from zero up, None if there is none.

        Where the automaton grows too large, only those near the smallest; what they are below is told then.
        """
        if (dfa := self._automaton(interval)) is not None:
            return _written(dfa, rules), None
        parts = self._parts(interval)
        num_fitting = bisect_left(parts, 1, key=lambda part: self._automaton(part) is None)
        part = parts[num_fitting - 1]
        dfa = self._automaton(part)
        assert dfa is not None, "the smallest part holds ten numbers at most"
        return _written(dfa, rules), part.high

    def _parts(self, interval: Interval) -> list[Interval]:
        """What differs from the smallest multiple by less than a power of ten, for each that matters."""
        room = self._room(interval)
        sizes = (Fraction(10) ** exponent for exponent in range(-room.places, room.whole))
        smallest = ceil((interval.low or 0) / self.step) * self.step
        ends = [smallest + size for size in sizes if size >= self.step]
        return [
            replace(interval, high=end, is_high_strict=True)
            for end in ends
            if interval.high is None or end < interval.high
        ]

    def _automaton(self, interval: Interval) -> Dfa | None:
        """The texts in an interval; None if they need too many states."""
        room = self._room(interval)
        wanted = _rests(interval, room, self.step)
        avoided = (rest._replace(is_avoided=True) for a in self.avoided for rest in _rests(interval, room, a))
        with suppress(TooManyStates):
            dfa = self._texts.automaton((*wanted, *avoided))
            return dfa.intersect(without_trailing_zeros()) if self.is_unique else dfa
        return None

    def _room(self, interval: Interval) -> DigitLimits:
        room = DigitLimits.of(interval, self.places, is_counted=True, is_unique=self.is_unique)
        return replace(room, places=min(room.places, _num_places(self.step)))


def _written(dfa: Dfa, rules: RuleSink) -> Expr | None:
    return None if dfa.is_empty else write(dfa, rules)


def _rests(interval: Interval, room: DigitLimits, step: Fraction) -> Iterator[_Rest]:
    """The multiples of a step in an interval, by how many digits they have before and behind the point."""
    for places in range(room.places + 1):
        most = min(room.whole, room.significant - places) if places else room.whole
        for whole in range(1, most + 1):
            if numbers := _numbers(interval, step, whole, places):
                yield _Rest("#" * whole + ("." + "#" * places) * bool(places), numbers)


def _numbers(interval: Interval, step: Fraction, whole: int, places: int) -> range:
    """The multiples of a step that have so many digits, read as integers."""
    unit = 10**places
    first, stop = 0 if whole == 1 else unit * 10 ** (whole - 1), unit * 10**whole
    low, high = (interval.low or Fraction(0)) * unit, interval.high
    first = max(first, floor(low) + 1 if interval.is_low_strict else ceil(low))
    if high is not None:
        stop = min(stop, ceil(high * unit) if interval.is_high_strict else floor(high * unit) + 1)
    distance = (step * unit).numerator  # between integers that are multiples once the point is set
    return range(first + -first % distance, stop, distance)


def common_multiple(values: Iterable[Fraction]) -> Fraction:
    """The least positive number that is a multiple of every one."""
    values = list(values)
    denominator = lcm(*(value.denominator for value in values))
    return Fraction(lcm(*(int(value * denominator) for value in values)), denominator)


def _num_places(value: Fraction) -> int:
    """The number of digits after the point of a finite decimal."""
    return next(places for places in count() if (value * 10**places).denominator == 1)
