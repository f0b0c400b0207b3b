"""JSON texts of given values, in the formatting that models are trained on."""

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from compiler.grammar.grammar import Expr, Literal, choice, concat
from compiler.scalars.char_encoding import QUOTE


@dataclass(frozen=True, slots=True)
class JsonFormatting:
    """The separators, as `json.dumps` calls them, and whether non-ASCII characters may also be escaped.

    No other whitespace is admitted, so a model cannot go on writing blanks.
    """

    item_separator: Expr
    key_separator: Expr
    ascii_escapes: bool = False

    @classmethod
    def with_separators(cls, item_separator: str, key_separator: str) -> "JsonFormatting":
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
