"""Conditions on one key, written as the union of its cases.

`allOf` of many `if`/`then` usually asks the same key for one of its values, a *discriminator*:

    {"allOf": [{"if": {"properties": {"kind": {"const": "a"}}, "required": ["kind"]}, "then": A},
               {"if": {"properties": {"kind": {"const": "b"}}, "required": ["kind"]}, "then": B}]}

Canonicalization makes `not if or then` of each, and multiplies these out: n conditions become 2**n schemas.
But the value of `kind` decides all conditions at once, so there are n cases, and one for all other instances:

    {"allOf": [{}, {}, {"oneOf": [{"allOf": [G("a"), A]}, {"allOf": [G("b"), B]}, G("another, or none")]}]}

`G` describes the *group* of instances that belong to a case.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jsonschema_rs
from jsonschema_rs import CanonicalSchema, canonical

from compiler.frontend.dialect_dependent import has_other_dialects
from compiler.frontend.keywords import (
    IN_PLACE_LISTS,
    STRUCTURE,
    UNEVALUATED,
    inside,
    is_definition,
    listed_values,
    references_of,
    transformed,
    without,
)
from compiler.frontend.symbolic_forms import form_of
from toolspecs.json_value import objects_in
from toolspecs.schemas.drafts import FIRST_WITH_IF, LAST_WITH_REF_ALONE

MAX_CHARS = 1_000_000
"""The most characters of the cases that one schema may become; with more it stays as it is."""
_CONDITION = frozenset({"if", "then", "else"})
_UNMOVABLE = frozenset({"$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"})
"""Keywords that give a schema a name, which only one place of a document may have."""
_MAX_INTEGER = 2**53


def with_cases(document: Any, draft: int, references: Iterable[str] = ()) -> Any:
    """The document with conditions on a common key written as cases; itself if there are none.

    `references`: all that refer to the document, and to others. The same instances are valid before and
    after, and the same items and properties are evaluated:

    - The groups divide all instances: not an object, an object without the key, with one of the values that
      conditions ask for, with another value. So exactly one case of the `oneOf` applies to an instance.
    - Within a case a condition is replaced only if canonicalization proves that its `if` admits all instances
      of the group, or none. Then it asserts `if` and `then`, or `else`, and evaluates what these evaluate.
      A condition that is not decided stays as it is.
    - The schema of a group stands under two negations, so it evaluates nothing.
    - Conditions are moved only from a schema and from members of its `allOf`, all of which apply to the same
      instance. A member with `unevaluated*` keeps its conditions, since it does not see what others evaluate.
    - A schema with `unevaluated*` is copied into each of its cases. For the instances of a case, the copy
      evaluates what the schema and that case evaluate together, as before.
    - Nothing with a name is moved or copied, nor is anything that a reference by pointer leads into. Members
      of `allOf` keep their places. A document with parts in other dialects stays as it is.
    """
    if draft < FIRST_WITH_IF or not isinstance(document, dict):
        return document
    if not any("if" in schema for schema in inside(document)):
        return document
    fragments = [uri.partition("#")[2] for uri in references]
    is_referred_to = any(not _CONDITION.isdisjoint(fragment.split("/")) for fragment in fragments)
    if is_referred_to or has_other_dialects(document):
        return document
    can_copy = all(not fragment or is_definition(fragment) for fragment in fragments)
    changed = transformed(document, partial(_in_cases, draft=draft, can_copy=can_copy))
    return document if changed == document else changed


def _in_cases(schema: dict[str, Any], *, draft: int, can_copy: bool) -> dict[str, Any]:
    """A schema with its own conditions as cases; those of its subschemas are cases already.

    `can_copy`: no reference leads into the document, but for its definitions, so that parts may be copied.
    """
    rest, conditions = _take_conditions(schema, draft)
    if len(conditions) < 2:
        return schema
    copied = without(rest, STRUCTURE)
    is_copied = can_copy and bool(rest.keys() & UNEVALUATED) and _is_unnamed(copied)
    try:
        written = _Cases(draft, len(json.dumps(copied)) if is_copied else 0).of(conditions, frozenset())
    except (_TooLarge, jsonschema_rs.ValidationError, canonical.CanonicalizationError):
        return schema
    if not is_copied or "oneOf" not in written[0]:
        return {**rest, "allOf": [*rest.get("allOf", []), *written]}
    cases = [
        {**copied, "allOf": [*rest.get("allOf", []), case, *written[1:]]} for case in written[0]["oneOf"]
    ]
    return {**{keyword: rest[keyword] for keyword in rest if keyword in STRUCTURE}, "oneOf": cases}


def references_in(documents: Iterable[Any]) -> frozenset[str]:
    """Everything that the documents refer to."""
    parts = (part for document in documents for part in objects_in(document))
    return frozenset(uri for part in parts for _, uri in references_of(part))


class _TooLarge(Exception):
    """The cases have more than `MAX_CHARS` characters."""


@dataclass(frozen=True)
class _Condition:
    """`if` with its `then` and `else`."""

    schema: dict[str, Any]
    draft: int

    @cached_property
    def hints(self) -> dict[str, list[Any]]:
        """Values that `if` may ask for, by key. They only say which cases are tried."""
        values_by_key: dict[str, list[Any]] = {}
        for part in _in_place(self.schema["if"]):
            properties = part.get("properties")
            for key, value in properties.items() if isinstance(properties, dict) else ():
                scalars = [*_listed_scalars(value)]
                if scalars:
                    values_by_key.setdefault(key, []).extend(scalars)
        return values_by_key

    @cached_property
    def test(self) -> CanonicalSchema:
        return form_of(self.schema["if"], self.draft)

    def truth(self, group: CanonicalSchema) -> bool | None:
        """Whether all instances of a group pass `if`, or none; None if neither is proved."""
        if self.test.covers(group) == canonical.Containment.YES:
            return True
        is_apart = self.test.intersect(group).satisfiability() == canonical.Satisfiability.NO
        return False if is_apart else None

    def decided(self, *, truth: bool) -> list[Any]:
        """What the condition asserts and evaluates if its `if` is known to pass or to fail."""
        keywords = ("if", "then") if truth else ("else",)
        return [self.schema[keyword] for keyword in keywords if keyword in self.schema]


class _Cases:
    """Writes the conditions of one schema as cases, while there is room."""

    def __init__(self, draft: int, num_copied: int) -> None:
        self._draft = draft
        self._num_copied = num_copied
        self._num_chars = 0

    def of(self, conditions: list[_Condition], done: frozenset[str]) -> list[Any]:
        """Schemas that together say what the conditions say; the keys `done` divide the instances already."""
        key = _most_common_key(conditions, done)
        if key is None:
            return [self._counted(condition.schema) for condition in conditions]
        asking = [condition for condition in conditions if key in condition.hints]
        others = [condition for condition in conditions if key not in condition.hints]
        groups: dict[tuple[bool | None, ...], list[_InstanceGroup]] = {}
        for group in _instance_groups(key, asking):
            form = form_of(group.schema, self._draft)
            self._count(self._num_copied)
            groups.setdefault(tuple(condition.truth(form) for condition in asking), []).append(group)
        cases = [
            {"allOf": [_union_of(key, alike), *self._case(asking, truths, done | {key})]}
            for truths, alike in groups.items()
        ]
        return [{"oneOf": cases}, *self.of(others, done | {key})]

    def _case(
        self, conditions: list[_Condition], truths: tuple[bool | None, ...], done: frozenset[str]
    ) -> Iterator[Any]:
        undecided = []
        for condition, truth in zip(conditions, truths, strict=True):
            if truth is None:
                undecided.append(condition)
            else:
                yield from map(self._counted, condition.decided(truth=truth))
        yield from self.of(undecided, done)

    def _counted(self, schema: Any) -> Any:
        self._count(len(json.dumps(schema)))
        return schema

    def _count(self, num_chars: int) -> None:
        self._num_chars += num_chars
        if self._num_chars > MAX_CHARS:
            raise _TooLarge


@dataclass(frozen=True)
class _InstanceGroup:
    """A schema of some instances: those with one of `values` under the key.

    Without values, they lack the key, have another value than conditions ask for, or are no objects.
    """

    schema: Any
    values: tuple[Any, ...] = ()


def _instance_groups(key: str, conditions: list[_Condition]) -> Iterator[_InstanceGroup]:
    """Groups to exactly one of which every instance belongs."""
    values = _distinct(value for condition in conditions for value in condition.hints[key])
    yield from (_InstanceGroup(_having(key, {"enum": [value]}), (value,)) for value in values)
    yield _InstanceGroup(_having(key, {"not": {"enum": values}}))
    yield _InstanceGroup({"type": "object", "properties": {key: {"not": {}}}})
    yield _InstanceGroup({"not": {"type": "object"}})


def _having(key: str, value: Any) -> dict[str, Any]:
    return {"type": "object", "required": [key], "properties": {key: value}}


def _union_of(key: str, groups: list[_InstanceGroup]) -> Any:
    """A schema of the instances of all these groups, which evaluates nothing."""
    values = [value for group in groups for value in group.values]
    union = [_having(key, {"enum": values})] if values else []
    union += [group.schema for group in groups if not group.values]
    return {"not": {"not": union[0] if len(union) == 1 else {"anyOf": union}}}


def _most_common_key(conditions: list[_Condition], done: frozenset[str]) -> str | None:
    """The key that most conditions ask for, but at least two."""
    counts = Counter(key for condition in conditions for key in condition.hints if key not in done)
    key, count = next(iter(counts.most_common(1)), ("", 0))
    return key if count > 1 else None


def _take_conditions(schema: dict[str, Any], draft: int) -> tuple[dict[str, Any], list[_Condition]]:
    """The schema without the conditions that can be moved, and those conditions."""
    if draft <= LAST_WITH_REF_ALONE and "$ref" in schema:
        return schema, []
    conditions: list[_Condition] = []
    rest = schema
    if "if" in schema and _is_movable(condition := _Condition(_only(schema, _CONDITION), draft)):
        rest = without(schema, _CONDITION)
        conditions.append(condition)
    members = []
    for member in schema["allOf"] if isinstance(schema.get("allOf"), list) else ():
        if isinstance(member, dict) and not member.keys() & {*_UNMOVABLE, *UNEVALUATED}:
            member, inner_conditions = _take_conditions(member, draft)  # noqa: PLW2901 - without its conditions
            conditions += inner_conditions
        members.append(member)
    return ({**rest, "allOf": members} if members else rest), conditions


def _only(schema: Mapping[str, Any], keywords: Iterable[str]) -> dict[str, Any]:
    return {keyword: schema[keyword] for keyword in keywords if keyword in schema}


def _is_movable(condition: _Condition) -> bool:
    """Whether a condition asks for values of some key, refers to nothing, and has no named parts."""
    is_closed = not references_in([condition.schema["if"]])
    return is_closed and _is_unnamed(condition.schema) and bool(condition.hints)


def _is_unnamed(schema: dict[str, Any]) -> bool:
    return not any(part.keys() & _UNMOVABLE for part in inside(schema))


def _in_place(schema: Any) -> Iterator[dict[str, Any]]:
    """A schema and those inside it that apply to the same value."""
    if isinstance(schema, dict):
        yield schema
        lists = [schema[keyword] for keyword in IN_PLACE_LISTS if isinstance(schema.get(keyword), list)]
        for inner in (schema.get("not"), *(part for members in lists for part in members)):
            yield from _in_place(inner)


def _listed_scalars(schema: Any) -> Iterator[Any]:
    """The scalars in `const` and `enum` of a schema, also below a negation."""
    for part in _in_place(schema):
        yield from (value for _, value in listed_values(part) if _is_plain(value))


def _is_plain(value: Any) -> bool:
    """Whether all validators compare a value alike."""
    return (
        value is None
        or isinstance(value, str | bool)
        or (isinstance(value, int) and abs(value) < _MAX_INTEGER)
    )


def _distinct(values: Iterable[Any]) -> list[Any]:
    """The values without repetition; 1 is not true."""
    return list({(type(value), value): value for value in values}.values())
