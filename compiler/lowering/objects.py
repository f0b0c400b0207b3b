"""Lowering of objects: which keys there are, and what each value must satisfy.

`compiler.lowering.member_rules` makes the rules of the members.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

import jsonschema_rs
from jsonschema_rs import CanonicalSchema, canonical

from compiler.frontend.source_map import SchemaLocation
from compiler.grammar.grammar import EMPTY, Expr, Literal, choice, concat, optional, union
from compiler.guard.path_state_builder import KeyStep
from compiler.lowering.any_order import ChosenOrder
from compiler.lowering.cardinality import finite_names
from compiler.lowering.constraints import Context, FailingMember, ObjectConstraint, intersection
from compiler.lowering.lowering import Lowering
from compiler.lowering.member_choices import Member, live_members
from compiler.lowering.member_rules import MemberRules
from compiler.lowering.undeclared import UndeclaredLowering
from compiler.vocabulary import KEY_MARK

_MARK = optional(Literal(KEY_MARK))
"""It may be left out, so that a mask has the tokens that go on after a marked key.

An object reads marks after keys that are marked in another object at the same place, too: there the guard
cannot know which of them is being written. One that declares no keys reads them after every key.
"""
_NO_KEYS = frozenset[str]()
_MAX_MARKED_BESIDE = 10
"""How many keys that other objects at the same place mark the rules of an object may always spell."""
_DECLARING = ("properties", "required", "dependentRequired", "dependentSchemas", "dependencies")
"""The keywords that name keys; the first of these that a schema has gets the report's note on their order."""
_MAX_LISTED = 10


