"""Automata over decimal digits: magnitudes in an interval."""

from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from compiler.grammar.grammar import Expr
from compiler.grammar.rules import RuleSink
from compiler.regular.dfa import Dfa, explored
from compiler.scalars.digits import ALPHABET, POINT, SYMBOLS, Room, without_trailing_zeros, write
from compiler.scalars.interval import Interval


class _State(NamedTuple):
    """A text so far: digits before and after the point (-1: no point yet), how it compares with the ends."""

    whole: int
    places: int
    low: int
    high: int
    is_zero: bool  # a lone zero, which no digit may follow


class _End:
    """An end of an interval as digits, for comparison from the left."""

    def __init__(self, value: Fraction) -> None:
        scaled = Fraction(value)
        places = 0
        while scaled.denominator != 1:
            scaled *= 10
            places += 1
        digits = str(scaled.numerator).rjust(places + 1, "0")
        self.whole = digits[: len(digits) - places].lstrip("0") or "0"
        self.fraction = digits[len(digits) - places :]

    def after_whole(self, order: int, index: int, digit: int) -> int:
        """The order with one more digit before the point, of a number as long as the end."""
        return order or (_compare(digit, int(self.whole[index])) if index < len(self.whole) else 1)

    def settled(self, order: int, num_whole: int) -> int:
        """The order once the digits before the point are all read."""
        return _compare(num_whole, len(self.whole)) or order

    def after_place(self, order: int, index: int, digit: int) -> int:
        """The order with one more digit after the point."""
        return order or _compare(digit, int(self.fraction[index]) if index < len(self.fraction) else 0)

    def at_end(self, order: int, num_places: int) -> int:
        """The order of the whole number."""
        return order or (-1 if self.fraction[num_places:].strip("0") else 0)


def _compare(first: int, second: int) -> int:
    return (first > second) - (first < second)


def lower_magnitudes(interval: Interval, places: int, rules: RuleSink, *, is_unique: bool) -> Expr | None:
    """Texts of the non-negative numbers of an interval with at most `places` digits after the point.

    None if there is none. With `is_unique` no two of them are the same double: digits are few, and no zeros
    end them.
    """
    dfa = _automaton(interval, places, is_unique)
    return None if dfa.is_empty else write(dfa, rules)


@lru_cache(maxsize=256)
def _automaton(interval: Interval, places: int, is_unique: bool) -> Dfa:  # noqa: FBT001 - a key
    """Kept: it takes 8 ms, and schemas have few intervals."""
    return _Magnitudes(interval, places, is_unique=is_unique).automaton()


class _Magnitudes:
    def __init__(self, interval: Interval, places: int, *, is_unique: bool) -> None:
        self.is_unique = is_unique
        self.interval = interval
        self.low = _End(interval.low or Fraction(0))
        self.high = None if interval.high is None else _End(interval.high)
        self.room = Room.of(interval, places, is_counted=interval.is_rounded_upon, is_unique=is_unique)

    def automaton(self) -> Dfa:
        start = _State(0, -1, 0, 0, is_zero=False)
        dfa = explored(ALPHABET, start, self._following, self._accepts)
        return dfa.intersect(without_trailing_zeros()) if self.is_unique else dfa

    def _following(self, state: _State) -> list[_State | None]:
        return [self._step(state, symbol) for symbol in SYMBOLS]

    def _step(self, state: _State, symbol: int) -> _State | None:
        if symbol == POINT:
            return self._point(state)
        return self._place(state, symbol) if state.places >= 0 else self._whole(state, symbol)

    def _whole(self, state: _State, digit: int) -> _State | None:
        if state.is_zero or state.whole >= self.room.whole:
            return None
        is_longer = state.whole >= len(self.low.whole)
        return state._replace(
            whole=state.whole + 1,
            low=1 if is_longer else self.low.after_whole(state.low, state.whole, digit),
            high=0 if self.high is None else self.high.after_whole(state.high, state.whole, digit),
            is_zero=state.whole == 0 and digit == 0,
        )

    def _point(self, state: _State) -> _State | None:
        if state.places >= 0 or state.whole == 0 or not self.room.places:
            return None
        spare = self.room.significant - self.room.places  # digits before the point that never matter again
        return self._settled(state)._replace(places=0, is_zero=False, whole=max(state.whole, spare))

    def _settled(self, state: _State) -> _State:
        low = self.low.settled(state.low, state.whole)
        high = 0 if self.high is None else self.high.settled(state.high, state.whole)
        return state._replace(low=low, high=high)

    def _place(self, state: _State, digit: int) -> _State | None:
        if state.places >= self.room.places or state.whole + state.places >= self.room.significant:
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
        whole = state if state.places > 0 else self._settled(state)
        low = self.low.at_end(whole.low, num_places)
        if low < 0 or (low == 0 and self.interval.is_low_strict):
            return False
        if self.high is not None:
            high = self.high.at_end(whole.high, num_places)
            if high > 0 or (high == 0 and self.interval.is_high_strict):
                return False
        return True
