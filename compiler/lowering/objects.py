"""Lowering of objects: declared keys in their order, then undeclared ones, each with its value.

Which members may follow one another becomes one of two forms, chosen by measurement (docs/benchmarks.md): one
flat rule where something is required and runs of optional keys are short, or one rule per suffix of the keys.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

import jsonschema_rs
from jsonschema_rs import CanonicalSchema

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
from compiler.guard.planner import KeyStep
from compiler.lowering.cardinality import MOST_DISTINCT, finite_names
from compiler.lowering.constraints import intersection
from compiler.lowering.quantifier import Quantifier
from compiler.lowering.undeclared import UndeclaredMember, lower_undeclared
from compiler.report import Verdict

if TYPE_CHECKING:
    from compiler.frontend.source_map import SchemaLocation
    from compiler.lowering.constraints import Context, ObjectConstraint
    from compiler.lowering.lowering import Lowering

MAX_STATES = 4_000
"""Of suffixes times numbers of members."""
LONGEST_FLAT_RUN = 10
"""Optional keys in a row in a flat rule."""
_CLOSE = Literal("}")
_AHEAD = CharClass.of(",", "}")
_DECLARING = ("properties", "required", "dependentRequired", "dependentSchemas", "dependencies")
"""The keywords that name keys; the first of these that a schema has gets the report's note on their order."""


@dataclass(frozen=True)
class Member:
    """The text of a key and its value, without separators."""

    text: Expr
    is_required: bool


def lower_object(lowering: Lowering, constraint: ObjectConstraint, context: Context) -> Expr | None:
    """The JSON texts of the admitted objects; None if there is none.

    Raises:
        UnsupportedSchema: a constraint needs more than a context-free grammar of bounded size.
    """
    keys, is_open = declared_keys(lowering, constraint, context.location)
    members = _members(lowering, constraint, context, keys)
    if members is None:
        return None
    for failing in constraint.failing_members:
        member = lower_undeclared(lowering, constraint, context, keys, failing)
        if member is None:
            return None
        members.append(Member(member.text, is_required=True))
    extra = lower_undeclared(lowering, constraint, context, keys) if is_open else None
    _note(lowering, context.location, num_keys=len(members), is_open=extra is not None)
    if extra is not None:  # a failing member takes one of the undeclared keys
        extra = replace(extra, num_keys=extra.num_keys - len(constraint.failing_members))
    return _MemberRules(lowering, constraint, context, members, extra).lower()


def declared_keys(
    lowering: Lowering, constraint: ObjectConstraint, location: SchemaLocation
) -> tuple[list[str], bool]:
    """The declared keys in the order in which they are written, and whether undeclared ones may follow."""
    declared = lowering.source_map.declared(location)
    known = {*constraint.properties, *constraint.required}
    names = constraint.property_names
    finite = None if names is None else finite_names(names)
    if finite is not None:
        known = finite
    is_open = finite is None and not (lowering.is_closed and not lowering.source_map.is_map(location))
    order = [key for key in declared if finite is None or key in finite]
    order += [key for key in lowering.source_map.mentioned(location) if key in known and key not in declared]
    order += _in_order_of_patterns(lowering, known.difference(order), location)
    if names is not None and finite is None:
        order = [key for key in order if lowering.admits(names, key)]
        if not set(constraint.required) <= set(order):
            raise lowering.reporter.refusal(
                location,
                "propertyNames",
                "may not admit a required key",
                "List the keys by `enum`, or do not require it.",
            )
    return order, is_open


def _in_order_of_patterns(lowering: Lowering, keys: set[str], location: SchemaLocation) -> list[str]:
    """Keys that only patterns name, in the order of the patterns and of the alternatives inside each."""
    if len(keys) <= 1:
        return list(keys)
    patterns = [
        p
        for _, schema in lowering.source_map.schemas(location)
        for p in schema.get("patternProperties") or ()
    ]
    validators = [jsonschema_rs.validator_for({"pattern": pattern}) for pattern in patterns]

    def rank(key: str) -> tuple[int, int, str]:
        for index, (pattern, validator) in enumerate(zip(patterns, validators, strict=True)):
            if validator.is_valid(key):
                return index, pattern.find(key), key
        return len(patterns), 0, key

    return sorted(keys, key=rank)


