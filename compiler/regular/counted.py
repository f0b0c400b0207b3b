"""An automaton and a count of characters walked together, as far as that has to be written out."""

from collections.abc import Mapping
from dataclasses import dataclass

from compiler.regular import charset
from compiler.regular.charset import Ranges
from compiler.regular.dfa import DEAD, Dfa, TooManyStates

State = tuple[int, int]
"""A state of the automaton, and how many characters were read, as far as bounds tell counts apart."""
START: State = (0, 0)


@dataclass(frozen=True)
class Walk:
    """`moves` of every state that leads to an end, and where a text may end.

    A state of `loops` is the end of the walk: from there on, any characters of that set may follow.
    """

    moves: Mapping[State, Mapping[State, Ranges]]
    ends: frozenset[State]
    loops: Mapping[State, Ranges]


def counted(dfa: Dfa, low: int, high: int | None, max_states: int) -> Walk | None:
    """The texts of `low` to `high` characters of a minimised automaton; None if there are none.

    Raises:
        TooManyStates: the walk has more than `max_states` states.
    """
    moves_of = [_grouped(dfa, row) for row in dfa.table]
    cap = low if high is None else high
    loops: dict[State, Ranges] = {}
    moves: dict[State, dict[State, Ranges]] = {}
    queue, found = [START], {START}
    for state in queue:
        number, count = state
        following = moves_of[number]
        if number in dfa.accepting and list(following) == [number]:
            loops[state] = following[number]
        may_go_on = state not in loops and (high is None or count < high)
        moves[state] = {(t, min(count + 1, cap)): s for t, s in following.items()} if may_go_on else {}
        fresh = [target for target in moves[state] if target not in found]
        found.update(fresh)
        queue += fresh
        if len(queue) > max_states:
            raise TooManyStates(max_states)
    ends = {state for state in moves if state[0] in dfa.accepting and state[1] >= low and state not in loops}
    live = _live(moves, {*ends, *loops})
    if START not in live:
        return None
    kept = {s: {t: r for t, r in moves[s].items() if t in live} for s in moves if s in live}
    return Walk(kept, frozenset(ends), loops)


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
