"""Automata of searches, with fewer moves: a state in which a text may stay waits beside all that come of it.

`.*P` needs a state for every start of P that a text may be in, and each leads back to many others on all but
the character it waits for. Those moves are what takes time to compile. Where a state, the *hub*, loses
nothing by one more character of any kind that it takes, a text may stay in it for good. Then a state behind
it, which no text reaches but through it, needs no move that the hub has, too: the hub is beside it.
"""

from collections.abc import Sequence

from compiler.graphs import reached
from compiler.regular.dfa import DEAD, Dfa

MAX_PAIRS = 100_000
"""Steps to prove that one state admits all that another does."""


def thinned(dfa: Dfa) -> tuple[Sequence[Sequence[int]], frozenset[int]]:
    """The table of a minimised automaton without moves that its hubs make unneeded, and the hubs.

    From a hub every character that leads anywhere leads to the hub too. A text is in the language if one of
    the ways that it can go ends where it may.
    """
    rows = [list(row) for row in dfa.table]
    hubs = []
    for hub in range(len(rows)):
        if not _can_be_stayed_in(dfa, hub):
            continue
        behind = _behind(dfa, hub)
        waits = [symbol for symbol, target in enumerate(dfa.table[hub]) if target == DEAD]
        if any(dfa.table[state][symbol] != DEAD for state in behind for symbol in waits):
            continue  # a text could go on from there that the hub is not beside any more
        hubs.append(hub)
        for state in behind:
            for symbol, target in enumerate(dfa.table[hub]):
                if dfa.table[state][symbol] == target:
                    rows[state][symbol] = DEAD
    return rows, frozenset(hubs)


def _can_be_stayed_in(dfa: Dfa, state: int) -> bool:
    """Whether a state admits nothing that those which it leads to do not; some characters lead back to it."""
    targets = set(dfa.table[state]) - {DEAD}
    return state in targets and len(targets) > 1 and _admit_all_of(dfa, targets, state)


def _admit_all_of(dfa: Dfa, states: set[int], inner: int) -> bool:
    """Whether every text from `inner` to an end leads from each of `states` to one."""
    pairs = {(state, inner) for state in states if state != inner}
    pending = list(pairs)
    while pending:
        outer, inner = pending.pop()
        if inner in dfa.accepting and outer not in dfa.accepting:
            return False
        for pair in zip(dfa.table[outer], dfa.table[inner], strict=True):
            if pair[1] == DEAD or pair[0] == pair[1] or pair in pairs:
                continue
            if pair[0] == DEAD or len(pairs) * len(dfa.table[0]) > MAX_PAIRS:
                return False
            pairs.add(pair)
            pending.append(pair)
    return True


def _behind(dfa: Dfa, hub: int) -> set[int]:
    """The states that no text reaches but through the hub."""
    everything = set(range(len(dfa.table)))
    if hub == 0:
        return everything - {hub}
    ahead = reached([0], lambda state: (t for t in dfa.table[state] if t not in (DEAD, hub)))
    return everything - ahead - {hub}
