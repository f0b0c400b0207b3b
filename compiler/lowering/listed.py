"""Lowering of const and enum: the values that a schema lists, each in one spelling."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from compiler.grammar.grammar import choice
from compiler.guard.planner import Item, Key

if TYPE_CHECKING:
    from compiler.frontend.outline import Outline, Site
    from compiler.grammar.grammar import Expr
    from compiler.guard.planner import Planner, Step
    from compiler.lowering.lowering import Lowering


def lower_listed(lowering: Lowering, values: list[Any], site: Site) -> Expr:
    """The JSON texts of the values listed at a place, with their keys in the order of the document.

    Where equal values must be spelled alike, in the order in which objects are written there.
    """
    for value in values:
        _mark(lowering.planner, lowering.place, value)
    spell = _in_order if lowering.is_distinct else _as_written
    written = [spell(lowering.outline, value, site) for value in values]
    return choice(*(lowering.style.text(value, is_unique=lowering.is_distinct) for value in written))


def _mark(planner: Planner, place: int, value: Any) -> None:
    """Tell the planner of the strings in a value, and of the arrays that repeat an item."""
    inner: list[tuple[Step, Any]] = []
    if isinstance(value, str):
        planner.mark_string(place)
    elif isinstance(value, list):
        inner = [(Item(index), item) for index, item in enumerate(value)]
        if len(set(map(_without_order, value))) < len(value):
            planner.mark_array(place, len(value), is_distinct=False)
    elif isinstance(value, dict):
        inner = [(Key(key), item) for key, item in value.items()]
    for step, item in inner:
        if isinstance(item, str | dict | list):
            target = planner.place()
            planner.link(place, step, [target])
            _mark(planner, target, item)


def _as_written(outline: Outline, value: Any, site: Site) -> Any:
    """The value as the document lists it."""
    if isinstance(value, dict | list):
        spelling = _without_order(value)
        for _, schema in outline.schemas(site):
            listed = schema.get("enum")
            for candidate in (*(listed if isinstance(listed, list) else ()), schema.get("const")):
                if _without_order(candidate) == spelling:
                    return candidate
    return value


def _in_order(outline: Outline, value: Any, site: Site) -> Any:
    """The value with its keys in the order in which objects are written there."""
    if isinstance(value, list):
        return [_in_order(outline, item, outline.item(site, index)) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    order = [key for key in outline.mentioned(site) if key in value]
    order += sorted(value.keys() - order)
    return {key: _in_order(outline, value[key], outline.property(site, key)) for key in order}


def _without_order(value: Any) -> str:
    """Equal for values that differ in the order of keys alone; unlike `==`, it tells 1 from true."""
    return json.dumps(value, sort_keys=True, default=str)
