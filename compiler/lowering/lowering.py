"""What the lowerings of all values of one schema share.

`Lowering` holds the rules that are made, the plan of the guards and the report, and lowers strings and
numbers. Objects, arrays and listed values have files of their own, whose functions get it as an argument.
They call `value` and `inner_value` for the values inside, and `compiler.lowering.schema_lowering` implements
these two for every canonical view.
"""

import sys
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, InitVar, dataclass
from functools import cache, partial
from typing import Any

from jsonschema_rs import CanonicalSchema, canonical

from compiler.errors import UnsupportedSchema
from compiler.frontend.dependent_keys import NO_DEPENDENCIES, DependentKeys
from compiler.frontend.expansion import Expander
from compiler.frontend.keywords import IN_PLACE_LISTS, NUMBERS, UNEVALUATED
from compiler.frontend.large_numbers import LargeNumbers
from compiler.frontend.reporter import Reporter, ReportPlace
from compiler.frontend.source_map import SchemaLocation, SourceMap
from compiler.frontend.symbolic_forms import form_of
from compiler.grammar.grammar import Expr, Literal, Rule, concat, union
from compiler.grammar.rules import RuleTable
from compiler.guard.ambiguities import Ambiguities
from compiler.guard.path_state_builder import PathStep
from compiler.guard.planner import Planner
from compiler.lowering.any_order import KeyOrders
from compiler.lowering.cardinality import Cardinality
from compiler.lowering.constraints import Context
from compiler.lowering.json_text import JsonFormatting
from compiler.scalars.decimal_texts import DOUBLE_DIGITS
from compiler.scalars.numbers import (
    IntegerConstraint,
    NumberConstraint,
    lower_integer,
    lower_number,
    without_doubles,
)
from compiler.scalars.string_constraint import StringConstraint
from compiler.scalars.strings import lower_string
from toolspecs.schemas.bundle import REFERENCES
from toolspecs.schemas.drafts import draft_named
from toolspecs.tool import KeyOrder

WRITE_OUT = "Write the combined schema out."
_COMBINING = (*REFERENCES, *IN_PLACE_LISTS, "not", "if", "dependentSchemas", *UNEVALUATED)
"""Keywords that say something about a value together with what is beside them."""
_NO_AMBIGUITIES = Ambiguities()
_FEW_DIGITS = f"at most {DOUBLE_DIGITS} digits"
_NOT_EXPANDED = "combines a recursive reference with other constraints in a way that cannot be resolved"


