"""The planner: finds out while a schema is lowered at which places of a text a guard must look."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from compiler.digraph import coreachable, reachable
from compiler.errors import UnsupportedSchema
from compiler.guard.plan import GuardedTags, GuardPlan, PathState, PathStates
from compiler.guard.string_bounds import LengthBound

MAX_PATHS = 20_000


class AmbiguousBounds(Exception):
    """Strings that a guard was to count stand where others do, too; `pointers` names them."""

    def __init__(self, pointers: frozenset[str]) -> None:
        self.pointers = pointers
        super().__init__(*pointers)


class _Draft:
    """A place while it is being found.

    `least` is the number of items of an array there, None without any; `bounds` what a guard must keep the
    strings there to, among them None if there is one of any length or of rules' own. Where it `is_any`, there
    may be a container of which nothing is known.
    """

    def __init__(self, pointer: str) -> None:
        self.pointer = pointer
        self.least: int | None = None
        self.is_distinct = False
        self.can_run_out = False
        self.bounds: set[LengthBound | None] = set()
        self.is_plain = True
        self.is_any = False
        self.same: set[int] = set()
        self.keys: dict[str, set[int]] = {}
        self.rest: set[int] = set()
        self.items: dict[int, set[int]] = {}

    @property
    def guarded(self) -> set[LengthBound]:
        """The bounds that a guard must keep strings there to."""
        return {bound for bound in self.bounds if bound is not None}

    @property
    def is_guarded(self) -> bool:
        """Whether a guard must take tokens out of masks there."""
        return self.is_distinct or self.can_run_out or bool(self.guarded)

    def place(self, closed: Callable[[set[int]], PathStates]) -> PathState:
        """The place that was found; `closed` are the places of the plan that some of the planner's are."""
        num_items = max(self.items, default=-1) + 1
        return PathState(
            self.is_distinct,
            self.can_run_out,
            min(self.guarded, key=lambda bound: bound.longest, default=None),
            self.is_plain,
            {key: closed(inner) for key, inner in self.keys.items()},
            closed(self.rest),
            tuple(closed(self.items.get(index, set())) for index in range(num_items)),
        )

    def inside(self) -> Iterator[set[int]]:
        yield from self.keys.values()
        yield self.rest
        yield from self.items.values()


@dataclass(frozen=True, slots=True)
class KeyStep:
    """The step to the value under a declared key."""

    key: str


@dataclass(frozen=True, slots=True)
class RestStep:
    """The step to the value under an undeclared key."""


@dataclass(frozen=True, slots=True)
class ItemStep:
    """The step to the item at an index; the last index stands for all that follow."""

    index: int


PathStep = KeyStep | RestStep | ItemStep | None
"""None: another schema that speaks about the same place."""


