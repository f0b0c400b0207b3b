"""The plan of a grammar's guards: at which places of a text they must look, and how closely.

The places form an automaton over the paths of JSON: keys and positions lead from a container to what is in
it. Several schemas can speak about one place, so a text stands in a set of places, and a guard holds where
any of them asks for it: that can only narrow what the mask admits.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from compiler.guard.string_bounds import LengthBound, StringAutomaton, automaton_from_json, automaton_to_json

PathStates = frozenset[int]


@dataclass(frozen=True, slots=True)
class PathState:
    """What the plan knows of one place, and the places inside it."""

    is_distinct: bool = False
    """An array there has no two equal items."""
    can_run_out: bool = False
    """Keys or items there can run out: all that begin alike can stand in one container."""
    bound: LengthBound | None = None
    """What a string there is kept to; None where no guard counts its characters."""
    is_plain: bool = True
    """What may follow inside a string there does not depend on what it holds, its first character aside."""
    keys: Mapping[str, PathStates] = field(default_factory=dict)
    rest: PathStates = frozenset()
    """Under keys that are not in `keys`."""
    items: tuple[PathStates, ...] = ()
    """By position; the last one goes for all that follow."""


@dataclass(frozen=True, slots=True)
class GuardedTags:
    """How arguments in tags are spelled, and under which keys arrays or objects may stand."""

    begin: bytes
    after_key: bytes
    after_string_key: bytes
    end: bytes
    keys: frozenset[str]


@dataclass(frozen=True)
class GuardPlan:
    """The places that matter, and those where the text begins; without `tags` it is JSON."""

    places: tuple[PathState, ...] = ()
    start: PathStates = frozenset()
    tags: GuardedTags | None = None
    repeats_keys: bool = True
    """The grammar lets a key stand twice in an object."""

    @cached_property
    def can_run_out(self) -> bool:
        """Whether keys or items can run out anywhere, so that there is no bound to how long the rest gets."""
        return any(place.can_run_out for place in self.places)

    @cached_property
    def keeps_apart(self) -> bool:
        """Whether keys or items must be kept from repeating."""
        return self.repeats_keys or any(place.is_distinct for place in self.places)

    @cached_property
    def bounds(self) -> frozenset[LengthBound]:
        """What strings are kept to."""
        return frozenset(place.bound for place in self.places if place.bound is not None)

    @cached_property
    def _inside(self) -> dict[tuple[PathStates, str | int | None], PathStates]:
        return {}

    def under(self, places: PathStates, step: str | int) -> PathStates:
        """Where a key or a position leads from the container at `places`."""
        if not places:
            return places
        known = self._known(step)
        found = self._inside.get((places, known))
        if found is None:
            inner = [_inner(self.places[place], known) for place in places]
            found = self._inside[places, known] = frozenset().union(*inner)
        return found

    def _known(self, step: str | int) -> str | int | None:
        """The step, if some place tells it from others; a stranger's keys are too many to be kept."""
        if isinstance(step, str):
            return step if step in self._keys else None
        return min(step, self._last_item)

    @cached_property
    def _keys(self) -> frozenset[str]:
        return frozenset(key for place in self.places for key in place.keys)

    @cached_property
    def _last_item(self) -> int:
        return max((len(place.items) for place in self.places), default=1) - 1

    def is_distinct(self, places: PathStates) -> bool:
        """Whether the items of an array there are distinct."""
        return any(self.places[place].is_distinct for place in places)

    def can_run_out_at(self, places: PathStates) -> bool:
        """Whether the keys or items of a container there can run out."""
        return any(self.places[place].can_run_out for place in places)

    def is_plain_at(self, places: PathStates) -> bool:
        """Whether what may follow inside a string there does not depend on what it holds."""
        return all(self.places[place].is_plain for place in places)

    def bound_at(self, places: PathStates) -> LengthBound | None:
        """What a string there is kept to: the planner lets no two patterns meet."""
        bounds = (self.places[place].bound for place in places)
        return min((bound for bound in bounds if bound), key=lambda bound: bound.longest, default=None)


def _inner(place: PathState, step: str | int | None) -> PathStates:
    if step is None:
        return place.rest
    if isinstance(step, str):
        return place.keys.get(step, place.rest)
    return place.items[min(step, len(place.items) - 1)] if place.items else frozenset()


def plan_to_json(plan: GuardPlan) -> Any:
    """The plan as lists and numbers."""
    patterns = (place.bound.pattern for place in plan.places if place.bound and place.bound.pattern)
    numbers = {pattern: number for number, pattern in enumerate(dict.fromkeys(patterns))}
    places = [
        [
            place.is_distinct,
            place.can_run_out,
            place.bound and _bound_to_json(place.bound, numbers),
            place.is_plain,
            {key: sorted(inner) for key, inner in place.keys.items()},
            sorted(place.rest),
            [sorted(inner) for inner in place.items],
        ]
        for place in plan.places
    ]
    tags = None if plan.tags is None else _tags_to_json(plan.tags)
    return [sorted(plan.start), places, tags, plan.repeats_keys, [*map(automaton_to_json, numbers)]]


def _bound_to_json(bound: LengthBound, numbers: Mapping[StringAutomaton, int]) -> Any:
    return [bound.longest, None if bound.pattern is None else numbers[bound.pattern]]


def _tags_to_json(tags: GuardedTags) -> Any:
    texts = (tags.begin, tags.after_key, tags.after_string_key, tags.end)
    return [*(text.decode() for text in texts), sorted(tags.keys)]


def plan_from_json(content: Any) -> GuardPlan:
    """The plan that `plan_to_json` wrote.

    Raises:
        ValueError, TypeError: it did not.
    """
    start, places, tags, repeats_keys, patterns = content
    read = None if tags is None else _tags(tags)
    known = [automaton_from_json(pattern) for pattern in patterns]
    return GuardPlan(tuple(_place(place, known) for place in places), frozenset(start), read, repeats_keys)


def _tags(content: Any) -> GuardedTags:
    *texts, keys = content
    begin, after_key, after_string_key, end = (text.encode() for text in texts)
    return GuardedTags(begin, after_key, after_string_key, end, frozenset(keys))


def _place(content: Any, patterns: list[StringAutomaton]) -> PathState:
    is_distinct, can_run_out, bound, is_plain, keys, rest, items = content
    inner = {key: frozenset(places) for key, places in keys.items()}
    lists = tuple(map(frozenset, items))
    read = None if bound is None else _bound(bound, patterns)
    return PathState(is_distinct, can_run_out, read, is_plain, inner, frozenset(rest), lists)


def _bound(content: Any, patterns: list[StringAutomaton]) -> LengthBound:
    longest, number = content
    if number is not None and not 0 <= number < len(patterns):
        raise ValueError("a bound without its pattern")
    return LengthBound(longest, None if number is None else patterns[number])
