"""Lowering of a call's arguments as tagged parameters: strings as raw text, every other value as JSON.

Unless the tag itself says it, a client knows only from the tool's schema whether a value is a string or JSON.
So a parameter that admits strings and other types must not get a string that reads as JSON of these types: a
nullable string is never the text `null`. The types of a parameter are the union over all alternatives of the
arguments, because a client cannot know which alternative the model chose.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from jsonschema_rs import CanonicalSchema, canonical

from compiler.errors import UnsupportedSchema
from compiler.frontend.source_map import SchemaLocation
from compiler.grammar.grammar import EMPTY, Choice, Expr, Literal, Rule, concat, union
from compiler.guard.path_state_builder import KeyStep
from compiler.guard.plan import GuardedTags
from compiler.lowering.any_order import ChosenOrder, lower_in_any_order
from compiler.lowering.constraints import ObjectConstraint, object_constraint, strings_of
from compiler.lowering.lowering import Lowering
from compiler.lowering.member_choices import (
    MemberBounds,
    MemberChoices,
    MemberState,
    choose_order,
    count_bounds,
    live_members,
)
from compiler.lowering.objects import declared_keys, value_schema
from compiler.lowering.unconstrained import VALUE_TYPES
from compiler.scalars.string_constraint import StringConstraint
from compiler.scalars.unquoted_strings import lower_raw_literal, lower_raw_string
from compiler.syntax import Syntax
from compiler.tagged_values import STRING, admits_containers, is_json, json_patterns, possible_types
from compiler.vocabulary import Vocabulary

_NOT_IN_TAGS = re.compile(r"[\x00-\x20<>\"]")


@dataclass(frozen=True)
class ParameterTags:
    """The tags of a syntax, marker tokens as sentinels (`Vocabulary.spell`).

    `forbidden`: the tags as plain text, which a raw string must not contain.
    """

    begin: str
    after_key: str
    after_string_key: str
    end: str
    forbidden: tuple[str, ...]
    tells_strings: bool


def parameter_tags(syntax: Syntax, vocabulary: Vocabulary) -> ParameterTags | None:
    """The tags of a syntax; None if its arguments are JSON."""
    if syntax.tags is None:
        return None
    tags, spell = syntax.tags, vocabulary.spell
    after_string_key = tags.after_key if tags.after_string_key is None else tags.after_string_key
    return ParameterTags(
        begin=spell(tags.begin),
        after_key=spell(tags.after_key),
        after_string_key=spell(after_string_key),
        end=spell(tags.end),
        forbidden=syntax.tag_texts,
        tells_strings=tags.tells_strings,
    )


class TaggedArguments:
    """The arguments of one tool; `lower` sets `types`, the JSON types of each parameter."""

    def __init__(self, lowering: Lowering, tags: ParameterTags) -> None:
        self.types: Mapping[str, tuple[str, ...]] = {}
        self._lowering = lowering
        self._tags = tags

    def lower(self) -> Expr | None:
        """Every parameter in its tags; None if no arguments are admitted.

        Raises:
            UnsupportedSchema: a key cannot stand in a tag, or a keyword cannot be enforced.
        """
        location = self._lowering.root.location
        needed = self._lowering.root.dependent_keys
        constraints = list(self._alternatives(self._lowering.schema, location))
        constraints = [replace(constraint, dependent_keys=needed) for constraint in constraints]
        alternatives = [(one, declared_keys(self._lowering, one, location)[0]) for one in constraints]
        self.types = self._types_of(alternatives)
        self._lowering.planner.tags = self._guarded_tags()
        self._lowering.reporter.vouch_for(location)
        orders = [self._lowering.key_orders.choose(len(keys)) for _, keys in alternatives]
        self._note(location, next((order for order in orders if not order.is_any), None))
        arguments = union(
            [
                self._object(constraint, keys, order)
                for (constraint, keys), order in zip(alternatives, orders, strict=True)
            ]
        )
        if arguments is None and any(one.min_properties > len(keys) for one, keys in alternatives):
            why = "demands undeclared keys, which this call syntax cannot write"
            raise self._lowering.reporter.refusal(
                location, "minProperties", why, "Declare them in `properties`."
            )
        return arguments

    def _types_of(
        self, alternatives: Iterable[tuple[ObjectConstraint, Iterable[str]]]
    ) -> Mapping[str, tuple[str, ...]]:
        """The JSON types that any of the alternatives admits for each declared key."""
        types: dict[str, set[str]] = {}
        for constraint, keys in alternatives:
            for key in keys:
                types.setdefault(key, set()).update(self._admitted_types(value_schema(constraint, key)))
        return {
            key: tuple(name for name in VALUE_TYPES if name in admitted) for key, admitted in types.items()
        }

    def _alternatives(self, schema: CanonicalSchema, location: SchemaLocation) -> Iterator[ObjectConstraint]:
        """The object constraints of which the arguments must satisfy one."""
        pending, seen = [schema], set[CanonicalSchema]()
        while pending:
            schema = pending.pop(0)
            if schema in seen:
                continue
            seen.add(schema)
            match schema.view():
                case canonical.FalseView():
                    pass
                case canonical.ObjectView() as view:
                    yield object_constraint(view)
                case canonical.MultiTypeView():
                    yield ObjectConstraint()
                case canonical.AnyOfView(branches):
                    pending += branches
                case canonical.ConstView(value):
                    yield self._exactly(value)
                case canonical.EnumView(values):
                    yield from map(self._exactly, values)
                case _:
                    pending += self._lowering.expand(schema, location)

    def _exactly(self, value: Any) -> ObjectConstraint:
        """The constraint that only this object satisfies."""
        parts = {key: self._lowering.form_of({"enum": [part]}) for key, part in value.items()}
        names = self._lowering.form_of({"enum": list(parts)} if parts else {"not": {}})
        return ObjectConstraint(required=tuple(parts), properties=parts, property_names=names)

    def _admitted_types(self, schema: CanonicalSchema | None) -> list[str]:
        if schema is None:
            return list(VALUE_TYPES)
        no = canonical.Satisfiability.NO
        return [name for name in VALUE_TYPES if self._of_types(schema, (name,)).satisfiability() != no]

    def _of_types(self, schema: CanonicalSchema | None, types: tuple[str, ...]) -> CanonicalSchema:
        """The values of some types that a schema admits."""
        only = self._lowering.form_of({"type": list(types)})
        return only if schema is None else schema.intersect(only)

    def _object(self, constraint: ObjectConstraint, keys: list[str], order: ChosenOrder) -> Expr | None:
        if constraint.violations:
            why = "demands that some key or value fails a schema"
            location = self._lowering.root.location
            raise self._lowering.reporter.refusal(location, "not", why, "Say what is allowed instead.")
        parameters = [(key, self._parameter(constraint, key)) for key in keys]
        members = live_members(parameters, constraint)
        if members is None:
            return None
        low, high = count_bounds(constraint, members, is_open=False)
        bounds = MemberBounds(low, high, top=max(low, high or 0))
        if order.is_any:
            choices = MemberChoices(members, constraint.dependent_keys, bounds)
            return lower_in_any_order(choices, self._lowering.rules, partial(self._after_parameters, bounds))
        location = self._lowering.root.location
        return self._in_order(choose_order(self._lowering.reporter, location, members, constraint, bounds))

    def _after_parameters(
        self, bounds: MemberBounds, num_written: int, following: Expr | None, *, is_complete: bool
    ) -> Expr | None:
        """What stands after some parameters: another one, or nothing."""
        if bounds.high is not None and num_written > bounds.high:
            return None
        can_end = is_complete and num_written >= bounds.low
        return self._either(following, EMPTY if can_end else None)

    def _in_order(self, choices: MemberChoices) -> Expr | None:
        """The parameters in order, optional ones left out or not; None if their number is never admitted.

        There is one rule per parameter and state before it.
        """
        levels, end = choices.levels, len(choices.members)
        assert levels is not None, "too many of them are refused"
        rest: dict[MemberState, Expr | None] = {
            state: EMPTY if choices.can_end(end, state) else None for state in levels[end]
        }
        for index in range(end - 1, -1, -1):
            following, rest = rest, {}
            for state in levels[index]:
                taken, skipped = choices.taken(index, state), choices.skipped(index, state)
                written = None if taken is None else concat(choices.members[index].text, following[taken])
                rest[state] = self._either(written, None if skipped is None else following[skipped])
        return rest[choices.start]

    def _either(self, taken: Expr | None, left: Expr | None) -> Expr | None:
        """Any of the two; a choice has a rule of its own, so that what stands before it can refer to it."""
        either = union((taken, left))
        if not isinstance(either, Choice):
            return either
        return self._lowering.rules.define("parameters", Rule(either))

    def _parameter(self, constraint: ObjectConstraint, key: str) -> Expr | None:
        """One parameter in its tags."""
        root = self._lowering.root
        location = self._lowering.source_map.property(root.location, key)
        if not key or _NOT_IN_TAGS.search(key):
            why = f"the key {key!r} cannot be written in a tag"
            suggestion = 'Rename it, without blanks and without any of <>".'
            raise UnsupportedSchema(location.pointer or root.location.pointer, "properties", why, suggestion)
        tags, schema = self._tags, value_schema(constraint, key)
        types = self.types[key]
        others = possible_types(types, is_string=False)
        text = value = None
        self._lowering.reporter.vouch_for(location)
        if STRING in types:
            strings = schema if not others else self._of_types(schema, (STRING,))
            read_as = possible_types(types, is_string=True) if tags.tells_strings else types
            text = self._text(strings, location, read_as)
        if others:
            schema = schema if STRING not in types and schema else self._of_types(schema, others)
            value = self._lowering.inner_value(schema, root, location, KeyStep(key))
        either = (
            concat(Literal(tags.after_string_key), text),
            concat(Literal(tags.after_key), value, Literal(tags.end)),
        )
        return concat(Literal(tags.begin + key), union(either))

    def _text(
        self, schema: CanonicalSchema | None, location: SchemaLocation, types: tuple[str, ...]
    ) -> Expr | None:
        """The strings of a schema as raw text up to the end tag; none reads as JSON under `types`."""
        if schema is None:
            return self._string(StringConstraint(), location, types)
        alternatives = strings_of(schema, lambda inner: self._lowering.expand(inner, location))
        return union(
            [
                self._string(strings, location, types)
                if isinstance(strings, StringConstraint)
                else self._literals(strings, location, types)
                for strings in alternatives
            ]
        )

    def _string(
        self, constraint: StringConstraint, location: SchemaLocation, types: tuple[str, ...]
    ) -> Expr | None:
        tags, misread = self._tags, json_patterns(types)
        constraint = replace(constraint, excluded_patterns=(*constraint.excluded_patterns, *misread))
        with self._lowering.reporter.refusing_at(location):
            lowered = lower_raw_string(constraint, self._lowering.rules, close=tags.end, tags=tags.forbidden)
        if lowered is None:
            return None
        self._lowering.reporter.note_all(location, lowered.notes, ("string",), constraint.values)
        if misread:
            note = "no string that reads as another type"
            self._lowering.reporter.note_narrowed(location, "type", note, types=("string",))
        return lowered.expr

    def _literals(self, values: list[str], location: SchemaLocation, types: tuple[str, ...]) -> Expr | None:
        tags = self._tags
        readable = [value for value in values if not is_json(types, value)]
        texts = [lower_raw_literal(value, close=tags.end, tags=tags.forbidden) for value in readable]
        live = [text for text in texts if text is not None]
        if len(live) < len(values):
            note = "without texts that read as a tag or as another type"
            self._lowering.reporter.note_narrowed(location, "enum", note)
        return union(live)

    def _guarded_tags(self) -> GuardedTags:
        types = {key: types for key, types in self.types.items() if admits_containers(types)}
        tags = self._tags
        texts = (tags.begin, tags.after_key, tags.after_string_key, tags.end)
        begin, after_key, after_string_key, end = (text.encode() for text in texts)
        return GuardedTags(begin, after_key, after_string_key, end, types)

    def _note(self, location: SchemaLocation, declared: ChosenOrder | None) -> None:
        """The note on the parameters; `declared` is the first order of theirs that is not any order."""
        notes = (
            [f"keys in their declared order{declared.because}"] if declared and len(self.types) > 1 else []
        )
        self._lowering.reporter.note_narrowed(
            location, "properties", "; ".join([*notes, "undeclared keys never"])
        )
