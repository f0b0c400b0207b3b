"""The rules of an object's members: declared keys in their order or in any, then undeclared ones.

The rules of keys in their order have one of two forms, chosen by measurement. Where something is required and
runs of optional keys are short, there is one flat rule; otherwise one rule for each suffix of the keys. Keys
in any order have a third form (`compiler.lowering.any_order`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby

from compiler.grammar.grammar import EMPTY, CharClass, Expr, Literal, Rule, concat, optional, union
from compiler.lowering.any_order import lower_in_any_order
from compiler.lowering.cardinality import MOST_DISTINCT
from compiler.lowering.constraints import Context, ObjectConstraint
from compiler.lowering.lowering import Lowering
from compiler.lowering.member_choices import (
    Member,
    MemberBounds,
    MemberChoices,
    MemberState,
    choose_order,
    count_bounds,
)
from compiler.lowering.quantifier import Quantifier
from compiler.lowering.undeclared import UndeclaredMember, note_single

LONGEST_FLAT_RUN = 10
"""Optional keys in a row in a flat rule."""
_CLOSE = Literal("}")
_AHEAD = CharClass.of(",", "}")


class MemberRules:
    """The rules of one object; a guard keeps undeclared keys from repeating.

    Where equal objects must have one text there is at most one undeclared key, because several could be
    written in any order.
    """

    def __init__(
        self,
        lowering: Lowering,
        constraint: ObjectConstraint,
        context: Context,
        members: list[Member],
        extra: UndeclaredMember | None,
    ) -> None:
        self.lowering = lowering
        self.constraint = constraint
        self.location = context.location
        self.members = members
        self.extra = extra.text if extra is not None else None
        self.is_extra_single = context.is_distinct
        self.num_undeclared = 0 if extra is None else 1 if self.is_extra_single else extra.num_keys
        self.low, self.high = count_bounds(constraint, members, is_open=extra is not None)
        self.bounds = MemberBounds(self.low, self.high, self._top, self.num_undeclared)
        if extra is not None:
            self._note_undeclared()

    @property
    def _top(self) -> int:
        """The number of members from which on a higher one makes no difference."""
        top = max(self.low, self.high or 0)
        if self.extra is None or self.is_extra_single:
            return top
        return min(top, len(self.members))  # a quantifier counts undeclared ones

    def _note_undeclared(self) -> None:
        """Report which undeclared members are left out, and refuse the object if too few are left."""
        if self.is_extra_single:
            note_single(self.lowering, self.location)
        if self.low > len(self.members) + min(self.num_undeclared, MOST_DISTINCT):
            raise self.lowering.reporter.refusal(
                self.location,
                "minProperties",
                "demands more keys than the object is known to admit",
                "Lower it, or declare the keys in `properties`.",
            )
        if self.low > self.num_undeclared:
            note = f"at least {self.low - int(self.num_undeclared)} declared keys: few others are known"
            self.lowering.reporter.note_first_narrowed(self.location, ("minProperties",), note)

    def lower_in_any_order(self) -> Expr | None:
        """The whole object, its declared keys in any order; None if no number of members is admitted."""
        choices = MemberChoices(self.members, self.constraint.dependent_keys, self.bounds)
        return concat(Literal("{"), lower_in_any_order(choices, self.lowering.rules, self._after_members))

    def _after_members(self, num_written: int, following: Expr | None, *, is_complete: bool) -> Expr | None:
        """What stands after some members: another one, an undeclared one, or the end of the object."""
        if self._is_over(num_written):
            return None
        # Declared keys cannot come after undeclared ones, and of these there may be too few.
        can_suffice = num_written + self.num_undeclared >= self.low
        has_extra = is_complete and self.extra is not None and can_suffice
        pick = union((following, self._first(num_written) if has_extra else None))
        can_end = is_complete and num_written >= self.low
        if num_written:
            return self._after(self._rule("pick", pick), can_end=can_end)
        return union((pick, _CLOSE if can_end else None))

    def lower(self) -> Expr | None:
        """The whole object; None if no number of members is admitted."""
        members = list(map(self._shared, self.members))
        choices = choose_order(self.lowering.reporter, self.location, members, self.constraint, self.bounds)
        if not self.low and self.high is None and _is_flat(choices):
            return self._flat(choices.members)
        return self._suffixes(choices)

    def _shared(self, member: Member) -> Member:
        """A member whose texts are rules, which other objects with the same member refer to, too."""
        rules, decisive = self.lowering.rules, member.decisive
        shared = None if decisive is None else rules.inlinable(decisive)
        return replace(member, text=rules.inlinable(member.text), decisive=shared)

    def _flat(self, members: Sequence[Member]) -> Expr:
        comma = self.lowering.formatting.item_separator
        first = next(i for i, member in enumerate(members) if member.is_required)
        parts: list[Expr] = [Literal("{")]
        parts += [optional(concat(member.text, comma)) for member in members[:first]]
        parts.append(members[first].text)
        for member in members[first + 1 :]:
            text = concat(comma, member.text)
            parts.append(text if member.is_required else optional(text))
        return concat(*parts, self._more, _CLOSE)

    @cached_property
    def _more(self) -> Expr:
        """Any number of undeclared members, each after a comma."""
        if self.extra is None:
            return EMPTY
        if self.is_extra_single:
            return optional(concat(self.lowering.formatting.item_separator, self.extra))
        ref = self.lowering.rules.reserve("more")
        more = concat(self.lowering.formatting.item_separator, self.extra, ref)
        self.lowering.rules.fill(ref, Rule(optional(more)))
        return ref

    def _suffixes(self, choices: MemberChoices) -> Expr | None:
        """One rule per suffix of the declared keys and state before it; undeclared ones come last.

        In a state `s`, `pick[s]` starts with the next member, `after[s]` with the `,` or `}` before or after
        it.
        """
        levels = choices.levels
        assert levels is not None, "too many of them are refused"
        pick, after = self._tail(levels[-1])
        for index in range(len(levels) - 2, -1, -1):
            pick, after = self._before(choices, index, levels[index], pick, after)
        start = choices.start
        body = union((pick[start], _CLOSE if choices.can_end(0, start) else None))
        return concat(Literal("{"), body)

    def _before(
        self,
        choices: MemberChoices,
        index: int,
        states: list[MemberState],
        pick: Mapping[MemberState, Expr | None],
        after: Mapping[MemberState, Expr | None],
    ) -> tuple[dict[MemberState, Expr | None], dict[MemberState, Expr | None]]:
        """`pick` and `after` before a member, from those after it."""
        member = choices.members[index]
        picked: dict[MemberState, Expr | None] = {}
        for state in states:
            taken, decided = choices.taken(index, state), choices.decided(index, state)
            skipped = choices.skipped(index, state)
            written = None if taken is None else concat(member.text, after[taken])
            deciding = None if decided is None else concat(member.decisive, after[decided])
            left_out = None if skipped is None else pick[skipped]
            picked[state] = self._rule("pick", union((deciding, written, left_out)))
        ended = {state: self._after(picked[state], can_end=choices.can_end(index, state)) for state in states}
        return picked, ended

    def _tail(
        self, states: list[MemberState]
    ) -> tuple[dict[MemberState, Expr | None], dict[MemberState, Expr | None]]:
        """`pick` and `after` after the last declared key."""
        if self.extra is not None and not self.is_extra_single:
            none: dict[MemberState, Expr | None] = dict.fromkeys(states)
            decided = [state for state in states if state.is_decided]
            further = none | {s: self._further(s.num_members) for s in decided}
            return none | {s: self._first(s.num_members) for s in decided}, further
        last = concat(self.extra, _CLOSE)
        first = {s: last if self._can_end(s, num_undeclared=1) else None for s in states}
        return first, {s: self._after(first[s], can_end=self._can_end(s)) for s in states}

    def _can_end(self, state: MemberState, *, num_undeclared: int = 0) -> bool:
        """Whether the object can end after the declared keys and so many undeclared ones."""
        count = state.num_members + num_undeclared
        return state.is_decided and count >= self.low and not self._is_over(count)

    def _is_over(self, count: int) -> bool:
        return self.high is not None and count > self.high

    def _first(self, count: int) -> Expr | None:
        """An undeclared member after `count` others, without a comma before it, and what follows it."""
        return None if self._is_over(count + 1) else concat(self.extra, self._further(count + 1))

    def _further(self, count: int) -> Expr:
        """Undeclared members after `count` others, each after a comma, and the end of the object."""
        assert self.extra is not None
        member = concat(self.lowering.formatting.item_separator, self.extra)
        members = Quantifier(member, _CLOSE, _AHEAD, self.lowering.rules, "more")
        low = max(0, self.low - count)
        if self.high is not None:
            return members.between(low, self.high - count)
        return concat(members.exactly(low), self._more, _CLOSE)

    def _after(self, pick: Expr | None, *, can_end: bool) -> Expr | None:
        following = concat(self.lowering.formatting.item_separator, pick)
        return self._rule("after", union((following, _CLOSE if can_end else None)))

    def _rule(self, hint: str, body: Expr | None) -> Expr | None:
        if body is None or isinstance(body, Literal):
            return body
        return self.lowering.rules.define(hint, Rule(body))


def _is_flat(choices: MemberChoices) -> bool:
    """Whether the members fit into one flat rule."""
    if choices.has_decisive or not choices.are_independent:
        return False
    runs = [len(list(run)) for required, run in groupby(choices.members, _is_required) if not required]
    return any(map(_is_required, choices.members)) and max(runs, default=0) <= LONGEST_FLAT_RUN


def _is_required(member: Member) -> bool:
    return member.is_required
