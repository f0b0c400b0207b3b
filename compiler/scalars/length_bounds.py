"""Automata whose texts are within length bounds, small enough to be written out as rules.

Two ways to bound one: `bounded_by_count` multiplies its states by the number of characters read, which is
exact; `bounded_by_tails` counts in nothing but the tails, and leaves out some texts. A tail is where some
number of characters of one set may follow, and then the end: its rules are shared, so it is set apart.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from compiler.digraph import coreachable, reverse_topological_order
from compiler.regular import charset
from compiler.regular.charset import Ranges
from compiler.regular.dfa import DEAD, MAX_STATES, Dfa, TooManyStates
from compiler.regular.transition_pruning import prune_transitions
from compiler.scalars.counted_repetition import SHORT

CountedState = tuple[int, int]
"""A state of the automaton, and how many characters were read, as far as bounds tell counts apart."""
START: CountedState = (0, 0)
MAX_COST = 1_000
MAX_COST_OF_BOUND = 600
"""Where a bound can be narrowed instead."""
MAX_COST_OF_KEYS = 12_000
"""Of an open object: many keys are no hostile pattern."""
_MOVES_AT_ONCE = 48
"""On one character or few: so many take as long as one unit of `BoundedAutomaton.cost`."""
_Automaton = TypeVar("_Automaton", "BoundedAutomaton", "BoundedAutomaton | None")


class Suffix(NamedTuple):
    """`[ranges]{low,high}` and then the end; `high` None is without bound."""

    ranges: Ranges
    low: int
    high: int | None

    def within(self, low: int, high: int | None) -> "Suffix":
        """Those of `low` to `high` characters; none if that puts `low` above `high`."""
        highs = [bound for bound in (self.high, high) if bound is not None]
        return Suffix(self.ranges, max(self.low, low), min(highs, default=None))

    def without(self, ranges: Ranges) -> "Suffix":
        """Those without characters of a set."""
        kept = charset.intersection(self.ranges, charset.complement(ranges))
        return Suffix(kept, self.low, self.high if kept else 0)

    @property
    def is_empty(self) -> bool:
        """Whether no text is left."""
        return self.high is not None and self.low > self.high


@dataclass(frozen=True)
class BoundedAutomaton:
    """`moves` of every state that leads to an end, where a text may end, and where a tail takes over.

    One character may lead to several states.
    """

    moves: Mapping[CountedState, Mapping[CountedState, Ranges]]
    ends: frozenset[CountedState]
    tails: Mapping[CountedState, Suffix]

    @property
    def cost(self) -> int:
        """What it takes to compile, in units of some 2.5 ms for 150,000 tokens; tails are shared."""
        wide = sum(
            max((_cost(ranges) for target, ranges in targets.items() if target not in self.tails), default=0)
            for targets in self.moves.values()
        )
        return max(wide, sum(map(len, self.moves.values())) // _MOVES_AT_ONCE)

    def without(self, ranges: Ranges) -> "BoundedAutomaton | None":
        """The texts without characters of a set; None if there are none.

        In tails that can do without they are left to whoever writes these.
        """
        kept = charset.complement(ranges)
        tails = {state: tail for state, tail in self.tails.items() if not tail.without(ranges).is_empty}
        moves = {
            state: {target: left for target, s in targets.items() if (left := charset.intersection(s, kept))}
            for state, targets in self.moves.items()
        }
        return _trimmed(moves, self.ends, tails)


def _cost(ranges: Ranges) -> int:
    """Most tokens are words, half of them after a space, and a third is outside ASCII."""
    size = sum(high - low + 1 for low, high in ranges)
    if size < 20:
        return 0
    return 4 if size >= 1_000 else 3 if charset.contains(ranges, ord(" ")) else 1


def bounded_by_count(
    dfa: Dfa, low: int, high: int | None, *, max_cost: int = MAX_COST
) -> BoundedAutomaton | None:
    """The texts of `low` to `high` characters of a minimised automaton; None if there are none.

    `max_cost` bounds what compiling them without `high` may take, in the units of `BoundedAutomaton.cost`.

    Raises:
        TooManyStates: there would be too many states, or they would take too long to compile.
    """
    tails_of = _tails(dfa, [_grouped(dfa, row) for row in dfa.table])
    rows, hubs = prune_transitions(dfa)
    moves_of = [_grouped(dfa, row) for row in rows]
    for hub in hubs:
        moves_of[hub][hub] = charset.union(*moves_of[hub].values())
    cap = low if high is None else high
    tails: dict[CountedState, Suffix] = {}
    moves: dict[CountedState, dict[CountedState, Ranges]] = {}
    queue, found = [START], {START}
    for state in queue:
        number, count = state
        moves[state] = {}
        if number in tails_of:
            tails[state] = tails_of[number].within(low - count, None if high is None else high - count)
        elif high is None or count < high:
            moves[state] = {(t, min(count + 1, cap)): s for t, s in moves_of[number].items()}
        fresh = [target for target in moves[state] if target not in found]
        found.update(fresh)
        queue += fresh
        if len(queue) > MAX_STATES:
            raise TooManyStates
    tails = {state: tail for state, tail in tails.items() if not tail.is_empty}
    ends = {s for s in moves if s[0] in dfa.accepting and s[0] not in tails_of and s[1] >= low}
    return _affordable(_trimmed(moves, ends, tails), max_cost if high is None else MAX_COST_OF_BOUND)


def other_than(texts: Iterable[str]) -> BoundedAutomaton:
    """Every text but these: the undeclared keys of an open object.

    What `bounded_by_count` makes of an automaton that leaves these out, without its detours: a state for
    every beginning of a text, those that are left in equal ways in one.

    Raises:
        TooManyStates: they have too many beginnings, or would take too long to compile.
    """
    beginnings, whole = _beginnings(texts)
    any_text = (-1, 0)
    moves: dict[CountedState, dict[CountedState, Ranges]] = {any_text: {}}
    tails = {any_text: Suffix(charset.ALL, 0, None)}
    ends: set[CountedState] = set()
    states: dict[tuple[bool, tuple[tuple[str, CountedState], ...]], CountedState] = {}
    state_of: dict[int, CountedState] = {}
    for number in reversed(range(len(beginnings))):
        longer = [(char, state_of[target]) for char, target in beginnings[number].items()]
        state = states.setdefault((number in whole, tuple(sorted(longer))), (number, 0))
        state_of[number] = state
        if state in moves:
            continue
        moves[state] = {}
        if longer:
            moves[state][any_text] = charset.complement(charset.of("".join(beginnings[number])))
            for target in dict.fromkeys(target for _, target in longer):
                moves[state][target] = charset.of("".join(char for char, to in longer if to == target))
        elif number in whole:
            tails[state] = Suffix(charset.ALL, 1, None)
        if number not in whole:
            ends.add(state)
    return _affordable(BoundedAutomaton(moves, frozenset(ends), tails), MAX_COST_OF_KEYS)


def _beginnings(texts: Iterable[str]) -> tuple[list[dict[str, int]], set[int]]:
    """A tree of texts, 0 its root: where each character leads from each beginning, and the whole texts."""
    beginnings: list[dict[str, int]] = [{}]
    whole = set()
    for text in texts:
        at = 0
        for char in text:
            if char not in beginnings[at]:
                if len(beginnings) > MAX_STATES:
                    raise TooManyStates
                beginnings[at][char] = len(beginnings)
                beginnings.append({})
            at = beginnings[at][char]
        whole.add(at)
    return beginnings, whole


def _trimmed(
    moves: Mapping[CountedState, Mapping[CountedState, Ranges]],
    ends: Iterable[CountedState],
    tails: Mapping[CountedState, Suffix],
) -> BoundedAutomaton | None:
    """Without states that lead to no end; None if the start is one."""
    live = coreachable((*ends, *tails), moves.items())
    if START not in live:
        return None
    kept = {s: {t: r for t, r in moves[s].items() if t in live} for s in moves if s in live}
    return BoundedAutomaton(kept, frozenset(ends), tails)


def _affordable(bounded: _Automaton, max_cost: int) -> _Automaton:
    """The same; raises TooManyStates if it would take too long to compile."""
    if bounded is not None and bounded.cost > max_cost:
        raise TooManyStates(max_cost)
    return bounded


def bounded_by_tails(dfa: Dfa, low: int, high: int) -> tuple[BoundedAutomaton, int] | None:
    """Some texts of `low` to `high` characters, without a count before the tails.

    A tail is as long as it may be wherever a text comes to it: for `low` as early, for `high` as late as one
    can. With it, how many characters less a text can thus have; None if that is half of `high`, if the states
    before the tails have a loop, or if nothing is left.

    Raises:
        TooManyStates: it would take too long to compile.
    """
    moves_of = [_grouped(dfa, row) for row in dfa.table]
    tails_of = _tails(dfa, moves_of)
    moves_of = [{} if number in tails_of else targets for number, targets in enumerate(moves_of)]
    innermost = reverse_topological_order(moves_of)
    if innermost is None:
        return None
    order = innermost[::-1]
    first, last = _arrivals(order, moves_of)
    tails = {(n, 0): tails_of[n].within(low - first[n], high - last[n]) for n in order if n in tails_of}
    tails = {state: tail for state, tail in tails.items() if not tail.is_empty}
    lost = max((last[number] for number, _ in tails), default=high)
    if lost * 2 > high:
        return None
    ends = {
        (n, 0)
        for n in order
        if n in dfa.accepting and n not in tails_of and low <= first[n] and last[n] <= high
    }
    moves = {(n, 0): {(t, 0): ranges for t, ranges in moves_of[n].items()} for n in order}
    bounded = _affordable(_trimmed(moves, ends, tails), MAX_COST)
    return None if bounded is None else (bounded, lost)


def _arrivals(
    order: Iterable[int], moves_of: Sequence[Mapping[int, Ranges]]
) -> tuple[Mapping[int, int], Mapping[int, int]]:
    """The fewest and the most characters with which a text comes to each state; `order` is topological."""
    first, last = {0: 0}, {0: 0}
    for number in order:
        for target in moves_of[number]:
            first[target] = min(first.get(target, first[number] + 1), first[number] + 1)
            last[target] = max(last.get(target, 0), last[number] + 1)
    return first, last


def _tails(dfa: Dfa, moves_of: Sequence[Mapping[int, Ranges]]) -> dict[int, Suffix]:
    """The states from which on a text is a tail, and a long one."""
    found: dict[int, Suffix] = {}
    sources: dict[int, list[int]] = {}
    for number, targets in enumerate(moves_of):
        if number in dfa.accepting and (not targets or list(targets) == [number]):
            found[number] = Suffix(targets.get(number, ()), 0, None if targets else 0)
        elif len(targets) == 1:
            sources.setdefault(next(iter(targets)), []).append(number)
    stack = list(found)
    while stack:
        target = stack.pop()
        for number in sources.get(target, ()):
            tail = _one_more(moves_of[number][target], found[target], may_end=number in dfa.accepting)
            if tail is not None:
                found[number] = tail
                stack.append(number)
    return {number: tail for number, tail in found.items() if tail.high is None or tail.high >= SHORT}


def _one_more(ranges: Ranges, rest: Suffix, *, may_end: bool) -> Suffix | None:
    """One character and the rest, or nothing if the text `may_end`, as one tail."""
    if (rest.ranges != ranges and rest.high != 0) or (may_end and rest.low > 0):
        return None
    return Suffix(ranges, 0 if may_end else rest.low + 1, None if rest.high is None else rest.high + 1)


def _grouped(dfa: Dfa, row: Sequence[int]) -> dict[int, Ranges]:
    """The characters that lead to each state."""
    groups: dict[int, list[Ranges]] = {}
    for symbol, target in enumerate(row):
        if target != DEAD:
            groups.setdefault(target, []).append(dfa.alphabet.atoms[symbol])
    return {target: charset.union(*sets) for target, sets in groups.items()}
