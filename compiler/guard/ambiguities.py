"""What a guard cannot tell apart at a path, so that rules must: then the schema is lowered again."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from compiler.guard.path_state_builder import PathStateBuilder
from compiler.guard.string_bounds import LengthBound


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

    def concern(self, builder: PathStateBuilder) -> bool:
        """Whether strings or objects in a path state are among these."""
        if builder.guarded_bounds and builder.pointer in self.counted:
            return True
        return bool(builder.objects) and builder.pointer in self.separated | self.marked_beside.keys()


class AmbiguousPaths(Exception):
    """A schema must be lowered again, so that rules tell apart what a guard cannot."""

    def __init__(self, ambiguities: Ambiguities) -> None:
        self.ambiguities = ambiguities
        super().__init__(ambiguities)


class PathGroup(NamedTuple):
    """The states of the values that are at one path; those of guarded strings, and those with marked keys."""

    builders: list[PathStateBuilder]
    is_in_unknown: bool
    guarded: list[PathStateBuilder]
    marking: list[PathStateBuilder]

    @classmethod
    def of(cls, builders: list[PathStateBuilder], *, is_in_unknown: bool) -> "PathGroup":
        """The group of these states."""
        guarded = [builder for builder in builders if builder.bounds and builder.guarded_bounds]
        marking = [builder for builder in builders if builder.objects and builder.marked_keys]
        return cls(builders, is_in_unknown, guarded, marking)

    def ambiguous_bounds(self, counted: set[str]) -> set[str]:
        """The pointers of guarded strings that a guard cannot tell from others here.

        Rules count those at the pointers `counted`.
        """
        guarded = {builder.pointer for builder in self.guarded} - counted
        if not guarded:
            return guarded
        bounds = set[LengthBound | None]()
        for builder in self.builders:
            bounds |= {None} if builder.bounds and builder.pointer in counted else builder.bounds
        is_unclear = self.is_in_unknown and any(bound and bound.automaton for bound in bounds)
        return guarded if len(bounds) > 1 or is_unclear else set()

    def marking_beside_listed(self) -> Iterator[str]:
        """The pointers of objects with marked keys, if a listed object here has one of these keys."""
        marked = frozenset[str]().union(*(builder.marked_keys for builder in self.marking))
        listed = (keys for builder in self.builders for keys in builder.objects if keys.is_listed)
        if any(keys.unreadable(marked) for keys in listed):
            yield from (builder.pointer for builder in self.marking)

    def unreadable(self, separated: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
        """The keys after which objects here must read marks too, with the pointer of each object.

        No keys are marked at the pointers `separated`.
        """
        marking = (builder for builder in self.marking if builder.pointer not in separated)
        marked = frozenset[str]().union(*(builder.marked_keys for builder in marking))
        for builder in self.builders:
            for keys in builder.objects:
                if missing := keys.unreadable(marked, is_separated=builder.pointer in separated):
                    yield builder.pointer, missing


def find_ambiguities(groups: list[PathGroup]) -> Ambiguities:
    """What is ambiguous in the groups of all paths."""
    counted = _ambiguous_bounds([group for group in groups if group.guarded])
    marking = [group for group in groups if group.marking]
    separated = frozenset(pointer for group in marking for pointer in group.marking_beside_listed())
    marked_beside: dict[str, frozenset[str]] = {}
    for group in marking:
        for pointer, keys in group.unreadable(separated):
            marked_beside[pointer] = marked_beside.get(pointer, frozenset()) | keys
    return Ambiguities(counted, separated, marked_beside)


def _ambiguous_bounds(groups: list[PathGroup]) -> frozenset[str]:
    """The pointers that are ambiguous in any group; those found may make others ambiguous."""
    groups_of: dict[str, list[PathGroup]] = {}
    for group in groups:
        for builder in group.builders:
            groups_of.setdefault(builder.pointer, []).append(group)
    pending, ambiguous = {id(group): group for group in groups}, set[str]()
    while pending:
        _, group = pending.popitem()
        pointers = group.ambiguous_bounds(ambiguous)
        ambiguous |= pointers
        pending |= {id(other): other for pointer in pointers for other in groups_of[pointer]}
    return frozenset(ambiguous)
