"""Lowering: the canonical views of a schema become the rules of a grammar.

Every sentence of the grammar is the JSON text of a value that the schema admits. A canonical form holds no
negation, no intersection and no condition, except where a reference is involved. So every view is lowered by
itself (`compiler.lowering.constraints`). A form that stayed symbolic because of a reference is expanded step
by step into such views, or refused. Where a view is narrowed, sentences are only ever left out.

A schema that admits nothing lowers to None, and the choices that contain it leave it out.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from jsonschema_rs import CanonicalSchema, canonical

from compiler.errors import UnsupportedKeyword, UnsupportedSchema
from compiler.frontend.dependent_keys import NO_DEPENDENCIES, DependentKeys
from compiler.frontend.depth import too_deep
from compiler.frontend.dialect_dependent import DIALECTS, INTEGER_TYPE
from compiler.frontend.expansion import Expander, simple
from compiler.frontend.keywords import NUMBERS, child
from compiler.frontend.large_numbers import LargeNumbers
from compiler.frontend.reporter import Reporter
from compiler.frontend.source_map import SchemaLocation, SourceMap
from compiler.grammar.grammar import Choice, Concatenation, Expr, Grammar, Rule, RuleRef, union
from compiler.grammar.joining import joined as joined_rules
from compiler.grammar.passes import prune, with_single_parts
from compiler.grammar.rules import RuleTable
from compiler.guard.planner import Ambiguities, PathStep, Planner
from compiler.lowering.alike_objects import PlacedObject, joined
from compiler.lowering.any_order import KeyOrders
from compiler.lowering.arrays import lower_array
from compiler.lowering.cardinality import Cardinality
from compiler.lowering.constraints import (
    Context,
    ObjectConstraint,
    array_constraint,
    integer_constraint,
    joinable,
    may_stem_from,
    number_constraint,
    object_constraint,
    string_constraint,
    strings_only,
)
from compiler.lowering.json_text import JsonFormatting, lower_enum
from compiler.lowering.objects import lower_object
from compiler.lowering.unconstrained import CONTAINERS_AND_NUMBERS, TYPES, Unconstrained
from compiler.lowering.violations import lower_with_violations
from compiler.report import Verdict
from compiler.scalars.numbers import (
    IntegerConstraint,
    NumberConstraint,
    lower_integer,
    lower_number,
    without_doubles,
)
from compiler.scalars.string_constraint import StringConstraint
from compiler.scalars.strings import LoweredString, lower_string
from toolspecs.tool import KeyOrder

MAX_VALUES = 20_000
"""Distinct pairs of a schema and a location that one schema may expand into."""
_NO_AMBIGUITIES = Ambiguities()
_WRITE_OUT = "Write the combined schema out."
_KNOWN_DIALECTS = f"Leave it out for 2020-12, or use one of {', '.join(DIALECTS)}."
_NOT_EXPANDED = "combines a recursive reference with other constraints in a way that cannot be resolved"


class _ValueKey(NamedTuple):
    """Everything that the rules of a value depend on."""

    schema: CanonicalSchema
    location: SchemaLocation
    is_root: bool
    is_distinct: bool
    dependent_keys: DependentKeys


class Lowering:
    """One schema being lowered. `is_closed` leaves undeclared keys out wherever keys are declared.

    A guard counts long strings and tells the keys of open objects apart, except where `ambiguities` says that
    rules must. `key_order` is wanted for declared keys wherever it can be kept. An `expander` of the same
    schema still knows what it expanded.
    """

    def __init__(
        self,
        schema: CanonicalSchema,
        source_map: SourceMap,
        dependent_keys: DependentKeys = NO_DEPENDENCIES,
        *,
        is_closed: bool,
        formatting: JsonFormatting,
        ambiguities: Ambiguities = _NO_AMBIGUITIES,
        key_order: KeyOrder = "declared",
        expander: Expander | None = None,
    ) -> None:
        self.schema = schema
        self.source_map = source_map
        self.is_closed = is_closed
        self.formatting = formatting
        self.ambiguities = ambiguities
        self.guards_lengths = not ambiguities.counted
        """No string is counted by rules because a guard could not tell it from others."""
        self.key_orders = KeyOrders(key_order)
        self.rules = RuleTable()
        self.unconstrained = Unconstrained(self)
        references = source_map.references
        self.large_numbers = LargeNumbers.of((references.document, *references.documents.values()))
        self._expander = expander or Expander(schema)
        self.cardinality = Cardinality(self._expander, self.large_numbers)
        self.reporter = Reporter(source_map, schema.draft)
        self.planner = Planner()
        self.root = Context(
            source_map.root, self.planner.new_state(), is_root=True, dependent_keys=dependent_keys
        )
        """The context of the whole text."""
        self._done: dict[_ValueKey, Expr | None] = {}
        self._open: dict[_ValueKey, RuleRef | None] = {}
        """The values that are being lowered; the ones that contain themselves have the name of their rule."""
        self._first_empty: str | None = None
        """The pointer of the first schema that admits values none of which can be written."""
        self._strings: dict[tuple[StringConstraint, frozenset[tuple[str, bool]]], LoweredString | None] = {}
        self._states: dict[_ValueKey, int] = {}
        """The states of the guards' plan."""

    def grammar(self, lower: Callable[[], Expr | None] | None = None) -> Grammar:
        """The grammar of the whole schema, or of the expression that `lower` returns if that is given.

        Raises:
            UnsupportedSchema: a keyword cannot be upheld, or nothing satisfies the schema.
            AmbiguousPaths: rules must tell more apart than `ambiguities` says.
        """
        try:
            body = lower() if lower else self.value(self.schema, self.root)
        except RecursionError:
            raise too_deep() from None
        if body is not None:
            plan = self.planner.plan(self.root.state)
            # Written out in the root rule, so that xgrammar precomputes masks up to its very end.
            root = self.rules.rules[body.name] if isinstance(body, RuleRef) else Rule(body)
            if (grammar := prune(self.rules.grammar(root, plan))) is not None:
                return with_single_parts(joined_rules(grammar), self.rules.parts)
        reason = "admits values, but none that can be written"
        suggestion = "Admit more values, or use other keywords for the same."
        raise UnsupportedSchema(self._first_empty or "", "", reason, suggestion)

    def can_go_on(self, found: Ambiguities) -> bool:
        """Whether `go_on` tells apart what a guard cannot: only keys that are marked beside objects."""
        return not (found.counted or found.separated or self.key_orders.is_any_wanted)

    def go_on(self, found: Ambiguities) -> None:
        """Let the next `grammar` tell apart what a guard cannot.

        It makes only those values anew that contain an object which is written in another way for that; all
        others stay as they were made, with their rules, their states and what was reported.
        """
        assert self.can_go_on(found)
        self.ambiguities |= found
        stale = self.planner.forget(found.marked_beside)
        self.root = replace(self.root, state=self.planner.new_state())
        for key in [key for key, state in self._states.items() if state in stale]:
            del self._states[key], self._done[key]

    def value(self, schema: CanonicalSchema, context: Context, step: PathStep = None) -> Expr | None:
        """The JSON texts of the values that a schema admits; None if there is none.

        `context.state` is the state of the container, from which `step` leads to the value, or of the union
        of which the value is a branch. Every value is lowered once; inside itself it is a reference to its
        rule.
        """
        written_at = context.location
        context = self._referred(schema, context)
        location = context.location
        key = _ValueKey(schema, location, context.is_root, context.is_distinct, context.dependent_keys)
        if key not in self._states:
            self._states[key] = self.planner.new_state(location.pointer)
        self.planner.link(context.state, step, [self._states[key]])
        if key in self._done:
            return self._done[key]
        if key in self._open:
            self._open[key] = self._open[key] or self.rules.reserve(_hint(location))
            return self._open[key]
        if len(self._done) >= MAX_VALUES:
            reason = f"expands into more than {MAX_VALUES} distinct parts"
            raise UnsupportedSchema(location.pointer, "", reason, "Combine fewer alternatives.")
        self._open[key] = None
        try:
            body = self._lower(schema, replace(context, state=self._states[key]))
        except canonical.CanonicalizationError as error:
            reason = f"combines schemas in a way that cannot be resolved: {error}"
            raise UnsupportedSchema(location.pointer, "", reason, _WRITE_OUT) from error
        is_first_empty = body is None and self._first_empty is None
        if is_first_empty and schema.satisfiability() != canonical.Satisfiability.NO:
            self._first_empty = location.pointer
        self._done[key] = self._named(body, self._open.pop(key), location)
        self.reporter.lowered(location)
        self.reporter.lowered(written_at)
        return self._done[key]

    def _referred(self, schema: CanonicalSchema, context: Context) -> Context:
        """The context, in which values of a reference have one location wherever it is written.

        Where items must be distinct, all alternatives of an item keep their location: equal objects must have
        their keys in one order.
        """
        match schema.view():
            case canonical.ReferenceView(uri) if not (context.is_root or context.is_distinct):
                return replace(context, location=self.source_map.referred(context.location, uri))
        return context

    def part(
        self, schema: CanonicalSchema | None, context: Context, location: SchemaLocation, step: PathStep
    ) -> Expr | None:
        """The values of a member or an item of the value of `context`; a schema of None admits any value."""
        inner = context.inside(location, step)
        if schema is not None:
            return self.value(schema, inner, step)
        if inner.dependent_keys == NO_DEPENDENCIES:
            self.unconstrained.note(location if self._is_open(location) else context.location)
            self.reporter.lowered(location)
            return self.unconstrained.value(context, step)
        return self.value(self.simple({}), inner, step)

    def _is_open(self, location: SchemaLocation) -> bool:
        """Whether a schema of a location admits values inside which nothing is constrained."""
        return bool(self.source_map.concerned(location, CONTAINERS_AND_NUMBERS))

    def _named(self, body: Expr | None, ref: RuleRef | None, location: SchemaLocation) -> Expr | None:
        """A reference to the rule of `body` if it has one already or is a choice or concatenation."""
        if ref is not None:
            self.rules.fill(ref, Rule(ref if body is None else body))
            return ref
        if isinstance(body, Choice | Concatenation):
            return self.rules.define(_hint(location), Rule(body))
        return body

    def _lower(  # noqa: C901, PLR0911 - one case per canonical view
        self, schema: CanonicalSchema, context: Context
    ) -> Expr | None:
        match schema.view():
            case canonical.FalseView():
                return None
            case canonical.TrueView():
                return self._of_types(TYPES, context)
            case canonical.MultiTypeView(types):
                return self._of_types(types, context)
            case canonical.ConstView(value):
                return self._listed([value], context)
            case canonical.EnumView(values):
                return self._listed(values, context)
            case canonical.StringView() as view:
                return self.string(string_constraint(view, schema.draft), context)
            case canonical.IntegerView() as view:
                may_exclude = self.large_numbers.are_excluded
                return self.number(integer_constraint(view, may_exclude=may_exclude), context)
            case canonical.NumberView() as view:
                may_exclude = self.large_numbers.are_excluded
                return self.number(number_constraint(view, may_exclude=may_exclude), context)
            case canonical.ArrayView() as view:
                return lower_array(self, array_constraint(view), context)
            case canonical.ObjectView() as view:
                return self._object(object_constraint(view), context)
            case canonical.AnyOfView(branches):
                return self._any_of(branches, context)
            case _:
                return self._any_of(self.expand(schema, context.location), context)

    def _of_types(self, types: Iterable[str], context: Context) -> Expr | None:
        """Any value of the types."""
        has_own_rules = context.dependent_keys != NO_DEPENDENCIES
        return union(
            [
                self._object(ObjectConstraint(), context)
                if name == "object" and has_own_rules
                else self.unconstrained.of_type(name, context)
                for name in types
            ]
        )

    def _listed(self, values: list[Any], context: Context) -> Expr | None:
        return lower_enum(self, list(filter(context.dependent_keys.admits, values)), context)

    def _any_of(self, schemas: Iterable[CanonicalSchema], context: Context) -> Expr | None:
        objects, others = self._joined_objects(list(schemas), context)
        parts = [part for group in joinable(others) for part in self._alternatives(group, context)]
        for constraint, location in objects:
            state = self.planner.new_state(location.pointer)
            self.planner.link(context.state, None, [state])
            parts.append(lower_object(self, constraint, replace(context, location=location, state=state)))
        return union(parts)

    def _joined_objects(
        self, schemas: list[CanonicalSchema], context: Context
    ) -> tuple[list[PlacedObject], list[CanonicalSchema]]:
        """Objects that some alternatives are together, and the other alternatives."""
        placed = {
            index: self._placed(object_constraint(view), context)
            for index, schema in enumerate(schemas)
            if isinstance(view := schema.view(), canonical.ObjectView)
        }
        if len(placed) < 2 or self.key_orders.is_any_wanted:
            return [], schemas
        objects, rest = joined(self, list(placed.values()))
        others = [s for i, s in enumerate(schemas) if i not in placed or any(placed[i] is r for r in rest)]
        return objects, others

    def _alternatives(self, group: list[CanonicalSchema], context: Context) -> list[Expr | None]:
        """The values of some schemas; those of several strings are one automaton if it is not too large.

        A guard could not tell their automata apart, and rules of each would be as many times as large.
        """
        if len(group) > 1:
            strings = [constraint for constraint in map(strings_only, group) if constraint is not None]
            with suppress(UnsupportedSchema):
                joined = self.string(StringConstraint.any_of(strings), context)
                for each in strings:
                    self.reporter.note_all(context.location, each.conditions()[1], ("string",), each.values)
                return [joined]
        return [self.value(schema, context) for schema in group]

    def expand(self, schema: CanonicalSchema, location: SchemaLocation) -> list[CanonicalSchema]:
        """A form that stayed symbolic because of a reference, expanded by one step, as a union of schemas.

        Raises:
            UnsupportedSchema: the form cannot be expanded.
        """
        match schema.view():
            case canonical.RawView(reason=canonical.RawReason.UNKNOWN_DIALECT, pointer=pointer):
                reason = "names an unknown dialect"
                raise UnsupportedSchema(child(pointer or "", "$schema"), "$schema", reason, _KNOWN_DIALECTS)
            case canonical.RawView(reason=reason, pointer=pointer):
                why = f"its combination of keywords cannot be resolved ({reason})"
                raise UnsupportedSchema(pointer or location.pointer, "", why, _WRITE_OUT)
        try:
            cases, is_narrowed = self._expander.expand(schema)
        except canonical.CanonicalizationError as error:
            raise self.reporter.refusal(location, "$ref", f"{_NOT_EXPANDED}: {error}", _WRITE_OUT) from error
        if cases == [schema] or (not cases and is_narrowed):
            raise self.reporter.refusal(location, "$ref", _NOT_EXPANDED, _WRITE_OUT)
        if is_narrowed:
            note = "only values that are known to fail the schemas which must fail"
            self.reporter.note(location, "oneOf", Verdict.NARROWED, note)
        return cases

    def _object(self, constraint: ObjectConstraint, context: Context) -> Expr | None:
        constraint, location = self._placed(constraint, context)
        lower = lower_with_violations if constraint.violations else lower_object
        return lower(self, constraint, replace(context, location=location))

    def _placed(self, constraint: ObjectConstraint, context: Context) -> PlacedObject:
        location = context.location
        if not context.is_distinct:  # where it is, equal objects must have their keys in one order
            location = self.source_map.reordered(location, may_stem_from(constraint))
        return PlacedObject(replace(constraint, dependent_keys=context.dependent_keys), location)

    def string(self, constraint: StringConstraint, context: Context, *, is_key: bool = False) -> Expr | None:
        """The admitted strings, or with `is_key` the admitted keys of an object; None if there is none."""
        is_counted = context.location.pointer in self.ambiguities.counted
        is_guarded = not (is_key or is_counted) and (constraint.has_only_lengths or not context.is_distinct)
        in_container = is_key or not context.is_root
        try:
            lowered = self._string(
                constraint,
                in_container=in_container,
                is_key=is_key,
                is_guarded=is_guarded,
                is_distinct=context.is_distinct,
            )
        except UnsupportedKeyword as refusal:
            raise self.reporter.refusal_of(context.location, refusal) from refusal
        if lowered is None:
            return None
        notes = lowered.notes
        if is_key:
            notes = tuple((keyword, verdict, f"keys: {note}") for keyword, verdict, note in notes)
        self.reporter.note_all(context.location, notes, ("string",), constraint.values)
        if not is_key:
            self.planner.mark_string(context.state, lowered.bound, is_plain=lowered.is_plain)
        return lowered.expr

    def _string(self, constraint: StringConstraint, **options: bool) -> LoweredString | None:
        """Equal constraints are lowered once; the options are those of `lower_string`."""
        key = constraint, frozenset(options.items())
        if key not in self._strings:
            self._strings[key] = lower_string(constraint, self.rules, **options)
        return self._strings[key]

    def number(self, constraint: IntegerConstraint | NumberConstraint, context: Context) -> Expr | None:
        """The admitted numbers that validators do not confuse with one another; None if there is none."""
        parts = without_doubles(constraint, self.large_numbers.confused)
        return union([self._number(part, context) for part in parts])

    def _number(self, constraint: IntegerConstraint | NumberConstraint, context: Context) -> Expr | None:
        try:
            if isinstance(constraint, IntegerConstraint):
                types: tuple[str, ...] = ("integer",)
                lowered = lower_integer(constraint, self.rules, is_unique=context.is_distinct)
            else:
                types = NUMBERS  # it may have absorbed integers
                lowered = lower_number(constraint, self.rules, is_unique=context.is_distinct)
        except UnsupportedKeyword as refusal:
            raise self.reporter.refusal_of(context.location, refusal) from refusal
        if lowered is None:
            return None
        self.reporter.note_all(context.location, lowered.notes, types, constraint.values)
        return lowered.expr

    def can_list(self, value: Any, context: Context) -> bool:
        """Whether all validators agree that a listed value is admitted, as it is written here."""
        has_only_digits = context.is_distinct or self.schema.draft == INTEGER_TYPE
        return self.large_numbers.can_be_listed(value, has_only_digits=has_only_digits)

    def simple(self, document: Any) -> CanonicalSchema:
        """The canonical form of a schema that the lowering itself needs, in the draft of the document."""
        return simple(document, self.schema.draft)

    def admits(self, schema: CanonicalSchema, value: Any) -> bool:
        """Whether a schema is known to admit a value."""
        return schema.covers(self.simple({"enum": [value]})) == canonical.Containment.YES


def _hint(location: SchemaLocation) -> str:
    """A rule name that a reader recognises: the last two words of the pointer.

    `/properties/tags/items` gives `tags`.
    """
    words = [
        word for word in location.pointer.split("/") if word and word not in ("properties", "items", "$defs")
    ]
    return "_".join(words[-2:]) or "value"
