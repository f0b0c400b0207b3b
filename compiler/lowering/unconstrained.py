"""Lowering of values that a schema does not constrain: any value, or any value of a type."""

from collections.abc import Callable, Collection

from compiler.frontend.source_map import ANYWHERE, SchemaLocation
from compiler.grammar.grammar import Expr, Literal, Rule, RuleRef, choice
from compiler.guard.path_state_builder import CONTAINERS, ContainerType, PathStep
from compiler.lowering.arrays import lower_array
from compiler.lowering.constraints import ArrayConstraint, Context, ObjectConstraint
from compiler.lowering.lowering import Lowering
from compiler.lowering.objects import ObjectLowering
from compiler.lowering.undeclared import note_single
from compiler.scalars.numbers import DIGITS_OF_NUMBERS, IntegerConstraint, NumberConstraint
from compiler.scalars.string_constraint import StringConstraint

VALUE_TYPES = ("null", "boolean", "number", "string", "array", "object")
"""Every JSON value has one of these types."""
CONTAINERS_AND_NUMBERS = ("number", "array", "object")


class Unconstrained:
    """The unconstrained values of one grammar; the whole grammar shares one set of rules for them."""

    def __init__(self, lowering: Lowering) -> None:
        self._lowering = lowering
        self._shared: dict[tuple[str, bool], RuleRef] = {}

    def value(self, context: Context, step: PathStep) -> RuleRef:
        """Any JSON value inside a container; `step` leads to it from `context.state`."""
        state = self._new_state(CONTAINERS, context, step)
        self._lowering.planner.note_string(state, is_plain=True)
        return self._rules_of(
            "any", context, lambda inner: choice(*(self.of_type(name, inner) for name in VALUE_TYPES))
        )

    def note(self, location: SchemaLocation, types: Collection[str] = ()) -> None:
        """Note what is left out of values inside which nothing is constrained."""
        self._lowering.reporter.note_narrowed(location, "", DIGITS_OF_NUMBERS, types=types)

    def of_type(self, type_name: str, context: Context) -> Expr:  # noqa: PLR0911 - one case per type
        """Any value of a type."""
        lowering = self._lowering
        match type_name:
            case "null":
                return Literal("null")
            case "boolean":
                return choice(Literal("true"), Literal("false"))
            case "string":
                return _existing(lowering.string(StringConstraint(), context))
            case "integer":
                return _existing(lowering.number(IntegerConstraint(), context))
            case "number":
                return _existing(lowering.number(NumberConstraint(), context))
            case "object" if lowering.is_closed and not lowering.source_map.is_map(context.location):
                return _existing(ObjectLowering(lowering, ObjectConstraint(), context).lower())
            case "array":
                return self._container(
                    "array", context, lambda inner: lower_array(lowering, ArrayConstraint(), inner)
                )
            case "object":
                return self._container(
                    "object",
                    context,
                    lambda inner: ObjectLowering(lowering, ObjectConstraint(), inner).lower(),
                )
            case _:
                raise AssertionError(f"canonical forms have no type {type_name!r}")

    def _container(
        self, container: ContainerType, context: Context, lower: Callable[[Context], Expr | None]
    ) -> RuleRef:
        self.note(context.location, (container,))
        self._new_state((container,), context, None)
        return self._rules_of(f"any_{container}", context, lower)

    def _new_state(self, containers: tuple[ContainerType, ...], context: Context, step: PathStep) -> int:
        """A state of the guards' plan, to which `step` leads, for containers of which nothing is known."""
        planner = self._lowering.planner
        state = planner.new_state()
        planner.link(context.state, step, state)
        planner.note_unknown(state, containers)
        if "array" in containers:
            planner.note_array(state, 0, is_distinct=False)
            self._lowering.note_repeating(state, context.location)
        if context.is_distinct:
            note_single(self._lowering, context.location)
        return state

    def _rules_of(self, hint: str, context: Context, lower: Callable[[Context], Expr | None]) -> RuleRef:
        """The shared rules; where equal values must have one text there is a second set of them."""
        key = (hint, context.is_distinct)
        if key not in self._shared:
            self._shared[key] = ref = self._lowering.rules.reserve(hint)
            inner = Context(ANYWHERE, self._lowering.planner.new_state(), context.is_distinct)
            self._lowering.rules.fill(ref, Rule(_existing(lower(inner))))
        return self._shared[key]


def _existing(expr: Expr | None) -> Expr:
    assert expr is not None, "an unconstrained value exists"
    return expr
