"""How JSON is spelled where JSON leaves a choice."""

from dataclasses import dataclass

from compiler.grammar import Expr, Literal, choice


@dataclass(frozen=True, slots=True)
class Style:
    """The separators between members and after keys, and whether non-ASCII literals may be escaped too.

    No other whitespace is ever admitted: a loop of blanks cannot begin.
    """

    comma: Expr
    colon: Expr
    ascii_escapes: bool = False


FLEXIBLE = Style(choice(Literal(", "), Literal(",")), choice(Literal(": "), Literal(":")), ascii_escapes=True)
"""A blank or none after each separator: reads what any compact serializer writes."""


def spelled(comma: str, colon: str) -> Style:
    """Exactly these separators, as a model was trained on them."""
    return Style(Literal(comma), Literal(colon))


SPACED = spelled(", ", ": ")
"""As Python's `json.dumps` writes, which is what most models were trained on."""
