"""The plan of a grammar's guards: where in a text a guard must look, and what it enforces there.

The plan is an automaton over JSON paths. Its states are path states; keys and indices lead from the state of
a container to the states of what is inside it. Several schemas can describe the same value, so a value stands
in a set of states. A guard applies where any of these states asks for it: that can only narrow the mask.

In the plan of `{"properties": {"tags": {"uniqueItems": true}}}`, the key `tags` leads from the root to a
state that `is_distinct`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from compiler.guard.string_automaton import StringAutomaton, automaton_from_json, automaton_to_json
from compiler.guard.string_bounds import LengthBound

PathStates = frozenset[int]
"""Numbers of states in `GuardPlan.states`."""


@dataclass(frozen=True, slots=True)
class PathState:
    """What the plan knows of the values that some paths lead to, and where it goes on inside them."""

    is_distinct: bool = False
    """An array here has no two equal items."""
    can_run_out: bool = False
    """Only finitely many keys or items are possible here: one container can use up all that begin alike."""
    bound: LengthBound | None = None
    """The bound of a string here; None if no guard counts its characters."""
    is_plain: bool = True
    """Inside a string here, after its first character, what may follow does not depend on the text so far."""
    keys: Mapping[str, PathStates] = field(default_factory=dict)
    other_keys: PathStates = frozenset()
    """The states under every key that is not in `keys`."""
    marked_keys: frozenset[str] = frozenset()
    """The declared keys of an object here that the grammar would also read as undeclared ones."""
    items: tuple[PathStates, ...] = ()
    """The states of the items by index; the last entry also stands for all items after it."""


@dataclass(frozen=True, slots=True)
class GuardedTags:
    """How a syntax writes tagged parameters, and which of them can be arrays or objects."""

    begin: bytes
    after_key: bytes
    after_string_key: bytes
    end: bytes
    types: Mapping[str, tuple[str, ...]]
    """By key, the types of the parameters that can be arrays or objects (see `compiler.tagged_values`)."""


@dataclass(frozen=True)
class GuardPlan:
    """The path states that matter, and those of the root; the text is JSON unless there are `tags`."""

    states: tuple[PathState, ...] = ()
    start: PathStates = frozenset()
    tags: GuardedTags | None = None
    repeats_keys: bool = True
    """The grammar lets an object repeat a key, so the guard must forbid it."""

    @cached_property
    def can_run_out(self) -> bool:
        """Whether the keys or items of any container can run out; a completion can then be of any length."""
        return any(state.can_run_out for state in self.states)

    @cached_property
    def forbids_repeats(self) -> bool:
        """Whether a guard must keep keys or items from repeating."""
        return self.repeats_keys or self.has_distinct_items

    @cached_property
    def has_distinct_items(self) -> bool:
        """Whether the items of any array must be distinct."""
        return any(state.is_distinct for state in self.states)

    @cached_property
    def bounds(self) -> frozenset[LengthBound]:
        """The bounds of all strings."""
        return frozenset(state.bound for state in self.states if state.bound is not None)

    @cached_property
    def marks_keys(self) -> bool:
        """Whether any object has marked keys."""
        return any(state.marked_keys for state in self.states)

    def marked_keys_at(self, states: PathStates) -> frozenset[bytes]:
        """The marked keys of an object in these states, as a cursor compares them."""
        if not self.marks_keys:
            return frozenset()
        marked_keys = self._marked_keys.get(states)
        if marked_keys is None:
            keys = frozenset[str]().union(*(self.states[state].marked_keys for state in states))
            spelled = (json.dumps(key, ensure_ascii=False).encode() for key in keys)
            marked_keys = self._marked_keys[states] = frozenset(spelled)
        return marked_keys

    @cached_property
    def _marked_keys(self) -> dict[PathStates, frozenset[bytes]]:
        return {}

    @cached_property
    def _inside(self) -> dict[tuple[PathStates, str | int | None], PathStates]:
        return {}

    def of_parameter(self, key: str) -> "GuardPlan":
        """The plan of the JSON in the tag of a key that is in `tags.types`."""
        plan = self._of_parameters.get(key)
        if plan is None:
            start = self.inside(self.start, key)
            plan = self._of_parameters[key] = replace(self, start=start, tags=None)
        return plan

    @cached_property
    def _of_parameters(self) -> dict[str, "GuardPlan"]:
        return {}

    def inside(self, states: PathStates, step: str | int) -> PathStates:
        """The states of the value under a key, or at an index, of a container in `states`."""
        if not states:
            return states
        named = self._as_named(step)
        inner_states = self._inside.get((states, named))
        if inner_states is None:
            inner = [_child_states(self.states[state], named) for state in states]
            inner_states = self._inside[states, named] = frozenset().union(*inner)
        return inner_states

    def _as_named(self, step: str | int) -> str | int | None:
        """The step as the states name it; None for every key that no state names.

        It is remembered in the table `_inside`, and models make up too many keys to remember each.
        """
        if isinstance(step, str):
            return step if step in self._keys else None
        return min(step, self._last_item)

    @cached_property
    def _keys(self) -> frozenset[str]:
        return frozenset(key for state in self.states for key in state.keys)

    @cached_property
    def _last_item(self) -> int:
        return max((len(state.items) for state in self.states), default=1) - 1

    def is_distinct_at(self, states: PathStates) -> bool:
        """Whether the items of an array in these states must be distinct."""
        return any(self.states[state].is_distinct for state in states)

    def can_run_out_at(self, states: PathStates) -> bool:
        """Whether the keys or items of a container in these states can run out."""
        return any(self.states[state].can_run_out for state in states)

    def is_plain_at(self, states: PathStates) -> bool:
        """Whether what may follow inside a string in these states does not depend on the text so far."""
        return all(self.states[state].is_plain for state in states)

    def bound_at(self, states: PathStates) -> LengthBound | None:
        """The bound of a string in these states; the planner lets no two automata meet."""
        bounds = (self.states[state].bound for state in states)
        return min((bound for bound in bounds if bound), key=lambda bound: bound.max_length, default=None)


def _child_states(state: PathState, step: str | int | None) -> PathStates:
    if step is None:
        return state.other_keys
    if isinstance(step, str):
        return state.keys.get(step, state.other_keys)
    return state.items[min(step, len(state.items) - 1)] if state.items else frozenset()


def plan_to_json(plan: GuardPlan) -> Any:
    """The plan as lists, numbers and texts; each automaton is written once.

    Stored grammars hold this, and their digests cover it: a change invalidates every stored grammar.
    """
    automata = (state.bound.automaton for state in plan.states if state.bound and state.bound.automaton)
    numbers = {automaton: number for number, automaton in enumerate(dict.fromkeys(automata))}
    states = [
        [
            state.is_distinct,
            state.can_run_out,
            state.bound and _bound_to_json(state.bound, numbers),
            state.is_plain,
            {key: sorted(inner) for key, inner in state.keys.items()},
            sorted(state.other_keys),
            [sorted(inner) for inner in state.items],
            sorted(state.marked_keys),
        ]
        for state in plan.states
    ]
    tags = None if plan.tags is None else _tags_to_json(plan.tags)
    return [sorted(plan.start), states, tags, plan.repeats_keys, [*map(automaton_to_json, numbers)]]


def _bound_to_json(bound: LengthBound, numbers: Mapping[StringAutomaton, int]) -> Any:
    return [bound.max_length, None if bound.automaton is None else numbers[bound.automaton]]


def _tags_to_json(tags: GuardedTags) -> Any:
    texts = (tags.begin, tags.after_key, tags.after_string_key, tags.end)
    return [*(text.decode() for text in texts), {key: list(types) for key, types in tags.types.items()}]


def plan_from_json(content: Any) -> GuardPlan:
    """Read what `plan_to_json` returned.

    Raises:
        ValueError, TypeError: `content` has another form.
    """
    start, states, tags, repeats_keys, automata = content
    known = [automaton_from_json(automaton) for automaton in automata]
    return GuardPlan(
        tuple(_state_from_json(state, known) for state in states),
        frozenset(start),
        None if tags is None else _tags_from_json(tags),
        repeats_keys,
    )


def _tags_from_json(content: Any) -> GuardedTags:
    *texts, types = content
    if not isinstance(types, dict):
        raise TypeError("the tags of a plan store no types by key")
    begin, after_key, after_string_key, end = (text.encode() for text in texts)
    return GuardedTags(begin, after_key, after_string_key, end, {key: tuple(t) for key, t in types.items()})


def _state_from_json(content: Any, automata: list[StringAutomaton]) -> PathState:
    is_distinct, can_run_out, bound, is_plain, keys, other_keys, items, marked_keys = content
    return PathState(
        is_distinct=is_distinct,
        can_run_out=can_run_out,
        bound=None if bound is None else _bound_from_json(bound, automata),
        is_plain=is_plain,
        keys={key: frozenset(states) for key, states in keys.items()},
        other_keys=frozenset(other_keys),
        marked_keys=frozenset(marked_keys),
        items=tuple(map(frozenset, items)),
    )


def _bound_from_json(content: Any, automata: list[StringAutomaton]) -> LengthBound:
    max_length, number = content
    if number is not None and not 0 <= number < len(automata):
        raise ValueError(f"a bound refers to pattern {number}, but the plan stores {len(automata)}")
    return LengthBound(max_length, None if number is None else automata[number])
