"""Lowering of members under undeclared keys.

With `patternProperties`, the value's schema depends on which patterns the key matches. So the keys are
divided into classes, one for each set of patterns that a key can match at once, and each class is lowered by
itself.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from jsonschema_rs import CanonicalSchema, canonical

from compiler.errors import UnsupportedSchema
from compiler.frontend.source_map import SchemaLocation
from compiler.grammar.grammar import Expr, Rule, choice, concat, union
from compiler.guard.path_state_builder import OtherKeyStep
from compiler.lowering.constraints import Context, FailingMember, ObjectConstraint, intersection, strings_of
from compiler.lowering.lowering import Lowering
from compiler.regular.language import TooManyOverlaps, overlaps
from compiler.scalars.string_constraint import StringConstraint

MAX_CLASSES = 40
"""The most sets of patterns that one key may match."""
_NOTED_AT = (
    "uniqueItems",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "properties",
    "type",
)
"""The keywords of which the first that a schema has gets the note on a single undeclared key."""
_NAMING = ("propertyNames", "patternProperties", "additionalProperties", "properties")
"""The keywords of which the first that a schema has gets the note on keys that are left out."""


def note_single(lowering: Lowering, location: SchemaLocation) -> None:
    """Note that objects at a location, which a guard compares, have at most one undeclared key."""
    note = (
        "where items must be distinct, an object has at most one undeclared key:"
        " declare its keys in properties to have more of them"
    )
    lowering.reporter.note_first_narrowed(location, _NOTED_AT, note)


@dataclass(frozen=True)
class UndeclaredMember:
    """The text of a member under an undeclared key; there are at least `num_keys` such keys."""

    text: Expr
    num_keys: float


@dataclass(frozen=True)
class UndeclaredLowering:
    """A member being lowered whose key is not among `keys`, and which is `failing` if given.

    `with_mark` adds to a key the mark that may stand after it.
    """

    lowering: Lowering
    constraint: ObjectConstraint
    context: Context
    keys: list[str]
    with_mark: Callable[[Expr], Expr]
    failing: FailingMember | None = None

    def lower(self) -> UndeclaredMember | None:
        """The member's texts; None if there is none.

        A class of keys that cannot be lowered is left out if another one can be. In closed objects, keys that
        match no pattern are left out beside those that do, unless the schema explicitly admits them.

        Raises:
            UnsupportedSchema: the patterns overlap in too many ways, or no class of keys can be lowered.
        """
        texts: list[Expr] = []
        refusals: list[UnsupportedSchema] = []
        num_keys = 0.0
        for matched in self._classes():
            if not matched and texts and num_keys >= self._num_needed:
                self._note_others_left_out()
                continue
            key_schema = self._key_schema(matched)
            try:
                key = self._key(key_schema)
            except UnsupportedSchema as refusal:
                if self._value(matched) is not None:
                    refusals.append(refusal)
                continue
            if key is None:
                continue  # before its values are planned for: there are none in this class
            text = concat(self.with_mark(key), self.lowering.after_key(self._value(matched)))
            if text is not None:
                texts.append(text)
                num_keys = max(num_keys, self.lowering.cardinality.at_least(key_schema))
        if refusals and not texts:
            raise refusals[0]
        self._note_left_out(refusals)
        return self._member(texts, num_keys) if texts else None

    def _classes(self) -> list[tuple[str, ...]]:
        """The sets of patterns that one key may match; the empty one is last if it may be left out."""
        patterns = tuple(self.constraint.pattern_properties)
        try:
            none, *others = overlaps(patterns, MAX_CLASSES)
            return [*others, none] if self._is_named_by(patterns) else [none, *others]
        except TooManyOverlaps as error:
            raise self.lowering.reporter.refusal(
                self.context.location,
                "patternProperties",
                f"one key can match its {len(patterns)} patterns in more than {MAX_CLASSES} combinations",
                "Use fewer patterns, or patterns that exclude one another.",
            ) from error

    def _is_named_by(self, patterns: tuple[str, ...]) -> bool:
        """Whether undeclared keys must match one of the patterns if they can.

        Where some are needed, and values under the patterns refer to schemas, these values might never end.
        """
        source_map, location = self.lowering.source_map, self.context.location
        if not self.lowering.is_closed or self.failing is not None or self.constraint.failing_members:
            return False
        if self._num_needed > 0 and source_map.refers_by_patterns(location):
            return False
        return source_map.names_keys_by(location, patterns)

    @property
    def _num_needed(self) -> int:
        """How many keys an object needs at least besides the required ones."""
        return self.constraint.min_properties - len(self.constraint.required)

    def _key_schema(self, matched: tuple[str, ...]) -> CanonicalSchema:
        """The keys that match exactly the patterns `matched`."""
        others = [pattern for pattern in self.constraint.pattern_properties if pattern not in matched]
        schema = self.lowering.form_of(
            {
                "type": "string",
                "allOf": [
                    *({"pattern": pattern} for pattern in matched),
                    *({"not": {"pattern": pattern}} for pattern in others),
                    *([{"not": {"enum": self.keys}}] if self.keys else []),
                    {},  # allOf must not be empty
                ],
            }
        )
        if self.constraint.property_names is not None:
            schema = schema.intersect(self.constraint.property_names)
        return schema if self.failing is None else schema.intersect(self.failing.key)

    def _key(self, schema: CanonicalSchema) -> Expr | None:
        """The keys, in quotes, that a schema admits; None if there is none.

        Raises:
            UnsupportedSchema: the schema cannot be resolved to strings.
        """
        lowering = self.lowering
        options: list[Expr | None] = []
        context = replace(self.context, location=lowering.source_map.names(self.context.location))
        lowering.reporter.vouch_for(context.location)
        for strings in strings_of(schema, lambda inner: lowering.expand(inner, context.location)):
            if isinstance(strings, StringConstraint):
                options.append(lowering.string(strings, context, is_key=True))
            else:
                options += map(lowering.formatting.text, strings)
        return union(options)

    def _value(self, matched: tuple[str, ...]) -> Expr | None:
        """The values under the keys of a class; None if there is none."""
        matching = [self.constraint.pattern_properties[pattern] for pattern in matched]
        schema = intersection(*matching) if matching else self.constraint.additional_properties
        if self.failing is not None:
            schema = intersection(schema, self.failing.value)
        location = self.lowering.source_map.undeclared(self.context.location, matched)
        return self.lowering.inner_value(schema, self.context, location, OtherKeyStep())

    def _member(self, texts: list[Expr], num_keys: float) -> UndeclaredMember:
        """The member with these texts, one for each class; the largest class has `num_keys` keys at least."""
        has_all_classes = len(texts) == 2 ** len(self.constraint.pattern_properties)
        is_any = self.constraint.property_names is None and self.failing is None and has_all_classes
        if not is_any:
            self.lowering.planner.note_can_run_out(self.context.state)
        self.lowering.planner.repeats_keys = True
        text = self.lowering.rules.define("undeclared", Rule(choice(*texts)))
        return UndeclaredMember(text, math.inf if is_any else num_keys)

    def _note_others_left_out(self) -> None:
        """Note that keys which match no pattern are left out, unless the schema admits none."""
        needed = (self._key_schema(()), self.constraint.additional_properties)
        is_admitted = (s is None or s.satisfiability() != canonical.Satisfiability.NO for s in needed)
        if all(is_admitted):
            self._note_narrowed("undeclared keys that match no pattern never")

    def _note_left_out(self, refusals: list[UnsupportedSchema]) -> None:
        for refusal in refusals:
            self._note_narrowed(f"some undeclared keys never: {refusal.reason}")

    def _note_narrowed(self, note: str) -> None:
        self.lowering.reporter.note_first_narrowed(self.context.location, _NAMING, note)
