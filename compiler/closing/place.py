"""The place: where an output is, and what completes it from there.

Outside of units and answers it is the dispatcher's position. Inside, a text is read by its grammar, as far as
the shortest end of it: what a matcher knows of that it does not tell.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from compiler.linker.dispatch_states import FreeText
from compiler.linker.dispatcher import (
    AtCallOrAnswer,
    BeforeThought,
    InAnswer,
    InFixedText,
    InText,
    InThought,
    InUnit,
)
from compiler.recogniser.recogniser import Recogniser
from compiler.schema import CompiledSchema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compiler.linker.dispatch_states import DispatchState, HeaderTarget
    from compiler.linker.dispatcher import Dispatcher
    from compiler.linker.linked_matcher import Position


@dataclass(frozen=True, slots=True)
class Outside:
    """Anywhere but in a unit or an answer, as the dispatcher has it."""

    position: Position

    def after(self, token_id: int, token: bytes) -> Place | None:
        """The place after a token; None if it does not fit."""
        position = self.position.accept(token_id, token)
        if position is None:
            return None
        place = place_of(position, token)
        self.position.undo()
        return place

    def completions(self) -> Iterator[bytes]:
        """What completes the output, once for every way there is on."""
        return _completions(self.position)

    def is_far(self, num_bytes: int, budget: int) -> bool:  # noqa: ARG002 - the places' common method
        """Whether `num_bytes` more cannot make the shortest completion longer than `budget`; never known."""
        return False


@dataclass(frozen=True, slots=True)
class Inside:
    """In an answer in a given format, with which the output ends."""

    recogniser: Recogniser
    growth: int

    def after(self, token_id: int, token: bytes) -> Place | None:  # noqa: ARG002 - the places' common method
        """The place after a token; None if it does not fit."""
        recogniser = self.recogniser.fork()
        return replace(self, recogniser=recogniser) if recogniser.advance(token) else None

    def completions(self) -> Iterator[bytes]:
        """What completes the output."""
        yield self.recogniser.completion() + self.closing

    def is_far(self, num_bytes: int, budget: int) -> bool:
        """Whether `num_bytes` more cannot make the shortest completion longer than `budget`."""
        return self.recogniser.bound(self.growth * num_bytes) + len(self.closing) <= budget

    @property
    def closing(self) -> bytes:
        """What stands behind."""
        return b""


@dataclass(frozen=True, slots=True)
class InsideUnit(Inside):
    """In a tool's arguments or the end of its call; `follow` is what comes behind."""

    dispatcher: Dispatcher
    follow: DispatchState

    def after(self, token_id: int, token: bytes) -> Place | None:  # noqa: ARG002 - the places' common method
        """The place after a token; None if it does not fit. Where the call is over, the rest leads on."""
        recogniser = self.recogniser.fork()
        for end in range(1, len(token) + 1):
            if not recogniser.advance(token[end - 1 : end]):
                return None
            if recogniser.is_complete:
                following = self.dispatcher.enter(self.follow, token[end:])
                return None if following is None else place_of(following)
        return replace(self, recogniser=recogniser)

    @property
    def closing(self) -> bytes:
        """What stands behind."""
        return self.follow.closing or b""


Place = Outside | Inside


def place_of(position: Position, token: bytes = b"") -> Place:
    """The place of a dispatcher's position after `token`; units and answers are read by their grammar."""
    match position:
        case InUnit(dispatcher=dispatcher, boundary=boundary, unit=unit, start=start):
            recogniser = Recogniser.of(unit.network)
            recogniser.advance(start)
            return InsideUnit(recogniser, unit.shortest.growth, dispatcher, boundary.after_call)
        case InAnswer(compiled=compiled, start=start, depth=depth):
            return answer_place(compiled, start + token if depth else start)
        case _:
            return Outside(position)


def answer_place(compiled: CompiledSchema, start: bytes = b"") -> Inside:
    """The place in an answer after its first bytes."""
    recogniser = Recogniser.of(compiled.network)
    recogniser.advance(start)
    return Inside(recogniser, compiled.shortest.growth)


def _completions(position: Position) -> Iterator[bytes]:
    """What may follow a position outside of units and answers, to the end."""
    match position:
        case BeforeThought(answer=answer):
            yield from place_of(answer).completions()
        case InThought(dispatcher=dispatcher, thought=thought):
            end = dispatcher.vocabulary.tokens[thought.end_id]
            yield from (end + text for text in place_of(dispatcher.begin_answer()).completions())
        case AtCallOrAnswer(dispatcher=dispatcher, start=start, read=read, answer=answer):
            yield from place_of(answer).completions()
            yield from _behind(start.calls, read, dispatcher)
        case InText(dispatcher=dispatcher, text=text, state=state):
            yield from _leaving(text, state, dispatcher)
        case InFixedText(dispatcher=dispatcher, state=state, read=read):
            yield from _behind(state, read, dispatcher)


def _leaving(text: FreeText, state: int, dispatcher: Dispatcher) -> Iterator[bytes]:
    """What may follow free text, `state` bytes into what ends it."""
    if text.may_stop:
        yield b""
    elif text.exit is not None:
        yield from _behind(text.exit, b"" if text.marker_id else text.pattern[:state], dispatcher)


def _behind(state: DispatchState, read: bytes, dispatcher: Dispatcher) -> Iterator[bytes]:
    """What may follow `read` to the end: the closing, or the shortest call of each tool, names first.

    Or the header of a message that may stop at once; one that leads on is on the shortest way only where
    no other header fits what was read.
    """
    if state.closing is not None and state.closing.startswith(read):
        yield state.closing[len(read) :]
    low, high = state.reach(read)
    headers, lead = state.headers, state.lead or b""
    is_settled = all(_leads_on(target) for target in headers.targets[low:high])
    for at in sorted(range(low, high), key=lambda at: len(headers.keys[at])):
        target, key = headers.targets[at], headers.keys[at]
        header = (lead + key[: len(key) - headers.num_lookahead])[len(read) :]
        if isinstance(target, str):
            yield header + dispatcher.shortest_call(target)
        elif isinstance(target, CompiledSchema):
            yield header + target.shortest_text
        elif target.may_stop or is_settled:
            yield from (header + text for text in _leaving(target, 0, dispatcher))


def _leads_on(target: HeaderTarget) -> bool:
    """Whether an output cannot end where this header leads."""
    return isinstance(target, FreeText) and not target.may_stop
