"""Lowering of what a schema says nothing about: any value, or any of a type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compiler.frontend.source_map import SchemaLocation
from compiler.grammar.grammar import Literal, Rule, choice
from compiler.lowering.arrays import lower_array
from compiler.lowering.constraints import ArrayConstraint, ObjectConstraint
from compiler.lowering.objects import lower_object
from compiler.scalars.numbers import IntegerConstraint, NumberConstraint
from compiler.scalars.strings import StringConstraint

if TYPE_CHECKING:
    from collections.abc import Callable

    from compiler.grammar.grammar import Expr, RuleRef
    from compiler.guard.planner import PathStep
    from compiler.lowering.lowering import Lowering

TYPES = ("null", "boolean", "number", "string", "array", "object")
"""Every JSON value is of one of these."""


class Unconstrained:
    """The unconstrained values of one grammar; what may stand anywhere is one set of rules for all places."""

    def __init__(self, lowering: Lowering) -> None:
        self._lowering = lowering
        self._shared: dict[tuple[str, bool], RuleRef] = {}

    def value(self, step: PathStep) -> RuleRef:
        """Any JSON value inside a container, where `step` leads from the place that is being lowered."""
        lowering = self._lowering
        place = self._unknown_place()
        lowering.planner.mark_string(place, is_plain=True)
        lowering.planner.link(lowering.place, step, [place])
        return self._rules_of(
            "any", lambda: choice(*(self.of_type(name, SchemaLocation()) for name in TYPES))
        )

    def of_type(  # noqa: PLR0911 - one case per type
        self, type_name: str, location: SchemaLocation, *, is_root: bool = False
    ) -> Expr:
        """Any value of a type at a place.

        Raises:
            UnsupportedSchema: JSON has no such type.
        """
        lowering = self._lowering
        match type_name:
            case "null":
                return Literal("null")
            case "boolean":
                return choice(Literal("true"), Literal("false"))
            case "string":
                return _existing(lowering.string(StringConstraint(), location, is_root=is_root))
            case "integer":
                return _existing(lowering.number(IntegerConstraint(), location))
            case "number":
                return _existing(lowering.number(NumberConstraint(), location))
            case "object" if lowering.is_closed and not lowering.source_map.is_map(location):
                return _existing(lower_object(lowering, ObjectConstraint(), location))
            case "array":
                return self._container(
                    "any_array", lambda: lower_array(lowering, ArrayConstraint(), SchemaLocation())
                )
            case "object":
                return self._container(
                    "any_object", lambda: lower_object(lowering, ObjectConstraint(), SchemaLocation())
                )
            case _:
                raise lowering.reporter.refusal(location, "type", f"unknown type {type_name!r}")

    def _container(self, hint: str, lower: Callable[[], Expr | None]) -> RuleRef:
        self._lowering.planner.link(self._lowering.place, None, [self._unknown_place()])
        return self._rules_of(hint, lower)

    def _unknown_place(self) -> int:
        """A place of which nothing is known, where an array may stand."""
        place = self._lowering.planner.new_state()
        self._lowering.planner.mark_array(place, 0, is_distinct=False)
        self._lowering.planner.mark_any(place)
        return place

    def _rules_of(self, hint: str, lower: Callable[[], Expr | None]) -> RuleRef:
        """The shared rules; where equal values must be spelled alike, others are."""
        key = (hint, self._lowering.is_distinct)
        if key not in self._shared:
            self._shared[key] = ref = self._lowering.rules.reserve(hint)
            with self._lowering.standing_at(self._lowering.planner.new_state()):
                self._lowering.rules.fill(ref, Rule(_existing(lower())))
        return self._shared[key]


def _existing(expr: Expr | None) -> Expr:
    assert expr is not None, "an unconstrained value exists"
    return expr
