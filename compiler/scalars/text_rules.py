"""From an automaton to the rules of its texts, close included."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache

from compiler.digraph import cyclic_components
from compiler.grammar.grammar import CharClass, Expr, Literal, Repeat, Rule, RuleRef, choice, concat
from compiler.grammar.rules import RuleSink
from compiler.regular import charset
from compiler.regular.charset import Ranges
from compiler.scalars.char_encoding import NEVER_RAW, RAW, CharEncoding
from compiler.scalars.length_bounds import START, BoundedAutomaton, CountedState, Suffix

_LONGEST_CIRCLE = 6
_MOST_WAYS = 16
"""To write out in all: what is written out is so again for every state that leads to it."""
_MOST_CLASSES = 8
"""Passed at once."""


class InlinedPaths:
    """The ways of one automaton, whose characters are spelled by `encode`."""

    def __init__(self, texts: BoundedAutomaton, encode: CharEncoding) -> None:
        self._moves = texts.moves
        self._ends = texts.ends
        self._encode = encode
        self._num_leading = Counter(target for targets in texts.moves.values() for target in targets)
        self._stops = set(texts.ends)
        self._opened: dict[CountedState, int] = {}
        """In how many ways each state is left that has no rule of its own."""
        for circle in reversed(cyclic_components(texts.moves)):  # what others lead to comes first
            if len(circle) <= _LONGEST_CIRCLE:
                self._open(circle)

    def after(self, state: CountedState) -> Iterator[tuple[list[Expr], CountedState | None]]:
        """What is passed from a state to one that has a rule, and which; None where the text ends instead."""
        state, passed = self._passing(state)
        if state not in self._opened:
            yield passed, state
            return
        if state in self._moves[state]:
            passed = [*passed, *_any_number(self._encode(self._moves[state][state]))]
        if state in self._ends:
            yield passed, None
        for target, ranges in self._moves[state].items():
            if target != state:
                for rest, end in self.after(target):
                    yield from (([*passed, char, *rest], end) for char in self._encode(ranges))

    def _passing(self, state: CountedState) -> tuple[CountedState, list[Expr]]:
        """Follow states that leave no choice but of one character; where that ends, and what was passed.

        One character of a set takes long to compile: it is passed only where one state alone leads to it.
        """
        passed: list[Expr] = []
        seen = {state}
        num_classes = 0
        while state not in self._stops and len(self._moves[state]) == 1:
            ((target, ranges),) = self._moves[state].items()
            spellings = self._encode(ranges)
            if len(spellings) > 1 or target in seen:
                break
            if not isinstance(spellings[0], Literal):
                num_classes += 1
                if num_classes > _MOST_CLASSES or self._num_leading[state] > 1:
                    break
            seen.add(target)
            passed.append(spellings[0])
            state = target
        return state, passed

    def _open(self, circle: set[CountedState]) -> None:
        """Write out all states of a circle but the one that leaves the fewest ways, if any does."""
        found: dict[CountedState, dict[CountedState, int]] = {}
        for hub in sorted(circle):
            self._stops.add(hub)
            num_ways = self._num_ways(circle - {hub})
            if num_ways is not None:
                found[hub] = num_ways
            if hub not in self._ends:
                self._stops.remove(hub)
        if found:
            hub = min(found, key=lambda hub: sum(found[hub].values()))
            self._stops.add(hub)
            self._opened |= found[hub]

    def _num_ways(self, states: set[CountedState]) -> dict[CountedState, int] | None:
        """In how many ways each of `states` is left if all are written out; None if they cannot be.

        They can be if there are few ways, and they lead in no circle but to themselves by one of a set.
        """
        inner = {state: [target for target in self._moves[state] if target in states] for state in states}
        loops = [self._moves[state][state] for state in states if state in inner[state]]
        if cyclic_components(inner) or not all(_any_number(self._encode(ranges)) for ranges in loops):
            return None
        counts: dict[CountedState, int] = {}

        def count(state: CountedState) -> int:
            state, _ = self._passing(state)
            if state not in states:
                return self._opened.get(state, 1)
            if state not in counts:
                counts[state] = (state in self._ends) + sum(
                    len(self._encode(ranges)) * count(target)
                    for target, ranges in self._moves[state].items()
                    if target != state
                )
            return counts[state]

        num_inner = Counter(target for targets in inner.values() for target in targets)
        num_written = sum((self._num_leading[state] - num_inner[state]) * count(state) for state in states)
        return counts if num_written <= _MOST_WAYS else None


def _any_number(spellings: Sequence[Expr]) -> Sequence[Expr]:
    """Any number of one of these, if that can be said of a set of characters."""
    match spellings:
        case [CharClass() as chars]:
            return [Repeat(chars)]
        case [Literal(text)] if len(text) == 1:
            return [Repeat(CharClass.of(text))]
        case _:
            return []


_MANY = 20
_OFTEN = 8
"""Cutting a set into blocks pays where so many states share them: it takes up to ten rules."""


def text_rules(
    texts: BoundedAutomaton,
    rules: RuleSink,
    *,
    encode: CharEncoding,
    tail: Callable[[Suffix], Expr],
    close: Literal,
    ahead: CharClass | None,
) -> Expr:
    """A text of the automaton, then `close`; a rule for every state that is not written out (see `ways`).

    `ahead` is what is known to follow, and `tail` lowers a tail.
    """
    return _Writer(texts, rules, encode=encode, tail=tail, close=close, ahead=ahead).state(START)


class _Writer:
    def __init__(
        self,
        texts: BoundedAutomaton,
        rules: RuleSink,
        *,
        encode: CharEncoding,
        tail: Callable[[Suffix], Expr],
        close: Literal,
        ahead: CharClass | None,
    ) -> None:
        self.texts = texts
        self.rules = rules
        self.encode = encode
        self.tail = cache(tail)
        self.close = close
        self.ahead = ahead
        self.ways = InlinedPaths(texts, encode)
        self.blocks: dict[tuple[Ranges, Expr], RuleRef] = {}
        self.refs: dict[CountedState, RuleRef] = {}
        queue = [START]
        for state in queue:
            for target in texts.moves[state]:
                for _, end in self.ways.after(target):
                    if end is not None and end not in self.refs and end not in texts.tails:
                        self.refs[end] = rules.reserve("text")
                        queue.append(end)
        self.shared = self._shared(queue)
        for state, ref in self.refs.items():
            rules.fill(ref, Rule(self.body(state), ahead))

    def _shared(self, states: list[CountedState]) -> set[CountedState]:
        """Tails, and states to which many characters lead from many others."""
        wide = Counter(
            end
            for state in states
            for target, ranges in self.texts.moves[state].items()
            for passed, end in self.ways.after(target)
            if end not in (None, state) and not passed and _size(ranges) >= _MANY
        )
        return {*self.texts.tails, *(state for state, count in wide.items() if count >= _OFTEN)}

    def state(self, state: CountedState) -> Expr:
        """The texts from a state on."""
        return self.refs.get(state) or self.body(state)

    def body(self, state: CountedState) -> Expr:
        if state in self.texts.tails:
            return self.tail(self.texts.tails[state])
        options: list[Expr] = [self.close] if state in self.texts.ends else []
        for target, ranges in self.texts.moves[state].items():
            for passed, end in self.ways.after(target):
                rest = concat(*passed, self.close if end is None else self.state(end))
                if end in self.shared and end != state and not passed and _size(ranges) >= _MANY:
                    options += [self.block(block, rest) for block in _blocks(ranges)]
                else:
                    options += [concat(char, rest) for char in self.encode(ranges)]
        return choice(*options)

    def block(self, ranges: Ranges, rest: Expr) -> Expr:
        """One character of a block and the rest, in a rule that is the same wherever these are."""
        key = ranges, rest
        if key not in self.blocks:
            options = [concat(char, rest) for char in self.encode(ranges)]
            self.blocks[key] = self.rules.define("block", Rule(choice(*options), self.ahead))
        return self.blocks[key]


def _size(ranges: Ranges) -> int:
    return sum(high - low + 1 for low, high in ranges)


@lru_cache(maxsize=1024)
def _blocks(ranges: Ranges) -> tuple[Ranges, ...]:
    """A set cut into blocks which other sets are cut into, too.

    A state from which most characters lead on takes 10 ms to compile for 150,000 tokens, and the keys of an
    open object have hundreds, each for other characters. What is in blocks, by powers of two inside ASCII, is
    compiled once for all of them.
    """
    found = [charset.intersection(ranges, part) for part in (NEVER_RAW, charset.OUTSIDE_ASCII)]
    raw = charset.intersection(ranges, charset.intersection(RAW, ((0, 0x7F),)))
    pending = [(0, 0x80)]
    while pending:
        low, size = pending.pop()
        part = charset.intersection(raw, ((low, low + size - 1),))
        if part == charset.intersection(RAW, ((low, low + size - 1),)):
            found.append(part)
        elif part:
            pending += [(low + size // 2, size // 2), (low, size // 2)]
    return tuple(part for part in found if part)