@dataclass(eq=False, repr=False)
class Lowering(ABC):
    """One schema being lowered. `is_closed` leaves undeclared keys out wherever keys are declared.

    A guard counts long strings and tells the keys of open objects apart, except where `ambiguities` says that
    rules must. `key_order` is the order of declared keys wherever it is possible. An `expander` of the same
    schema still knows what it expanded before.
    """

    schema: CanonicalSchema
    source_map: SourceMap
    dependent_keys: InitVar[DependentKeys] = NO_DEPENDENCIES
    _: KW_ONLY
    is_closed: bool
    formatting: JsonFormatting
    ambiguities: Ambiguities = _NO_AMBIGUITIES
    key_order: InitVar[KeyOrder] = "declared"
    expander: InitVar[Expander | None] = None

    def __post_init__(
        self, dependent_keys: DependentKeys, key_order: KeyOrder, expander: Expander | None
    ) -> None:
        self.key_orders = KeyOrders(key_order)
        self.rules = RuleTable()
        self.large_numbers = LargeNumbers.of(self.source_map.references.contents.values())
        self._expander = expander or Expander(self.schema)
        self.cardinality = Cardinality(self._expander, self.large_numbers)
        self.reporter = Reporter(self.source_map, self.schema.draft)
        self.planner = Planner()
        self.root = Context(
            self.source_map.root, self.planner.new_state(), is_root=True, dependent_keys=dependent_keys
        )
        """The context of the whole text."""
        self._repeating: dict[int, ReportPlace] = {}
        """Arrays that may repeat items, by their states in the guards' plan."""
        self._lower_string = cache(partial(lower_string, rules=self.rules))

    def note_repeating(self, state: int, location: SchemaLocation) -> None:
        """Note that an array at a location may repeat items, as far as its schema is concerned."""
        self._repeating[state] = self.reporter.place(location)

    def report_kept_distinct(self) -> None:
        """Report the arrays that never repeat an item only because others at the same place must not."""
        for state in sorted(self.planner.kept_distinct & self._repeating.keys()):
            self.reporter.note_kept_distinct(self._repeating[state])

    @property
    def guards_lengths(self) -> bool:
        """Whether guards count all long strings: no string was left to rules as ambiguous."""
        return not self.ambiguities.counted

    @abstractmethod
    def value(self, schema: CanonicalSchema, context: Context, step: PathStep = None) -> Expr | None:
        """The JSON texts of the values that a schema admits; None if there is none.

        `context.state` is the state of the container, from which `step` leads to the value, or of the union
        of which the value is a branch.
        """

    @abstractmethod
    def inner_value(
        self, schema: CanonicalSchema | None, context: Context, location: SchemaLocation, step: PathStep
    ) -> Expr | None:
        """The values of a member or an item of the value of `context`; a schema of None admits any value."""

    def string(self, constraint: StringConstraint, context: Context, *, is_key: bool = False) -> Expr | None:
        """The admitted strings, or with `is_key` the admitted keys of an object; None if there is none."""
        is_counted = context.location.pointer in self.ambiguities.counted
        is_guarded = not (is_key or is_counted) and (constraint.has_only_lengths or not context.is_distinct)
        in_container = is_key or not context.is_root
        with self.reporter.refusing_at(context.location):
            lowered = self._lower_string(
                constraint,
                in_container=in_container,
                is_key=is_key,
                is_guarded=is_guarded,
                is_distinct=context.is_distinct,
            )
        if lowered is None:
            return None
        notes = lowered.notes
        if is_key:
            notes = tuple((keyword, verdict, f"keys: {note}") for keyword, verdict, note in notes)
        self.reporter.note_all(context.location, notes, ("string",), constraint.values)
        if not is_key:
            self.planner.note_string(context.state, lowered.bound, is_plain=lowered.is_plain)
        return lowered.expr

    def number(self, constraint: IntegerConstraint | NumberConstraint, context: Context) -> Expr | None:
        """The admitted numbers that validators do not confuse with one another; None if there is none."""
        parts = without_doubles(constraint, self.large_numbers.confused)
        return union([self._number(part, context) for part in parts])

    def _number(self, constraint: IntegerConstraint | NumberConstraint, context: Context) -> Expr | None:
        with self.reporter.refusing_at(context.location):
            if isinstance(constraint, IntegerConstraint):
                types: tuple[str, ...] = ("integer",)
                lowered = lower_integer(constraint, self.rules, is_unique=context.is_distinct)
            else:
                types = NUMBERS  # it may have absorbed integers
                lowered = lower_number(constraint, self.rules, is_unique=context.is_distinct)
        if lowered is None:
            if context.is_distinct:
                self.reporter.note_narrowed(context.location, "type", _FEW_DIGITS, types=types)
            return None
        self.reporter.note_all(context.location, lowered.notes, types, constraint.values)
        return lowered.expr

    def after_key(self, value: Expr | None) -> Expr | None:
        """What stands after a key that has such a value; None if there is none.

        Where the separator can have two spellings, this is a rule, which all keys with the same value share.
        Inside of a member's rule xgrammar would make a rule of each separator, and look at all tokens that go
        on after it once more.
        """
        text = concat(self.formatting.key_separator, value)
        if text is None or isinstance(self.formatting.key_separator, Literal):
            return text
        return self.rules.define("after_key", Rule(text))

    def expand(self, schema: CanonicalSchema, location: SchemaLocation) -> list[CanonicalSchema]:
        """A form that stayed symbolic because of a reference, expanded by one step, as a union of schemas.

        Raises:
            UnsupportedSchema: the form cannot be expanded.
        """
        match schema.view():
            case canonical.RawView(reason=reason, pointer=pointer):
                raise self._unmodeled(self.source_map.location_at(pointer) if pointer else location, reason)
        try:
            cases, is_narrowed = self._expander.expand(schema)
        except canonical.CanonicalizationError as error:
            raise self.reporter.refusal(location, "$ref", f"{_NOT_EXPANDED}: {error}", WRITE_OUT) from error
        if cases == [schema] or (not cases and is_narrowed):
            raise self.reporter.refusal(location, "$ref", _NOT_EXPANDED, WRITE_OUT)
        if is_narrowed:
            note = "only values that are known to fail the schemas which must fail"
            self.reporter.note_narrowed(location, "oneOf", note)
        return cases

    def _unmodeled(self, location: SchemaLocation, reason: canonical.RawReason) -> UnsupportedSchema:
        """The refusal of a schema which canonicalization has left as it is written."""
        for _, schema in self.source_map.schemas(location):
            if "$schema" in schema and draft_named(schema["$schema"]) != self.schema.draft:
                why = f"names another dialect ({schema['$schema']}) than the schema around it"
                return self.reporter.refusal(location, "$schema", why, "Write both in one dialect.")
            if schema.get("multipleOf", 0) > sys.float_info.max:
                why = "is larger than the largest double, which many validators read numbers as"
                return self.reporter.refusal(location, "multipleOf", why, "Lower it.")
        written = self.source_map.at(location.pointer)
        names = [name for name in _COMBINING if isinstance(written, dict) and name in written]
        why = f"its combination of keywords cannot be resolved ({', '.join(names) or reason})"
        return UnsupportedSchema(location.pointer, "", why, WRITE_OUT)

    def form_of(self, document: Any) -> CanonicalSchema:
        """The canonical form of a schema that the lowering itself needs, in the draft of the document."""
        return form_of(document, self.schema.draft)

    def admits(self, schema: CanonicalSchema, value: Any) -> bool:
        """Whether a schema is known to admit a value."""
        return schema.covers(self.form_of({"enum": [value]})) == canonical.Containment.YES