class ObjectLowering:
    """One object being lowered; `keys` are declared, and others may follow if `is_open`.

    Raises:
        UnsupportedSchema: `required` lists a key that `propertyNames` might forbid.
    """

    def __init__(self, lowering: Lowering, constraint: ObjectConstraint, context: Context) -> None:
        self.lowering = lowering
        self.constraint = constraint
        self.context = context
        self.location = context.location
        self.keys, self.is_open = declared_keys(lowering, constraint, context.location)

    def lower(self) -> Expr | None:
        """The JSON texts of the admitted objects; None if there is none.

        Raises:
            UnsupportedSchema: a constraint needs more than a context-free grammar of bounded size.
        """
        order = self._order()  # before the objects inside this one choose theirs
        decisive = self._decisive_texts()
        members = live_members(self._member_texts(), self.constraint, decisive)
        if members is None:
            return None
        spelled = [*self.keys, *self._left_out()]
        for failing in self.constraint.failing_members:
            member = self._undeclared(spelled, failing).lower()
            if member is None:
                return None
            members.append(Member(None, member.text, is_required=True))
        extra = self._undeclared([] if self.is_guarded else spelled).lower() if self.is_open else None
        self._plan(is_open=extra is not None)
        self._note(order, num_keys=len(members), is_open=extra is not None)
        if extra is not None:  # a failing member takes one of the undeclared keys
            extra = replace(extra, num_keys=extra.num_keys - len(self.constraint.failing_members))
        rules = MemberRules(self.lowering, self.constraint, self.context, members, extra)
        return rules.lower_in_any_order() if order.is_any else rules.lower()

    def _order(self) -> ChosenOrder:
        """In which order the declared keys come."""
        if self.context.is_distinct:
            return self.lowering.key_orders.declared("equal items need one text")
        if self.constraint.failing_members or self.constraint.decisive:
            return self.lowering.key_orders.declared("some member has to fail a schema")
        return self.lowering.key_orders.choose(len(self.keys))

    @cached_property
    def is_guarded(self) -> bool:
        """Whether a guard tells undeclared keys from declared ones, so that an undeclared key is any string.

        For this the optional keys are marked. A required key needs no mark: it is there before any undeclared
        key, so the guard keeps it from repeating. Rules tell the keys apart where there are other conditions
        on undeclared ones, where equal objects must have one text, and where that takes fewer rules than to
        spell the keys that are marked in other objects.
        """
        constraint, additional = self.constraint, self.constraint.additional_properties
        return (
            self.is_open
            and constraint.property_names is None
            and not constraint.pattern_properties
            and not constraint.failing_members
            and not self.context.is_distinct
            and (additional is None or additional.satisfiability() != canonical.Satisfiability.NO)
            and self._pointer not in self.lowering.ambiguities.separated
            and len(self.marked_beside.difference(self.keys)) <= max(len(self.keys), _MAX_MARKED_BESIDE)
        )

    @cached_property
    def marked_keys(self) -> frozenset[str]:
        """The keys that a guard must mark in this object."""
        return frozenset(self.keys).difference(self.constraint.required) if self.is_guarded else _NO_KEYS

    @cached_property
    def marked_beside(self) -> frozenset[str]:
        """The keys that are marked in other objects at the same place."""
        return self.lowering.ambiguities.marked_beside.get(self._pointer, _NO_KEYS)

    @cached_property
    def readable_keys(self) -> frozenset[str]:
        """The keys after which the rules read a mark."""
        return self.marked_keys | self.marked_beside

    @property
    def _pointer(self) -> str:
        return self.lowering.planner.pointer_of(self.context.state)

    def _member_texts(self) -> Iterator[tuple[str, Expr | None]]:
        """The declared keys, each with its text and that of its value; None if it admits no value."""
        for key in self.keys:
            yield key, self._member_text(value_schema(self.constraint, key), key)

    def _decisive_texts(self) -> Mapping[str, Expr]:
        """The texts of decisive members by key, where there are any."""
        texts = {
            key: union(self._member_text(schema, key) for schema in schemas)
            for key, schemas in self.constraint.decisive.items()
        }
        return {key: text for key, text in texts.items() if text is not None}

    def _member_text(self, schema: CanonicalSchema | None, key: str) -> Expr | None:
        """A key and its values; None if there are none."""
        location = self.lowering.source_map.property(self.location, key)
        value = self.lowering.inner_value(schema, self.context, location, KeyStep(key))
        mark = _MARK if key in self.readable_keys else EMPTY
        return concat(self.lowering.formatting.text(key), mark, self.lowering.after_key(value))

    def _left_out(self) -> list[str]:
        """Keys that the schema names, but that `propertyNames` may forbid: they are never written.

        They must not be written as undeclared keys either, because the schemas for undeclared keys do not
        apply to them.
        """
        constraint = self.constraint
        if constraint.property_names is None:
            return []
        known = {*constraint.properties, *constraint.decisive, *constraint.dependent_keys.names}
        left_out = sorted(known.difference(self.keys))
        if left_out:
            note = f"keys that it may not admit are never written: {', '.join(left_out[:_MAX_LISTED])}"
            self.lowering.reporter.note_narrowed(self.location, "propertyNames", note)
        return left_out

    def _undeclared(self, spelled: list[str], failing: FailingMember | None = None) -> UndeclaredLowering:
        """The lowering of a member whose key is not among `spelled`, and which is `failing` if given."""
        return UndeclaredLowering(
            self.lowering, self.constraint, self.context, spelled, self._with_mark, failing=failing
        )

    def _with_mark(self, key: Expr) -> Expr:
        """An undeclared key and, where another object has a mark after the same key, the mark."""
        if self.keys and self.is_guarded:
            others = sorted(self.marked_beside.difference(self.keys))
            beside = union(concat(self.lowering.formatting.text(other), _MARK) for other in others)
            return key if beside is None else choice(key, beside)
        return concat(key, _MARK) if self.readable_keys or not self.keys else key

    def _plan(self, *, is_open: bool) -> None:
        """Plan what a guard must mark here; `is_open`: there can be undeclared keys."""
        readable = self.readable_keys if self.keys else None
        self.lowering.planner.note_object(
            self.context.state, self.keys, self.marked_keys, readable, is_open=is_open
        )

    def _note(self, order: ChosenOrder, *, num_keys: int, is_open: bool) -> None:
        """Report how the order of the keys, and which of them, are narrower than the schema says."""
        has_others = is_open and num_keys > 0
        is_declared = set(self.keys) <= set(self.lowering.source_map.mentioned(self.location))
        notes = []
        if num_keys + has_others > 1 and not is_declared and not order.is_any:
            notes.append(_listed(self.keys, has_others=has_others) + order.because)
        elif num_keys > 1 and not order.is_any:
            notes.append("keys in their declared order" + order.because)
        if self.lowering.is_closed and not self.lowering.source_map.is_map(self.location):
            notes.append("undeclared keys never")
        elif has_others and (is_declared or order.is_any):
            notes.append("undeclared keys after the declared ones")
        for note in notes:
            self.lowering.reporter.note_first_narrowed(self.location, _DECLARING, note)


def declared_keys(
    lowering: Lowering, constraint: ObjectConstraint, location: SchemaLocation
) -> tuple[list[str], bool]:
    """The declared keys in the order in which they are written, and whether undeclared ones may follow."""
    declared = lowering.source_map.declared(location)
    known = {*constraint.properties, *constraint.required, *constraint.dependent_keys.names}
    known |= constraint.decisive.keys()
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
                "might forbid a key that `required` lists",
                "List the admitted keys by `enum`, or remove the key from `required`.",
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


def _listed(keys: list[str], *, has_others: bool) -> str:
    """The note on the order of keys that no keyword declares."""
    order = ", ".join([*keys[:_MAX_LISTED], *(["…"] if len(keys) > _MAX_LISTED else [])])
    return f"keys in this order: {order}" + (", then others" if has_others else "")
