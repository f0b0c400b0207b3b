"""JSON texts of given values: how they are formatted, and the lowering of `const` and `enum`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from compiler.grammar.grammar import Expr, Literal, choice, concat
from compiler.guard.planner import ItemStep, KeyStep
from compiler.lowering.constraints import without_key_order
from compiler.report import Verdict
from compiler.scalars.char_encoding import QUOTE

if TYPE_CHECKING:
    from compiler.frontend.source_map import SchemaLocation, SourceMap
    from compiler.guard.planner import PathStep, Planner
    from compiler.lowering.constraints import Context
    from compiler.lowering.lowering import Lowering

_NOT_ALIKE = "without numbers beyond 2**53 that validators may take for others of the schema"


@dataclass(frozen=True, slots=True)
class JsonFormatting:
    """The separators, as `json.dumps` calls them, and whether non-ASCII characters may also be escaped.

    No other whitespace is admitted, so a model cannot go on writing blanks.
    """

    item_separator: Expr
    key_separator: Expr
    ascii_escapes: bool = False

    @classmethod
    def with_separators(cls, item_separator: str, key_separator: str) -> JsonFormatting:
        """Exactly these separators, the ones that a model was trained on."""
        return cls(Literal(item_separator), Literal(key_separator))

    def text(self, value: Any, *, is_unique: bool = False) -> Expr:
        """The text of a value, its keys in the given order; `is_unique` gives equal numbers one text.

        >>> SPACED.text({"a": [1, None]})
        Literal(text='{"a": [1, null]}')
        """
        match value:
            case str():
                return self._string(value)
            case list():
                return self._joined("[", [self.text(item, is_unique=is_unique) for item in value], "]")
            case dict():
                members = [
                    concat(self.text(key), self.key_separator, self.text(inner, is_unique=is_unique))
                    for key, inner in value.items()
                ]
                return self._joined("{", members, "}")
            case float() | Decimal() if is_unique:
                return Literal(_shortest_decimal(value))
            case Decimal():
                return Literal(str(value).lower())
            case _:
                return Literal(json.dumps(value))

    def _string(self, text: str) -> Expr:
        plain = json.dumps(text, ensure_ascii=False)
        if not self.ascii_escapes or plain == json.dumps(text):
            return Literal(plain)
        return concat(QUOTE, *map(_plain_or_escaped, text), QUOTE)

    def _joined(self, opening: str, parts: list[Expr], closing: str) -> Expr:
        separated = [e for part in parts for e in (self.item_separator, part)][1:]
        return concat(Literal(opening), *separated, Literal(closing))


def _plain_or_escaped(char: str) -> Expr:
    encodings = {json.dumps(char, ensure_ascii=is_ascii)[1:-1]: None for is_ascii in (False, True)}
    return choice(*map(Literal, encodings))


def _shortest_decimal(value: float | Decimal) -> str:
    """A number without exponent, trailing zeros or a sign before zero."""
    exact = Decimal(str(value)).normalize()
    return format(exact or abs(exact), "f")


FLEXIBLE = JsonFormatting(
    choice(Literal(", "), Literal(",")), choice(Literal(": "), Literal(":")), ascii_escapes=True
)
"""One blank or none after each separator, which covers what every compact serializer writes."""

SPACED = JsonFormatting.with_separators(", ", ": ")
"""What Python's `json.dumps` writes, which most models were trained on."""


def lower_enum(lowering: Lowering, values: list[Any], context: Context) -> Expr | None:
    """The JSON texts of the listed values, with their keys in the order in which the document lists them.

    Where equal values must have one text, their keys are in the order in which objects at this location are
    written. Large numbers that validators compare differently are left out; None if nothing is left.
    """
    listed = [lowering.large_numbers.as_read(value) for value in values if lowering.can_list(value, context)]
    if len(listed) < len(values):
        lowering.reporter.note(context.location, "enum", Verdict.NARROWED, _NOT_ALIKE)
    if not listed:
        return None
    for value in listed:
        _mark(lowering.planner, context.state, value)
    if any(map(_has_order, listed)):
        lowering.reporter.note(context.location, "enum", Verdict.NARROWED, "keys in one order")
    order = _as_declared if context.is_distinct else _as_listed
    ordered = [order(lowering.source_map, value, context.location) for value in listed]
    return choice(*(lowering.formatting.text(value, is_unique=context.is_distinct) for value in ordered))


def _has_order(value: Any) -> bool:
    """Whether an object in a value has several keys."""
    if isinstance(value, dict):
        return len(value) > 1 or any(map(_has_order, value.values()))
    return isinstance(value, list) and any(map(_has_order, value))


def _mark(planner: Planner, state: int, value: Any) -> None:
    """Tell the planner of the strings in a value, and of the arrays that repeat an item."""
    inner: list[tuple[PathStep, Any]] = []
    if isinstance(value, str):
        planner.mark_string(state)
    elif isinstance(value, list):
        inner = [(ItemStep(index), item) for index, item in enumerate(value)]
        if len(set(map(without_key_order, value))) < len(value):
            planner.mark_array(state, len(value), is_distinct=False)
    elif isinstance(value, dict):
        inner = [(KeyStep(key), item) for key, item in value.items()]
        planner.mark_listed_object(state, value)
    for step, item in inner:
        if isinstance(item, str | dict | list):
            target = planner.new_state()
            planner.link(state, step, [target])
            _mark(planner, target, item)


def _as_listed(source_map: SourceMap, value: Any, location: SchemaLocation) -> Any:
    """The value with its keys in the order in which `enum` or `const` has them."""
    if isinstance(value, dict | list):
        unordered = without_key_order(value)
        for _, schema in source_map.schemas(location):
            listed = schema.get("enum")
            for candidate in (*(listed if isinstance(listed, list) else ()), schema.get("const")):
                if without_key_order(candidate) == unordered:
                    return candidate
    return value


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
