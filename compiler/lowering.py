"""Lowering: the canonical views of a schema become the rules of a grammar.

Canonical forms hold no negation, no intersection and no condition but where a reference is involved, so
every view lowers on its own; what narrows a view only ever removes sentences. A place that admits nothing
lowers to None and disappears from the choices above it.
"""

import json
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

from jsonschema_rs import CanonicalSchema, canonical

from compiler.alternatives import may_stem_from
from compiler.arrays import lower_array
from compiler.cardinality import Cardinality
from compiler.combinations import Combinations, simple
from compiler.errors import UnsupportedSchema
from compiler.grammar import Choice, Expr, Grammar, Literal, Rule, RuleRef, Sequence, choice, sequence
from compiler.guard.plan import Plan
from compiler.guard.planner import Item, Key, Planner, Step
from compiler.numbers import UnsupportedNumber, lower_integer, lower_number
from compiler.objects import lower_object
from compiler.outline import Outline, Site
from compiler.prune import prune
from compiler.report import Verdict
from compiler.reporter import Reporter
from compiler.rules import RuleTable
from compiler.strings import StringConstraint, UnsupportedString, lower_literal, lower_string
from compiler.style import Style
from compiler.views import (
    ArrayConstraint,
    IntegerConstraint,
    NumberConstraint,
    ObjectConstraint,
    array_constraint,
    integer_constraint,
    number_constraint,
    object_constraint,
    string_constraint,
)
from compiler.witnesses import with_witnesses

_Place = tuple[CanonicalSchema, Site, bool, bool]

MAX_PLACES = 20_000
_TYPES = ("null", "boolean", "number", "string", "array", "object")
_ANY_INTEGER = IntegerConstraint()
_ANY_NUMBER = NumberConstraint()
_WRITE_OUT = "Write the combined schema out."
_COMBINED = "what it combines cannot be resolved"
_UNFOLD = "combines a recursive reference with other constraints in a way that cannot be resolved"


