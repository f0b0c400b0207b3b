"""The states of a transition network: places in a rule, each with the fewest bytes that finish the rule."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from compiler.grammar.grammar import Repeat
from compiler.recogniser.avoidance import Avoidance
from compiler.regular.utf8 import ByteRange, byte_sequences


@dataclass(frozen=True, eq=False, slots=True)
class End:
    """The rule is complete."""

    cost: float = 0


@dataclass(frozen=True, eq=False, slots=True)
class Text:
    """`text` from the byte `at` on, then `after`."""

    text: bytes
    at: int
    after: "State"
    cost: float


@dataclass(frozen=True, eq=False, slots=True)
class Characters:
    """`low` to `high` characters of a class, then `after`."""

    repeat: Repeat
    after: "State"
    cost: float


@dataclass(frozen=True, eq=False, slots=True)
class Rest:
    """Inside a character: these bytes, then `after`."""

    ranges: tuple[ByteRange, ...]
    after: "State"
    cost: float


@dataclass(frozen=True, eq=False, slots=True)
class Call:
    """The rule of that name, then `after`."""

    name: str
    after: "State"
    cost: float


@dataclass(frozen=True, eq=False, slots=True)
class Fork:
    """Any of these."""

    options: tuple["State", ...]
    cost: float


@dataclass(frozen=True, eq=False, slots=True)
class Free:
    """Any bytes that complete none of the texts avoided, of which the last were `held`; then `after`."""

    avoidance: Avoidance
    held: bytes
    after: "State"
    cost: float


State = End | Text | Characters | Rest | Call | Fork | Free


class StateSet:
    """States of one rule that a text leads to at once, and what they reach without reading a byte."""

    __slots__ = ("calls", "cost", "is_end", "most", "readers", "steps")

    def __init__(self, readers: tuple[State, ...], calls: tuple[Call, ...], *, is_end: bool) -> None:
        self.readers = readers
        self.calls = calls
        self.is_end = is_end
        self.cost = 0 if is_end else min((s.cost for s in (*readers, *calls)), default=math.inf)
        self.most = max((s.cost for s in (*readers, *calls)), default=0)
        self.steps: dict[int, StateSet | None] = {}

    @property
    def is_plain(self) -> bool:
        """Whether nothing happens here but that the next byte is read."""
        return not self.calls and not self.is_end

    @property
    def states(self) -> Iterator[State]:
        """All of them."""
        yield from self.readers
        yield from self.calls
        if self.is_end:
            yield END

    def first_bytes(self) -> set[int]:
        """The bytes that may stand here."""
        found: set[int] = set()
        for state in self.readers:
            match state:
                case Text(text, at):
                    found.add(text[at])
                case Characters(Repeat(chars)):
                    firsts = (ranges[0] for ranges in byte_sequences(chars))
                    found.update(byte for low, high in firsts for byte in range(low, high + 1))
                case Rest(ranges):
                    found.update(range(ranges[0][0], ranges[0][1] + 1))
        return found


END = End()
