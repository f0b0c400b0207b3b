"""Lowering of listed values, those of `const` and `enum`."""

from typing import Any

from compiler.frontend.keywords import listed_values
from compiler.frontend.source_map import SchemaLocation, SourceMap
from compiler.grammar.grammar import Expr, choice
from compiler.guard.path_state_builder import ItemStep, KeyStep, PathStep
from compiler.guard.planner import Planner
from compiler.lowering.constraints import Context, without_key_order
from compiler.lowering.lowering import Lowering
from toolspecs.schemas.drafts import SchemaDraft

_NOT_ALIKE = "without numbers beyond 2**53 that validators may take for others of the schema"


def lower_listed(lowering: Lowering, values: list[Any], context: Context) -> Expr | None:
    """The JSON texts of the listed values, with their keys in the order in which the document lists them.

    Where equal values must have one text, their keys are in the order in which objects at this location are
    written. Large numbers that validators compare differently are left out; None if nothing is left.
    """
    listed = [
        lowering.large_numbers.as_read(value) for value in values if _is_undisputed(lowering, value, context)
    ]
    if len(listed) < len(values):
        lowering.reporter.note_narrowed(context.location, "enum", _NOT_ALIKE)
    if not listed:
        return None
    for value in listed:
        _note(lowering.planner, context.state, value)
    if any(map(_has_order, listed)):
        lowering.reporter.note_narrowed(context.location, "enum", "keys in one order")
    order = _as_declared if context.is_distinct else _as_listed
    ordered = [order(lowering.source_map, value, context.location) for value in listed]
    return choice(*(lowering.formatting.text(value, is_unique=context.is_distinct) for value in ordered))


def _is_undisputed(lowering: Lowering, value: Any, context: Context) -> bool:
    """Whether all validators agree that a listed value is admitted, as it is written here."""
    has_only_digits = context.is_distinct or lowering.schema.draft == SchemaDraft.DRAFT_4
    return lowering.large_numbers.can_be_listed(
        value, has_only_digits=has_only_digits, is_distinct=context.is_distinct
    )


def _has_order(value: Any) -> bool:
    """Whether an object in a value has several keys."""
    if isinstance(value, dict):
        return len(value) > 1 or any(map(_has_order, value.values()))
    return isinstance(value, list) and any(map(_has_order, value))


def _note(planner: Planner, state: int, value: Any) -> None:
    """Tell the planner of the strings in a value, and of the arrays that repeat an item."""
    inner: list[tuple[PathStep, Any]] = []
    if isinstance(value, str):
        planner.note_string(state)
    elif isinstance(value, list):
        inner = [(ItemStep(index), item) for index, item in enumerate(value)]
        if len(set(map(without_key_order, value))) < len(value):
            planner.note_array(state, len(value), is_distinct=False)
    elif isinstance(value, dict):
        inner = [(KeyStep(key), item) for key, item in value.items()]
        planner.note_listed_object(state, value)
    for step, item in inner:
        if isinstance(item, str | dict | list):
            target = planner.new_state()
            planner.link(state, step, target)
            _note(planner, target, item)


def _as_listed(source_map: SourceMap, value: Any, location: SchemaLocation) -> Any:
    """The value with its keys in the order in which `enum` or `const` has them."""
    if not isinstance(value, dict | list):
        return value
    unordered = without_key_order(value)
    listed = (same for _, schema in source_map.schemas(location) for _, same in listed_values(schema))
    return next((same for same in listed if without_key_order(same) == unordered), value)


def _as_declared(source_map: SourceMap, value: Any, location: SchemaLocation) -> Any:
    """The value with its keys in the order in which `properties` declares them."""
    if isinstance(value, list):
        return [
            _as_declared(source_map, item, source_map.item(location, index))
            for index, item in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value
    order = [key for key in source_map.mentioned(location) if key in value]
    order += sorted(value.keys() - order)
    return {key: _as_declared(source_map, value[key], source_map.property(location, key)) for key in order}
