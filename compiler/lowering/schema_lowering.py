"""Lowering of a schema: its canonical views become the rules of a grammar.

Every sentence of the grammar is the JSON text of a value that the schema admits. A canonical form holds no
negation, no intersection and no condition, except where a reference is involved. So every view is lowered by
itself (`compiler.lowering.constraints`). A form that stayed symbolic because of a reference is expanded step
by step into such views, or refused. Where a view is narrowed, sentences are only ever left out.

A schema that admits nothing lowers to None, and the choices that contain it leave it out.
"""

from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from jsonschema_rs import CanonicalSchema, canonical

from compiler.errors import UnsupportedSchema
from compiler.frontend.alike_locations import AlikeLocations
from compiler.frontend.dependent_keys import NO_DEPENDENCIES, DependentKeys
from compiler.frontend.depth import too_deep
from compiler.frontend.report_parts import ReportPart
from compiler.frontend.source_map import SchemaLocation
from compiler.grammar.grammar import Choice, Concatenation, Expr, Grammar, Rule, RuleRef, union
from compiler.grammar.joining import with_joined_rules
from compiler.grammar.passes import inline_single_uses, prune
from compiler.guard.ambiguities import Ambiguities
from compiler.guard.path_state_builder import PathStep
from compiler.lowering.absorbed_constants import without_absorbed
from compiler.lowering.arrays import lower_array
from compiler.lowering.constraints import (
    Context,
    ObjectConstraint,
    array_constraint,
    excluded_by_constants,
    integer_constraint,
    joinable,
    may_stem_from,
    number_constraint,
    object_constraint,
    string_constraint,
    strings_only,
)
from compiler.lowering.joined_alternatives import PlacedObject, join_alternatives
from compiler.lowering.listed_values import lower_listed
from compiler.lowering.lowering import WRITE_OUT, Lowering
from compiler.lowering.objects import ObjectLowering
from compiler.lowering.unconstrained import CONTAINERS_AND_NUMBERS, VALUE_TYPES, Unconstrained
from compiler.lowering.violations import lower_with_violations
from compiler.scalars.string_constraint import StringConstraint

MAX_VALUES = 20_000
"""Distinct pairs of a schema and a location that one schema may expand into."""


class _ValueKey(NamedTuple):
    """Everything that the rules of a value depend on; `place` is equal for locations that are alike."""

    schema: CanonicalSchema
    place: Hashable
    is_root: bool
    is_distinct: bool
    dependent_keys: DependentKeys


@dataclass(eq=False)
class _Value:
    """A value that is lowered, or that is being lowered while it `is_open`.

    The state of its `context` is its own in the guards' plan. `rule` is a rule that no other value shares: it
    has one if it contains itself, or if it may be lowered again.
    """

    schema: CanonicalSchema
    context: Context
    part: ReportPart
    expr: Expr | None = None
    rule: RuleRef | None = None
    is_open: bool = True