class Lowering:
    """One schema being lowered. `is_closed` leaves undeclared keys out wherever keys are declared.

    Long strings are counted by a guard, but those of `counted`, which are pointers, by rules.
    """

    def __init__(
        self,
        schema: CanonicalSchema,
        outline: Outline,
        *,
        is_closed: bool,
        style: Style,
        counted: frozenset[str] = frozenset(),
    ) -> None:
        self.schema = schema
        self.outline = outline
        self.is_closed = is_closed
        self.style = style
        self._counted = counted
        self.rules = RuleTable()
        self._combinations = Combinations(schema)
        self.cardinality = Cardinality(self._combinations)
        self.reporter = Reporter(outline)
        self.planner = Planner()
        self.is_distinct = False
        """Whether equal values must have one spelling here, since a guard compares texts."""
        self.place = self.planner.place()
        """Where the guards' plan stands."""
        self._done: dict[_Place, Expr | None] = {}
        self._open: dict[_Place, RuleRef | None] = {}
        self._places: dict[_Place, int] = {}
        self._shared: dict[tuple[str, bool], RuleRef] = {}

    def grammar(self, lower: Callable[[], Expr | None] | None = None) -> Grammar:
        """The grammar of the whole schema; of what `lower` makes of it, if that is given.

        Raises:
            UnsupportedSchema: a keyword cannot be upheld, or nothing satisfies the schema.
            AmbiguousBounds: some strings must be `counted` by rules.
        """
        try:
            start = self.place
            body = lower() if lower else self.value(self.schema, self.outline.root, is_root=True)
        except RecursionError:
            raise UnsupportedSchema("", "", "the schema is nested too deeply", "Flatten it.") from None
        grammar = prune(self._rooted(body, self.planner.plan(start))) if body is not None else None
        if grammar is None:
            raise UnsupportedSchema("", "", "no value satisfies the schema")
        return grammar

    def _rooted(self, body: Expr, plan: Plan | None) -> Grammar:
        """The grammar of a body, written out in the root rule: masks are then precomputed to its very end."""
        rule = self.rules.rules[body.name] if isinstance(body, RuleRef) else Rule(body)
        return self.rules.grammar(rule, plan)

    def value(
        self, schema: CanonicalSchema, site: Site, *, step: Step = None, is_root: bool = False
    ) -> Expr | None:
        """The JSON texts of the values a schema admits at a place; None if there is none.

        `step` leads there from the place that is being lowered.
        """
        place = (schema, site, is_root, self.is_distinct)
        if place not in self._places:
            self._places[place] = self.planner.place(site.pointer)
        self.planner.link(self.place, step, [self._places[place]])
        if place in self._done:
            return self._done[place]
        if place in self._open:
            self._open[place] = self._open[place] or self.rules.reserve(_hint(site))
            return self._open[place]
        if len(self._done) >= MAX_PLACES:
            raise UnsupportedSchema(site.pointer, "", "the schema unfolds into too many distinct parts")
        self._open[place] = None
        outer, self.place = self.place, self._places[place]
        try:
            body = self._lower(schema.view(), schema, site, is_root=is_root)
        except canonical.CanonicalizationError as error:
            raise UnsupportedSchema(site.pointer, "", f"{_COMBINED}: {error}", _WRITE_OUT) from error
        self.place = outer
        ref = self._open.pop(place)
        if ref is not None:
            self.rules.fill(ref, Rule(ref if body is None else body))
            body = ref
        elif isinstance(body, Choice | Sequence):
            body = self.rules.define(_hint(site), Rule(body))
        self._done[place] = body
        return body

    def any_value(self, step: Step = None) -> Expr:
        """Any JSON value inside a container; one set of rules serves every place."""
        place = self._any_place()
        self.planner.mark_string(place, is_plain=True)
        self.planner.link(self.place, step, [place])
        key = ("value", self.is_distinct)
        if key not in self._shared:
            self._shared[key] = ref = self.rules.reserve("any")
            outer, self.place = self.place, self.planner.place()
            self.rules.fill(ref, Rule(choice(*(self._any(name, Site()) for name in _TYPES))))
            self.place = outer
        return self._shared[key]

    def any_of(self, schemas: Iterable[CanonicalSchema], site: Site, *, is_root: bool = False) -> Expr | None:
        """A value of any of the schemas."""
        options = [self.value(schema, site, is_root=is_root) for schema in schemas]
        live = [option for option in options if option is not None]
        return choice(*live) if live else None

    def simple(self, document: Any) -> CanonicalSchema:
        """A schema of our own in the document's draft."""
        return simple(document, self.schema.draft)

    def admits(self, schema: CanonicalSchema, value: Any) -> bool:
        """Whether a schema is known to admit a value."""
        return schema.covers(self.simple({"enum": [value]})) == canonical.Containment.YES

    def text(self, value: Any) -> Expr:
        """The one spelling of a JSON value, in the order its keys are given."""
        match value:
            case str():
                return lower_literal(value, ascii_escapes=self.style.ascii_escapes)
            case list():
                return self._joined("[", [self.text(item) for item in value], "]")
            case dict():
                members = [sequence(self.text(k), self.style.colon, self.text(v)) for k, v in value.items()]
                return self._joined("{", members, "}")
            case float() | Decimal() if self.is_distinct:
                return Literal(_shortest_decimal(value))
            case Decimal():
                return Literal(str(value).lower())
            case _:
                return Literal(json.dumps(value))

    def key(self, schema: CanonicalSchema, site: Site) -> Expr | None:  # noqa: PLR0911 - one case per view
        """The keys a schema of strings admits, with their quotes."""
        match schema.view():
            case canonical.ConstView(str() as name):
                return self.text(name)
            case canonical.EnumView(values):
                names = [self.text(name) for name in values if isinstance(name, str)]
                return choice(*names) if names else None
            case canonical.MultiTypeView(types) if "string" not in types:
                return None
            case canonical.TrueView() | canonical.MultiTypeView():
                return self._string(StringConstraint(), site, is_key=True)
            case canonical.StringView() as view:
                return self._string(string_constraint(view, schema.draft), site, is_key=True)
            case canonical.AnyOfView(branches):
                return self._any_key(branches, site)
            case canonical.RawView():
                raise self.reporter.refusal(site, "propertyNames", "the names cannot be resolved")
            case (
                canonical.ReferenceView()
                | canonical.NotView()
                | canonical.AllOfView()
                | canonical.OneOfView()
                | canonical.TypedGroupView()
            ):
                return self._any_key(self.unfold(schema, site), site)
            case _:
                return None

    def _any_key(self, schemas: Iterable[CanonicalSchema], site: Site) -> Expr | None:
        options = [self.key(schema, site) for schema in schemas]
        live = [option for option in options if option is not None]
        return choice(*live) if live else None

    def _joined(self, opening: str, parts: list[Expr], closing: str) -> Expr:
        separated = [e for part in parts for e in (self.style.comma, part)][1:]
        return sequence(Literal(opening), *separated, Literal(closing))

    def _lower(  # noqa: C901, PLR0911, PLR0912 - one case per canonical view
        self, view: canonical.CanonicalViewType, schema: CanonicalSchema, site: Site, *, is_root: bool
    ) -> Expr | None:
        match view:
            case canonical.FalseView():
                return None
            case canonical.TrueView():
                return choice(*(self._any(name, site, is_root=is_root) for name in _TYPES))
            case canonical.MultiTypeView(types):
                return choice(*(self._any(name, site, is_root=is_root) for name in types))
            case canonical.ConstView(value):
                return self._values([value], site)
            case canonical.EnumView(values):
                return self._values(values, site)
            case canonical.StringView():
                return self._string(string_constraint(view, schema.draft), site, is_root=is_root)
            case canonical.IntegerView():
                return self._number(integer_constraint(view), site)
            case canonical.NumberView():
                return self._number(number_constraint(view), site)
            case canonical.ArrayView():
                return lower_array(self, array_constraint(view), site)
            case canonical.ObjectView():
                return self._object(object_constraint(view), site)
            case canonical.AnyOfView(branches):
                return self.any_of(branches, site, is_root=is_root)
            case canonical.RawView(reason=reason, pointer=pointer):
                raise UnsupportedSchema(
                    pointer or site.pointer, "", f"its combination of keywords cannot be resolved ({reason})"
                )
            case _:
                return self.any_of(self.unfold(schema, site), site, is_root=is_root)

    def _object(self, constraint: ObjectConstraint, site: Site) -> Expr | None:
        if not self.is_distinct:  # or else equal objects have one order
            site = self.outline.reordered(site, may_stem_from(constraint))
        if not constraint.violations:
            return lower_object(self, constraint, site)
        if self.is_distinct:
            reason = "among distinct items, demands that some key or value fails a schema"
            raise self.reporter.refusal(site, "not", reason, "State what is allowed instead.")
        ways = [lower_object(self, way, site) for way in with_witnesses(self, constraint, site)]
        self.reporter.note(site, "not", Verdict.NARROWED, "one of the keys that may fail, the others at will")
        live = [way for way in ways if way is not None]
        return choice(*live) if live else None

    def _any(self, type_name: str, site: Site, *, is_root: bool = False) -> Expr:
        """Any value of a type."""
        match type_name:
            case "null":
                return Literal("null")
            case "boolean":
                return choice(Literal("true"), Literal("false"))
            case "string":
                expr = self._string(StringConstraint(), site, is_root=is_root)
            case "integer":
                expr = self._number(_ANY_INTEGER, site)
            case "number":
                expr = self._number(_ANY_NUMBER, site)
            case "object" if self.is_closed and not self.outline.is_map(site):
                expr = lower_object(self, ObjectConstraint(), site)
            case "array" | "object":
                self.planner.link(self.place, None, [self._any_place()])
                return self._anything(type_name)
            case _:
                raise self.reporter.refusal(site, "type", f"unknown type {type_name!r}")
        assert expr is not None, "an unconstrained value exists"
        return expr

    def _any_place(self) -> int:
        """A place of which nothing is known, where an array may stand."""
        place = self.planner.place()
        self.planner.mark_array(place, 0, is_distinct=False)
        return place

    def _anything(self, type_name: str) -> Expr:
        """An unconstrained array or object; one set of rules serves every place."""
        key = (type_name, self.is_distinct)
        if key not in self._shared:
            self._shared[key] = ref = self.rules.reserve(f"any_{type_name}")
            outer, self.place = self.place, self.planner.place()
            is_array = type_name == "array"
            body = (
                lower_array(self, ArrayConstraint(), Site())
                if is_array
                else lower_object(self, ObjectConstraint(), Site())
            )
            assert body is not None, "an unconstrained value exists"
            self.place = outer
            self.rules.fill(ref, Rule(body))
        return self._shared[key]

    def _values(self, values: list[Any], site: Site) -> Expr:
        for value in values:
            self._mark(value, self.place)
        written = [self._as_written(value, site) for value in values]
        return choice(*map(self.text, written))

    def _mark(self, value: Any, place: int) -> None:
        """Tell the planner of the strings in a value, and of the arrays that repeat an item."""
        inner: list[tuple[Step, Any]] = []
        if isinstance(value, str):
            self.planner.mark_string(place)
        elif isinstance(value, list):
            inner = [(Item(index), item) for index, item in enumerate(value)]
            if len(set(map(_without_order, value))) < len(value):
                self.planner.mark_array(place, len(value), is_distinct=False)
        elif isinstance(value, dict):
            inner = [(Key(key), item) for key, item in value.items()]
        for step, item in inner:
            if isinstance(item, str | dict | list):
                target = self.planner.place()
                self.planner.link(place, step, [target])
                self._mark(item, target)

    def _as_written(self, value: Any, site: Site) -> Any:
        """The value with its keys in the order of the document."""
        if self.is_distinct:
            return self._in_order(value, site)
        if isinstance(value, dict | list):
            spelling = _without_order(value)
            for _, schema in self.outline.schemas(site):
                for candidate in (*_listed(schema.get("enum")), schema.get("const")):
                    if _without_order(candidate) == spelling:
                        return candidate
        return value

    def _in_order(self, value: Any, site: Site) -> Any:
        """The value with its keys in the order in which objects are written there."""
        if isinstance(value, list):
            return [self._in_order(item, self.outline.item(site, i)) for i, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        order = [key for key in self.outline.mentioned(site) if key in value]
        order += sorted(value.keys() - order)
        return {key: self._in_order(value[key], self.outline.property(site, key)) for key in order}

    def _string(
        self, constraint: StringConstraint, site: Site, *, is_root: bool = False, is_key: bool = False
    ) -> Expr | None:
        is_guarded = not (is_key or self.is_distinct or site.pointer in self._counted)
        try:
            lowered = lower_string(
                constraint, self.rules, in_container=not is_root, is_key=is_key, is_guarded=is_guarded
            )
        except UnsupportedString as refusal:
            raise self.reporter.refusal_of(site, refusal) from refusal
        if lowered is None:
            return None
        self.reporter.note_all(site, lowered.notes)
        if not is_key:
            self.planner.mark_string(self.place, lowered.longest, is_plain=lowered.is_plain)
        return lowered.expr

    def _number(self, constraint: IntegerConstraint | NumberConstraint, site: Site) -> Expr | None:
        try:
            if isinstance(constraint, IntegerConstraint):
                lowered = lower_integer(
                    constraint.minimum,
                    constraint.maximum,
                    constraint.multiple_of,
                    constraint.not_multiple_of,
                    self.rules,
                    is_unique=self.is_distinct,
                )
            else:
                lowered = lower_number(
                    constraint.minimum,
                    constraint.maximum,
                    constraint.multiple_of,
                    constraint.not_multiple_of,
                    self.rules,
                    exclusive_minimum=constraint.exclusive_minimum,
                    exclusive_maximum=constraint.exclusive_maximum,
                    excludes_integers=constraint.excludes_integers,
                    is_unique=self.is_distinct,
                )
        except UnsupportedNumber as refusal:
            raise self.reporter.refusal_of(site, refusal) from refusal
        if lowered is None:
            return None
        for note in lowered.notes:
            self.reporter.note(site, "type", Verdict.NARROWED, note)
        return lowered.expr

    def unfold(self, schema: CanonicalSchema, site: Site) -> list[CanonicalSchema]:
        """What canonicalization left symbolic because of a reference in it, one step further, as a union."""
        try:
            unfolded = self._combinations.unfold(schema)
        except canonical.CanonicalizationError as error:
            raise self.reporter.refusal(site, "$ref", f"{_UNFOLD}: {error}", _WRITE_OUT) from error
        if unfolded == [schema] or (not unfolded and self._combinations.is_narrowed):
            raise self.reporter.refusal(site, "$ref", _UNFOLD, _WRITE_OUT)
        if self._combinations.is_narrowed:
            for keyword in ("oneOf", "not", "allOf", "anyOf"):
                self.reporter.note(site, keyword, Verdict.NARROWED, "values that are easily told apart")
        return unfolded


def _without_order(value: Any) -> str:
    """Equal for values that differ in the order of keys alone; unlike `==`, it tells 1 from true."""
    return json.dumps(value, sort_keys=True, default=str)


def _shortest_decimal(value: float | Decimal) -> str:
    """A number without exponent, trailing zeros or a sign before zero."""
    exact = Decimal(str(value)).normalize()
    return format(exact or abs(exact), "f")


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _hint(site: Site) -> str:
    """A rule name a reader recognises: the last words of the pointer."""
    words = [
        word for word in site.pointer.split("/") if word and word not in ("properties", "items", "$defs")
    ]
    return "_".join(words[-2:]) or "value"
