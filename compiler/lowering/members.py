"""The shape of an object: which member may follow which, with what separators.

Decided by measurement (docs/benchmarks.md): one flat rule where something is required and runs of optional
keys are short, one rule per suffix of the keys otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

from compiler.grammar.grammar import (
    EMPTY,
    CharClass,
    Expr,
    Literal,
    Rule,
    concat,
    optional,
    union,
)
from compiler.lowering.cardinality import MOST_DISTINCT
from compiler.lowering.doubling import Members

if TYPE_CHECKING:
    from compiler.frontend.outline import Site
    from compiler.lowering.lowering import Lowering
    from compiler.lowering.views import ObjectConstraint

MAX_STATES = 4_000
_CLOSE = Literal("}")
_AHEAD = CharClass.of(",", "}")
LONGEST_FLAT_RUN = 10


@dataclass(frozen=True)
class Member:
    """A declared key with its value, as text without separators."""

    text: Expr
    is_required: bool


@dataclass(frozen=True)
class Undeclared:
    """A member under an undeclared key, as text; there are `num_keys` such keys at least."""

    text: Expr
    num_keys: float


class Shape:
    """The rules of one object; a guard sees to it that undeclared keys do not repeat.

    Where equal objects must be spelled alike there is one undeclared key at most, since any order of
    several would do.
    """

    def __init__(
        self,
        lowering: Lowering,
        constraint: ObjectConstraint,
        site: Site,
        members: list[Member],
        extra: Undeclared | None,
    ) -> None:
        self.lowering = lowering
        self.site = site
        self.members = members
        self.extra = extra.text if extra is not None else None
        self.is_extra_single = lowering.is_distinct
        num_required = sum(member.is_required for member in members)
        most = constraint.max_properties
        self.low = constraint.min_properties if constraint.min_properties > num_required else 0
        self.high = most if most is not None and (extra is not None or most < len(members)) else None
        self.num_undeclared = 0 if extra is None else 1 if self.is_extra_single else extra.num_keys
        if extra is not None and self.low > len(members) + min(self.num_undeclared, MOST_DISTINCT):
            raise lowering.reporter.refusal(
                site,
                "minProperties",
                "asks for more keys than are known to be admitted",
                "Lower it, or declare the keys.",
            )

    def lower(self) -> Expr | None:
        """The whole object; None if no number of members is admitted."""
        if not self.low and self.high is None and self._is_flat():
            return self._flat()
        return self._suffixes()

    def _is_flat(self) -> bool:
        runs = [len(list(run)) for required, run in groupby(self.members, _is_required) if not required]
        return any(map(_is_required, self.members)) and max(runs, default=0) <= LONGEST_FLAT_RUN

    def _flat(self) -> Expr:
        comma = self.lowering.style.comma
        first = next(i for i, member in enumerate(self.members) if member.is_required)
        parts: list[Expr] = [Literal("{")]
        parts += [optional(concat(member.text, comma)) for member in self.members[:first]]
        parts.append(self.members[first].text)
        for member in self.members[first + 1 :]:
            text = concat(comma, member.text)
            parts.append(text if member.is_required else optional(text))
        return concat(*parts, self._more, _CLOSE)

    @cached_property
    def _more(self) -> Expr:
        """Any number of undeclared members, each after a comma."""
        if self.extra is None:
            return EMPTY
        if self.is_extra_single:
            return optional(concat(self.lowering.style.comma, self.extra))
        ref = self.lowering.rules.reserve("more")
        more = concat(self.lowering.style.comma, self.extra, ref)
        self.lowering.rules.fill(ref, Rule(optional(more)))
        return ref

    def _suffixes(self) -> Expr | None:
        """One rule per suffix of the declared keys and number of members so far; undeclared ones come last.

        `after[c]` continues behind a member, `pick[c]` names the next one, where `c` members are written.
        """
        top = max(self.low, self.high or 0)  # counts above this one are alike
        if self.extra is not None and not self.is_extra_single:
            top = min(top, len(self.members))  # undeclared ones are counted by doubling
        if (top + 1) * (len(self.members) + 1) > MAX_STATES:
            raise self.lowering.reporter.refusal(
                self.site,
                "maxProperties",
                "too many keys to count",
                "Drop the bound or declare fewer keys.",
            )
        pick, after = self._tail(top)
        for index in range(len(self.members) - 1, -1, -1):
            member = self.members[index]
            taken: list[Expr | None] = [
                None if self._is_over(c + 1) else concat(member.text, after[min(c + 1, top)])
                for c in range(top + 1)
            ]
            pick = [
                self._rule("pick", union((taken[c], pick[c] if self._can_skip(index, c) else None)))
                for c in range(top + 1)
            ]
            after = [self._after(pick[c], can_end=self._can_end(index, c)) for c in range(top + 1)]
        body = union((pick[0], _CLOSE if self._can_end(0, 0) else None))
        return concat(Literal("{"), body)

    def _can_skip(self, index: int, count: int) -> bool:
        """Whether enough keys are left without the one at `index`."""
        num_left = len(self.members) - index - 1 + self.num_undeclared
        return not self.members[index].is_required and count + num_left >= self.low

    def _is_over(self, count: int) -> bool:
        return self.high is not None and count > self.high

    def _can_end(self, index: int, count: int) -> bool:
        return count >= self.low and not any(member.is_required for member in self.members[index:])

    def _tail(self, top: int) -> tuple[list[Expr | None], list[Expr | None]]:
        """`pick` and `after` behind the last declared key."""
        ends = [self._after(None, can_end=c >= self.low) for c in range(top + 1)]
        if self.extra is None:
            return [None] * (top + 1), ends
        if not self.is_extra_single:
            return [self._first(c) for c in range(top + 1)], [self._further(c) for c in range(top + 1)]
        pick = [
            None if self._is_over(c + 1) else concat(self.extra, ends[min(c + 1, top)])
            for c in range(top + 1)
        ]
        return pick, [self._after(pick[c], can_end=c >= self.low) for c in range(top + 1)]

    def _first(self, count: int) -> Expr | None:
        """An undeclared member, without a comma, and what follows where `count` others stand before it."""
        return None if self._is_over(count + 1) else concat(self.extra, self._further(count + 1))

    def _further(self, count: int) -> Expr:
        """Undeclared members, each after a comma, and the end, where `count` members stand before them."""
        assert self.extra is not None
        member = concat(self.lowering.style.comma, self.extra)
        members = Members(member, _CLOSE, _AHEAD, self.lowering.rules, "more")
        low = max(0, self.low - count)
        if self.high is not None:
            return members.between(low, self.high - count)
        return concat(members.exactly(low), self._more, _CLOSE)

    def _after(self, pick: Expr | None, *, can_end: bool) -> Expr | None:
        following = concat(self.lowering.style.comma, pick)
        return self._rule("after", union((following, _CLOSE if can_end else None)))

    def _rule(self, hint: str, body: Expr | None) -> Expr | None:
        if body is None or isinstance(body, Literal):
            return body
        return self.lowering.rules.define(hint, Rule(body))


def _is_required(member: Member) -> bool:
    return member.is_required
