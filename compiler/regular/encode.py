"""From a walk of an automaton to the rules of its texts, as JSON writes them or raw, close included."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from compiler.grammar import CharClass, Expr, Literal, Rule, RuleRef, choice, sequence
from compiler.lengths import QUOTE
from compiler.regular import charset
from compiler.regular.charset import Ranges
from compiler.regular.counted import START, State, Tail, Walk
from compiler.rules import RuleSink

_RAW = charset.intersection(charset.complement(charset.of('"\\')), ((0x20, charset.LAST),))
_NEVER_RAW = charset.complement(_RAW)
_SHORT_ESCAPES = {'"': '"', "\\": "\\", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
BMP_OUTSIDE_ASCII = charset.intersection(charset.ALL, ((0x80, 0xFFFF),))
_MAX_ESCAPED_RANGES = 8
_MANY = 20
_OFTEN = 8
"""Cutting a set into blocks pays where so many states share them: it takes up to ten rules."""


class Speller(Protocol):
    """Writes characters."""

    def one_of(self, ranges: Ranges) -> list[Expr]:
        """The spellings of one character of a set."""


def encode(
    walk: Walk,
    rules: RuleSink,
    *,
    ahead: CharClass | None,
    spell: Speller,
    tail: Callable[[Tail], Expr],
    close: Literal = QUOTE,
) -> Expr:
    """What follows the opening quote: a text of the walk, then `close`.

    `ahead` is what is known to follow, and `tail` lowers a tail.
    """
    return _Encoder(walk, rules, ahead=ahead, tail=tail, spell=spell, close=close).state(START)


class _Encoder:
    def __init__(
        self,
        walk: Walk,
        rules: RuleSink,
        *,
        ahead: CharClass | None,
        tail: Callable[[Tail], Expr],
        spell: Speller,
        close: Literal,
    ) -> None:
        self.walk = walk
        self.rules = rules
        self.ahead = ahead
        self.tail = tail
        self.spell = spell
        self.close = close
        self.shared = self._shared()
        self.blocks: dict[tuple[Ranges, Expr], RuleRef] = {}
        self.refs: dict[State, RuleRef] = {}
        queue = [START]
        for state in queue:
            for target in walk.moves[state]:
                end, _ = self.chain(target)
                if end not in self.refs and end not in walk.tails:
                    self.refs[end] = rules.reserve("text")
                    queue.append(end)
        for state, ref in self.refs.items():
            rules.fill(ref, Rule(self.body(state), ahead))

    def _shared(self) -> set[State]:
        """Tails, and states to which many characters lead from many others."""
        wide = Counter(
            self.chain(target)[0]
            for targets in self.walk.moves.values()
            for target, ranges in targets.items()
            if _size(ranges) >= _MANY
        )
        return {*self.walk.tails, *(state for state, count in wide.items() if count >= _OFTEN)}

    def state(self, state: State) -> Expr:
        """The texts from a state on."""
        return self.refs.get(state) or self.body(state)

    def body(self, state: State) -> Expr:
        if state in self.walk.tails:
            return self.tail(self.walk.tails[state])
        options: list[Expr] = [self.close] if state in self.walk.ends else []
        for target, ranges in self.walk.moves[state].items():
            end, passed = self.chain(target)
            rest = sequence(*passed, self.state(end))
            if end in self.shared and _size(ranges) >= _MANY:
                options += [self.block(block, rest) for block in _blocks(ranges)]
            else:
                options += [sequence(char, rest) for char in self.spell.one_of(ranges)]
        return choice(*options)

    def block(self, ranges: Ranges, rest: Expr) -> Expr:
        """One character of a block and the rest, in a rule that is the same wherever these are."""
        key = ranges, rest
        if key not in self.blocks:
            options = [sequence(char, rest) for char in self.spell.one_of(ranges)]
            self.blocks[key] = self.rules.define("block", Rule(choice(*options), self.ahead))
        return self.blocks[key]

    def chain(self, state: State) -> tuple[State, list[Expr]]:
        """Follow states that leave no choice but one character; where that ends, and what was passed."""
        passed: list[Expr] = []
        seen = {state}
        while state not in self.walk.ends and len(self.walk.moves[state]) == 1:
            ((target, ranges),) = self.walk.moves[state].items()
            spellings = self.spell.one_of(ranges)
            if len(spellings) > 1 or not isinstance(spellings[0], Literal) or target in seen:
                break
            seen.add(target)
            passed.append(spellings[0])
            state = target
        return state, passed


def _size(ranges: Ranges) -> int:
    return sum(high - low + 1 for low, high in ranges)


@lru_cache(maxsize=1024)
def _blocks(ranges: Ranges) -> tuple[Ranges, ...]:
    """A set cut into blocks which other sets are cut into, too.

    A state from which most characters lead on takes 10 ms to compile for 150,000 tokens, and the keys of an
    open object have hundreds, each for other characters. What is in blocks, by powers of two inside ASCII, is
    compiled once for all of them.
    """
    found = [charset.intersection(ranges, part) for part in (_NEVER_RAW, charset.OUTSIDE_ASCII)]
    raw = charset.intersection(ranges, charset.intersection(_RAW, ((0, 0x7F),)))
    pending = [(0, 0x80)]
    while pending:
        low, size = pending.pop()
        part = charset.intersection(raw, ((low, low + size - 1),))
        if part == charset.intersection(_RAW, ((low, low + size - 1),)):
            found.append(part)
        elif part:
            pending += [(low + size // 2, size // 2), (low, size // 2)]
    return tuple(part for part in found if part)


@dataclass(frozen=True)
class Spelling:
    """How JSON writes characters; outside ASCII as escapes too with `ascii_escapes`."""

    rules: RuleSink
    ascii_escapes: bool = False

    def before(self, ranges: Ranges) -> Callable[[Expr], Expr]:
        """One character of a set, then the rest."""
        return lambda rest: choice(*(sequence(char, rest) for char in self.one_of(ranges)))

    def one_of(self, ranges: Ranges) -> list[Expr]:
        """The spellings of one character of a set."""
        raw = charset.intersection(ranges, _RAW)
        options: list[Expr] = []
        if raw:
            is_single = len(raw) == 1 and raw[0][0] == raw[0][1]
            options.append(Literal(chr(raw[0][0])) if is_single else CharClass(raw))
        options += _escapes_inside_ascii(charset.intersection(ranges, _NEVER_RAW))
        if self.ascii_escapes:
            options += self.escapes(charset.intersection(ranges, BMP_OUTSIDE_ASCII))
        return options

    def escapes(self, ranges: Ranges) -> list[Expr]:
        """Escapes of characters outside ASCII, unless the set is too ragged to be worth it."""
        if not ranges or len(ranges) > _MAX_ESCAPED_RANGES:
            return []
        return [sequence(Literal("\\u"), self.rules.define("escape", Rule(_four_digits(ranges))))]


@lru_cache(maxsize=256)
def _escapes_inside_ascii(ranges: Ranges) -> tuple[Expr, ...]:
    """Quotes, backslashes and control characters, as JSON escapes them."""
    letters = [letter for char, letter in _SHORT_ESCAPES.items() if charset.contains(ranges, ord(char))]
    controls = charset.intersection(ranges, ((0, 0x1F),))
    options: list[Expr] = []
    if letters:
        single = Literal("\\" + letters[0]) if len(letters) == 1 else None
        options.append(single or sequence(Literal("\\"), CharClass.of(*letters)))
    spans = [span for low, high in controls for span in _aligned(low, high)]
    options += [sequence(Literal("\\u"), _hexadecimal(span)) for span in spans]
    return tuple(options)


@lru_cache(maxsize=256)
def _four_digits(ranges: Ranges) -> Expr:
    """The code points of a set in hexadecimal."""
    return choice(*(_hexadecimal(span) for low, high in ranges for span in _aligned(low, high)))


Span = tuple[tuple[int, int], ...]
"""A range per hexadecimal digit, four of them."""


def _aligned(low: int, high: int) -> list[Span]:
    """The code points from `low` to `high` as products of digit ranges."""
    return _digits(low, high, 4)


def _digits(low: int, high: int, places: int) -> list[Span]:
    if places == 0:
        return [()]
    unit = 16 ** (places - 1)
    first, last = low // unit, high // unit
    if low % unit == 0 and high % unit == unit - 1:
        return [((first, last), *(((0, 15),) * (places - 1)))]
    if first == last:
        return [((first, first), *rest) for rest in _digits(low % unit, high % unit, places - 1)]
    spans = [((first, first), *rest) for rest in _digits(low % unit, unit - 1, places - 1)]
    if last - first > 1:
        spans.append(((first + 1, last - 1), *(((0, 15),) * (places - 1))))
    return spans + [((last, last), *rest) for rest in _digits(0, high % unit, places - 1)]


def _hexadecimal(span: Span) -> Expr:
    return sequence(*(_hexadecimal_digit(low, high) for low, high in span))


def _hexadecimal_digit(low: int, high: int) -> CharClass:
    digits = "0123456789abcdef"[low : high + 1]
    return CharClass.of(*dict.fromkeys(digits + digits.upper()))
