"""The states of a recursive transition network: points in the body of a rule, and what is to be read there.

The cost of a state is the fewest bytes that complete its rule from there.
"""

from dataclasses import dataclass

from compiler.grammar.grammar import Repeat
from compiler.guard.string_automaton import StringAutomaton
from compiler.regular.utf8 import ByteRange


@dataclass(frozen=True, slots=True)
class ForbiddenTexts:
    """Texts that a stream of bytes must not contain, as an automaton of Aho and Corasick.

    Its states are the beginnings of the texts. The state after some bytes is the longest one they end with.
    """

    texts: tuple[bytes, ...]

    def step(self, state: bytes, byte: int) -> bytes | None:
        """The state after one more byte; None if one of the texts is complete."""
        read = state + bytes([byte])
        if read.endswith(self.texts):
            return None
        suffixes = (read[at:] for at in range(len(read)))
        return next((end for end in suffixes if any(text.startswith(end) for text in self.texts)), b"")


@dataclass(frozen=True, eq=False, slots=True)
class EndState:
    """The rule is complete."""

    cost: float = 0


@dataclass(frozen=True, eq=False, slots=True)
class LiteralState:
    """The bytes of `text` from `at` on, then `after`."""

    text: bytes
    at: int
    after: "NetworkState"
    cost: float

    def num_bytes_in(self, data: bytes, at: int) -> int:
        """How many of its next bytes are at `at` in `data`, up to the end of one of both; 0 if any differs.

        Its last byte is not counted.
        """
        num_bytes = min(len(self.text) - self.at - 1, len(data) - at)
        return num_bytes if self.text.startswith(data[at : at + num_bytes], self.at) else 0


@dataclass(frozen=True, eq=False, slots=True)
class RepeatState:
    """`low` to `high` characters of a class, then `after`."""

    repeat: Repeat
    after: "NetworkState"
    cost: float


@dataclass(frozen=True, eq=False, slots=True)
class CharTailState:
    """Inside a character: a byte of each range, then `after`."""

    ranges: tuple[ByteRange, ...]
    after: "NetworkState"
    cost: float


@dataclass(frozen=True, eq=False, slots=True)
class CallState:
    """A sentence of the rule `name`, then `after`."""

    name: str
    after: "NetworkState"
    cost: float


@dataclass(frozen=True, eq=False, slots=True)
class ChoiceState:
    """Any of the options."""

    options: tuple["NetworkState", ...]
    cost: float


@dataclass(frozen=True, eq=False, slots=True)
class ProseState:
    """Any bytes without a forbidden text, `progress` being their state in `forbidden`; then `after`."""

    forbidden: ForbiddenTexts
    progress: bytes
    after: "NetworkState"
    cost: float


@dataclass(frozen=True, eq=False, slots=True)
class TextState:
    """In a state of the automaton of a text; then `after`, which begins with the closing quote."""

    automaton: StringAutomaton
    number: int
    after: "NetworkState"
    cost: float


SharedState = LiteralState | RepeatState | CharTailState | CallState | ProseState | TextState
NetworkState = EndState | ChoiceState | SharedState

END = EndState()
LONG_LITERAL = 16
"""So many bytes of a literal are read at once, and no sets of states are made for those between."""
