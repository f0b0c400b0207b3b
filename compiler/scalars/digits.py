"""Decimal digits: the alphabet of automata over them, how many are written, and automata as rules."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from compiler.grammar.grammar import EMPTY, CharClass, Expr, Literal, Rule, RuleRef, choice, sequence
from compiler.grammar.rules import RuleSink
from compiler.graphs import innermost_first
from compiler.regular import charset
from compiler.regular.dfa import DEAD, Alphabet, Dfa, explored
from compiler.scalars.interval import Interval

_CHARS = "0123456789."
ALPHABET = Alphabet(tuple(charset.of(char) for char in _CHARS))
SYMBOLS = range(len(_CHARS))
POINT = len(_CHARS) - 1
_DEFAULT_DIGITS = 20
_DOUBLE_DIGITS = 15  # decimals of so many significant digits are distinct as doubles
MAX_COUNTED_PLACES = 10
"""Digits behind the point where digits are counted."""


@dataclass(frozen=True, slots=True)
class Room:
    """How many digits there may be: before the point, behind it, and together where there is a point."""

    whole: int
    places: int
    significant: int

    @classmethod
    def of(cls, interval: Interval, places: int, *, is_counted: bool, is_unique: bool) -> Self:
        """Room for the numbers of an interval from zero up, with at most `places` digits behind the point.

        Digits are counted where a decimal might be rounded to a double that the interval or a divisor does
        not admit, and where no two numbers may be the same double (`is_unique`).
        """
        is_double = is_unique or (is_counted and places > 0)
        significant = _DOUBLE_DIGITS if is_double else _DEFAULT_DIGITS + places
        default = max(min(significant, _DEFAULT_DIGITS), len(str(int(interval.low or 0))) + 1)
        whole = default if interval.high is None else len(str(int(interval.high)))
        return cls(whole, min(places, MAX_COUNTED_PLACES) if is_counted or is_unique else places, significant)


def without_trailing_zeros() -> Dfa:
    """Texts whose last digit behind a point is none."""

    def step(state: str, symbol: int) -> str:
        if symbol == POINT:
            return "point"
        return "whole" if state == "whole" else "zero" if symbol == 0 else "digit"

    def following(state: str) -> list[str]:
        return [step(state, symbol) for symbol in SYMBOLS]

    return explored(ALPHABET, "whole", following, lambda state: state in ("whole", "digit"))


def write(dfa: Dfa, rules: RuleSink) -> Expr:
    """An automaton over digits as rules."""
    order = innermost_first([[target for target in row if target != DEAD] for row in dfa.table])
    assert order is not None, "digits are bounded"
    texts: dict[int, Expr] = {}
    for state in order:
        texts[state] = _written(dfa, state, texts, rules)
    return texts[0]


def _written(dfa: Dfa, state: int, texts: Mapping[int, Expr], rules: RuleSink) -> Expr:
    """The texts from a state on, given those from the states it leads to."""
    chars_to: dict[int, list[str]] = {}
    for symbol, target in enumerate(dfa.table[state]):
        if target != DEAD:
            chars_to.setdefault(target, []).append(_CHARS[symbol])
    options: list[Expr] = [
        sequence(Literal(chars[0]) if len(chars) == 1 else CharClass.of(*chars), texts[target])
        for target, chars in chars_to.items()
    ]
    if state in dfa.accepting:
        options.append(EMPTY)
    body = choice(*options)
    return body if isinstance(body, Literal | RuleRef) else rules.define("digits", Rule(body))
