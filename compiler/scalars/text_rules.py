"""From an automaton to the rules of its texts, close included."""

from collections import Counter
from collections.abc import Callable
from functools import cache, lru_cache

from compiler.grammar.grammar import CharClass, Expr, Literal, Rule, RuleRef, choice, sequence
from compiler.grammar.rules import RuleSink
from compiler.regular import charset
from compiler.regular.charset import Ranges
from compiler.scalars.bounded import START, Bounded, State, Tail
from compiler.scalars.spelling import NEVER_RAW, RAW, Spell
from compiler.scalars.ways import Ways

_MANY = 20
_OFTEN = 8
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
    """A text of the automaton, then `close`; a rule for every state that is not written out (see `ways`).

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
        self.tail = cache(tail)
        self.close = close
        self.ahead = ahead
        self.ways = Ways(texts, spell)
        self.blocks: dict[tuple[Ranges, Expr], RuleRef] = {}
        self.refs: dict[State, RuleRef] = {}
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

    def _shared(self, states: list[State]) -> set[State]:
        """Tails, and states to which many characters lead from many others."""
        wide = Counter(
            end
            for state in states
            for target, ranges in self.texts.moves[state].items()
            for passed, end in self.ways.after(target)
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
            for passed, end in self.ways.after(target):
                rest = sequence(*passed, self.close if end is None else self.state(end))
                if end in self.shared and end != state and not passed and _size(ranges) >= _MANY:
                    options += [self.block(block, rest) for block in _blocks(ranges)]
                else:
                    options += [sequence(char, rest) for char in self.spell(ranges)]
        return choice(*options)

    def block(self, ranges: Ranges, rest: Expr) -> Expr:
        """One character of a block and the rest, in a rule that is the same wherever these are."""
        key = ranges, rest
        if key not in self.blocks:
            options = [sequence(char, rest) for char in self.spell(ranges)]
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
