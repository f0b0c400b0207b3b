"""Automata whose texts are within length bounds, small enough to be written out as rules.

There are two ways to bound the length of an automaton's texts. `bounded_by_count` takes the product with a
counter of characters: it is exact, but multiplies the states. `bounded_by_suffixes` counts only in suffixes,
and leaves some texts out. A suffix is a number of characters of one set at the end of a text; the rules of
suffixes are shared between patterns, so an automaton sets them apart.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from compiler.digraph import coreachable, reverse_topological_order
from compiler.regular import charset
from compiler.regular.charset import Ranges
from compiler.regular.dfa import DEAD, MAX_STATES, Dfa, TooManyStates
from compiler.regular.transition_pruning import prune_transitions
from compiler.scalars.counted_repetition import BLOCK, SHORT

CountedState = tuple[int, int]
"""A state of the DFA, and how many characters were read, at most the highest number that matters."""
START: CountedState = (0, 0)
_ANY_TEXT: CountedState = (-1, 0)
MAX_COST = 1_000
"""The largest `BoundedAutomaton.cost` of a pattern."""
MAX_COST_OF_BOUND = 600
"""The largest cost of a pattern with an upper bound, which can be lowered instead."""
MAX_COST_OF_KEYS = 12_000
"""The largest cost of the keys of an open object: many declared keys are no hostile pattern."""
_TRANSITIONS_PER_COST = 48
"""How many transitions on few characters take as long to compile as one unit of `BoundedAutomaton.cost`."""
_Automaton = TypeVar("_Automaton", "BoundedAutomaton", "BoundedAutomaton | None")


class Suffix(NamedTuple):
    """`[ranges]{low,high}` and then the end of the text; `high` None is no bound."""

    ranges: Ranges
    low: int
    high: int | None

    def within(self, low: int, high: int | None) -> "Suffix":
        """Its texts of `low` to `high` characters; the result may be empty."""
        highs = [bound for bound in (self.high, high) if bound is not None]
        return Suffix(self.ranges, max(self.low, low), min(highs, default=None))

    def without(self, ranges: Ranges) -> "Suffix":
        """Its texts without the characters of a set."""
        remaining = charset.intersection(self.ranges, charset.complement(ranges))
        return Suffix(remaining, self.low, self.high if remaining else 0)

    @property
    def is_empty(self) -> bool:
        """Whether no text is left."""
        return self.high is not None and self.low > self.high

    @property
    def cost(self) -> int:
        """What compiling its rules costs, in the same units; rules of all characters are compiled ahead."""
        if self.ranges == charset.ALL:
            return 0
        return _cost(self.ranges) * min(self.low if self.high is None else self.high, BLOCK + SHORT)


@dataclass(frozen=True)
class BoundedAutomaton:
    """A nondeterministic automaton without states from which nothing is accepted.

    `transitions[state][target]` are the characters on which `state` moves to `target`. In a state of
    `suffixes` the rest of the text is that suffix.
    """

    transitions: Mapping[CountedState, Mapping[CountedState, Ranges]]
    accepting: frozenset[CountedState]
    suffixes: Mapping[CountedState, Suffix]

    @property
    def cost_of_suffixes(self) -> int:
        """What compiling the suffixes costs; patterns share them, so `cost` leaves it out."""
        return max((suffix.cost for suffix in self.suffixes.values()), default=0)

    @property
    def cost(self) -> int:
        """What compiling it costs, in units of some 2.5 ms for 150,000 tokens; suffixes cost nothing."""
        of_states = sum(
            max(
                (_cost(ranges) for target, ranges in targets.items() if target not in self.suffixes),
                default=0,
            )
            for targets in self.transitions.values()
        )
        return max(of_states, sum(map(len, self.transitions.values())) // _TRANSITIONS_PER_COST)

    def without(self, ranges: Ranges) -> "BoundedAutomaton | None":
        """Its texts without the characters of a set; None if there are none.

        Suffixes keep their sets of characters: the code that writes a suffix takes the characters out.
        """
        allowed = charset.complement(ranges)
        suffixes = {
            state: suffix for state, suffix in self.suffixes.items() if not suffix.without(ranges).is_empty
        }
        transitions = {
            state: {
                target: remaining
                for target, s in targets.items()
                if (remaining := charset.intersection(s, allowed))
            }
            for state, targets in self.transitions.items()
        }
        return _trimmed(transitions, self.accepting, suffixes)


def _cost(ranges: Ranges) -> int:
    """The cost of a transition on these characters: what counts is how many tokens begin with one of them.

    Most tokens are words, half of them after a space, and a third of all is outside ASCII.
    """
    size = charset.size(ranges)
    if size < 20:
        return 0
    return 4 if size >= 1_000 else 3 if charset.contains(ranges, ord(" ")) else 1


def bounded_by_count(
    dfa: Dfa, low: int, high: int | None, *, max_cost: int = MAX_COST
) -> BoundedAutomaton | None:
    """The texts of a minimised automaton that have `low` to `high` characters; None if there are none.

    `max_cost` bounds the cost without an upper bound; with one it is `MAX_COST_OF_BOUND`.

    Raises:
        TooManyStates: there would be too many states, or they would cost too much.
    """
    suffixes_of = _suffixes(dfa, [_targets(dfa, row) for row in dfa.table])
    targets_of = _pruned_targets(dfa)
    max_count = low if high is None else high

    def targets(state: CountedState) -> dict[CountedState, Ranges]:
        """Where one more character leads."""
        number, count = state
        if number in suffixes_of or (high is not None and count == high):
            return {}
        return {(target, min(count + 1, max_count)): ranges for target, ranges in targets_of[number].items()}

    def suffix(state: CountedState) -> Suffix:
        number, count = state
        return suffixes_of[number].within(low - count, None if high is None else high - count)

    transitions = {START: targets(START)}
    queue = [START]
    for state in queue:
        new = [target for target in transitions[state] if target not in transitions]
        transitions |= {target: targets(target) for target in new}
        queue += new
        if len(queue) > MAX_STATES:
            raise TooManyStates
    suffixes = {state: suffix(state) for state in transitions if state[0] in suffixes_of}
    suffixes = {state: rest for state, rest in suffixes.items() if not rest.is_empty}
    accepting = {s for s in transitions if s[0] in dfa.accepting and s[0] not in suffixes_of and s[1] >= low}
    bounded = _trimmed(transitions, accepting, suffixes)
    return _checked_cost(bounded, max_cost if high is None else MAX_COST_OF_BOUND)


def _pruned_targets(dfa: Dfa) -> list[dict[int, Ranges]]:
    """The characters that lead to each target of each state, without redundant ones; hubs have loops."""
    rows, hubs = prune_transitions(dfa)
    targets_of = [_targets(dfa, row) for row in rows]
    for hub in hubs:
        targets_of[hub][hub] = charset.union(*targets_of[hub].values())
    return targets_of


def other_than(texts: Iterable[str]) -> BoundedAutomaton:
    """The automaton of every text but these, for the undeclared keys of an open object.

    `bounded_by_count` could make it from a DFA. This is quicker and smaller: it has a state for every prefix
    of `texts`, and prefixes with the same continuations share one.

    Raises:
        TooManyStates: the texts have too many prefixes, or the automaton would cost too much.
    """
    trie, whole = _trie(texts)
    state_of = _shared_states(trie, whole)
    states = dict.fromkeys(state_of.values())
    transitions: dict[CountedState, dict[CountedState, Ranges]] = {_ANY_TEXT: {}}
    transitions |= {state: _ways_on(trie[state[0]], state_of) for state in states}
    ends = (state for state in states if state[0] in whole and not trie[state[0]])
    suffixes = {_ANY_TEXT: Suffix(charset.ALL, 0, None)} | dict.fromkeys(ends, Suffix(charset.ALL, 1, None))
    accepting = frozenset(state for state in states if state[0] not in whole)
    return _checked_cost(BoundedAutomaton(transitions, accepting, suffixes), MAX_COST_OF_KEYS)


def _shared_states(trie: Sequence[Mapping[str, int]], whole: Container[int]) -> dict[int, CountedState]:
    """A state for each node of a trie; nodes with the same continuations share one, that of their last."""
    states: dict[tuple[bool, tuple[tuple[str, CountedState], ...]], CountedState] = {}
    state_of: dict[int, CountedState] = {}
    for node in reversed(range(len(trie))):  # children before their parents
        children = sorted((char, state_of[child]) for char, child in trie[node].items())
        state_of[node] = states.setdefault((node in whole, tuple(children)), (node, 0))
    return state_of


def _ways_on(children: Mapping[str, int], state_of: Mapping[int, CountedState]) -> dict[CountedState, Ranges]:
    """The characters that lead to each state from a node with these children; all others lead to any text."""
    if not children:
        return {}
    characters: dict[CountedState, list[str]] = {}
    for char, child in children.items():
        characters.setdefault(state_of[child], []).append(char)
    others = {_ANY_TEXT: charset.complement(charset.of("".join(children)))}
    return others | {target: charset.of("".join(found)) for target, found in characters.items()}


def _trie(texts: Iterable[str]) -> tuple[list[dict[str, int]], set[int]]:
    """The trie of `texts` (each node its children by character, 0 the root) and the nodes of whole texts."""
    trie: list[dict[str, int]] = [{}]
    whole = set()
    for text in texts:
        node = 0
        for char in text:
            if char not in trie[node]:
                if len(trie) > MAX_STATES:
                    raise TooManyStates
                trie[node][char] = len(trie)
                trie.append({})
            node = trie[node][char]
        whole.add(node)
    return trie, whole


def _trimmed(
    transitions: Mapping[CountedState, Mapping[CountedState, Ranges]],
    accepting: Iterable[CountedState],
    suffixes: Mapping[CountedState, Suffix],
) -> BoundedAutomaton | None:
    """The automaton without states from which nothing is accepted; None if the start is one of these."""
    live = coreachable((*accepting, *suffixes), transitions.items())
    if START not in live:
        return None
    trimmed = {s: {t: r for t, r in transitions[s].items() if t in live} for s in transitions if s in live}
    return BoundedAutomaton(trimmed, frozenset(accepting), suffixes)


def _checked_cost(bounded: _Automaton, max_cost: int) -> _Automaton:
    """The automaton itself.

    Raises:
        TooManyStates: it costs more than `max_cost`.
    """
    if bounded is not None and bounded.cost > max_cost:
        raise TooManyStates(max_cost)
    return bounded


def bounded_by_suffixes(dfa: Dfa, low: int, high: int) -> tuple[BoundedAutomaton, int] | None:
    """Some texts of `low` to `high` characters: lengths are counted in suffixes only.

    Different paths may lead to the same suffix with different numbers of characters read. Its lower bound
    then assumes the shortest of these paths, its upper bound the longest.

    Returns:
        The automaton, and by how many characters its texts may fall short of `high`. None if that is more
        than half of `high`, if the states before the suffixes have a cycle, or if no text is left.

    Raises:
        TooManyStates: the automaton would cost too much.
    """
    targets_of = [_targets(dfa, row) for row in dfa.table]
    suffixes_of = _suffixes(dfa, targets_of)
    targets_of = [{} if number in suffixes_of else targets for number, targets in enumerate(targets_of)]
    order = reverse_topological_order(targets_of)
    if order is None:
        return None
    order.reverse()
    shortest, longest = _path_lengths(order, targets_of)
    suffixes = {
        (n, 0): suffixes_of[n].within(low - shortest[n], high - longest[n]) for n in order if n in suffixes_of
    }
    suffixes = {state: suffix for state, suffix in suffixes.items() if not suffix.is_empty}
    shortfall = max((longest[number] for number, _ in suffixes), default=high)
    if shortfall * 2 > high:
        return None
    accepting = {
        (n, 0)
        for n in order
        if n in dfa.accepting and n not in suffixes_of and low <= shortest[n] and longest[n] <= high
    }
    transitions = {(n, 0): {(t, 0): ranges for t, ranges in targets_of[n].items()} for n in order}
    bounded = _checked_cost(_trimmed(transitions, accepting, suffixes), MAX_COST)
    return None if bounded is None else (bounded, shortfall)


def _path_lengths(
    order: Iterable[int], targets_of: Sequence[Mapping[int, Ranges]]
) -> tuple[Mapping[int, int], Mapping[int, int]]:
    """The lengths of the shortest and the longest path to each state; `order` is topological."""
    shortest, longest = {0: 0}, {0: 0}
    for number in order:
        for target in targets_of[number]:
            shortest[target] = min(shortest.get(target, shortest[number] + 1), shortest[number] + 1)
            longest[target] = max(longest.get(target, 0), longest[number] + 1)
    return shortest, longest


def _suffixes(dfa: Dfa, targets_of: Sequence[Mapping[int, Ranges]]) -> dict[int, Suffix]:
    """The states in which the rest of every text is a suffix that is worth sharing."""
    suffixes: dict[int, Suffix] = {}
    predecessors: dict[int, list[int]] = {}
    for number, targets in enumerate(targets_of):
        if number in dfa.accepting and (not targets or list(targets) == [number]):
            suffixes[number] = Suffix(targets.get(number, ()), 0, None if targets else 0)
        elif len(targets) == 1:
            predecessors.setdefault(next(iter(targets)), []).append(number)
    stack = list(suffixes)
    while stack:
        target = stack.pop()
        for number in predecessors.get(target, ()):
            suffix = _prepended(targets_of[number][target], suffixes[target], may_end=number in dfa.accepting)
            if suffix is not None:
                suffixes[number] = suffix
                stack.append(number)
    return {
        number: suffix for number, suffix in suffixes.items() if suffix.high is None or suffix.high >= SHORT
    }


def _prepended(ranges: Ranges, rest: Suffix, *, may_end: bool) -> Suffix | None:
    """One character and then `rest`, or nothing at all if the text `may_end`; None if that is no suffix."""
    if (rest.ranges != ranges and rest.high != 0) or (may_end and rest.low > 0):
        return None
    return Suffix(ranges, 0 if may_end else rest.low + 1, None if rest.high is None else rest.high + 1)


def _targets(dfa: Dfa, row: Sequence[int]) -> dict[int, Ranges]:
    """The characters that lead to each target of a row of the table."""
    sets: dict[int, list[Ranges]] = {}
    for symbol, target in enumerate(row):
        if target != DEAD:
            sets.setdefault(target, []).append(dfa.alphabet.atoms[symbol])
    return {target: charset.union(*ranges) for target, ranges in sets.items()}
