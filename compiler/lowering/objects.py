"""Lowering of objects: declared keys in their order, then undeclared ones, each with its value.

Which members may follow one another becomes one of two forms, chosen by measurement (docs/benchmarks.md): one
flat rule where something is required and runs of optional keys are short, or one rule per suffix of the keys.
Declared keys in any order are a third (`compiler.lowering.any_order`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

import jsonschema_rs
from jsonschema_rs import CanonicalSchema, canonical

from compiler.grammar.grammar import (
    EMPTY,
    CharClass,
    Expr,
    Literal,
    Rule,
    choice,
    concat,
    optional,
    union,
)
from compiler.guard.planner import KeyStep
from compiler.lowering.any_order import lower_in_any_order
from compiler.lowering.cardinality import MOST_DISTINCT, finite_names
from compiler.lowering.constraints import intersection
from compiler.lowering.member_choices import (
    MAX_STATES,
    START,
    Member,
    MemberBounds,
    MemberChoices,
    MemberState,
    consistent,
    grouped,
)
from compiler.lowering.quantifier import Quantifier
from compiler.lowering.undeclared import UndeclaredMember, lower_undeclared, note_single
from compiler.report import Verdict
from compiler.vocabulary import KEY_MARK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from compiler.frontend.source_map import SchemaLocation
    from compiler.lowering.any_order import ChosenOrder
    from compiler.lowering.constraints import Context, ObjectConstraint
    from compiler.lowering.lowering import Lowering

LONGEST_FLAT_RUN = 10
"""Optional keys in a row in a flat rule."""
_MARK = optional(Literal(KEY_MARK))
"""It may be left out, so that a mask has the tokens that go on behind a marked key.

An object reads marks behind keys that are marked in another object at the same place, too: there the guard
cannot know which of them is being written. One that declares no keys reads them behind every key.
"""
_NO_KEYS = frozenset[str]()
_MOST_MARKED_BESIDE = 10
"""Undeclared keys that an object may spell in any case, because they are marked in objects beside it."""
_CLOSE = Literal("}")
_AHEAD = CharClass.of(",", "}")
_DECLARING = ("properties", "required", "dependentRequired", "dependentSchemas", "dependencies")
"""The keywords that name keys; the first of these that a schema has gets the report's note on their order."""
_MOST_LISTED = 10
_NEEDING = ("dependentRequired", "dependencies")


def lower_object(lowering: Lowering, constraint: ObjectConstraint, context: Context) -> Expr | None:
    """The JSON texts of the admitted objects; None if there is none.

    Raises:
        UnsupportedSchema: a constraint needs more than a context-free grammar of bounded size.
    """
    keys, is_open = declared_keys(lowering, constraint, context.location)
    order = _order(lowering, constraint, context, len(keys))
    pointer = lowering.planner.pointer_of(context.state)
    marked_beside = lowering.ambiguities.marked_beside.get(pointer, _NO_KEYS)
    is_guarded = is_open and _is_guarded(lowering, constraint, context, keys, marked_beside)
    marked = frozenset(keys).difference(constraint.required if is_guarded else keys)
    readable = marked | marked_beside
    members = _members(lowering, constraint, context, keys, readable)
    members = members and consistent(members, constraint.dependent_keys)
    if members is None:
        return None
    told_apart = [] if is_guarded else keys

    def with_mark(key: Expr) -> Expr:
        """An undeclared key and, where another object has a mark behind the same key, the mark."""
        if keys and is_guarded:
            texts = map(lowering.formatting.text, sorted(marked_beside.difference(keys)))
            beside = union(concat(text, _MARK) for text in texts)
            return key if beside is None else choice(key, beside)
        return concat(key, _MARK) if readable or not keys else key

    for failing in constraint.failing_members:
        member = lower_undeclared(lowering, constraint, context, keys, with_mark, failing=failing)
        if member is None:
            return None
        members.append(Member(None, member.text, is_required=True))
    extra = lower_undeclared(lowering, constraint, context, told_apart, with_mark) if is_open else None
    reads = readable if keys else None
    lowering.planner.mark_object(context.state, keys, marked, reads, is_open=extra is not None)
    _note(lowering, context.location, keys, order, num_keys=len(members), is_open=extra is not None)
    if extra is not None:  # a failing member takes one of the undeclared keys
        extra = replace(extra, num_keys=extra.num_keys - len(constraint.failing_members))
    rules = _MemberRules(lowering, constraint, context, members, extra)
    return rules.lower_in_any_order() if order.is_any else rules.lower()


def _order(lowering: Lowering, constraint: ObjectConstraint, context: Context, num_keys: int) -> ChosenOrder:
    """In which order the declared keys of an object come."""
    if context.is_distinct:
        return lowering.key_orders.declared("equal items need one text")
    if constraint.failing_members:
        return lowering.key_orders.declared("some member has to fail a schema")
    return lowering.key_orders.choose(num_keys)


