"""The planner: collects the path states of a grammar's plan while a schema is lowered (see `GuardPlan`)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from compiler.digraph import coreachable, reachable
from compiler.errors import UnsupportedSchema
from compiler.guard.plan import GuardedTags, GuardPlan, PathState, PathStates
from compiler.guard.string_bounds import LengthBound

MAX_PATHS = 20_000

ContainerType = Literal["array", "object"]
CONTAINERS: tuple[ContainerType, ...] = ("array", "object")


@dataclass(frozen=True, slots=True)
class Ambiguities:
    """What a guard cannot tell apart, so that rules must; by the pointers of the schemas.

    At the pointers `counted`, a guard was to count a string, but other strings may be at the same place. At
    those in `separated`, it was to mark keys, but listed objects may be there. `marked_beside` has the keys
    that a guard marks in other objects at the same place.
    """

    counted: frozenset[str] = frozenset()
    separated: frozenset[str] = frozenset()
    marked_beside: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.counted or self.separated or self.marked_beside)

    def __or__(self, other: "Ambiguities") -> "Ambiguities":
        none = frozenset[str]()
        pointers = self.marked_beside.keys() | other.marked_beside.keys()
        return Ambiguities(
            self.counted | other.counted,
            self.separated | other.separated,
            {p: self.marked_beside.get(p, none) | other.marked_beside.get(p, none) for p in pointers},
        )


class AmbiguousPaths(Exception):
    """A schema must be lowered again, so that rules tell apart what a guard cannot."""

    def __init__(self, ambiguities: Ambiguities) -> None:
        self.ambiguities = ambiguities
        super().__init__(ambiguities)


class _ObjectKeys(NamedTuple):
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


class _DraftState:
    """A path state while its schema is lowered."""

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
        self.objects: list[_ObjectKeys] = []
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

    def is_concerned(self, ambiguities: Ambiguities) -> bool:
        """Whether strings or objects here are among what is ambiguous."""
        if self.guarded_bounds and self.pointer in ambiguities.counted:
            return True
        pointers = ambiguities.separated | ambiguities.marked_beside.keys()
        return bool(self.objects) and self.pointer in pointers

    @property
    def marked_keys(self) -> frozenset[str]:
        """The keys that a guard must mark here."""
        return frozenset[str]().union(*(keys.marked for keys in self.objects))

    def state(self, numbered: Callable[[set[int]], PathStates]) -> PathState:
        """The path state; `numbered` maps numbers of drafts to numbers of states in the plan."""
        num_items = max(self.items, default=-1) + 1
        return PathState(
            self.is_distinct,
            self.can_run_out,
            min(self.guarded_bounds, key=lambda bound: bound.max_length, default=None),
            self.is_plain,
            {key: numbered(inner) for key, inner in self.keys.items()},
            numbered(self.other_keys),
            self.marked_keys,
            tuple(numbered(self.items.get(index, set())) for index in range(num_items)),
        )

    def inside(self) -> Iterator[set[int]]:
        """The states of the values in a container here, step by step."""
        yield from self.keys.values()
        yield self.other_keys
        yield from self.items.values()


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


class Planner:
    """Collects path states while a schema is lowered."""

    def __init__(self) -> None:
        self.repeats_keys = False
        """The grammar lets an object repeat a key, so it needs a guard in any case."""
        self.tags: GuardedTags | None = None
        self._drafts: list[_DraftState] = []

    def new_state(self, pointer: str = "") -> int:
        """Add a state and return its number; messages name it by `pointer`."""
        self._drafts.append(_DraftState(pointer))
        return len(self._drafts) - 1

    def link(self, outer: int, step: PathStep, inner: Iterable[int]) -> None:
        """Let `step` lead from one state to others; to none if a guard has nothing to do there."""
        draft = self._drafts[outer]
        match step:
            case KeyStep(key):
                draft.keys.setdefault(key, set()).update(inner)
            case OtherKeyStep():
                draft.other_keys.update(inner)
            case ItemStep(index):
                draft.items.setdefault(index, set()).update(inner)
            case None:
                draft.same.update(inner)

    def mark_string(self, state: int, bound: LengthBound | None = None, *, is_plain: bool = False) -> None:
        """Note that there can be a string; a guard must keep it to `bound` if there is one.

        `is_plain`: what may follow inside it does not depend on the text so far, the first character aside.
        """
        draft = self._drafts[state]
        draft.bounds.add(bound)
        draft.is_plain &= is_plain

    def mark_array(self, state: int, min_items: int, *, is_distinct: bool) -> None:
        """Note that there can be an array of at least `min_items` items; `is_distinct`: they must differ."""
        self._drafts[state].min_items = min_items
        self._drafts[state].is_distinct = is_distinct

    def mark_object(
        self,
        state: int,
        declared: Iterable[str],
        marked: Iterable[str],
        readable: Iterable[str] | None,
        *,
        is_open: bool,
    ) -> None:
        """Note that there can be an object; a guard must mark its keys `marked`, which are declared.

        The rules read marks after the keys `readable`, among which those are, or after every key if None.
        """
        known = None if readable is None else frozenset(readable)
        keys = _ObjectKeys(frozenset(declared), frozenset(marked), known, is_open, is_listed=False)
        self._drafts[state].objects.append(keys)

    def mark_listed_object(self, state: int, keys: Iterable[str]) -> None:
        """Note that there can be one object with these keys, after which no marks are read."""
        none = frozenset[str]()
        listed = _ObjectKeys(frozenset(keys), none, none, is_open=False, is_listed=True)
        self._drafts[state].objects.append(listed)

    def pointer_of(self, state: int) -> str:
        """The pointer of a state."""
        return self._drafts[state].pointer

    def mark_unknown(self, state: int, containers: Iterable[ContainerType]) -> None:
        """Note which containers can be there that hold anything."""
        self._drafts[state].unknown |= frozenset(containers)

    def mark_can_run_out(self, state: int) -> None:
        """Note that the keys or items there can run out (see `PathState.can_run_out`)."""
        self._drafts[state].can_run_out = True

    def may_be_ambiguous(self, state: int) -> bool:
        """Whether a guard looks at strings or objects of the value there, which it may fail to tell apart."""
        return any(self._drafts[other].is_looked_at for other in self._closure({state}))

    def forget(self, ambiguities: Ambiguities) -> set[int]:
        """Forget what is in the states of values that must be lowered again; return their numbers.

        Those are the values of which strings or objects are ambiguous and, once any strings are counted by
        rules, the arrays of distinct items, which depend on that.
        """
        concerned = [
            state
            for state, draft in enumerate(self._drafts)
            if draft.is_concerned(ambiguities) or (ambiguities.counted and draft.is_distinct)
        ]
        stale = coreachable(concerned, ((state, draft.same) for state, draft in enumerate(self._drafts)))
        for state in stale:
            self._drafts[state] = _DraftState(self._drafts[state].pointer)
        return stale

    def plan(self, start: int) -> GuardPlan | None:
        """The plan whose root is the state `start`; None if the grammar needs no guard.

        Raises:
            UnsupportedSchema: items that must differ are at the same path as items that must repeat.
            AmbiguousPaths: a guard cannot tell strings or objects that it looks at from others.
        """
        drafts = {state: self._drafts[state] for state in reachable({start}, self._next_states)}
        if any(draft.guarded_bounds or draft.marked_keys for draft in drafts.values()):
            self._check_paths(start)
        for group in ({start}, *(inner for draft in drafts.values() for inner in draft.inside())):
            self._make_all_distinct([self._drafts[state] for state in self._closure(group)])
        if not self.repeats_keys and not any(draft.is_guarded for draft in drafts.values()):
            return None
        relevant = {state for state, draft in drafts.items() if draft.is_guarded or not draft.is_plain}
        leading = coreachable(relevant, ((state, self._next_states(state)) for state in drafts))
        numbers = {state: number for number, state in enumerate(sorted(leading))}

        def numbered(states: set[int]) -> PathStates:
            return frozenset(numbers[state] for state in self._closure(states) if state in numbers)

        states = tuple(self._drafts[state].state(numbered) for state in numbers)
        return GuardPlan(states, numbered({start}), self.tags, self.repeats_keys)

    def _check_paths(self, start: int) -> None:
        """Check that a guard can always tell which string it counts and which object's keys it marks.

        It visits every set of states that a path can lead to, as the guard does, and notes whether the path
        may be inside a container that holds anything. A string there may end anywhere, so a bound alone is
        harmless; but it has more spellings than the strings of a pattern, so an automaton is not.

        Raises:
            AmbiguousPaths: the guard cannot tell, or there are more than `MAX_PATHS` such sets.
        """
        first = (frozenset(self._closure({start})), False)
        pending, seen = [first], {first}
        groups: list[_PathGroup] = []
        while pending:
            states, is_in_unknown = pending.pop()
            drafts = [self._drafts[state] for state in states]
            groups.append(_PathGroup.of(drafts, is_in_unknown=is_in_unknown))
            for container, inner in _successors(drafts):
                is_unknown = is_in_unknown or any(container in draft.unknown for draft in drafts)
                following = (frozenset(self._closure(inner)), is_unknown)
                if len(seen) > MAX_PATHS:
                    counted = frozenset(draft.pointer for draft in self._drafts if draft.guarded_bounds)
                    separated = frozenset(draft.pointer for draft in self._drafts if draft.marked_keys)
                    raise AmbiguousPaths(Ambiguities(counted, separated))
                if following[0] and following not in seen:
                    seen.add(following)
                    pending.append(following)
        counted = _ambiguous_bounds([group for group in groups if group.guarded])
        marking = [group for group in groups if group.marking]
        separated = frozenset(pointer for group in marking for pointer in group.marking_beside_listed())
        marked_beside: dict[str, frozenset[str]] = {}
        for group in marking:
            for pointer, keys in group.unreadable(separated):
                marked_beside[pointer] = marked_beside.get(pointer, frozenset()) | keys
        if ambiguities := Ambiguities(counted, separated, marked_beside):
            raise AmbiguousPaths(ambiguities)

    def _make_all_distinct(self, group: list[_DraftState]) -> None:
        """Keep all arrays at one path distinct if some of them must be: the guard cannot tell them apart."""
        arrays = [draft for draft in group if draft.min_items is not None]
        if not any(draft.is_distinct for draft in arrays):
            return
        for draft in arrays:
            if draft.is_distinct:
                continue
            draft.can_run_out = True  # its lowering did not ask how many distinct items there are
            if (draft.min_items or 0) > 1:
                reason = "cannot be told apart from arrays at the same place that may repeat items"
                raise UnsupportedSchema(draft.pointer, "uniqueItems", reason, "Set it for all or for none.")

    def _closure(self, states: set[int]) -> set[int]:
        """The states, and those of all other schemas for the same value."""
        return reachable(states, lambda state: self._drafts[state].same)

    def _next_states(self, state: int) -> set[int]:
        """The states of other schemas for the same value, and of the values in a container there."""
        draft = self._drafts[state]
        return draft.same.union(*draft.inside())


class _PathGroup(NamedTuple):
    """The states of the values that are at one path; those of guarded strings, and those with marked keys."""

    drafts: list[_DraftState]
    is_in_unknown: bool
    guarded: list[_DraftState]
    marking: list[_DraftState]

    @classmethod
    def of(cls, drafts: list[_DraftState], *, is_in_unknown: bool) -> "_PathGroup":
        """The group of these states."""
        guarded = [draft for draft in drafts if draft.bounds and draft.guarded_bounds]
        marking = [draft for draft in drafts if draft.objects and draft.marked_keys]
        return cls(drafts, is_in_unknown, guarded, marking)

    def ambiguous_bounds(self, counted: set[str]) -> set[str]:
        """The pointers of guarded strings that a guard cannot tell from others here.

        Rules count those at the pointers `counted`.
        """
        guarded = {draft.pointer for draft in self.guarded} - counted
        if not guarded:
            return guarded
        bounds = set[LengthBound | None]()
        for draft in self.drafts:
            bounds |= {None} if draft.bounds and draft.pointer in counted else draft.bounds
        is_unclear = self.is_in_unknown and any(bound and bound.automaton for bound in bounds)
        return guarded if len(bounds) > 1 or is_unclear else set()

    def marking_beside_listed(self) -> Iterator[str]:
        """The pointers of objects with marked keys, if a listed object here has one of these keys."""
        marked = frozenset[str]().union(*(draft.marked_keys for draft in self.marking))
        listed = (keys for draft in self.drafts for keys in draft.objects if keys.is_listed)
        if any(keys.unreadable(marked) for keys in listed):
            yield from (draft.pointer for draft in self.marking)

    def unreadable(self, separated: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
        """The keys after which objects here must read marks too, with the pointer of each object.

        No keys are marked at the pointers `separated`.
        """
        marking = (draft for draft in self.marking if draft.pointer not in separated)
        marked = frozenset[str]().union(*(draft.marked_keys for draft in marking))
        for draft in self.drafts:
            for keys in draft.objects:
                if missing := keys.unreadable(marked, is_separated=draft.pointer in separated):
                    yield draft.pointer, missing


def _ambiguous_bounds(groups: list[_PathGroup]) -> frozenset[str]:
    """The pointers that are ambiguous in any group; those found may make others ambiguous."""
    groups_of: dict[str, list[_PathGroup]] = {}
    for group in groups:
        for draft in group.drafts:
            groups_of.setdefault(draft.pointer, []).append(group)
    pending, ambiguous = {id(group): group for group in groups}, set[str]()
    while pending:
        _, group = pending.popitem()
        pointers = group.ambiguous_bounds(ambiguous)
        ambiguous |= pointers
        pending |= {id(other): other for pointer in pointers for other in groups_of[pointer]}
    return frozenset(ambiguous)


def _successors(drafts: list[_DraftState]) -> Iterator[tuple[ContainerType, set[int]]]:
    """The states that one step leads to from all of these states at once, for every step into a container."""
    for key in {key for draft in drafts for key in draft.keys}:
        yield "object", set().union(*(draft.keys.get(key, draft.other_keys) for draft in drafts))
    yield "object", set().union(*(draft.other_keys for draft in drafts))
    for index in range(1 + max((max(draft.items, default=-1) for draft in drafts), default=-1)):
        yield "array", set().union(*(_item_states(draft, index) for draft in drafts))


def _item_states(draft: _DraftState, index: int) -> set[int]:
    return draft.items.get(min(index, max(draft.items)), set()) if draft.items else set()
