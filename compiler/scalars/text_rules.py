"""From an automaton to the rules of its texts, close included."""

from collections import Counter
from collections.abc import Callable
from functools import lru_cache

from compiler.grammar.grammar import CharClass, Expr, Literal, Rule, RuleRef, choice, sequence
from compiler.grammar.rules import RuleSink
from compiler.regular import charset
from compiler.regular.charset import Ranges
from compiler.scalars.bounded import START, Bounded, State, Tail
from compiler.scalars.spelling import NEVER_RAW, RAW, Spell

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
        self.shared = self._shared()
        self.blocks: dict[tuple[Ranges, Expr], RuleRef] = {}
        self.refs: dict[State, RuleRef] = {}
        queue = [START]
        for state in queue:
            for target in texts.moves[state]:
                end, _ = self.chain(target)
                if end not in self.refs and end not in texts.tails:
                    self.refs[end] = rules.reserve("text")
                    queue.append(end)
        for state, ref in self.refs.items():
            rules.fill(ref, Rule(self.body(state), ahead))

    def _shared(self) -> set[State]:
        """Tails, and states to which many characters lead from many others."""
        wide = Counter(
            self.chain(target)[0]
            for targets in self.texts.moves.values()
            for target, ranges in targets.items()
            if _size(ranges) >= _MANY
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
            end, passed = self.chain(target)
            rest = sequence(*passed, self.state(end))
            if end in self.shared and _size(ranges) >= _MANY:
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

    def chain(self, state: State) -> tuple[State, list[Expr]]:
        """Follow states that leave no choice but one character; where that ends, and what was passed."""
        passed: list[Expr] = []
        seen = {state}
        while state not in self.texts.ends and len(self.texts.moves[state]) == 1:
            ((target, ranges),) = self.texts.moves[state].items()
            spellings = self.spell(ranges)
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
