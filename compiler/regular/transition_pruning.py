"""Fewer transitions for automata of unanchored patterns (searches), at the price of determinism.

The automaton of `.*P` has a state for every prefix of P that a text may end with, and most characters lead
from each of these states back to many others. Compiling those transitions takes time, and most are redundant.

A *hub* is a state in which a text may stay for good: whatever character it takes, the text loses nothing if
it stays in the hub instead of moving on. A text may then be in the hub and, at the same time, in a state
behind it, which is one that only paths through the hub lead to. So a state behind the hub does not need the
transitions that it has in common with the hub. The result is an automaton in which a text can follow several
paths at once; the text is accepted if any of its paths ends in an accepting state.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import islice

from compiler.digraph import reachable
from compiler.regular.dfa import DEAD, Dfa

MAX_STEPS = 300_000
"""A limit of the proofs of inclusion, and of the searches behind hubs: each takes tenths of a second."""


@lru_cache(maxsize=8)
def prune_transitions(
    dfa: Dfa, *, max_steps: int = MAX_STEPS
) -> tuple[Sequence[Sequence[int]], frozenset[int]]:
    """The table of a minimised automaton without the transitions that its hubs make redundant, and the hubs.

    Every character that has a transition from a hub leads back to the hub as well; the table does not hold
    these loops. In a large automaton some hubs may not be found: the search ends after `max_steps`.
    """
    rows = [list(row) for row in dfa.table]
    inclusions = _Inclusions(dfa, max_steps)
    most = max_steps // (len(rows) * len(dfa.alphabet.atoms))
    hubs: list[int] = []
    for hub in islice(filter(inclusions.is_hub, range(len(rows))), most):
        behind = _behind(dfa, hub)
        waits = [symbol for symbol, target in enumerate(dfa.table[hub]) if target == DEAD]
        if any(dfa.table[state][symbol] != DEAD for state in behind for symbol in waits):
            continue  # a character that leaves the hub dead would lead on from behind it
        hubs.append(hub)
        for state in behind:
            for symbol, target in enumerate(dfa.table[hub]):
                if dfa.table[state][symbol] == target:
                    rows[state][symbol] = DEAD
    return tuple(map(tuple, rows)), frozenset(hubs)


class _Inclusions:
    """Proofs that one state accepts every text that another one accepts; later proofs reuse earlier ones."""

    def __init__(self, dfa: Dfa, max_steps: int) -> None:
        self._dfa = dfa
        self._proven: set[tuple[int, int]] = set()
        self._num_steps_left = max_steps

    def is_hub(self, state: int) -> bool:
        """Whether `state` has a loop, other successors, and all of these accept whatever `state` accepts."""
        targets = set(self._dfa.table[state]) - {DEAD}
        return state in targets and len(targets) > 1 and self._all_include(targets, state)

    def _all_include(self, states: set[int], inner: int) -> bool:
        """Whether a proof is found that each of `states` accepts every text that `inner` accepts."""
        table, accepting = self._dfa.table, self._dfa.accepting
        pairs = {(state, inner) for state in states if state != inner} - self._proven
        pending = list(pairs)
        while pending:
            outer, inner = pending.pop()
            self._num_steps_left -= len(table[outer])
            if self._num_steps_left < 0 or (inner in accepting and outer not in accepting):
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
    """The states to which only paths through the hub lead (the nodes that the hub dominates)."""
    others = set(range(len(dfa.table))) - {hub}
    if hub == 0:
        return others
    without_hub = reachable([0], lambda state: (t for t in dfa.table[state] if t not in (DEAD, hub)))
    return others - without_hub
