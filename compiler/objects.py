"""Lowering of objects: declared keys in their order, then undeclared ones where they are admitted.

Shape, decided by measurement (EVIDENCE: 30 optional properties): one flat rule where something is required
and runs of optional keys are short, one rule per suffix of the keys otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import combinations, groupby
from typing import TYPE_CHECKING

import jsonschema_rs
from jsonschema_rs import CanonicalSchema, canonical

from compiler.errors import UnsupportedSchema
from compiler.grammar import EMPTY, Expr, Literal, Rule, choice, optional, sequence
from compiler.report import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compiler.lowering import Lowering
    from compiler.outline import Site
    from compiler.views import ObjectConstraint

MAX_STATES = 4_000
MAX_PATTERNS = 4
LONGEST_FLAT_RUN = 10


@dataclass(frozen=True)
class Member:
    """A declared key with its value, as text without separators."""

    text: Expr
    is_required: bool


def lower_object(lowering: Lowering, constraint: ObjectConstraint, site: Site) -> Expr | None:
    """The JSON texts of the objects admitted at a place; None if there is none.

    Raises:
        UnsupportedSchema: a constraint needs more than a context-free grammar of bounded size.
    """
    if constraint.has_violations:
        raise UnsupportedSchema(
            site.pointer,
            "not",
            "demands that some key or value fails a schema",
            "State what is allowed instead.",
        )
    keys, is_open = _keys(lowering, constraint, site)
    members = _members(lowering, constraint, site, keys)
    if members is None:
        return None
    extra = _undeclared(lowering, constraint, site, keys) if is_open else None
    _note(lowering, site, num_keys=len(members), is_open=extra is not None)
    return _Shape(lowering, constraint, site, members, extra).lower()


def _keys(lowering: Lowering, constraint: ObjectConstraint, site: Site) -> tuple[list[str], bool]:
    """The declared keys in order of generation, and whether undeclared ones may follow."""
    declared = lowering.outline.declared(site)
    known = {*constraint.properties, *constraint.required}
    names = constraint.property_names
    finite = _finite_names(names)
    if finite is not None:
        known = finite
    is_open = finite is None and not (lowering.is_closed and not lowering.outline.is_map(site))
    order = [key for key in declared if finite is None or key in finite]
    order += sorted(known.difference(order))
    if names is not None and finite is None:
        order = [key for key in order if lowering.admits(names, key)]
        if not set(constraint.required) <= set(order):
            raise UnsupportedSchema(
                site.pointer, "propertyNames", "a required key is not known to be admitted"
            )
    return order, is_open


def _finite_names(names: CanonicalSchema | None) -> set[str] | None:
    match names.view() if names is not None else None:
        case canonical.ConstView(value):
            return {str(value)}
        case canonical.EnumView(values):
            return set(map(str, values))
        case canonical.FalseView():
            return set()
        case _:
            return None


def _members(
    lowering: Lowering, constraint: ObjectConstraint, site: Site, keys: list[str]
) -> list[Member] | None:
    """The members of the declared keys; None if a required one admits no value."""
    members = []
    for key in keys:
        schema = _value_schema(constraint, key)
        place = lowering.outline.property(site, key)
        value = lowering.any_value() if schema is None else lowering.value(schema, place)
        is_required = key in constraint.required
        if value is not None:
            text = sequence(lowering.text(key), lowering.style.colon, value)
            members.append(Member(text, is_required))
        elif is_required:
            return None
    if not set(constraint.required) <= set(keys):
        return None
    return members


def _value_schema(constraint: ObjectConstraint, key: str) -> CanonicalSchema | None:
    """What the value under `key` must satisfy: canonical properties hold their patterns already."""
    if key in constraint.properties:
        return constraint.properties[key]
    matching = [
        schema
        for pattern, schema in constraint.pattern_properties.items()
        if jsonschema_rs.is_valid({"pattern": pattern}, key)
    ]
    return reduce(CanonicalSchema.intersect, matching) if matching else constraint.additional_properties


def _undeclared(lowering: Lowering, constraint: ObjectConstraint, site: Site, keys: list[str]) -> Expr | None:
    """A member under an undeclared key: per set of patterns it matches, the schemas of these together."""
    patterns = constraint.pattern_properties
    if len(patterns) > MAX_PATTERNS:
        raise UnsupportedSchema(
            site.pointer,
            "patternProperties",
            f"{len(patterns)} patterns can overlap in too many ways",
            f"Use at most {MAX_PATTERNS}.",
        )
    options = []
    for matched in _subsets(tuple(patterns)):
        schemas = [patterns[pattern] for pattern in matched]
        schema = reduce(CanonicalSchema.intersect, schemas) if schemas else constraint.additional_properties
        place = lowering.outline.undeclared(site, matched)
        value = lowering.any_value() if schema is None else lowering.value(schema, place)
        key = (
            lowering.key(_key_schema(lowering, constraint, keys, matched), site)
            if value is not None
            else None
        )
        if key is not None and value is not None:
            options.append(sequence(key, lowering.style.colon, value))
    return lowering.rules.define("undeclared", Rule(choice(*options))) if options else None


def _subsets(patterns: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for size in range(len(patterns) + 1):
        yield from combinations(patterns, size)


def _key_schema(
    lowering: Lowering, constraint: ObjectConstraint, keys: list[str], matched: tuple[str, ...]
) -> CanonicalSchema:
    """Keys that are none of `keys` and match exactly the patterns `matched`."""
    others = [pattern for pattern in constraint.pattern_properties if pattern not in matched]
    schema = lowering.simple(
        {
            "type": "string",
            "allOf": [
                *({"pattern": pattern} for pattern in matched),
                *({"not": {"pattern": pattern}} for pattern in others),
                *([{"not": {"enum": keys}}] if keys else []),
                {},
            ],
        }
    )
    return schema if constraint.property_names is None else schema.intersect(constraint.property_names)


def _note(lowering: Lowering, site: Site, *, num_keys: int, is_open: bool) -> None:
    notes = []
    if num_keys > 1:
        notes.append("keys in their declared order")
    if lowering.is_closed and not lowering.outline.is_map(site):
        notes.append("undeclared keys never")
    elif is_open and num_keys:
        notes.append("undeclared keys after the declared ones")
    if notes:
        lowering.reporter.note(site, "properties", Verdict.NARROWED, "; ".join(notes))


class _Shape:
    """The rules of one object: which member may follow which, with what separators."""

    def __init__(
        self,
        lowering: Lowering,
        constraint: ObjectConstraint,
        site: Site,
        members: list[Member],
        extra: Expr | None,
    ) -> None:
        self.lowering = lowering
        self.site = site
        self.members = members
        self.extra = extra
        num_required = sum(member.is_required for member in members)
        most = constraint.max_properties
        self.low = constraint.min_properties if constraint.min_properties > num_required else 0
        self.high = most if most is not None and (extra is not None or most < len(members)) else None
        if extra is not None and self.low > max(1, len(members)):
            raise UnsupportedSchema(
                site.pointer, "minProperties", "counts undeclared keys, which may repeat", "Declare the keys."
            )

    def lower(self) -> Expr | None:
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
        parts += [optional(sequence(member.text, comma)) for member in self.members[:first]]
        parts.append(self.members[first].text)
        for member in self.members[first + 1 :]:
            text = sequence(comma, member.text)
            parts.append(text if member.is_required else optional(text))
        return sequence(*parts, self._more(0) or EMPTY, Literal("}"))

    def _more(self, _count: int) -> Expr | None:
        """Any number of undeclared members, each after a comma."""
        if self.extra is None:
            return None
        ref = self.lowering.rules.reserve("more")
        more = sequence(self.lowering.style.comma, self.extra, ref)
        self.lowering.rules.fill(ref, Rule(optional(more)))
        return ref

    def _suffixes(self) -> Expr | None:
        """One rule per suffix of the keys and number of members so far.

        `after[c]` continues behind a member, `pick[c]` names the next one, where `c` members are written.
        """
        top = self._top()
        if (top + 1) * (len(self.members) + 1) > MAX_STATES:
            raise UnsupportedSchema(
                self.site.pointer,
                "maxProperties",
                "too many keys to count",
                "Drop the bound or declare fewer keys.",
            )
        pick, after = self._tail(top)
        for index in range(len(self.members) - 1, -1, -1):
            member = self.members[index]
            taken: list[Expr | None] = [
                None if self._is_over(c + 1) else _then(member.text, after[min(c + 1, top)])
                for c in range(top + 1)
            ]
            pick = [
                self._rule("pick", _either(taken[c], None if member.is_required else pick[c]))
                for c in range(top + 1)
            ]
            after = [self._after(pick[c], can_end=self._can_end(index, c)) for c in range(top + 1)]
        opening = Literal("{")
        body = _either(pick[0], Literal("}") if self._can_end(0, 0) else None)
        return None if body is None else sequence(opening, body)

    def _top(self) -> int:
        """Counts above this one are alike."""
        if self.high is not None:
            return max(self.high, self.low)
        return self.low

    def _is_over(self, count: int) -> bool:
        return self.high is not None and count > self.high

    def _can_end(self, index: int, count: int) -> bool:
        return count >= self.low and not any(member.is_required for member in self.members[index:])

    def _tail(self, top: int) -> tuple[list[Expr | None], list[Expr | None]]:
        """`pick` and `after` behind the last declared key.

        Undeclared keys may repeat, so all of them together count as one toward the lower bound.
        """
        if self.extra is None:
            return [None] * (top + 1), [self._after(None, can_end=c >= self.low) for c in range(top + 1)]
        if self.high is None:
            more = sequence(self._more(0) or EMPTY, Literal("}"))
            pick: list[Expr | None] = [
                sequence(self.extra, more) if c + 1 >= self.low else None for c in range(top + 1)
            ]
            return pick, [self._after(pick[c], can_end=c >= self.low) for c in range(top + 1)]
        comma = self.lowering.style.comma
        rest: Expr = Literal("}")
        runs: list[Expr] = [rest]
        for _ in range(self.high):
            rest = self.lowering.rules.define(
                "more", Rule(choice(sequence(comma, self.extra, rest), Literal("}")))
            )
            runs.append(rest)
        pick = [
            sequence(self.extra, runs[self.high - c - 1]) if c < self.high and c + 1 >= self.low else None
            for c in range(top + 1)
        ]
        return pick, [self._after(pick[c], can_end=c >= self.low) for c in range(top + 1)]

    def _after(self, pick: Expr | None, *, can_end: bool) -> Expr | None:
        following = None if pick is None else sequence(self.lowering.style.comma, pick)
        return self._rule("after", _either(following, Literal("}") if can_end else None))

    def _rule(self, hint: str, body: Expr | None) -> Expr | None:
        return (
            body
            if body is None or isinstance(body, Literal)
            else self.lowering.rules.define(hint, Rule(body))
        )


def _is_required(member: Member) -> bool:
    return member.is_required


def _then(first: Expr, rest: Expr | None) -> Expr | None:
    return None if rest is None else sequence(first, rest)


def _either(first: Expr | None, second: Expr | None) -> Expr | None:
    live = [option for option in (first, second) if option is not None]
    return choice(*live) if live else None