def _members(
    lowering: Lowering, constraint: ObjectConstraint, context: Context, keys: list[str]
) -> list[Member] | None:
    """The members of the declared keys; None if a required one admits no value."""
    members = []
    for key in keys:
        schema = value_schema(constraint, key)
        location = lowering.source_map.property(context.location, key)
        value = lowering.part(schema, context, location, KeyStep(key))
        is_required = key in constraint.required
        if value is not None:
            text = concat(lowering.formatting.text(key), lowering.formatting.key_separator, value)
            members.append(Member(text, is_required))
        elif is_required:
            return None
    if not set(constraint.required) <= set(keys):
        return None
    return members


def value_schema(constraint: ObjectConstraint, key: str) -> CanonicalSchema | None:
    """What the value under `key` must satisfy, None for anything.

    The canonical form has merged the patterns that a declared key matches into the schema under that key.
    """
    if key in constraint.properties:
        return constraint.properties[key]
    matching = [
        schema
        for pattern, schema in constraint.pattern_properties.items()
        if jsonschema_rs.is_valid({"pattern": pattern}, key)
    ]
    return intersection(*matching) if matching else constraint.additional_properties


def _note(lowering: Lowering, location: SchemaLocation, *, num_keys: int, is_open: bool) -> None:
    notes = []
    if num_keys > 1:
        notes.append("keys in their declared order")
    if lowering.is_closed and not lowering.source_map.is_map(location):
        notes.append("undeclared keys never")
    elif is_open and num_keys:
        notes.append("undeclared keys after the declared ones")
    for note in notes:
        lowering.reporter.note_first(location, _DECLARING, Verdict.NARROWED, note)


def count_bounds(
    constraint: ObjectConstraint, members: list[Member], *, is_open: bool
) -> tuple[int, int | None]:
    """`minProperties` and `maxProperties`, but 0 and None where these members cannot break them."""
    num_required = sum(member.is_required for member in members)
    low, high = constraint.min_properties, constraint.max_properties
    can_exceed = high is not None and (is_open or high < len(members))
    return low if low > num_required else 0, high if can_exceed else None


class _MemberRules:
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
        self.location = context.location
        self.members = members
        self.extra = extra.text if extra is not None else None
        self.is_extra_single = context.is_distinct
        self.low, self.high = count_bounds(constraint, members, is_open=extra is not None)
        self.num_undeclared = 0 if extra is None else 1 if self.is_extra_single else extra.num_keys
        if extra is not None and self.low > len(members) + min(self.num_undeclared, MOST_DISTINCT):
            raise lowering.reporter.refusal(
                self.location,
                "minProperties",
                "demands more keys than may be admitted",
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
        comma = self.lowering.formatting.item_separator
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
            return optional(concat(self.lowering.formatting.item_separator, self.extra))
        ref = self.lowering.rules.reserve("more")
        more = concat(self.lowering.formatting.item_separator, self.extra, ref)
        self.lowering.rules.fill(ref, Rule(optional(more)))
        return ref

    def _suffixes(self) -> Expr | None:
        """One rule per suffix of the declared keys and number of members so far; undeclared ones come last.

        Where `c` members were written, `pick[c]` starts with the next one, `after[c]` with the `,` or `}`
        before or behind it.
        """
        top = max(self.low, self.high or 0)  # a higher count makes no difference
        if self.extra is not None and not self.is_extra_single:
            top = min(top, len(self.members))  # the quantifier counts undeclared ones
        if (top + 1) * (len(self.members) + 1) > MAX_STATES:
            raise self.lowering.reporter.refusal(
                self.location,
                "maxProperties",
                f"there are too many keys to count (bound times keys is at most {MAX_STATES})",
                "Leave the bound out, or declare fewer keys.",
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
        """Whether the key at `index` is optional and enough keys are left without it."""
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
        """An undeclared member behind `count` others, without a comma before it, and what follows it."""
        return None if self._is_over(count + 1) else concat(self.extra, self._further(count + 1))

    def _further(self, count: int) -> Expr:
        """Undeclared members behind `count` others, each after a comma, and the end of the object."""
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


def _is_required(member: Member) -> bool:
    return member.is_required
