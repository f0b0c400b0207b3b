"""Automata of searches, with fewer moves: a state in which a text may stay waits beside all that come of it.

`.*P` needs a state for every start of P that a text may be in, and each leads back to many others on all but
the character it waits for. Those moves are what takes time to compile. Where a state, the *hub*, loses
nothing by one more character of any kind that it takes, a text may stay in it for good. Then a state behind
it, which no text reaches but through it, needs no move that the hub has, too: the hub is beside it.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import islice

from compiler.digraph import reached
from compiler.regular.dfa import DEAD, Dfa

MAX_STEPS = 300_000
"""To prove what admits what, and as many to find what is behind hubs: some tenths of a second."""


@lru_cache(maxsize=8)
def thinned(dfa: Dfa, *, max_steps: int = MAX_STEPS) -> tuple[Sequence[Sequence[int]], frozenset[int]]:
    """The table of a minimised automaton without moves that its hubs make unneeded, and the hubs.

    From a hub every character that leads anywhere leads to the hub too. A text is in the language if one of
    the ways that it can go ends where it may. Of a large automaton some hubs may not be found.
    """
    rows = [list(row) for row in dfa.table]
    inclusions = _Inclusions(dfa, max_steps)
    most = max_steps // (len(rows) * len(dfa.alphabet.atoms))
    hubs: list[int] = []
    for hub in islice(filter(inclusions.can_be_stayed_in, range(len(rows))), most):
        behind = _behind(dfa, hub)
        waits = [symbol for symbol, target in enumerate(dfa.table[hub]) if target == DEAD]
        if any(dfa.table[state][symbol] != DEAD for state in behind for symbol in waits):
            continue  # a text could go on from there that the hub is not beside any more
        hubs.append(hub)
        for state in behind:
            for symbol, target in enumerate(dfa.table[hub]):
                if dfa.table[state][symbol] == target:
                    rows[state][symbol] = DEAD
    return tuple(map(tuple, rows)), frozenset(hubs)


class _Inclusions:
    """Which states admit all that others do: what was proven once serves further proofs."""

    def __init__(self, dfa: Dfa, max_steps: int) -> None:
        self._dfa = dfa
        self._proven: set[tuple[int, int]] = set()
        self._num_left = max_steps

    def can_be_stayed_in(self, state: int) -> bool:
        """Whether some characters lead back, and others to nothing that does not admit all that it does."""
        targets = set(self._dfa.table[state]) - {DEAD}
        return state in targets and len(targets) > 1 and self._admit_all_of(targets, state)

    def _admit_all_of(self, states: set[int], inner: int) -> bool:
        """Whether it is known that every text from `inner` to an end leads from each of `states` to one."""
        table, accepting = self._dfa.table, self._dfa.accepting
        pairs = {(state, inner) for state in states if state != inner} - self._proven
        pending = list(pairs)
        while pending:
            outer, inner = pending.pop()
            self._num_left -= len(table[outer])
            if self._num_left < 0 or (inner in accepting and outer not in accepting):
                return False
            for pair in zip(table[outer], table[inner], strict=True):
                if pair[1] == DEAD or pair[0] == pair[1] or pair in pairs or pair in self._proven:
                    continue
                if pair[0] == DEAD:
                    return False
                pairs.add(pair)
                pending.append(pair)
        self._proven |= pairs
        return True


def _behind(dfa: Dfa, hub: int) -> set[int]:
    """The states that no text reaches but through the hub."""
    everything = set(range(len(dfa.table)))
    if hub == 0:
        return everything - {hub}
    ahead = reached([0], lambda state: (t for t in dfa.table[state] if t not in (DEAD, hub)))
    return everything - ahead - {hub}
