"""Which members of an object may be written, key by key, in the order of the keys.

A key may be required, may *need* others that must be written with it (`dependentRequired`), and the number of
members may be bounded. What was written before a key matters for what follows only by its `MemberState`:

- A key that was written makes the later ones that it needs *pending*: they must be written, too.
- A key that was left out makes the later ones that need it *blocked*: they must be left out, too.
- Of an object that must have one of some *decisive* members, it matters whether one was written.

So it does not matter which of two keys comes first. Few states are needed as long as few keys wait for others
at a time; that is so if keys stand beside those that they need.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from compiler.digraph import reachable
from compiler.frontend.dependent_keys import DependentKeys
from compiler.frontend.reporter import Reporter
from compiler.frontend.source_map import SchemaLocation
from compiler.grammar.grammar import Expr
from compiler.lowering.constraints import ObjectConstraint

MAX_STATES = 4_000
_NEEDING = ("dependentRequired", "dependencies")
_NONE_DECISIVE: Mapping[str, Expr] = MappingProxyType({})


@dataclass(frozen=True)
class Member:
    """The text of a key and its value, without separators; `key` is None for a member under any key.

    `decisive`: its texts as a decisive member; None if it cannot be one.
    `is_only_decisive`: it has no others.
    """

    key: str | None
    text: Expr
    is_required: bool
    decisive: Expr | None = None
    is_only_decisive: bool = False


class MemberState(NamedTuple):
    """What matters of the members before a key: their number, and indices of later keys that they decide.

    `is_decided`: a decisive one is among them, or none is needed.
    """

    num_members: int = 0
    pending: frozenset[int] = frozenset()
    blocked: frozenset[int] = frozenset()
    is_decided: bool = True


class MemberBounds(NamedTuple):
    """How many members there may be (None: any number); after the declared ones `num_undeclared` may follow.

    All counts from `top` up count as `top`.
    """

    low: int
    high: int | None
    top: int
    num_undeclared: float = 0


class MemberChoices:
    """The choices between members that can be written (`live_members`), in their order."""

    def __init__(
        self, members: Sequence[Member], dependent_keys: DependentKeys, bounds: MemberBounds
    ) -> None:
        self.members = members
        self._required = [member.is_required for member in members]
        indices = {member.key: index for index, member in enumerate(members) if not member.is_required}
        self._needed = {
            indices[key]: frozenset(indices[other] for other in others if other in indices)
            for key, others in _all_needed(dependent_keys).items()
            if key in indices
        }
        self._bounds = bounds
        self.has_decisive = any(member.decisive is not None for member in members)
        self.start = MemberState(is_decided=not self.has_decisive)

    @cached_property
    def levels(self) -> list[list[MemberState]] | None:
        """The states before each member and after the last one; None if there are too many."""
        levels = [[self.start]]
        for index in range(len(self._required)):
            levels.append(list(dict.fromkeys(self._following(index, levels[-1]))))
            if sum(map(len, levels)) > MAX_STATES * (1 + self.has_decisive):
                return None
        return levels

    @property
    def are_independent(self) -> bool:
        """Whether no optional key needs another one."""
        return not any(self._needed.values())

    def taken(self, index: int, state: MemberState) -> MemberState | None:
        """The state after a member that is written, not as the decisive one; None if it must not be.

        One that has the same texts as a decisive one is the decisive one, if none was written before.
        """
        member = self.members[index]
        is_decisive = not state.is_decided and member.decisive == member.text
        return None if is_decisive or member.is_only_decisive else self._written(index, state)

    def _written(self, index: int, state: MemberState) -> MemberState | None:
        count, high = state.num_members + 1, self._bounds.high
        if index in state.blocked or (high is not None and count > high):
            return None
        later = (other for other in self._needed.get(index, ()) if other > index)
        pending = state.pending.union(later) - {index}
        return state._replace(num_members=min(count, self._bounds.top), pending=pending)

    def decided(self, index: int, state: MemberState) -> MemberState | None:
        """The state after a member that is written as the decisive one; None if it must not be."""
        if state.is_decided or self.members[index].decisive is None:
            return None
        following = self._written(index, state)
        return None if following is None else following._replace(is_decided=True)

    def skipped(self, index: int, state: MemberState) -> MemberState | None:
        """The state after a member that is left out; None if it must be written."""
        later = (other for other, needed in self._needed.items() if other > index and index in needed)
        blocked = state.blocked.union(later) - {index}
        num_left = len(self._required) - index - 1 - len(blocked) + self._bounds.num_undeclared
        is_needed = self._required[index] or index in state.pending
        if is_needed or state.num_members + num_left < self._bounds.low:
            return None
        return state._replace(blocked=blocked)

    def can_end(self, index: int, state: MemberState) -> bool:
        """Whether no member from an index on needs to be written."""
        is_complete = state.is_decided and not state.pending and not any(self._required[index:])
        return is_complete and state.num_members >= self._bounds.low

    def are_complete(self, written: Collection[int]) -> bool:
        """Whether members at some indices, in whatever order, are written with all that must be written."""
        needed = frozenset[int]().union(*(self._needed.get(index, ()) for index in written))
        needed |= {index for index, is_required in enumerate(self._required) if is_required}
        return needed.issubset(written)

    def _following(self, index: int, states: list[MemberState]) -> Iterator[MemberState]:
        for state in states:
            for choose in (self.skipped, self.taken, self.decided):
                if (following := choose(index, state)) is not None:
                    yield following


def count_bounds(
    constraint: ObjectConstraint, members: list[Member], *, is_open: bool
) -> tuple[int, int | None]:
    """`minProperties` and `maxProperties`, but 0 and None where these members cannot break them."""
    num_required = sum(member.is_required for member in members)
    low, high = constraint.min_properties, constraint.max_properties
    can_exceed = high is not None and (is_open or high < len(members))
    return low if low > num_required else 0, high if can_exceed else None


def choose_order(
    reporter: Reporter,
    location: SchemaLocation,
    members: list[Member],
    constraint: ObjectConstraint,
    bounds: MemberBounds,
) -> MemberChoices:
    """The choices between members in their order, or with keys beside those that they need.

    Raises:
        UnsupportedSchema: there are too many states in either order.
    """
    needed = constraint.dependent_keys
    choices = MemberChoices(members, needed, bounds)
    if choices.levels is None and not choices.are_independent:
        choices = MemberChoices(grouped(members, needed), needed, bounds)
        note = "keys beside those that they need, not in their declared order"
        reporter.note_first_narrowed(location, _NEEDING, note)
    if choices.levels is not None:
        return choices
    limit = f"{MAX_STATES} states at most"
    if choices.are_independent:
        reason = f"there are too many keys to count ({limit})"
        is_bounded = bounds.low > 0 or bounds.high is not None
        suggestion = "Leave the bound out, or declare fewer keys." if is_bounded else "Declare fewer keys."
        raise reporter.refusal(location, "maxProperties" if is_bounded else "properties", reason, suggestion)
    reason = f"too many keys need one another ({limit})"
    raise reporter.refusal(location, "dependentRequired", reason, "Let fewer keys need others.")


def live_members(
    texts: Iterable[tuple[str, Expr | None]],
    constraint: ObjectConstraint,
    decisive: Mapping[str, Expr] = _NONE_DECISIVE,
) -> list[Member] | None:
    """The members that can be written, of the texts of declared keys; None if one that is required cannot.

    `decisive` has the texts of decisive members by key.
    """
    members = []
    for key, text in texts:
        is_required, deciding = key in constraint.required, decisive.get(key)
        if text is not None:
            members.append(Member(key, text, is_required, deciding))
        elif deciding is not None:
            members.append(Member(key, deciding, is_required, deciding, is_only_decisive=True))
        elif is_required:
            return None
    if not set(constraint.required) <= {member.key for member in members}:
        return None
    live = _consistent(members, constraint.dependent_keys)
    if constraint.decisive and live is not None and all(member.decisive is None for member in live):
        return None
    return live


def _consistent(members: list[Member], dependent_keys: DependentKeys) -> list[Member] | None:
    """The members that can be written with all that they need, those required that a required one needs.

    None if a required one cannot be written.
    """
    needed = _all_needed(dependent_keys)
    keys = {member.key for member in members}
    required = {member.key for member in members if member.is_required}
    required = required.union(*(needed.get(key, ()) for key in required if key is not None))
    live = [member for member in members if member.key is None or needed.get(member.key, keys) <= keys]
    if not required <= {member.key for member in live}:
        return None
    return [replace(member, is_required=member.key in required) for member in live]


def grouped(members: Sequence[Member], dependent_keys: DependentKeys) -> list[Member]:
    """The members in another order: beside the first of them, all that need one another."""
    neighbours: dict[str | None, set[str]] = {}
    for key, others in dependent_keys.needed:
        for other in others:
            neighbours.setdefault(key, set()).add(other)
            neighbours.setdefault(other, set()).add(key)
    ordered: dict[int, Member] = {}
    for index, member in enumerate(members):
        group = reachable({member.key}, lambda key: neighbours.get(key, set()))
        alike = (
            [i for i, other in enumerate(members) if other.key in group]
            if member.key is not None
            else [index]
        )
        ordered |= {i: members[i] for i in alike if i not in ordered}
    return list(ordered.values())


def _all_needed(dependent_keys: DependentKeys) -> Mapping[str, frozenset[str]]:
    """All keys that each key needs, also because others need them."""
    direct = dict(dependent_keys.needed)
    return {key: frozenset(reachable({key}, lambda one: direct.get(one, ()))) - {key} for key in direct}
