"""Builders of path states, which the lowering fills, and the steps between them (see `planner`)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from compiler.guard.plan import PathState, PathStates
from compiler.guard.string_bounds import LengthBound

ContainerType = Literal["array", "object"]
CONTAINERS: tuple[ContainerType, ...] = ("array", "object")


@dataclass(frozen=True, slots=True)
class KeyStep:
    """The step to the value under a declared key."""

    key: str


@dataclass(frozen=True, slots=True)
class OtherKeyStep:
    """The step to the value under any undeclared key."""


@dataclass(frozen=True, slots=True)
class ItemStep:
    """The step to the item at an index; the last index also stands for all items after it."""

    index: int


PathStep = KeyStep | OtherKeyStep | ItemStep | None
"""None leads to the state of another schema for the same value."""


class ObjectKeys(NamedTuple):
    """The keys of the objects that one schema admits."""

    declared: frozenset[str]
    marked: frozenset[str]
    readable: frozenset[str] | None
    """The keys after which the rules read a mark; None if they do after every key."""
    is_open: bool
    is_listed: bool

    def unreadable(self, marked: frozenset[str], *, is_separated: bool = False) -> frozenset[str]:
        """The marked keys that an object here can have, and after which the rules read no mark.

        `is_separated`: its own marks are left out of the rules.
        """
        if self.readable is None:
            return frozenset()
        rest = marked - (self.readable - self.marked if is_separated else self.readable)
        return rest if self.is_open else rest & self.declared


class PathStateBuilder:
    """What is known of a path state while its schema is lowered."""

    def __init__(self, pointer: str) -> None:
        self.pointer = pointer
        self.min_items: int | None = None
        """The fewest items of an array here; None if there is no array."""
        self.is_distinct = False
        self.can_run_out = False
        self.bounds: set[LengthBound | None] = set()
        """The bounds of strings here; None stands for a string of any length, or one whose rules count."""
        self.is_plain = True
        self.unknown = frozenset[ContainerType]()
        """The containers here that may hold anything."""
        self.objects: list[ObjectKeys] = []
        """The objects here of which something is known."""
        self.same: set[int] = set()
        """States of other schemas for the same value."""
        self.keys: dict[str, set[int]] = {}
        self.other_keys: set[int] = set()
        self.items: dict[int, set[int]] = {}

    @property
    def guarded_bounds(self) -> set[LengthBound]:
        """The bounds that a guard must keep strings here to."""
        return {bound for bound in self.bounds if bound is not None}

    @property
    def is_guarded(self) -> bool:
        """Whether a guard must remove tokens from masks here."""
        return self.is_distinct or self.can_run_out or bool(self.guarded_bounds or self.marked_keys)

    @property
    def is_looked_at(self) -> bool:
        """Whether there are strings that a guard counts, or objects with keys that may be marked."""
        return bool(self.guarded_bounds) or any(keys.readable is not None for keys in self.objects)

    @property
    def marked_keys(self) -> frozenset[str]:
        """The keys that a guard must mark here."""
        return frozenset[str]().union(*(keys.marked for keys in self.objects))

    def build(self, numbered: Callable[[set[int]], PathStates]) -> PathState:
        """The path state; `numbered` maps numbers of builders to numbers of states in the plan."""
        num_items = max(self.items, default=-1) + 1
        return PathState(
            is_distinct=self.is_distinct,
            can_run_out=self.can_run_out,
            bound=min(self.guarded_bounds, key=lambda bound: bound.max_length, default=None),
            is_plain=self.is_plain,
            keys={key: numbered(inner) for key, inner in self.keys.items()},
            other_keys=numbered(self.other_keys),
            marked_keys=self.marked_keys,
            items=tuple(numbered(self.items.get(index, set())) for index in range(num_items)),
        )

    def inside(self) -> Iterator[set[int]]:
        """The states of the values in a container here, step by step."""
        yield from self.keys.values()
        yield self.other_keys
        yield from self.items.values()


def successors(builders: list[PathStateBuilder]) -> Iterator[tuple[ContainerType, set[int]]]:
    """The states that one step leads to from all of these states at once, for every step into a container."""
    for key in {key for builder in builders for key in builder.keys}:
        yield "object", set().union(*(builder.keys.get(key, builder.other_keys) for builder in builders))
    yield "object", set().union(*(builder.other_keys for builder in builders))
    for index in range(1 + max((max(builder.items, default=-1) for builder in builders), default=-1)):
        yield "array", set().union(*(_item_states(builder, index) for builder in builders))


def _item_states(builder: PathStateBuilder, index: int) -> set[int]:
    return builder.items.get(min(index, max(builder.items)), set()) if builder.items else set()