class Planner:
    """Collects places while a schema is lowered."""

    def __init__(self) -> None:
        self.repeats_keys = False
        """Whether the grammar lets a key stand twice in an object, so that any guard is needed at all."""
        self.tags: GuardedTags | None = None
        self._drafts: list[_Draft] = []

    def new_state(self, pointer: str = "") -> int:
        """A new place; `pointer` names it in messages."""
        self._drafts.append(_Draft(pointer))
        return len(self._drafts) - 1

    def link(self, outer: int, step: PathStep, inner: Iterable[int]) -> None:
        """`step` leads from one place to others; to none where nothing can matter."""
        draft = self._drafts[outer]
        match step:
            case KeyStep(key):
                draft.keys.setdefault(key, set()).update(inner)
            case RestStep():
                draft.rest.update(inner)
            case ItemStep(index):
                draft.items.setdefault(index, set()).update(inner)
            case None:
                draft.same.update(inner)

    def mark_string(self, place: int, bound: LengthBound | None = None, *, is_plain: bool = False) -> None:
        """There is a string there, which a guard must keep to a bound if that is given.

        Inside a plain one, what may follow does not depend on what it holds, its first character aside.
        """
        draft = self._drafts[place]
        draft.bounds.add(bound)
        draft.is_plain &= is_plain

    def mark_array(self, place: int, least: int, *, is_distinct: bool) -> None:
        """There is an array there, of `least` items or more, which may have to be distinct."""
        self._drafts[place].least = least
        self._drafts[place].is_distinct = is_distinct

    def mark_any(self, place: int) -> None:
        """There may be an array or an object there of which nothing is known."""
        self._drafts[place].is_any = True

    def mark_run_out(self, place: int) -> None:
        """The keys or items there can run out (see `compiler.guard.guard`)."""
        self._drafts[place].can_run_out = True

    def plan(self, start: int) -> GuardPlan | None:
        """The plan of what was collected; None if the grammar needs no guard.

        Raises:
            UnsupportedSchema: a guard would hold where another schema asks for what it forbids.
            AmbiguousBounds: it would count strings which others may stand in for.
        """
        if any(draft.guarded for draft in self._drafts):
            self._check_bounds(start)
        for group in ({start}, *(inner for draft in self._drafts for inner in draft.inside())):
            self._keep_all_distinct([self._drafts[place] for place in self._closure(group)])
        if not self.repeats_keys and not any(draft.is_guarded for draft in self._drafts):
            return None
        numbers = {place: number for number, place in enumerate(sorted(self._relevant()))}

        def closed(places: set[int]) -> PathStates:
            return frozenset(numbers[place] for place in self._closure(places) if place in numbers)

        places = tuple(self._drafts[place].place(closed) for place in numbers)
        return GuardPlan(places, closed({start}), self.tags, self.repeats_keys)

    def _check_bounds(self, start: int) -> None:
        """See that at every place of a text it is known which string stands there, if a guard counts it.

        A place of a text is a set of drafts, as it is for the guard, and whether it may be inside a value of
        which nothing is known. There strings may end anywhere, so that keeping them to a bound leaves no way
        blocked; but they are spelled in more ways than those of a pattern.

        Raises:
            AmbiguousBounds: it is not, or there are too many places to tell.
        """
        first = (frozenset(self._closure({start})), False)
        pending, seen = [first], {first}
        groups: list[_Group] = []
        while pending:
            places, is_inside_any = pending.pop()
            drafts = [self._drafts[place] for place in places]
            groups.append(_Group([draft for draft in drafts if draft.bounds], is_inside_any))
            is_any = is_inside_any or any(draft.is_any for draft in drafts)
            for inner in _steps(drafts):
                following = (frozenset(self._closure(inner)), is_any)
                if len(seen) > MAX_PATHS:
                    every = (draft.pointer for draft in self._drafts if draft.guarded)
                    raise AmbiguousBounds(frozenset(every))
                if following[0] and following not in seen:
                    seen.add(following)
                    pending.append(following)
        if ambiguous := _ambiguous(groups):
            raise AmbiguousBounds(ambiguous)

    def _keep_all_distinct(self, group: list[_Draft]) -> None:
        """Arrays at a place where some must be distinct are all kept so, as nobody can tell them apart."""
        arrays = [draft for draft in group if draft.least is not None]
        if not any(draft.is_distinct for draft in arrays):
            return
        for draft in arrays:
            if draft.is_distinct:
                continue
            draft.can_run_out = True  # its lowering did not ask how many distinct items there are
            if (draft.least or 0) > 1:
                reason = "cannot be kept apart from arrays at the same place that may repeat items"
                raise UnsupportedSchema(draft.pointer, "uniqueItems", reason, "Set it for all or for none.")

    def _closure(self, places: set[int]) -> set[int]:
        """The places with all that speak about the same."""
        return reachable(places, lambda place: self._drafts[place].same)

    def _relevant(self) -> set[int]:
        """The places that a guard marks, or that lead to one that it does."""
        marked = (n for n, draft in enumerate(self._drafts) if draft.is_guarded or not draft.is_plain)
        return coreachable(
            marked,
            ((place, draft.same.union(*draft.inside())) for place, draft in enumerate(self._drafts)),
        )


class _Group(NamedTuple):
    """What is known of the strings at one place of a text."""

    drafts: list[_Draft]
    is_inside_any: bool

    def is_ambiguous(self, counted: set[str]) -> bool:
        """Whether a guard cannot tell which string stands there, if rules count those at some pointers."""
        bounds = set[LengthBound | None]()
        for draft in self.drafts:
            bounds |= {None} if draft.pointer in counted else draft.bounds
        return len(bounds) > 1 or (self.is_inside_any and any(bound and bound.pattern for bound in bounds))


def _ambiguous(groups: list[_Group]) -> frozenset[str]:
    """The pointers of guarded strings that stand beside others, of those too that rules come to count."""
    beside: dict[str, list[_Group]] = {}
    for group in groups:
        for draft in group.drafts:
            beside.setdefault(draft.pointer, []).append(group)
    pending, found = list(groups), set[str]()
    while pending:
        group = pending.pop()
        guarded = {draft.pointer for draft in group.drafts if draft.guarded} - found
        if guarded and group.is_ambiguous(found):
            found |= guarded
            pending += (other for pointer in guarded for other in beside[pointer])
    return frozenset(found)


def _steps(drafts: list[_Draft]) -> Iterator[set[int]]:
    """Where the keys and positions of containers lead that are at all of these."""
    for key in {key for draft in drafts for key in draft.keys}:
        yield set().union(*(draft.keys.get(key, draft.rest) for draft in drafts))
    yield set().union(*(draft.rest for draft in drafts))
    for index in range(1 + max((max(draft.items, default=-1) for draft in drafts), default=-1)):
        yield set().union(*(_item(draft, index) for draft in drafts))


def _item(draft: _Draft, index: int) -> set[int]:
    return draft.items.get(min(index, max(draft.items)), set()) if draft.items else set()