@dataclass(eq=False, repr=False)
class SchemaLowering(Lowering):
    """Lowers a whole schema: every value by its canonical view, and each value only once."""

    _values: dict[_ValueKey, _Value] = field(default_factory=dict, init=False)
    _first_empty: str | None = field(default=None, init=False)
    """The pointer of the first schema that admits values none of which can be written."""

    @cached_property
    def _alike_locations(self) -> AlikeLocations:
        return AlikeLocations(self.source_map)

    @cached_property
    def _unconstrained(self) -> Unconstrained:
        """The values that nothing constrains; all of the grammar shares their rules."""
        return Unconstrained(self)

    def grammar(self, lower: Callable[[], Expr | None] | None = None) -> Grammar:
        """The grammar of the whole schema, or of the expression that `lower` returns if that is given.

        Raises:
            UnsupportedSchema: a keyword cannot be enforced, or nothing satisfies the schema.
            AmbiguousPaths: rules must tell more apart than `ambiguities` says.
        """
        try:
            body = lower() if lower else self.value(self.schema, self.root)
        except RecursionError:
            raise too_deep() from None
        if body is not None:
            plan = self.planner.plan(self.root.state)
            self.report_kept_distinct()
            # Written out in the root rule, so that xgrammar precomputes masks up to its very end.
            root = self.rules.rules[body.name] if isinstance(body, RuleRef) else Rule(body)
            if (grammar := prune(self.rules.grammar(root, plan))) is not None:
                return inline_single_uses(with_joined_rules(grammar), self.rules.inlinable_names)
        reason = "admits values, but none that can be written"
        closed = ", such as undeclared keys by `additionalProperties: true`" if self.is_closed else ""
        suggestion = f"Admit more values{closed}, or use other keywords for the same."
        raise UnsupportedSchema(self._first_empty or "", "", reason, suggestion)

    def revise(self, ambiguities: Ambiguities) -> bool:
        """Let the next `grammar` tell apart what a guard cannot; False if only a new lowering can.

        The values that are concerned are lowered again. Since their rules have names that only they have,
        the values around them stay as they are.
        """
        self.ambiguities |= ambiguities
        if self.key_orders.is_any_wanted:  # it has given away the rules that any order may take
            return False
        stale = self.planner.forget(ambiguities)
        values = [value for value in self._values.values() if value.context.state in stale]
        return all(map(self._revised, values))

    def _revised(self, value: _Value) -> bool:
        """Lower a value again into its rule; False if it has none, and its text is another one now."""
        with self.reporter.again(value.part):
            body = self._lower(value.schema, value.context)
        if value.rule is None:
            return self._named(body, value.context.location) == value.expr
        self.rules.refill(value.rule, Rule(value.rule if body is None else body))
        return True

    def value(self, schema: CanonicalSchema, context: Context, step: PathStep = None) -> Expr | None:
        """The JSON texts of the values that a schema admits; None if there is none.

        `context.state` is the state of the container, from which `step` leads to the value, or of the union
        of which the value is a branch. Every value is lowered once for all locations that are alike; inside
        itself it is a reference to its rule.
        """
        written_at = context.location
        context = self._referred(schema, context)
        location = context.location
        place = self._alike_locations.form(location)
        key = _ValueKey(schema, place, context.is_root, context.is_distinct, context.dependent_keys)
        if (known := self._values.get(key)) is None:
            return self._new_value(key, context, written_at, step)
        self.planner.link(context.state, step, known.context.state)
        self.reporter.use(known.part, location)
        if not known.is_open:
            return known.expr
        known.rule = known.rule or self.rules.reserve(_hint(location))
        return known.rule

    def _new_value(
        self, key: _ValueKey, context: Context, written_at: SchemaLocation, step: PathStep
    ) -> Expr | None:
        """Lower a value for the first time."""
        schema, location = key.schema, context.location
        if len(self._values) >= MAX_VALUES:
            reason = f"expands into more than {MAX_VALUES} distinct parts"
            raise UnsupportedSchema(location.pointer, "", reason, "Combine fewer alternatives.")
        state = self.planner.new_state(location.pointer)
        self.planner.link(context.state, step, state)
        with self.reporter.part(location) as part:
            self._values[key] = value = _Value(schema, replace(context, state=state), part)
            try:
                body = self._lower(schema, value.context)
            except canonical.CanonicalizationError as error:
                reason = f"combines schemas in a way that cannot be resolved: {error}"
                raise UnsupportedSchema(location.pointer, "", reason, WRITE_OUT) from error
            self.reporter.vouch_for(location)
            self.reporter.vouch_for(written_at)
        self.reporter.use(part, location)
        is_first_empty = body is None and self._first_empty is None
        if is_first_empty and schema.satisfiability() != canonical.Satisfiability.NO:
            self._first_empty = location.pointer
        if isinstance(body, Choice | Concatenation) and self.planner.may_be_ambiguous(state):
            value.rule = value.rule or self.rules.reserve(_hint(location))
        if value.rule is not None:
            self.rules.fill(value.rule, Rule(value.rule if body is None else body))
        value.expr, value.is_open = value.rule or self._named(body, location), False
        return value.expr

    def _referred(self, schema: CanonicalSchema, context: Context) -> Context:
        """The context, in which values of a reference have one location wherever it is written.

        Where items must be distinct, all alternatives of an item keep their location: equal objects must have
        their keys in one order.
        """
        match schema.view():
            case canonical.ReferenceView(uri) if not (context.is_root or context.is_distinct):
                return replace(context, location=self.source_map.referred(context.location, uri))
        return context

    def inner_value(
        self, schema: CanonicalSchema | None, context: Context, location: SchemaLocation, step: PathStep
    ) -> Expr | None:
        """The values of a member or an item of the value of `context`; a schema of None admits any value."""
        inner = context.inside(location, step)
        if schema is not None:
            return self.value(schema, inner, step)
        if inner.dependent_keys == NO_DEPENDENCIES:
            self._unconstrained.note(location if self._is_open(location) else context.location)
            self.reporter.vouch_for(location)
            return self._unconstrained.value(context, step)
        return self.value(self.form_of({}), inner, step)

    def _is_open(self, location: SchemaLocation) -> bool:
        """Whether a schema of a location admits values inside which nothing is constrained."""
        return bool(self.source_map.concerned(location, CONTAINERS_AND_NUMBERS))

    def _named(self, body: Expr | None, location: SchemaLocation) -> Expr | None:
        """A reference to a rule of `body`, which equal values share, if it is a choice or concatenation."""
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
                return self._of_types(VALUE_TYPES, context)
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
                else self._unconstrained.of_type(name, context)
                for name in types
            ]
        )

    def _listed(self, values: list[Any], context: Context) -> Expr | None:
        return lower_listed(self, list(filter(context.dependent_keys.admits, values)), context)

    def _any_of(self, schemas: Iterable[CanonicalSchema], context: Context) -> Expr | None:
        alternatives = without_absorbed(list(schemas)) if self.is_closed else list(schemas)
        objects, others = self._joined_objects(alternatives, context)
        parts: list[Expr | None] = []
        for group in joinable(others):  # a comprehension would take a frame of each level of nesting
            parts += self._alternatives(group, context)
        for constraint, location in objects:
            state = self.planner.new_state(location.pointer)
            self.planner.link(context.state, None, state)
            inner = replace(context, location=location, state=state)
            parts.append(ObjectLowering(self, constraint, inner).lower())
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
        objects, rest = join_alternatives(self, list(placed.values()))
        others = [s for i, s in enumerate(schemas) if i not in placed or any(placed[i] is r for r in rest)]
        return objects, others

    def _alternatives(self, group: list[CanonicalSchema], context: Context) -> list[Expr | None]:
        """The values of some schemas; those of several strings are one automaton if it is not too large.

        A guard could not tell their automata apart, and rules of each would be as many times as large.
        """
        if len(group) == 1:
            return [self.value(group[0], context)]
        strings = [constraint for constraint in map(strings_only, group) if constraint is not None]
        with suppress(UnsupportedSchema):
            joined = self.string(StringConstraint.any_of(strings), context)
            for constraint in strings:
                notes = constraint.conditions()[1]
                self.reporter.note_all(context.location, notes, ("string",), constraint.values)
            return [joined]
        return [self.value(schema, context) for schema in group]

    def _object(self, constraint: ObjectConstraint, context: Context) -> Expr | None:
        constraint, location = self._placed(constraint, context)
        context = replace(context, location=location)
        if constraint.violations:
            return lower_with_violations(self, constraint, context)
        return ObjectLowering(self, constraint, context).lower()

    def _placed(self, constraint: ObjectConstraint, context: Context) -> PlacedObject:
        location = context.location
        if not context.is_distinct:  # where it is, equal objects must have their keys in one order
            location = self.source_map.reordered(location, may_stem_from(constraint, self.source_map))
            excludes = excluded_by_constants(constraint, self.source_map)
            location = self.source_map.without_excluded(location, excludes)
        return PlacedObject(replace(constraint, dependent_keys=context.dependent_keys), location)


def _hint(location: SchemaLocation) -> str:
    """A rule name that a reader recognises: the last two words of the pointer.

    `/properties/tags/items` gives `tags`.
    """
    words = [
        word for word in location.pointer.split("/") if word and word not in ("properties", "items", "$defs")
    ]
    return "_".join(words[-2:]) or "value"