def declared_keys(
    lowering: Lowering, constraint: ObjectConstraint, location: SchemaLocation
) -> tuple[list[str], bool]:
    """The declared keys in the order in which they are written, and whether undeclared ones may follow."""
    declared = lowering.source_map.declared(location)
    known = {*constraint.properties, *constraint.required, *constraint.dependent_keys.names}
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


def _is_guarded(
    lowering: Lowering,
    constraint: ObjectConstraint,
    context: Context,
    keys: list[str],
    marked_beside: frozenset[str],
) -> bool:
    """Whether a guard tells undeclared keys from declared ones, so that an undeclared key is any string.

    For this the optional keys are marked. A required key needs no mark: it is there before any undeclared
    key, so the guard keeps it from repeating. Rules tell the keys apart where there are other conditions on
    undeclared ones, where equal objects must have one text, and where that takes fewer rules than to spell
    the keys that are marked in other objects.
    """
    additional = constraint.additional_properties
    return (
        constraint.property_names is None
        and not constraint.pattern_properties
        and not constraint.failing_members
        and not context.is_distinct
        and (additional is None or additional.satisfiability() != canonical.Satisfiability.NO)
        and lowering.planner.pointer_of(context.state) not in lowering.ambiguities.separated
        and len(marked_beside.difference(keys)) <= max(len(keys), _MOST_MARKED_BESIDE)
    )


def _members(
    lowering: Lowering,
    constraint: ObjectConstraint,
    context: Context,
    keys: list[str],
    readable: frozenset[str],
) -> list[Member] | None:
    """The members of the declared keys; None if a required one admits no value."""
    members = []
    for key in keys:
        schema = value_schema(constraint, key)
        location = lowering.source_map.property(context.location, key)
        value = lowering.part(schema, context, location, KeyStep(key))
        is_required = key in constraint.required
        if value is not None:
            mark = _MARK if key in readable else EMPTY
            text = concat(lowering.formatting.text(key), mark, lowering.formatting.key_separator, value)
            members.append(Member(key, text, is_required))
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


def _note(
    lowering: Lowering,
    location: SchemaLocation,
    keys: list[str],
    order: ChosenOrder,
    *,
    num_keys: int,
    is_open: bool,
) -> None:
    has_others = is_open and num_keys > 0
    is_declared = set(keys) <= set(lowering.source_map.mentioned(location))
    notes = []
    if num_keys + has_others > 1 and not is_declared and not order.is_any:
        notes.append(_listed(keys, has_others=has_others) + order.because)
    elif num_keys > 1 and not order.is_any:
        notes.append("keys in their declared order" + order.because)
    if lowering.is_closed and not lowering.source_map.is_map(location):
        notes.append("undeclared keys never")
    elif has_others and (is_declared or order.is_any):
        notes.append("undeclared keys after the declared ones")
    for note in notes:
        lowering.reporter.note_first(location, _DECLARING, Verdict.NARROWED, note)


def _listed(keys: list[str], *, has_others: bool) -> str:
    """The note on the order of keys that no keyword declares."""
    order = ", ".join([*keys[:_MOST_LISTED], *(["…"] if len(keys) > _MOST_LISTED else [])])
    return f"keys in this order: {order}" + (", then others" if has_others else "")


def count_bounds(
    constraint: ObjectConstraint, members: list[Member], *, is_open: bool
) -> tuple[int, int | None]:
    """`minProperties` and `maxProperties`, but 0 and None where these members cannot break them."""
    num_required = sum(member.is_required for member in members)
    low, high = constraint.min_properties, constraint.max_properties
    can_exceed = high is not None and (is_open or high < len(members))
    return low if low > num_required else 0, high if can_exceed else None


