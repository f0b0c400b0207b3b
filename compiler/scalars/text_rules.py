"""From an automaton to the rules of its texts, close included."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache

from compiler.grammar.grammar import CharClass, Expr, Literal, Repeat, Rule, RuleRef, choice, sequence
from compiler.grammar.rules import RuleSink
from compiler.graphs import circles
from compiler.regular import charset
from compiler.regular.charset import Ranges
from compiler.scalars.bounded import START, Bounded, State, Tail
from compiler.scalars.spelling import NEVER_RAW, RAW, Spell

_MANY = 20
_OFTEN = 8
_SHORT = 8
_FEW = 6
_SOME = 16
"""Cutting a set into blocks pays where so many states share them: it takes up to ten rules."""


def text_rules(
    texts: Bounded,
    rules: RuleSink,
    *,
    spell: Spell,
    tail: Callable[[Tail], Expr],
    close: Literal,
    ahead: CharClass | None,
) -> Expr:
    """A text of the automaton, then `close`; a rule for every state where the text leaves a choice.

    `ahead` is what is known to follow, and `tail` lowers a tail.
    """
    return _Writer(texts, rules, spell=spell, tail=tail, close=close, ahead=ahead).state(START)


class _Writer:
    def __init__(
        self,
        texts: Bounded,
        rules: RuleSink,
        *,
        spell: Spell,
        tail: Callable[[Tail], Expr],
        close: Literal,
        ahead: CharClass | None,
    ) -> None:
        self.texts = texts
        self.rules = rules
        self.spell = spell
        self.tail = tail
        self.close = close
        self.ahead = ahead
        self.hubs, self.opened = _opened(texts, spell)
        self.blocks: dict[tuple[Ranges, Expr], RuleRef] = {}
        self.refs: dict[State, RuleRef] = {}
        queue = [START]
        for state in queue:
            for target in texts.moves[state]:
                for _, end in self.ways(target):
                    if end is not None and end not in self.refs and end not in texts.tails:
                        self.refs[end] = rules.reserve("text")
                        queue.append(end)
        self.shared = self._shared(queue)
        for state, ref in self.refs.items():
            rules.fill(ref, Rule(self.body(state), ahead))

    def _shared(self, states: list[State]) -> set[State]:
        """Tails, and states to which many characters lead from many others."""
        wide = Counter(
            end
            for state in states
            for target, ranges in self.texts.moves[state].items()
            for passed, end in self.ways(target)
            if end not in (None, state) and not passed and _size(ranges) >= _MANY
        )
        return {*self.texts.tails, *(state for state, count in wide.items() if count >= _OFTEN)}

    def state(self, state: State) -> Expr:
        """The texts from a state on."""
        return self.refs.get(state) or self.body(state)

    def body(self, state: State) -> Expr:
        if state in self.texts.tails:
            return self.tail(self.texts.tails[state])
        options: list[Expr] = [self.close] if state in self.texts.ends else []
        for target, ranges in self.texts.moves[state].items():
            for passed, end in self.ways(target):
                rest = sequence(*passed, self.close if end is None else self.state(end))
                if end in self.shared and end != state and not passed and _size(ranges) >= _MANY:
                    options += [self.block(block, rest) for block in _blocks(ranges)]
                else:
                    options += [sequence(char, rest) for char in self.spell(ranges)]
        return choice(*options)

    def ways(self, state: State) -> Iterator[tuple[list[Expr], State | None]]:
        """What is passed from a state to one with a rule of its own, and which; None for an end."""
        state, passed = self.chain(state)
        if state not in self.opened:
            yield passed, state
            return
        moves = self.texts.moves[state]
        if state in moves:
            passed = [*passed, *_any_number(self.spell(moves[state]))]
        if state in self.texts.ends:
            yield passed, None
        for target, ranges in moves.items():
            if target != state:
                for rest, end in self.ways(target):
                    yield from (([*passed, char, *rest], end) for char in self.spell(ranges))

    def block(self, ranges: Ranges, rest: Expr) -> Expr:
        """One character of a block and the rest, in a rule that is the same wherever these are."""
        key = ranges, rest
        if key not in self.blocks:
            options = [sequence(char, rest) for char in self.spell(ranges)]
            self.blocks[key] = self.rules.define("block", Rule(choice(*options), self.ahead))
        return self.blocks[key]

    def chain(self, state: State) -> tuple[State, list[Expr]]:
        """Follow states that leave no choice but of one character; where that ends, and what was passed."""
        passed: list[Expr] = []
        seen = {state}
        num_classes = 0
        while state not in self.texts.ends | self.hubs and len(self.texts.moves[state]) == 1:
            ((target, ranges),) = self.texts.moves[state].items()
            spellings = self.spell(ranges)
            num_classes += not isinstance(spellings[0], Literal)
            if len(spellings) > 1 or target in seen or num_classes > _SHORT:
                break
            seen.add(target)
            passed.append(spellings[0])
            state = target
        return state, passed


def _opened(texts: Bounded, spell: Spell) -> tuple[set[State], set[State]]:
    """Hubs, and states that are written out where they are led to, so that hubs lead to themselves alone.

    The back end keeps what it compiled of a rule by content, for all grammars to come, unless the rule takes
    part in a circle of several (but for one without any branches).
    """
    hubs: set[State] = set()
    num_ways: dict[State, int] = {}
    for circle in reversed(circles(texts.moves)):  # what others lead to comes first
        if len(circle) > _FEW:
            continue
        choices = [(hub, _num_ways(texts, circle - {hub}, num_ways, spell)) for hub in sorted(circle)]
        possible = [(hub, ways) for hub, ways in choices if ways is not None]
        if possible:
            hub, fewest = min(possible, key=lambda choice: sum(choice[1].values()))
            hubs.add(hub)
            num_ways |= fewest
    return hubs, set(num_ways)


def _num_ways(
    texts: Bounded, states: set[State], known: Mapping[State, int], spell: Spell
) -> dict[State, int] | None:
    """In how many ways each of `states` is left if all are written out; None if that is many, or cannot be.

    It can be if they lead in no circle but to themselves, and that by one of a set of characters.
    """
    following = {state: [t for t in texts.moves[state] if t in states] for state in states}
    loops = [texts.moves[state][state] for state in states if state in texts.moves[state]]
    if circles(following) or not all(_any_number(spell(ranges)) for ranges in loops):
        return None
    counts: dict[State, int] = {}

    def count(state: State) -> int:
        if state not in states:
            return known.get(state, 1)
        if state not in counts:
            counts[state] = (state in texts.ends) + sum(
                len(spell(ranges)) * count(t) for t, ranges in texts.moves[state].items() if t != state
            )
        return counts[state]

    return counts if all(count(state) <= _SOME for state in states) else None


def _any_number(spellings: Sequence[Expr]) -> Sequence[Expr]:
    """Any number of one of these, if that can be said of a set of characters."""
    match spellings:
        case [CharClass() as chars]:
            return [Repeat(chars)]
        case [Literal(text)] if len(text) == 1:
            return [Repeat(CharClass.of(text))]
        case _:
            return []


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
