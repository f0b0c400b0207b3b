"""The syntax tree of a pattern."""

from dataclasses import dataclass

from compiler.regular.charset import Ranges


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Concat:
    """One after the other."""

    items: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    """Any one of."""

    options: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Repetition:
    """`low` to `high` times; None is without bound."""

    item: "Node"
    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class Assertion:
    """`^`, `$`, `b` or `B`; the latter read outer are `b?` and `B?`."""

    kind: str


@dataclass(frozen=True, slots=True)
class Look:
    """A lookaround."""

    item: "Node"
    is_ahead: bool
    is_negative: bool


Node = Chars | Concat | Alternation | Repetition | Assertion | Look
