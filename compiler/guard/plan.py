"""The plan of a grammar's guards: at which places of a text they must look, and how closely.

The places form an automaton over the paths of JSON: keys and positions lead from a container to what is in
it. Several schemas can speak about one place, so a text stands in a set of places, and a guard holds where
any of them asks for it: that can only narrow what the mask admits.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from compiler.errors import UnsupportedSchema

Places = frozenset[int]


@dataclass(frozen=True, slots=True)
class Place:
    """What the plan knows of one place, and the places inside it."""

    is_distinct: bool = False
    """An array there has no two equal items."""
    is_tight: bool = False
    """The keys or items there are so constrained that all that begin alike can be used up."""
    keys: Mapping[str, Places] = field(default_factory=dict)
    rest: Places = frozenset()
    """Under keys that are not in `keys`."""
    items: tuple[Places, ...] = ()
    """By position; the last one goes for all that follow."""


@dataclass(frozen=True, slots=True)
class Tags:
    """How arguments in tags are spelled, and under which keys arrays or objects may stand."""

    begin: bytes
    after_key: bytes
    after_string_key: bytes
    end: bytes
    keys: frozenset[str]


@dataclass(frozen=True)
class Plan:
    """The places that matter, and those where the text begins; without `tags` it is JSON."""

    places: tuple[Place, ...] = ()
    start: Places = frozenset()
    tags: Tags | None = None

    @cached_property
    def is_tight(self) -> bool:
        """Whether a guard may leave no way to end a text but a longer one than any bound says."""
        return any(place.is_tight for place in self.places)

    @cached_property
    def _inside(self) -> dict[tuple[Places, str | int], Places]:
        return {}

    def under(self, places: Places, step: str | int) -> Places:
        """Where a key or a position leads from the container at `places`."""
        if not places:
            return places
        found = self._inside.get((places, step))
        if found is None:
            inner = [_inner(self.places[place], step) for place in places]
            found = self._inside[places, step] = frozenset().union(*inner)
        return found

    def is_distinct(self, places: Places) -> bool:
        """Whether the items of an array there are distinct."""
        return any(self.places[place].is_distinct for place in places)

    def is_tight_at(self, places: Places) -> bool:
        """Whether the keys or items of a container there can be used up."""
        return any(self.places[place].is_tight for place in places)


def _inner(place: Place, step: str | int) -> Places:
    if isinstance(step, str):
        return place.keys.get(step, place.rest)
    return place.items[min(step, len(place.items) - 1)] if place.items else frozenset()


def plan_to_json(plan: Plan) -> Any:
    """The plan as lists and numbers."""
    places = [
        [
            place.is_distinct,
            place.is_tight,
            {key: sorted(inner) for key, inner in place.keys.items()},
            sorted(place.rest),
            [sorted(inner) for inner in place.items],
        ]
        for place in plan.places
    ]
    return [sorted(plan.start), places, None if plan.tags is None else _tags_to_json(plan.tags)]


def _tags_to_json(tags: Tags) -> Any:
    texts = (tags.begin, tags.after_key, tags.after_string_key, tags.end)
    return [*(text.decode() for text in texts), sorted(tags.keys)]


def plan_from_json(content: Any) -> Plan:
    """The plan that `plan_to_json` wrote.

    Raises:
        ValueError, TypeError: it did not.
    """
    start, places, tags = content
    return Plan(tuple(map(_place, places)), frozenset(start), None if tags is None else _tags(tags))


def _tags(content: Any) -> Tags:
    *texts, keys = content
    begin, after_key, after_string_key, end = (text.encode() for text in texts)
    return Tags(begin, after_key, after_string_key, end, frozenset(keys))


def _place(content: Any) -> Place:
    is_distinct, is_tight, keys, rest, items = content
    inner = {key: frozenset(places) for key, places in keys.items()}
    return Place(is_distinct, is_tight, inner, frozenset(rest), tuple(map(frozenset, items)))


class _Draft:
    """A place while it is being found; `least` is the number of items of an array there, None without any."""

    def __init__(self, pointer: str) -> None:
        self.pointer = pointer
        self.least: int | None = None
        self.is_distinct = False
        self.is_tight = False
        self.same: set[int] = set()
        self.keys: dict[str, set[int]] = {}
        self.rest: set[int] = set()
        self.items: dict[int, set[int]] = {}

    def inside(self) -> Iterator[set[int]]:
        yield from self.keys.values()
        yield self.rest
        yield from self.items.values()


@dataclass(frozen=True, slots=True)
class Key:
    """The step to the value under a declared key."""

    key: str


@dataclass(frozen=True, slots=True)
class Rest:
    """The step to the value under an undeclared key."""


@dataclass(frozen=True, slots=True)
class Item:
    """The step to the item at an index; the last index stands for all that follow."""

    index: int


Step = Key | Rest | Item | None
"""None: another schema that speaks about the same place."""


class Planner:
    """Collects places while a schema is lowered."""

    def __init__(self) -> None:
        self.repeats_keys = False
        """Whether the grammar lets a key stand twice in an object, so that any guard is needed at all."""
        self.tags: Tags | None = None
        self._drafts: list[_Draft] = []

    def place(self, pointer: str = "") -> int:
        """A new place; `pointer` names it in messages."""
        self._drafts.append(_Draft(pointer))
        return len(self._drafts) - 1

    def link(self, outer: int, step: Step, inner: Iterable[int]) -> None:
        """`step` leads from one place to others; to none where nothing can matter."""
        draft = self._drafts[outer]
        match step:
            case Key(key):
                draft.keys.setdefault(key, set()).update(inner)
            case Rest():
                draft.rest.update(inner)
            case Item(index):
                draft.items.setdefault(index, set()).update(inner)
            case None:
                draft.same.update(inner)

    def mark_array(self, place: int, least: int, *, is_distinct: bool) -> None:
        """There is an array there, of `least` items or more, which may have to be distinct."""
        self._drafts[place].least = least
        self._drafts[place].is_distinct = is_distinct

    def mark_tight(self, place: int) -> None:
        """The keys or items there can be used up."""
        self._drafts[place].is_tight = True

    def plan(self, start: int) -> Plan | None:
        """The plan of what was collected; None if the grammar needs no guard.

        Raises:
            UnsupportedSchema: a guard would hold where another schema asks for what it forbids.
        """
        for group in ({start}, *(inner for draft in self._drafts for inner in draft.inside())):
            self._settle([self._drafts[place] for place in self._closure(group)])
        relevant = self._relevant()
        if not relevant and not self.repeats_keys:
            return None
        numbers = {place: number for number, place in enumerate(sorted(relevant))}

        def closed(places: set[int]) -> Places:
            return frozenset(numbers[place] for place in self._closure(places) if place in relevant)

        def finished(draft: _Draft) -> Place:
            items = [
                closed(draft.items.get(index, set())) for index in range(max(draft.items, default=-1) + 1)
            ]
            keys = {key: closed(inner) for key, inner in draft.keys.items()}
            return Place(draft.is_distinct, draft.is_tight, keys, closed(draft.rest), tuple(items))

        places = tuple(finished(self._drafts[place]) for place in sorted(relevant))
        return Plan(places, closed({start}), self.tags)

    def _settle(self, group: list[_Draft]) -> None:
        """Arrays at a place where some must be distinct are all kept so, as nobody can tell them apart."""
        arrays = [draft for draft in group if draft.least is not None]
        if not any(draft.is_distinct for draft in arrays):
            return
        for draft in arrays:
            if not draft.is_distinct:
                draft.is_tight = True
                if (draft.least or 0) > 1:
                    reason = "cannot be kept apart from arrays at the same place that may repeat items"
                    raise UnsupportedSchema(
                        draft.pointer, "uniqueItems", reason, "Set it for all or for none."
                    )

    def _closure(self, places: set[int]) -> set[int]:
        found, pending = set[int](), list(places)
        while pending:
            place = pending.pop()
            if place not in found:
                found.add(place)
                pending += self._drafts[place].same
        return found

    def _relevant(self) -> set[int]:
        """The places that a guard marks, or that lead to one that it does."""
        outer: dict[int, set[int]] = {}
        for place, draft in enumerate(self._drafts):
            for inner in (draft.same, *draft.inside()):
                for target in inner:
                    outer.setdefault(target, set()).add(place)
        found = set[int]()
        pending = [place for place, draft in enumerate(self._drafts) if draft.is_distinct or draft.is_tight]
        while pending:
            place = pending.pop()
            if place not in found:
                found.add(place)
                pending += outer.get(place, ())
        return found
