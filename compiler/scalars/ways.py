"""Ways through an automaton: from a state to the next ones that have rules of their own.

The back end keeps what it compiled of a rule by content, for all grammars to come, unless the rule takes part
in a circle of several rules (but for one without any branches). So states of small circles but one, the hub,
are written out wherever they are led to, and the hub leads in a circle to itself alone.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from compiler.grammar.grammar import CharClass, Expr, Literal, Repeat
from compiler.graphs import circles
from compiler.scalars.bounded import Bounded, State
from compiler.scalars.spelling import Spell

_LONGEST_CIRCLE = 6
_MOST_WAYS = 16
"""To write out in all: what is written out is so again for every state that leads to it."""
_MOST_CLASSES = 8
"""Passed at once."""


class Ways:
    """The ways of one automaton, whose characters are spelled by `spell`."""

    def __init__(self, texts: Bounded, spell: Spell) -> None:
        self._moves = texts.moves
        self._ends = texts.ends
        self._spell = spell
        self._num_leading = Counter(target for targets in texts.moves.values() for target in targets)
        self._stops = set(texts.ends)
        self._opened: dict[State, int] = {}
        """In how many ways each state is left that has no rule of its own."""
        for circle in reversed(circles(texts.moves)):  # what others lead to comes first
            if len(circle) <= _LONGEST_CIRCLE:
                self._open(circle)

    def after(self, state: State) -> Iterator[tuple[list[Expr], State | None]]:
        """What is passed from a state to one that has a rule, and which; None where the text ends instead."""
        state, passed = self._passing(state)
        if state not in self._opened:
            yield passed, state
            return
        if state in self._moves[state]:
            passed = [*passed, *_any_number(self._spell(self._moves[state][state]))]
        if state in self._ends:
            yield passed, None
        for target, ranges in self._moves[state].items():
            if target != state:
                for rest, end in self.after(target):
                    yield from (([*passed, char, *rest], end) for char in self._spell(ranges))

    def _passing(self, state: State) -> tuple[State, list[Expr]]:
        """Follow states that leave no choice but of one character; where that ends, and what was passed.

        One character of a set takes long to compile: it is passed only where one state alone leads to it.
        """
        passed: list[Expr] = []
        seen = {state}
        num_classes = 0
        while state not in self._stops and len(self._moves[state]) == 1:
            ((target, ranges),) = self._moves[state].items()
            spellings = self._spell(ranges)
            if len(spellings) > 1 or target in seen:
                break
            if not isinstance(spellings[0], Literal):
                num_classes += 1
                if num_classes > _MOST_CLASSES or self._num_leading[state] > 1:
                    break
            seen.add(target)
            passed.append(spellings[0])
            state = target
        return state, passed

    def _open(self, circle: set[State]) -> None:
        """Write out all states of a circle but the one that leaves the fewest ways, if any does."""
        found: dict[State, dict[State, int]] = {}
        for hub in sorted(circle):
            self._stops.add(hub)
            num_ways = self._num_ways(circle - {hub})
            if num_ways is not None:
                found[hub] = num_ways
            if hub not in self._ends:
                self._stops.remove(hub)
        if found:
            hub = min(found, key=lambda hub: sum(found[hub].values()))
            self._stops.add(hub)
            self._opened |= found[hub]

    def _num_ways(self, states: set[State]) -> dict[State, int] | None:
        """In how many ways each of `states` is left if all are written out; None if they cannot be.

        They can be if there are few ways, and they lead in no circle but to themselves by one of a set.
        """
        inner = {state: [target for target in self._moves[state] if target in states] for state in states}
        loops = [self._moves[state][state] for state in states if state in inner[state]]
        if circles(inner) or not all(_any_number(self._spell(ranges)) for ranges in loops):
            return None
        counts: dict[State, int] = {}

        def count(state: State) -> int:
            state, _ = self._passing(state)
            if state not in states:
                return self._opened.get(state, 1)
            if state not in counts:
                counts[state] = (state in self._ends) + sum(
                    len(self._spell(ranges)) * count(target)
                    for target, ranges in self._moves[state].items()
                    if target != state
                )
            return counts[state]

        num_inner = Counter(target for targets in inner.values() for target in targets)
        num_written = sum((self._num_leading[state] - num_inner[state]) * count(state) for state in states)
        return counts if num_written <= _MOST_WAYS else None


def _any_number(spellings: Sequence[Expr]) -> Sequence[Expr]:
    """Any number of one of these, if that can be said of a set of characters."""
    match spellings:
        case [CharClass() as chars]:
            return [Repeat(chars)]
        case [Literal(text)] if len(text) == 1:
            return [Repeat(CharClass.of(text))]
        case _:
            return []