def choose_order(
    lowering: Lowering,
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
        lowering.reporter.note_first(location, _NEEDING, Verdict.NARROWED, note)
    if choices.levels is not None:
        return choices
    limit = f"{MAX_STATES} states at most"
    if choices.are_independent:
        reason = f"there are too many keys to count ({limit})"
        suggestion = "Leave the bound out, or declare fewer keys."
        raise lowering.reporter.refusal(location, "maxProperties", reason, suggestion)
    reason = f"too many keys need one another ({limit})"
    raise lowering.reporter.refusal(location, "dependentRequired", reason, "Let fewer keys need others.")


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
        self.extra = extra.text if extra is not None else None
        self.is_extra_single = context.is_distinct
        if extra is not None and self.is_extra_single:
            note_single(lowering, self.location)
        self.low, self.high = count_bounds(constraint, members, is_open=extra is not None)
        self.num_undeclared = 0 if extra is None else 1 if self.is_extra_single else extra.num_keys
        if extra is not None and self.low > len(members) + min(self.num_undeclared, MOST_DISTINCT):
            raise lowering.reporter.refusal(
                self.location,
                "minProperties",
                "demands more keys than may be admitted",
                "Lower it, or declare the keys.",
            )
        top = max(self.low, self.high or 0)  # a higher count makes no difference
        if extra is not None and not self.is_extra_single:
            top = min(top, len(members))  # the quantifier counts undeclared ones
        self.members, self.constraint = members, constraint
        self.bounds = MemberBounds(self.low, self.high, top, self.num_undeclared)

    @cached_property
    def choices(self) -> MemberChoices:
        """The choices between members in one order."""
        return choose_order(self.lowering, self.location, self.members, self.constraint, self.bounds)

    def lower_in_any_order(self) -> Expr | None:
        """The whole object, its declared keys in any order; None if no number of members is admitted."""
        choices = MemberChoices(self.members, self.constraint.dependent_keys, self.bounds)
        return concat(Literal("{"), lower_in_any_order(choices, self.lowering.rules, self._behind))

    def _behind(self, num_written: int, following: Expr | None, *, is_whole: bool) -> Expr | None:
        """What stands behind some members: another one, an undeclared one, or the end of the object."""
        if self._is_over(num_written):
            return None
        has_extra = is_whole and self.extra is not None
        pick = union((following, self._first(num_written) if has_extra else None))
        can_end = is_whole and num_written >= self.low
        if num_written:
            return self._after(self._rule("pick", pick), can_end=can_end)
        return union((pick, _CLOSE if can_end else None))

    def lower(self) -> Expr | None:
        """The whole object; None if no number of members is admitted."""
        if not self.low and self.high is None and self._is_flat():
            return self._flat()
        return self._suffixes()

    def _is_flat(self) -> bool:
        if not self.choices.are_independent:
            return False
        runs = [
            len(list(run)) for required, run in groupby(self.choices.members, _is_required) if not required
        ]
        return any(map(_is_required, self.choices.members)) and max(runs, default=0) <= LONGEST_FLAT_RUN

    def _flat(self) -> Expr:
        comma = self.lowering.formatting.item_separator
        first = next(i for i, member in enumerate(self.choices.members) if member.is_required)
        parts: list[Expr] = [Literal("{")]
        parts += [optional(concat(member.text, comma)) for member in self.choices.members[:first]]
        parts.append(self.choices.members[first].text)
        for member in self.choices.members[first + 1 :]:
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
        """One rule per suffix of the declared keys and state before it; undeclared ones come last.

        In a state `s`, `pick[s]` starts with the next member, `after[s]` with the `,` or `}` before or behind
        it.
        """
        levels = self.choices.levels
        assert levels is not None, "too many of them are refused"
        pick, after = self._tail(levels[-1])
        for index in range(len(levels) - 2, -1, -1):
            pick, after = self._before(index, levels[index], pick, after)
        body = union((pick[START], _CLOSE if self.choices.can_end(0, START) else None))
        return concat(Literal("{"), body)

    def _before(
        self,
        index: int,
        states: list[MemberState],
        pick: Mapping[MemberState, Expr | None],
        after: Mapping[MemberState, Expr | None],
    ) -> tuple[dict[MemberState, Expr | None], dict[MemberState, Expr | None]]:
        """`pick` and `after` before a member, from those behind it."""
        choices, text = self.choices, self.choices.members[index].text
        picked: dict[MemberState, Expr | None] = {}
        for state in states:
            taken, skipped = choices.taken(index, state), choices.skipped(index, state)
            written = None if taken is None else concat(text, after[taken])
            left_out = None if skipped is None else pick[skipped]
            picked[state] = self._rule("pick", union((written, left_out)))
        ended = {state: self._after(picked[state], can_end=choices.can_end(index, state)) for state in states}
        return picked, ended

    def _tail(
        self, states: list[MemberState]
    ) -> tuple[dict[MemberState, Expr | None], dict[MemberState, Expr | None]]:
        """`pick` and `after` behind the last declared key."""
        first: dict[MemberState, Expr | None] = dict.fromkeys(states)
        if self.extra is None:
            return first, {s: self._after(None, can_end=s.num_members >= self.low) for s in states}
        if not self.is_extra_single:
            return {s: self._first(s.num_members) for s in states}, {
                s: self._further(s.num_members) for s in states
            }
        for state in states:
            can_end = state.num_members + 1 >= self.low
            last = concat(self.extra, self._after(None, can_end=can_end))
            first[state] = None if self._is_over(state.num_members + 1) else last
        return first, {s: self._after(first[s], can_end=s.num_members >= self.low) for s in states}

    def _is_over(self, count: int) -> bool:
        return self.high is not None and count > self.high

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
