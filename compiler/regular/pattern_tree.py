"""The syntax tree of a pattern, and the error of a pattern that has none or no automaton.

`compiler.regular.ecma` reads patterns into trees, and `compiler.regular.language` makes automata of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from compiler.regular.charset import Ranges


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set, such as `a`, `.` or `[^x]`."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Concat:
    """The items one after the other."""

    items: tuple["PatternNode", ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    """Any one of the options: `a|b`."""

    options: tuple["PatternNode", ...]


@dataclass(frozen=True, slots=True)
class Repetition:
    """The item `low` to `high` times, None for no upper bound: `a{2,3}`, `a*`."""

    item: "PatternNode"
    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class Assertion:
    r"""A position: `^`, `$`, `b` and `B` for `\b` and `\B`; `$?`, `b?` and `B?` for their outer readings."""

    kind: str


@dataclass(frozen=True, slots=True)
class Lookaround:
    """A lookahead or lookbehind: `(?=a)`, `(?<!a)`."""

    item: "PatternNode"
    is_ahead: bool
    is_negative: bool


PatternNode = Chars | Concat | Alternation | Repetition | Assertion | Lookaround


def nodes(node: PatternNode) -> Iterator[PatternNode]:
    """A node and all nodes below it."""
    yield node
    match node:
        case Concat(children) | Alternation(children):
            for child in children:
                yield from nodes(child)
        case Repetition(item) | Lookaround(item):
            yield from nodes(item)
        case Chars() | Assertion():
            pass
        case _:
            assert_never(node)


class PatternError(ValueError):
    """A pattern that cannot be read or is not regular; the message says which part of it is to blame.

    `is_disputed` tells that engines read it, and read it differently.
    """

    def __init__(
        self, reason: str, suggestion: str = "Write the pattern without it.", *, is_disputed: bool = False
    ) -> None:
        super().__init__(reason)
        self.suggestion = suggestion
        self.is_disputed = is_disputed
