"""Lowering: the canonical views of a schema become the rules of a grammar.

Every sentence of what a schema lowers to is the text of a value that the schema admits. Canonical forms hold
no negation, no intersection and no condition but where a reference is involved, so every view lowers on its
own, from all that it says (`compiler.lowering.constraints`). What is left symbolic is expanded step by step
into views that do, or refused. What narrows a view only ever removes sentences.

A place that admits nothing lowers to None and disappears from the choices above it.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from jsonschema_rs import CanonicalSchema, canonical

from compiler.errors import UnsupportedKeyword, UnsupportedSchema
from compiler.frontend.depth import too_deep
from compiler.frontend.dialect_dependent import DIALECTS
from compiler.frontend.expansion import Expander, simple
from compiler.frontend.keywords import child
from compiler.frontend.reporter import Reporter
from compiler.frontend.source_map import SchemaLocation, SourceMap
from compiler.grammar.grammar import Choice, Concatenation, Expr, Grammar, Rule, RuleRef, choice, union
from compiler.grammar.passes import prune
from compiler.grammar.rules import RuleTable
from compiler.guard.planner import PathStep, Planner
from compiler.lowering.arrays import lower_array
from compiler.lowering.cardinality import Cardinality
from compiler.lowering.constraints import (
    ObjectConstraint,
    array_constraint,
    integer_constraint,
    may_stem_from,
    number_constraint,
    object_constraint,
    string_constraint,
)
from compiler.lowering.json_text import JsonFormatting, lower_listed
from compiler.lowering.objects import lower_object
from compiler.lowering.unconstrained import TYPES, Unconstrained
from compiler.lowering.violations import lower_with_violations
from compiler.report import Verdict
from compiler.scalars.numbers import IntegerConstraint, NumberConstraint, lower_integer, lower_number
from compiler.scalars.strings import LoweredString, StringConstraint, lower_string

MAX_PLACES = 20_000
_WRITE_OUT = "Write the combined schema out."
_KNOWN_DIALECTS = f"Leave it out for 2020-12, or use one of {', '.join(DIALECTS)}."
_COMBINED = "what it combines cannot be resolved"
_NOT_EXPANDED = "combines a recursive reference with other constraints in a way that cannot be resolved"


class _ValueKey(NamedTuple):
    """All that the rules of a value depend on."""

    schema: CanonicalSchema
    location: SchemaLocation
    is_root: bool
    is_distinct: bool


class Lowering:
    """One schema being lowered. `is_closed` leaves undeclared keys out wherever keys are declared.

    Long strings are counted by a guard, but those of `counted`, which are pointers, by rules.
    """

    def __init__(
        self,
        schema: CanonicalSchema,
        source_map: SourceMap,
        *,
        is_closed: bool,
        formatting: JsonFormatting,
        counted: frozenset[str] = frozenset(),
    ) -> None:
        self.schema = schema
        self.source_map = source_map
        self.is_closed = is_closed
        self.formatting = formatting
        self._counted = counted
        self.rules = RuleTable()
        self.unconstrained = Unconstrained(self)
        self._expander = Expander(schema)
        self.cardinality = Cardinality(self._expander)
        self.reporter = Reporter(source_map, schema.draft)
        self.planner = Planner()
        self.is_distinct = False
        """Whether equal values must have one spelling here, since a guard compares texts."""
        self.place = self.planner.new_state()
        """Where the guards' plan stands."""
        self._done: dict[_ValueKey, Expr | None] = {}
        self._open: dict[_ValueKey, RuleRef | None] = {}
        """What is being lowered, with the name of its rule where it was met again inside."""
        self._unwritable: str | None = None
        """The pointer of the first value of which none can be written, though there are some."""
        self._strings: dict[tuple[StringConstraint, bool, bool, bool], LoweredString | None] = {}
        self._numbers: dict[_ValueKey, int] = {}
        """The places in the guards' plan."""

    def grammar(self, lower: Callable[[], Expr | None] | None = None) -> Grammar:
        """The grammar of the whole schema; of what `lower` makes of it, if that is given.

        Raises:
            UnsupportedSchema: a keyword cannot be upheld, or nothing satisfies the schema.
            AmbiguousBounds: some strings must be `counted` by rules.
        """
        start = self.place
        try:
            body = lower() if lower else self.value(self.schema, self.source_map.root, is_root=True)
        except RecursionError:
            raise too_deep() from None
        if body is not None:
            plan = self.planner.plan(start)
            # Written out in the root rule: masks are then precomputed to its very end.
            root = self.rules.rules[body.name] if isinstance(body, RuleRef) else Rule(body)
            if (grammar := prune(self.rules.grammar(root, plan))) is not None:
                return grammar
        reason = "no value that satisfies it can be written: what can be is narrower than the schema"
        raise UnsupportedSchema(
            self._unwritable or "", "", reason, "Admit more, or say it in other keywords."
        )

    def value(
        self,
        schema: CanonicalSchema,
        location: SchemaLocation,
        *,
        step: PathStep = None,
        is_root: bool = False,
    ) -> Expr | None:
        """The JSON texts of the values a schema admits at a place; None if there is none.

        `step` leads there from the place that is being lowered. Every place is lowered once; inside itself it
        is only named.
        """
        place = _ValueKey(schema, location, is_root, self.is_distinct)
        if place not in self._numbers:
            self._numbers[place] = self.planner.new_state(location.pointer)
        self.planner.link(self.place, step, [self._numbers[place]])
        if place in self._done:
            return self._done[place]
        if place in self._open:
            self._open[place] = self._open[place] or self.rules.reserve(_hint(location))
            return self._open[place]
        if len(self._done) >= MAX_PLACES:
            raise UnsupportedSchema(location.pointer, "", "the schema unfolds into too many distinct parts")
        self._open[place] = None
        try:
            with self.standing_at(self._numbers[place]):
                body = self._lower(schema, location, is_root=is_root)
        except canonical.CanonicalizationError as error:
            raise UnsupportedSchema(location.pointer, "", f"{_COMBINED}: {error}", _WRITE_OUT) from error
        if (
            body is None
            and self._unwritable is None
            and schema.satisfiability() != canonical.Satisfiability.NO
        ):
            self._unwritable = location.pointer
        self._done[place] = self._named(body, self._open.pop(place), location)
        return self._done[place]

    def _named(self, body: Expr | None, ref: RuleRef | None, location: SchemaLocation) -> Expr | None:
        """A body by its name if it has one already, or is more than a few words."""
        if ref is not None:
            self.rules.fill(ref, Rule(ref if body is None else body))
            return ref
        return (
            self.rules.define(_hint(location), Rule(body))
            if isinstance(body, Choice | Concatenation)
            else body
        )

    @contextmanager
    def standing_at(self, place: int) -> Iterator[None]:
        """Lower what stands at another place of the guards' plan, and come back."""
        outer, self.place = self.place, place
        try:
            yield
        finally:
            self.place = outer

    def _lower(  # noqa: C901, PLR0911 - one case per canonical view
        self, schema: CanonicalSchema, location: SchemaLocation, *, is_root: bool
    ) -> Expr | None:
        match schema.view():
            case canonical.FalseView():
                return None
            case canonical.TrueView():
                return choice(
                    *(self.unconstrained.of_type(name, location, is_root=is_root) for name in TYPES)
                )
            case canonical.MultiTypeView(types):
                return choice(
                    *(self.unconstrained.of_type(name, location, is_root=is_root) for name in types)
                )
            case canonical.ConstView(value):
                return lower_listed(self, [value], location)
            case canonical.EnumView(values):
                return lower_listed(self, values, location)
            case canonical.StringView() as view:
                return self.string(string_constraint(view, schema.draft), location, is_root=is_root)
            case canonical.IntegerView() as view:
                return self.number(integer_constraint(view), location)
            case canonical.NumberView() as view:
                return self.number(number_constraint(view), location)
            case canonical.ArrayView() as view:
                return lower_array(self, array_constraint(view), location)
            case canonical.ObjectView() as view:
                return self._object(object_constraint(view), location)
            case canonical.AnyOfView(branches):
                return self.any_of(branches, location, is_root=is_root)
            case _:
                return self.any_of(self.expand(schema, location), location, is_root=is_root)

    def any_of(
        self, schemas: Iterable[CanonicalSchema], location: SchemaLocation, *, is_root: bool = False
    ) -> Expr | None:
        """A value of any of the schemas."""
        return union([self.value(schema, location, is_root=is_root) for schema in schemas])

    def expand(self, schema: CanonicalSchema, location: SchemaLocation) -> list[CanonicalSchema]:
        """What canonicalization left symbolic because of a reference in it, one step further, as a union.

        Raises:
            UnsupportedSchema: it has no such form.
        """
        match schema.view():
            case canonical.RawView(reason=canonical.RawReason.UNKNOWN_DIALECT, pointer=pointer):
                reason = "names a dialect that is not known"
                raise UnsupportedSchema(child(pointer or "", "$schema"), "$schema", reason, _KNOWN_DIALECTS)
            case canonical.RawView(reason=reason, pointer=pointer):
                why = f"its combination of keywords cannot be resolved ({reason})"
                raise UnsupportedSchema(pointer or location.pointer, "", why, _WRITE_OUT)
        try:
            expanded = self._expander.expand(schema)
        except canonical.CanonicalizationError as error:
            raise self.reporter.refusal(location, "$ref", f"{_NOT_EXPANDED}: {error}", _WRITE_OUT) from error
        if expanded == [schema] or (not expanded and self._expander.is_narrowed):
            raise self.reporter.refusal(location, "$ref", _NOT_EXPANDED, _WRITE_OUT)
        if self._expander.is_narrowed:
            for keyword in ("oneOf", "not", "allOf", "anyOf"):
                self.reporter.note(location, keyword, Verdict.NARROWED, "values that are easily told apart")
        return expanded

    def _object(self, constraint: ObjectConstraint, location: SchemaLocation) -> Expr | None:
        if not self.is_distinct:  # or else equal objects have one order
            location = self.source_map.reordered(location, may_stem_from(constraint))
        lower = lower_with_violations if constraint.violations else lower_object
        return lower(self, constraint, location)

    def string(
        self,
        constraint: StringConstraint,
        location: SchemaLocation,
        *,
        is_root: bool = False,
        is_key: bool = False,
    ) -> Expr | None:
        """The strings that a constraint admits at a place, or as its keys; None if there is none."""
        is_guarded = not (is_key or self.is_distinct or location.pointer in self._counted)
        try:
            lowered = self._string(constraint, is_root=is_root, is_key=is_key, is_guarded=is_guarded)
        except UnsupportedKeyword as refusal:
            raise self.reporter.refusal_of(location, refusal) from refusal
        if lowered is None:
            return None
        self.reporter.note_all(location, lowered.notes)
        if not is_key:
            self.planner.mark_string(self.place, lowered.bound, is_plain=lowered.is_plain)
        return lowered.expr

    def _string(
        self, constraint: StringConstraint, *, is_root: bool, is_key: bool, is_guarded: bool
    ) -> LoweredString | None:
        """The same for every place that says the same."""
        key = constraint, is_root, is_key, is_guarded
        if key not in self._strings:
            self._strings[key] = lower_string(
                constraint, self.rules, in_container=not is_root, is_key=is_key, is_guarded=is_guarded
            )
        return self._strings[key]

    def number(
        self, constraint: IntegerConstraint | NumberConstraint, location: SchemaLocation
    ) -> Expr | None:
        """The numbers that a constraint admits at a place; None if there is none."""
        try:
            if isinstance(constraint, IntegerConstraint):
                lowered = lower_integer(constraint, self.rules, is_unique=self.is_distinct)
            else:
                lowered = lower_number(constraint, self.rules, is_unique=self.is_distinct)
        except UnsupportedKeyword as refusal:
            raise self.reporter.refusal_of(location, refusal) from refusal
        if lowered is None:
            return None
        self.reporter.note_all(location, lowered.notes)
        return lowered.expr

    def simple(self, document: Any) -> CanonicalSchema:
        """A schema of our own in the document's draft."""
        return simple(document, self.schema.draft)

    def admits(self, schema: CanonicalSchema, value: Any) -> bool:
        """Whether a schema is known to admit a value."""
        return schema.covers(self.simple({"enum": [value]})) == canonical.Containment.YES


def _hint(location: SchemaLocation) -> str:
    """A rule name a reader recognises: the last words of the pointer."""
    words = [
        word for word in location.pointer.split("/") if word and word not in ("properties", "items", "$defs")
    ]
    return "_".join(words[-2:]) or "value"
