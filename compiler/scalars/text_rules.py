"""From an automaton to the rules of its texts.

In principle each state becomes a rule with an alternative for each transition. But the back end (xgrammar)
keeps what it compiled of a rule for all later grammars with an equal rule, unless the rule is part of a cycle
of several rules. So states are inlined into the rules that lead to them until no such cycle is left, as far
as that stays small: of every small cycle all states are inlined but one, its header, whose rule then refers
only to itself.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cache, lru_cache

from compiler.digraph import cyclic_components
from compiler.grammar.grammar import CharClass, Expr, Literal, Repeat, Rule, RuleRef, choice, concat
from compiler.grammar.rules import RuleTable
from compiler.regular import charset
from compiler.regular.charset import Ranges
from compiler.scalars.char_encoding import ESCAPED, UNESCAPED, CharEncoding
from compiler.scalars.length_bounds import START, BoundedAutomaton, CountedState, Suffix

_MAX_CYCLE = 6
"""The largest number of states of a cycle that is inlined."""
_MAX_INLINED_PATHS = 16
"""The most paths of an inlined cycle, counted for every transition into it, since each gets a copy."""
_MAX_CLASSES_PER_CHAIN = 8
_WIDE = 20
"""The fewest characters of a transition that is written in blocks."""
_OFTEN = 8
"""The fewest states that must share blocks: cutting a set into blocks takes up to ten rules."""


class _InlinedPaths:
    """The paths from a state, through states that are inlined, to the next states that have rules."""

    def __init__(self, texts: BoundedAutomaton, encode: CharEncoding) -> None:
        self._transitions = texts.transitions
        self._accepting = texts.accepting
        self._encode = encode
        self._num_predecessors = Counter(to for targets in texts.transitions.values() for to in targets)
        self._chain_ends = set(texts.accepting)
        """States at which chains of single transitions end."""
        self._num_paths: dict[CountedState, int] = {}
        """How many paths leave each state that is inlined as part of a cycle."""
        for cycle in reversed(cyclic_components(texts.transitions)):  # successors first
            if len(cycle) <= _MAX_CYCLE:
                self._inline(cycle)

    def after(self, state: CountedState) -> Iterator[tuple[list[Expr], CountedState | None]]:
        """Each path: its characters, and the state with a rule that it leads to; None where the text ends."""
        state, passed = self._follow_chain(state)
        if state not in self._num_paths:
            yield passed, state
            return
        if state in self._transitions[state]:
            passed = [*passed, *_repeated(self._encode(self._transitions[state][state]))]
        if state in self._accepting:
            yield passed, None
        for target, ranges in self._transitions[state].items():
            if target != state:
                for rest, end in self.after(target):
                    yield from (([*passed, char, *rest], end) for char in self._encode(ranges))

    def _follow_chain(self, state: CountedState) -> tuple[CountedState, list[Expr]]:
        """Follow single transitions on one encoding; where they end, and the characters passed.

        A class of characters takes long to compile and is not to be copied, so it is passed only where a
        single transition leads to it.
        """
        passed: list[Expr] = []
        seen = {state}
        num_classes = 0
        while state not in self._chain_ends and len(self._transitions[state]) == 1:
            ((target, ranges),) = self._transitions[state].items()
            encodings = self._encode(ranges)
            if len(encodings) > 1 or target in seen:
                break
            if not isinstance(encodings[0], Literal):
                num_classes += 1
                if num_classes > _MAX_CLASSES_PER_CHAIN or self._num_predecessors[state] > 1:
                    break
            seen.add(target)
            passed.append(encodings[0])
            state = target
        return state, passed

    def _inline(self, cycle: set[CountedState]) -> None:
        """Inline all states of a cycle but the header that leaves the fewest paths, if there is a header."""
        candidates: dict[CountedState, dict[CountedState, int]] = {}
        for header in sorted(cycle):
            self._chain_ends.add(header)
            num_paths = self._count_paths(cycle - {header})
            if num_paths is not None:
                candidates[header] = num_paths
            if header not in self._accepting:
                self._chain_ends.remove(header)
        if candidates:
            header = min(candidates, key=lambda header: sum(candidates[header].values()))
            self._chain_ends.add(header)
            self._num_paths |= candidates[header]

    def _count_paths(self, states: set[CountedState]) -> dict[CountedState, int] | None:
        """How many paths leave each of `states` if all of them are inlined; None if they cannot be inlined.

        They can be if the paths are few and they form no cycles but loops on characters of one class.
        """
        inner = {state: [to for to in self._transitions[state] if to in states] for state in states}
        loops = [self._transitions[state][state] for state in states if state in inner[state]]
        if cyclic_components(inner) or not all(_repeated(self._encode(ranges)) for ranges in loops):
            return None
        counts: dict[CountedState, int] = {}

        def count(state: CountedState) -> int:
            state, _ = self._follow_chain(state)
            if state not in states:
                return self._num_paths.get(state, 1)
            if state not in counts:
                counts[state] = (state in self._accepting) + sum(
                    len(self._encode(ranges)) * count(target)
                    for target, ranges in self._transitions[state].items()
                    if target != state
                )
            return counts[state]

        num_inner = Counter(target for targets in inner.values() for target in targets)
        num_inlined = sum(
            (self._num_predecessors[state] - num_inner[state]) * count(state) for state in states
        )
        return counts if num_inlined <= _MAX_INLINED_PATHS else None


def _repeated(encodings: Sequence[Expr]) -> Sequence[Expr]:
    """Any number of characters with these encodings, if a single class holds them; else nothing."""
    match encodings:
        case [CharClass() as chars]:
            return [Repeat(chars)]
        case [Literal(text)] if len(text) == 1:
            return [Repeat(CharClass.of(text))]
        case _:
            return []


@dataclass(eq=False)
class TextRules:
    """Writes the rules of an automaton's texts, each followed by `close`.

    `encode` gives the encodings of one character of a set, `lower_suffix` the texts of a suffix and `close`
    after them. `ahead` is what is known to follow `close`.
    """

    texts: BoundedAutomaton
    rules: RuleTable
    _: KW_ONLY
    encode: CharEncoding
    lower_suffix: Callable[[Suffix], Expr]
    close: Literal
    ahead: CharClass | None

    def __post_init__(self) -> None:
        self.suffix = cache(self.lower_suffix)
        self.paths = _InlinedPaths(self.texts, self.encode)
        self.blocks: dict[tuple[Ranges, Expr], RuleRef] = {}
        self.refs: dict[CountedState, RuleRef] = {}
        self.shared = self._shared_targets(self._reserve_rules())

    def lower(self) -> Expr:
        """All texts."""
        for state, ref in self.refs.items():
            self.rules.fill(ref, Rule(self.body(state), self.ahead))
        return self.state(START)

    def _reserve_rules(self) -> list[CountedState]:
        """Reserve a rule for every state that is not inlined; these states, after the start."""
        states = [START]
        for state in states:
            for target in self.texts.transitions[state]:
                for _, end in self.paths.after(target):
                    if end is not None and end not in self.refs and end not in self.texts.suffixes:
                        self.refs[end] = self.rules.reserve("text")
                        states.append(end)
        return states

    def _shared_targets(self, states: list[CountedState]) -> set[CountedState]:
        """Suffixes, and states to which many characters lead from many other states."""
        num_wide = Counter(
            end
            for state in states
            for target, ranges in self.texts.transitions[state].items()
            for passed, end in self.paths.after(target)
            if end not in (None, state) and not passed and charset.size(ranges) >= _WIDE
        )
        return {*self.texts.suffixes, *(state for state, count in num_wide.items() if count >= _OFTEN)}

    def state(self, state: CountedState) -> Expr:
        """The texts from a state on: its rule, or what would stand in one."""
        return self.refs.get(state) or self.body(state)

    def body(self, state: CountedState) -> Expr:
        """An alternative for every path from a state, and one for the end of the text."""
        if state in self.texts.suffixes:
            return self.suffix(self.texts.suffixes[state])
        options: list[Expr] = [self.close] if state in self.texts.accepting else []
        for target, ranges in self.texts.transitions[state].items():
            for passed, end in self.paths.after(target):
                rest = concat(*passed, self.close if end is None else self.state(end))
                if end in self.shared and end != state and not passed and charset.size(ranges) >= _WIDE:
                    options += [self.block(block, rest) for block in _blocks(ranges)]
                else:
                    options += [concat(char, rest) for char in self.encode(ranges)]
        return choice(*options)

    def block(self, ranges: Ranges, rest: Expr) -> Expr:
        """One character of a block and then `rest`; equal blocks with equal rests share a rule."""
        key = ranges, rest
        if key not in self.blocks:
            options = [concat(char, rest) for char in self.encode(ranges)]
            self.blocks[key] = self.rules.define("block", Rule(choice(*options), self.ahead))
        return self.blocks[key]


@lru_cache(maxsize=1024)
def _blocks(ranges: Ranges) -> tuple[Ranges, ...]:
    """A set cut into blocks, where other sets are cut at the same places.

    A state with transitions on most characters takes 10 ms to compile for 150,000 tokens, and the keys of an
    open object have hundreds of such states, each with other characters. Blocks are as large as powers of two
    within ASCII allow, so that the states share most of them, and each is compiled once.
    """
    blocks = [charset.intersection(ranges, part) for part in (ESCAPED, charset.OUTSIDE_ASCII)]
    unescaped = charset.intersection(ranges, charset.intersection(UNESCAPED, ((0, 0x7F),)))
    pending = [(0, 0x80)]
    while pending:
        low, size = pending.pop()
        part = charset.intersection(unescaped, ((low, low + size - 1),))
        if part == charset.intersection(UNESCAPED, ((low, low + size - 1),)):
            blocks.append(part)
        elif part:
            pending += [(low + size // 2, size // 2), (low, size // 2)]
    return tuple(part for part in blocks if part)
