"""The planner: collects the path states of a grammar's plan while a schema is lowered (see `GuardPlan`)."""

from collections.abc import Iterable

from compiler.digraph import coreachable, reachable
from compiler.errors import UnsupportedSchema
from compiler.guard.ambiguities import Ambiguities, AmbiguousPaths, PathGroup, find_ambiguities
from compiler.guard.path_state_builder import (
    ContainerType,
    ItemStep,
    KeyStep,
    ObjectKeys,
    OtherKeyStep,
    PathStateBuilder,
    PathStep,
    successors,
)
from compiler.guard.plan import GuardedTags, GuardPlan, PathStates
from compiler.guard.string_bounds import LengthBound

MAX_PATHS = 20_000


class Planner:
    """Collects path states while a schema is lowered."""

    def __init__(self) -> None:
        self.repeats_keys = False
        """The grammar lets an object repeat a key, so it needs a guard in any case."""
        self.tags: GuardedTags | None = None
        self.kept_distinct: set[int] = set()
        """The states of arrays that may repeat items, but never do: others at the same path must not."""
        self._builders: list[PathStateBuilder] = []

    def new_state(self, pointer: str = "") -> int:
        """Add a state and return its number; messages name it by `pointer`."""
        self._builders.append(PathStateBuilder(pointer))
        return len(self._builders) - 1

    def link(self, outer: int, step: PathStep, inner: int) -> None:
        """Let `step` lead from one state to another."""
        builder = self._builders[outer]
        match step:
            case KeyStep(key):
                builder.keys.setdefault(key, set()).add(inner)
            case OtherKeyStep():
                builder.other_keys.add(inner)
            case ItemStep(index):
                builder.items.setdefault(index, set()).add(inner)
            case None:
                builder.same.add(inner)

    def note_string(self, state: int, bound: LengthBound | None = None, *, is_plain: bool = False) -> None:
        """Note that there can be a string; a guard must keep it to `bound` if there is one.

        `is_plain`: what may follow inside it does not depend on the text so far, the first character aside.
        """
        builder = self._builders[state]
        builder.bounds.add(bound)
        builder.is_plain &= is_plain

    def note_array(self, state: int, min_items: int, *, is_distinct: bool) -> None:
        """Note that there can be an array of at least `min_items` items; `is_distinct`: they must differ."""
        self._builders[state].min_items = min_items
        self._builders[state].is_distinct = is_distinct

    def note_object(
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
        keys = ObjectKeys(frozenset(declared), frozenset(marked), known, is_open, is_listed=False)
        self._builders[state].objects.append(keys)

    def note_listed_object(self, state: int, keys: Iterable[str]) -> None:
        """Note that there can be one object with these keys, after which no marks are read."""
        none = frozenset[str]()
        listed = ObjectKeys(frozenset(keys), none, none, is_open=False, is_listed=True)
        self._builders[state].objects.append(listed)

    def pointer_of(self, state: int) -> str:
        """The pointer of a state."""
        return self._builders[state].pointer

    def note_unknown(self, state: int, containers: Iterable[ContainerType]) -> None:
        """Note which containers can be there that hold anything."""
        self._builders[state].unknown |= frozenset(containers)

    def note_can_run_out(self, state: int) -> None:
        """Note that the keys or items there can run out (see `PathState.can_run_out`)."""
        self._builders[state].can_run_out = True

    def may_be_ambiguous(self, state: int) -> bool:
        """Whether a guard looks at strings or objects of the value there, which it may fail to tell apart."""
        return any(self._builders[other].is_looked_at for other in self._closure({state}))

    def forget(self, ambiguities: Ambiguities) -> set[int]:
        """Forget what is in the states of values that must be lowered again; return their numbers.

        Those are the values of which strings or objects are ambiguous and, once any strings are counted by
        rules, the arrays of distinct items, which depend on that.
        """
        concerned = [
            state
            for state, builder in enumerate(self._builders)
            if ambiguities.concern(builder) or (ambiguities.counted and builder.is_distinct)
        ]
        stale = coreachable(
            concerned, ((state, builder.same) for state, builder in enumerate(self._builders))
        )
        for state in stale:
            self._builders[state] = PathStateBuilder(self._builders[state].pointer)
        return stale

    def plan(self, start: int) -> GuardPlan | None:
        """The plan whose root is the state `start`; None if the grammar needs no guard.

        Raises:
            UnsupportedSchema: items that must differ are at the same path as items that must repeat.
            AmbiguousPaths: a guard cannot tell strings or objects that it looks at from others.
        """
        builders = {state: self._builders[state] for state in reachable({start}, self._next_states)}
        if any(builder.guarded_bounds or builder.marked_keys for builder in builders.values()):
            self._check_paths(start)
        for group in ({start}, *(inner for builder in builders.values() for inner in builder.inside())):
            self._make_all_distinct(self._closure(group))
        if not self.repeats_keys and not any(builder.is_guarded for builder in builders.values()):
            return None
        relevant = {
            state for state, builder in builders.items() if builder.is_guarded or not builder.is_plain
        }
        leading = coreachable(relevant, ((state, self._next_states(state)) for state in builders))
        numbers = {state: number for number, state in enumerate(sorted(leading))}

        def numbered(states: set[int]) -> PathStates:
            return frozenset(numbers[state] for state in self._closure(states) if state in numbers)

        states = tuple(self._builders[state].build(numbered) for state in numbers)
        return GuardPlan(states, numbered({start}), self.tags, self.repeats_keys)

    def _check_paths(self, start: int) -> None:
        """Check that a guard can always tell which string it counts and which object's keys it marks.

        Raises:
            AmbiguousPaths: it cannot, or there are too many paths to find out.
        """
        if ambiguities := find_ambiguities(self._path_groups(start)):
            raise AmbiguousPaths(ambiguities)

    def _path_groups(self, start: int) -> list[PathGroup]:
        """Every set of states that a path can lead to, as the guard visits them.

        Each is noted by itself inside containers that hold anything. A string there may end anywhere, so a
        bound alone is harmless; but it has more spellings than the strings of a pattern, so an automaton is
        not.

        Raises:
            AmbiguousPaths: there are more than `MAX_PATHS` such sets.
        """
        first = (frozenset(self._closure({start})), False)
        pending, seen = [first], {first}
        groups: list[PathGroup] = []
        while pending:
            states, is_in_unknown = pending.pop()
            builders = [self._builders[state] for state in states]
            groups.append(PathGroup.of(builders, is_in_unknown=is_in_unknown))
            for container, inner in successors(builders):
                is_unknown = is_in_unknown or any(container in builder.unknown for builder in builders)
                following = (frozenset(self._closure(inner)), is_unknown)
                if len(seen) > MAX_PATHS:
                    raise AmbiguousPaths(self._all_as_ambiguous())
                if following[0] and following not in seen:
                    seen.add(following)
                    pending.append(following)
        return groups

    def _all_as_ambiguous(self) -> Ambiguities:
        """Whatever may be ambiguous, when there are too many paths to tell."""
        counted = frozenset(builder.pointer for builder in self._builders if builder.guarded_bounds)
        separated = frozenset(builder.pointer for builder in self._builders if builder.marked_keys)
        return Ambiguities(counted, separated)

    def _make_all_distinct(self, states: Iterable[int]) -> None:
        """Keep all arrays at one path distinct if some of them must be: the guard cannot tell them apart."""
        arrays = {
            state: self._builders[state] for state in states if self._builders[state].min_items is not None
        }
        if not any(builder.is_distinct for builder in arrays.values()):
            return
        for state, builder in arrays.items():
            if builder.is_distinct:
                continue
            self.kept_distinct.add(state)
            builder.can_run_out = True  # its lowering did not ask how many distinct items there are
            if (builder.min_items or 0) > 1:
                reason = "cannot be told apart from arrays at the same place that may repeat items"
                raise UnsupportedSchema(builder.pointer, "uniqueItems", reason, "Set it for all or for none.")

    def _closure(self, states: set[int]) -> set[int]:
        """The states, and those of all other schemas for the same value."""
        return reachable(states, lambda state: self._builders[state].same)

    def _next_states(self, state: int) -> set[int]:
        """The states of other schemas for the same value, and of the values in a container there."""
        builder = self._builders[state]
        return builder.same.union(*builder.inside())
