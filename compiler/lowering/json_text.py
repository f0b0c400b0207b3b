"""How JSON is spelled where JSON leaves a choice."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from compiler.grammar.grammar import Expr, Literal, choice, concat
from compiler.guard.planner import ItemStep, KeyStep
from compiler.scalars.char_encoding import QUOTE

if TYPE_CHECKING:
    from compiler.frontend.source_map import SchemaLocation, SourceMap
    from compiler.grammar.grammar import Expr
    from compiler.guard.planner import PathStep, Planner
    from compiler.lowering.lowering import Lowering


@dataclass(frozen=True, slots=True)
class JsonFormatting:
    """The separators between members and after keys, and whether non-ASCII literals may be escaped too.

    No other whitespace is ever admitted: a loop of blanks cannot begin.
    """

    item_separator: Expr
    key_separator: Expr
    ascii_escapes: bool = False

    @classmethod
    def with_separators(cls, item_separator: str, key_separator: str) -> JsonFormatting:
        """Exactly these separators, as a model was trained on them."""
        return cls(Literal(item_separator), Literal(key_separator))

    def text(self, value: Any, *, is_unique: bool = False) -> Expr:
        """A JSON value, its keys in the order given; with `is_unique`, equal numbers are spelled alike."""
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
        return concat(QUOTE, *map(_either_spelling, text), QUOTE)

    def _joined(self, opening: str, parts: list[Expr], closing: str) -> Expr:
        separated = [e for part in parts for e in (self.item_separator, part)][1:]
        return concat(Literal(opening), *separated, Literal(closing))


def _either_spelling(char: str) -> Expr:
    spellings = {json.dumps(char, ensure_ascii=is_ascii)[1:-1]: None for is_ascii in (False, True)}
    return choice(*map(Literal, spellings))


def _shortest_decimal(value: float | Decimal) -> str:
    """A number without exponent, trailing zeros or a sign before zero."""
    exact = Decimal(str(value)).normalize()
    return format(exact or abs(exact), "f")


FLEXIBLE = JsonFormatting(
    choice(Literal(", "), Literal(",")), choice(Literal(": "), Literal(":")), ascii_escapes=True
)
"""A blank or none after each separator: reads what any compact serializer writes."""


SPACED = JsonFormatting.with_separators(", ", ": ")
"""As Python's `json.dumps` writes, which is what most models were trained on."""


def lower_listed(lowering: Lowering, values: list[Any], location: SchemaLocation) -> Expr:
    """The JSON texts of the values listed at a place, with their keys in the order of the document.

    Where equal values must be spelled alike, in the order in which objects are written there.
    """
    for value in values:
        _mark(lowering.planner, lowering.place, value)
    spell = _in_order if lowering.is_distinct else _as_written
    written = [spell(lowering.source_map, value, location) for value in values]
    return choice(*(lowering.formatting.text(value, is_unique=lowering.is_distinct) for value in written))


def _mark(planner: Planner, place: int, value: Any) -> None:
    """Tell the planner of the strings in a value, and of the arrays that repeat an item."""
    inner: list[tuple[PathStep, Any]] = []
    if isinstance(value, str):
        planner.mark_string(place)
    elif isinstance(value, list):
        inner = [(ItemStep(index), item) for index, item in enumerate(value)]
        if len(set(map(_without_order, value))) < len(value):
            planner.mark_array(place, len(value), is_distinct=False)
    elif isinstance(value, dict):
        inner = [(KeyStep(key), item) for key, item in value.items()]
    for step, item in inner:
        if isinstance(item, str | dict | list):
            target = planner.new_state()
            planner.link(place, step, [target])
            _mark(planner, target, item)


def _as_written(source_map: SourceMap, value: Any, location: SchemaLocation) -> Any:
    """The value as the document lists it."""
    if isinstance(value, dict | list):
        spelling = _without_order(value)
        for _, schema in source_map.schemas(location):
            listed = schema.get("enum")
            for candidate in (*(listed if isinstance(listed, list) else ()), schema.get("const")):
                if _without_order(candidate) == spelling:
                    return candidate
    return value


def _in_order(source_map: SourceMap, value: Any, location: SchemaLocation) -> Any:
    """The value with its keys in the order in which objects are written there."""
    if isinstance(value, list):
        return [
            _in_order(source_map, item, source_map.item(location, index)) for index, item in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value
    order = [key for key in source_map.mentioned(location) if key in value]
    order += sorted(value.keys() - order)
    return {key: _in_order(source_map, value[key], source_map.property(location, key)) for key in order}


def _without_order(value: Any) -> str:
    """Equal for values that differ in the order of keys alone; unlike `==`, it tells 1 from true."""
    return json.dumps(value, sort_keys=True, default=str)
