"""How JSON is spelled where JSON leaves a choice."""

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from compiler.grammar.grammar import Expr, Literal, choice, concat
from compiler.scalars.char_encoding import QUOTE


@dataclass(frozen=True, slots=True)
class Style:
    """The separators between members and after keys, and whether non-ASCII literals may be escaped too.

    No other whitespace is ever admitted: a loop of blanks cannot begin.
    """

    comma: Expr
    colon: Expr
    ascii_escapes: bool = False

    def text(self, value: Any, *, is_unique: bool = False) -> Expr:
        """A JSON value, its keys in the order given; with `is_unique`, equal numbers are spelled alike."""
        match value:
            case str():
                return self._string(value)
            case list():
                return self._joined("[", [self.text(item, is_unique=is_unique) for item in value], "]")
            case dict():
                members = [
                    concat(self.text(key), self.colon, self.text(inner, is_unique=is_unique))
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
        separated = [e for part in parts for e in (self.comma, part)][1:]
        return concat(Literal(opening), *separated, Literal(closing))


def _either_spelling(char: str) -> Expr:
    spellings = {json.dumps(char, ensure_ascii=is_ascii)[1:-1]: None for is_ascii in (False, True)}
    return choice(*map(Literal, spellings))


def _shortest_decimal(value: float | Decimal) -> str:
    """A number without exponent, trailing zeros or a sign before zero."""
    exact = Decimal(str(value)).normalize()
    return format(exact or abs(exact), "f")


FLEXIBLE = Style(choice(Literal(", "), Literal(",")), choice(Literal(": "), Literal(":")), ascii_escapes=True)
"""A blank or none after each separator: reads what any compact serializer writes."""


def spelled(comma: str, colon: str) -> Style:
    """Exactly these separators, as a model was trained on them."""
    return Style(Literal(comma), Literal(colon))


SPACED = spelled(", ", ": ")
"""As Python's `json.dumps` writes, which is what most models were trained on."""
