"""An automaton and a count of characters walked together, as far as that has to be written out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from compiler.lengths import SHORT
from compiler.regular import charset
from compiler.regular.charset import Ranges
from compiler.regular.dfa import DEAD, MAX_STATES, Dfa, TooManyStates

State = tuple[int, int]
"""A state of the automaton, and how many characters were read, as far as bounds tell counts apart."""
START: State = (0, 0)
MAX_COST = 1_000


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
        """What it takes to compile, in units of some 3 ms for 150,000 tokens."""
        return sum(max(map(_cost, targets.values()), default=0) for targets in self.moves.values())


def _cost(ranges: Ranges) -> int:
    """Most tokens begin with a character of a wide set, and few with one of a narrow one."""
    size = sum(high - low + 1 for low, high in ranges)
    return 4 if size >= 1_000 else 1 if size >= 20 else 0


def counted(dfa: Dfa, low: int, high: int | None) -> Walk | None:
    """The texts of `low` to `high` characters of a minimised automaton; None if there are none.

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
    live = _live(moves, {*ends, *tails})
    if START not in live:
        return None
    kept = {s: {t: r for t, r in moves[s].items() if t in live} for s in moves if s in live}
    walk = Walk(kept, frozenset(ends), tails)
    if walk.cost > MAX_COST:
        raise TooManyStates(MAX_COST)
    return walk


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


def _live(moves: Mapping[State, Mapping[State, Ranges]], ends: set[State]) -> set[State]:
    sources: dict[State, list[State]] = {}
    for state, targets in moves.items():
        for target in targets:
            sources.setdefault(target, []).append(state)
    live = set(ends)
    stack = list(ends)
    while stack:
        fresh = [source for source in sources.get(stack.pop(), ()) if source not in live]
        live.update(fresh)
        stack += fresh
    return live


def _grouped(dfa: Dfa, row: tuple[int, ...]) -> dict[int, Ranges]:
    """The characters that lead to each state."""
    groups: dict[int, list[Ranges]] = {}
    for symbol, target in enumerate(row):
        if target != DEAD:
            groups.setdefault(target, []).append(dfa.alphabet.atoms[symbol])
    return {target: charset.union(*sets) for target, sets in groups.items()}
