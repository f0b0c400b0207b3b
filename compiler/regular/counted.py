"""An automaton and a count of characters walked together, as far as that has to be written out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from compiler.graphs import innermost_first, leading_to
from compiler.lengths import SHORT
from compiler.regular import charset
from compiler.regular.charset import Ranges
from compiler.regular.dfa import DEAD, MAX_STATES, Dfa, TooManyStates

State = tuple[int, int]
"""A state of the automaton, and how many characters were read, as far as bounds tell counts apart."""
START: State = (0, 0)
MAX_COST = 1_000
MAX_COST_OF_BOUND = 600
"""Where a bound can be narrowed instead."""
MAX_COST_OF_KEYS = 12_000
"""Of an open object: many keys are no hostile pattern."""


class Tail(NamedTuple):
    """From `low` to `high` characters of one set, None without bound, and then the end."""

    ranges: Ranges
    low: int
    high: int | None

    def within(self, low: int, high: int | None) -> "Tail":
        """Those of `low` to `high` characters; none if that puts `low` above `high`."""
        highs = [bound for bound in (self.high, high) if bound is not None]
        return Tail(self.ranges, max(self.low, low), min(highs, default=None))

    @property
    def is_empty(self) -> bool:
        """Whether no text is left."""
        return self.high is not None and self.low > self.high


@dataclass(frozen=True)
class Walk:
    """`moves` of every state that leads to an end, where a text may end, and where a tail takes over."""

    moves: Mapping[State, Mapping[State, Ranges]]
    ends: frozenset[State]
    tails: Mapping[State, Tail]

    @property
    def cost(self) -> int:
        """What it takes to compile, in units of some 2.5 ms for 150,000 tokens; tails are shared."""
        return sum(
            max((_cost(ranges) for target, ranges in targets.items() if target not in self.tails), default=0)
            for targets in self.moves.values()
        )

    def without(self, ranges: Ranges) -> "Walk | None":
        """The texts that hold no character of a set before a tail takes over; None if there are none."""
        kept = charset.complement(ranges)
        moves = {
            state: {target: left for target, s in targets.items() if (left := charset.intersection(s, kept))}
            for state, targets in self.moves.items()
        }
        live = leading_to((*self.ends, *self.tails), moves.items())
        if START not in live:
            return None
        moves = {s: {t: r for t, r in moves[s].items() if t in live} for s in moves if s in live}
        return Walk(moves, self.ends, self.tails)


def _cost(ranges: Ranges) -> int:
    """Most tokens are words, half of them after a space, and a third is outside ASCII."""
    size = sum(high - low + 1 for low, high in ranges)
    if size < 20:
        return 0
    return 4 if size >= 1_000 else 3 if charset.contains(ranges, ord(" ")) else 1


def counted(dfa: Dfa, low: int, high: int | None, *, max_cost: int = MAX_COST) -> Walk | None:
    """The texts of `low` to `high` characters of a minimised automaton; None if there are none.

    `max_cost` bounds what compiling them without `high` may take, in the units of `Walk.cost`.

    Raises:
        TooManyStates: the walk has too many states, or would take too long to compile.
    """
    moves_of = [_grouped(dfa, row) for row in dfa.table]
    tails_of = _tails(dfa, moves_of)
    cap = low if high is None else high
    tails: dict[State, Tail] = {}
    moves: dict[State, dict[State, Ranges]] = {}
    queue, found = [START], {START}
    for state in queue:
        number, count = state
        moves[state] = {}
        if number in tails_of:
            tails[state] = tails_of[number].within(
                max(0, low - count), None if high is None else high - count
            )
        elif high is None or count < high:
            moves[state] = {(t, min(count + 1, cap)): s for t, s in moves_of[number].items()}
        fresh = [target for target in moves[state] if target not in found]
        found.update(fresh)
        queue += fresh
        if len(queue) > MAX_STATES:
            raise TooManyStates
    tails = {state: tail for state, tail in tails.items() if not tail.is_empty}
    ends = {s for s in moves if s[0] in dfa.accepting and s[0] not in tails_of and s[1] >= low}
    return _walk(moves, ends, tails, max_cost if high is None else MAX_COST_OF_BOUND)


def _walk(
    moves: Mapping[State, Mapping[State, Ranges]],
    ends: set[State],
    tails: Mapping[State, Tail],
    max_cost: int,
) -> Walk | None:
    """Without dead ends.

    Raises:
        TooManyStates: it would take too long to compile.
    """
    live = leading_to((*ends, *tails), moves.items())
    if START not in live:
        return None
    kept = {s: {t: r for t, r in moves[s].items() if t in live} for s in moves if s in live}
    walk = Walk(kept, frozenset(ends), tails)
    if walk.cost > max_cost:
        raise TooManyStates(max_cost)
    return walk


def late_tails(dfa: Dfa, low: int, high: int) -> tuple[Walk, int] | None:
    """Some texts of `low` to `high` characters, without a count: every state counts as reached latest.

    With it, how many characters less a text can thus have; None if that is half of `high`, if the states
    before the tails have a loop, or if nothing is left.

    Raises:
        TooManyStates: it would take too long to compile.
    """
    moves_of = [_grouped(dfa, row) for row in dfa.table]
    tails_of = _tails(dfa, moves_of)
    moves_of = [{} if number in tails_of else targets for number, targets in enumerate(moves_of)]
    innermost = innermost_first(moves_of)
    if innermost is None:
        return None
    order = innermost[::-1]
    first, last = {0: 0}, {0: 0}
    for number in order:
        for target in moves_of[number]:
            first[target] = min(first.get(target, first[number] + 1), first[number] + 1)
            last[target] = max(last.get(target, 0), last[number] + 1)
    tails = {
        (n, 0): tail
        for n in order
        if n in tails_of and not (tail := tails_of[n].within(max(0, low - first[n]), high - last[n])).is_empty
    }
    lost = max((last[number] for number, _ in tails), default=high)
    if lost * 2 > high:
        return None
    ends = {
        (n, 0)
        for n in order
        if n in dfa.accepting and n not in tails_of and low <= first[n] and last[n] <= high
    }
    moves = {(n, 0): {(t, 0): ranges for t, ranges in moves_of[n].items()} for n in order}
    walk = _walk(moves, ends, tails, MAX_COST)
    return None if walk is None else (walk, lost)


def _tails(dfa: Dfa, moves_of: Sequence[Mapping[int, Ranges]]) -> dict[int, Tail]:
    """The states from which on a text is a tail, and a long one."""
    found: dict[int, Tail] = {}
    sources: dict[int, list[int]] = {}
    for number, targets in enumerate(moves_of):
        if number in dfa.accepting and (not targets or list(targets) == [number]):
            found[number] = Tail(targets.get(number, ()), 0, None if targets else 0)
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


def _one_more(ranges: Ranges, rest: Tail, *, may_end: bool) -> Tail | None:
    """One character and the rest, or nothing if the text `may_end`, as one tail."""
    if (rest.ranges != ranges and rest.high != 0) or (may_end and rest.low > 0):
        return None
    return Tail(ranges, 0 if may_end else rest.low + 1, None if rest.high is None else rest.high + 1)


def _grouped(dfa: Dfa, row: tuple[int, ...]) -> dict[int, Ranges]:
    """The characters that lead to each state."""
    groups: dict[int, list[Ranges]] = {}
    for symbol, target in enumerate(row):
        if target != DEAD:
            groups.setdefault(target, []).append(dfa.alphabet.atoms[symbol])
    return {target: charset.union(*sets) for target, sets in groups.items()}
