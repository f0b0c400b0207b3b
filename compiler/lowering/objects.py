"""Lowering of objects: which keys there are, and what each value must satisfy.

`compiler.lowering.member_rules` makes the rules of the members.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import jsonschema_rs
from jsonschema_rs import CanonicalSchema, canonical

from compiler.frontend.source_map import SchemaLocation
from compiler.grammar.grammar import EMPTY, Expr, Literal, choice, concat, optional, union
from compiler.guard.path_state_builder import KeyStep
from compiler.lowering.any_order import ChosenOrder
from compiler.lowering.cardinality import finite_names
from compiler.lowering.constraints import Context, ObjectConstraint, intersection
from compiler.lowering.lowering import Lowering
from compiler.lowering.member_choices import Member, live_members
from compiler.lowering.member_rules import MemberRules
from compiler.lowering.undeclared import lower_undeclared
from compiler.report import Verdict
from compiler.vocabulary import KEY_MARK

_MARK = optional(Literal(KEY_MARK))
"""It may be left out, so that a mask has the tokens that go on after a marked key.

An object reads marks after keys that are marked in another object at the same place, too: there the guard
cannot know which of them is being written. One that declares no keys reads them after every key.
"""
_NO_KEYS = frozenset[str]()
_MOST_MARKED_BESIDE = 10
"""How many keys that other objects at the same place mark the rules of an object may always spell."""
_DECLARING = ("properties", "required", "dependentRequired", "dependentSchemas", "dependencies")
"""The keywords that name keys; the first of these that a schema has gets the report's note on their order."""
_MOST_LISTED = 10


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
    texts = _member_texts(lowering, constraint, context, keys, readable)
    decisive = _decisive_texts(lowering, constraint, context, readable)
    members = live_members(texts, constraint, decisive)
    if members is None:
        return None
    spelled = [*keys, *_left_out(lowering, constraint, context.location, keys)]
    told_apart = [] if is_guarded else spelled

    def with_mark(key: Expr) -> Expr:
        """An undeclared key and, where another object has a mark after the same key, the mark."""
        if keys and is_guarded:
            texts = map(lowering.formatting.text, sorted(marked_beside.difference(keys)))
            beside = union(concat(text, _MARK) for text in texts)
            return key if beside is None else choice(key, beside)
        return concat(key, _MARK) if readable or not keys else key

    for failing in constraint.failing_members:
        member = lower_undeclared(lowering, constraint, context, spelled, with_mark, failing=failing)
        if member is None:
            return None
        members.append(Member(None, member.text, is_required=True))
    extra = lower_undeclared(lowering, constraint, context, told_apart, with_mark) if is_open else None
    reads = readable if keys else None
    lowering.planner.mark_object(context.state, keys, marked, reads, is_open=extra is not None)
    _note(lowering, context.location, keys, order, num_keys=len(members), is_open=extra is not None)
    if extra is not None:  # a failing member takes one of the undeclared keys
        extra = replace(extra, num_keys=extra.num_keys - len(constraint.failing_members))
    rules = MemberRules(lowering, constraint, context, members, extra)
    return rules.lower_in_any_order() if order.is_any else rules.lower()


def _order(lowering: Lowering, constraint: ObjectConstraint, context: Context, num_keys: int) -> ChosenOrder:
    """In which order the declared keys of an object come."""
    if context.is_distinct:
        return lowering.key_orders.declared("equal items need one text")
    if constraint.failing_members or constraint.decisive:
        return lowering.key_orders.declared("some member has to fail a schema")
    return lowering.key_orders.choose(num_keys)


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


def _left_out(
    lowering: Lowering, constraint: ObjectConstraint, location: SchemaLocation, keys: list[str]
) -> list[str]:
    """Keys of which the object says something, and which it has not since its names may not admit them.

    They are no undeclared keys: what is said of them does not hold for these.
    """
    if constraint.property_names is None:
        return []
    known = {*constraint.properties, *constraint.decisive, *constraint.dependent_keys.names}
    left_out = sorted(known.difference(keys))
    if left_out:
        note = f"keys that it may not admit are never written: {', '.join(left_out[:_MOST_LISTED])}"
        lowering.reporter.note(location, "propertyNames", Verdict.NARROWED, note)
    return left_out


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


def _member_texts(
    lowering: Lowering,
    constraint: ObjectConstraint,
    context: Context,
    keys: list[str],
    readable: frozenset[str],
) -> Iterator[tuple[str, Expr | None]]:
    """The declared keys, each with its text and that of its value; None if it admits no value."""
    for key in keys:
        yield key, _member_text(lowering, value_schema(constraint, key), context, key, readable)


def _decisive_texts(
    lowering: Lowering, constraint: ObjectConstraint, context: Context, readable: frozenset[str]
) -> Mapping[str, Expr]:
    """The texts of decisive members by key, where there are any."""
    texts = {
        key: union(_member_text(lowering, schema, context, key, readable) for schema in schemas)
        for key, schemas in constraint.decisive.items()
    }
    return {key: text for key, text in texts.items() if text is not None}


def _member_text(
    lowering: Lowering, schema: CanonicalSchema | None, context: Context, key: str, readable: frozenset[str]
) -> Expr | None:
    """A key and its values; None if there are none."""
    location = lowering.source_map.property(context.location, key)
    value = lowering.inner_value(schema, context, location, KeyStep(key))
    mark = _MARK if key in readable else EMPTY
    return concat(lowering.formatting.text(key), mark, lowering.formatting.key_separator, value)


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
