"""The dispatcher: the fixed part of a linked grammar, which leads into units, and from call to call.

It is a graph of states, made by the linker. A position is somewhere in a state, or in a unit or an answer:

    FreeText       -- a call's trigger, or a message's end -->  DispatchState
    DispatchState  -- a header -->  the unit of a tool, or the FreeText of a message, or an answer
    DispatchState  -- the closing -->  the end of the output
    unit           -- its tail -->  the one DispatchState after every call, `BoundaryTokens.after_call`

`Dispatcher` is what positions know of this graph. `compiler.linker.outer_positions` implements the steps from
one position into another.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from compiler.compiled_format import CompiledFormat
from compiler.linker.boundary_tokens import BoundaryTokens
from compiler.linker.call_text import CallText
from compiler.linker.dispatch_states import DispatchState, FreeText
from compiler.linker.linked_matcher import Position
from compiler.output_parts import ArgumentsPart, OutputPart
from compiler.units.unit import Unit
from compiler.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Thought:
    """What an output may begin with: a marker token, text, and a marker token."""

    begin_id: int
    text: FreeText
    end_id: int


@dataclass(frozen=True, slots=True)
class CallOrAnswer:
    """An output begins with a call or an answer, and no answer begins with the trigger of a call."""

    calls: DispatchState
    answer: CompiledFormat


@dataclass(frozen=True, slots=True)
class Dispatcher(ABC):
    """The fixed part of a linked grammar; its matchers and closers share it.

    `start` is what an output begins with: text, the header of a call or message, an answer, or either a call
    or an answer. `boundary` is None where there are no calls. `call_text` is the state in which the text of
    every call begins.
    """

    vocabulary: Vocabulary = field(repr=False)
    units: Mapping[str, Unit] = field(repr=False)
    start: FreeText | DispatchState | CompiledFormat | CallOrAnswer
    boundary: BoundaryTokens | None
    call_text: CallText
    thought: Thought | None = None

    @abstractmethod
    def begin_answer(self, *, is_after_thought: bool = False) -> Position:
        """The position at the beginning, or after a thought, where no thought can follow."""

    @abstractmethod
    def enter(self, state: DispatchState, text: bytes, parts: tuple[OutputPart, ...] = ()) -> Position | None:
        """The position after `text`, read from the beginning of a state on; None if it does not fit.

        `parts` are what the token that ends `text` settled before.
        """

    def forced_after(self, state: DispatchState, text: bytes) -> bytes:
        """What every output goes on with after `text`, read from the beginning of a state on."""
        forced, target = state.forced(text)
        return forced + self.units[target].forced_start if isinstance(target, str) else forced

    def must_compile(self, state: DispatchState, text: bytes) -> bool:
        """Whether `text`, read in a state, leads to one tool only, whose unit is not compiled yet."""
        target = state.only_target(text)
        return isinstance(target, str) and not self.units[target].is_compiled

    @property
    def after_call(self) -> DispatchState:
        """The state that follows every call."""
        assert self.boundary is not None, "a header leads into a unit"
        return self.boundary.after_call

    @property
    def shortest_closing(self) -> bytes:
        """The shortest text that ends an output after a call."""
        return self.after_call.closing or b""

    def argument_parts(self, text: bytes) -> tuple[ArgumentsPart, ...]:
        """A part with this text of arguments, marker tokens as readers see them; no part if it is empty."""
        return (ArgumentsPart(self.vocabulary.display(text)),) if text else ()
