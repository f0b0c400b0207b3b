"""Positions outside of units and answers: in free text, in thoughts, in headers and in the closing.

`OutputDispatcher` makes them, and leads from them into units and answers (`compiler.linker.inner_positions`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from compiler.closing.closer import Closable
from compiler.compiled_format import CompiledFormat
from compiler.grammar.grammar import Expr, concat, union
from compiler.linker.dispatch_states import DispatchState, FreeText, HeaderMatch
from compiler.linker.dispatcher import CallOrAnswer, Dispatcher, Thought
from compiler.linker.inner_positions import InAnswer, InUnit
from compiler.linker.linked_matcher import Position
from compiler.linker.rest_of_output import (
    completions_after,
    completions_of_text,
    literal,
    rest_after,
    rest_of_text,
    rest_of_thought,
)
from compiler.matcher import Bitmask
from compiler.output_parts import OutputPart, TextPart, ThoughtPart
from compiler.recogniser.rest_rules import RestRules
from compiler.recogniser.search_budget import SearchBudget
from compiler.token_index import SparseMask


@dataclass(frozen=True, slots=True)
class OutputDispatcher(Dispatcher):
    """Begins an output, and enters the position that a text leads to."""

    def begin(self, *, is_thinking: bool = False) -> Position:
        """The position at the beginning; `is_thinking`: the prompt has begun a thought."""
        if self.thought is None:
            return self.begin_answer()
        if is_thinking:
            return InThought(self, self.thought, 0)
        return BeforeThought(self, self.thought, self.begin_answer())

    def begin_answer(self, *, is_after_thought: bool = False) -> Position:
        """The position at the beginning, or after a thought, where no thought can follow."""
        start = self.start
        if isinstance(start, FreeText):
            return InText(self, start, 0, is_leading=is_after_thought)
        if isinstance(start, DispatchState):
            return InFixedText(self, start, b"")
        answer = InAnswer.begin(start.answer if isinstance(start, CallOrAnswer) else start, b"")
        assert answer is not None, "a format admits some text"
        return AtCallOrAnswer(self, start, b"", answer) if isinstance(start, CallOrAnswer) else answer

    def enter(self, state: DispatchState, text: bytes, parts: tuple[OutputPart, ...] = ()) -> Position | None:
        """The position after `text`, read from the beginning of a state on; None if it does not fit.

        `parts` are what the token that ends `text` settled before.
        """
        following = state.step(text)
        if isinstance(following, HeaderMatch):
            return self._enter_target(following, parts)
        return None if following is None else InFixedText(self, state, following, parts=parts)

    def _enter_target(self, match: HeaderMatch, parts: tuple[OutputPart, ...]) -> Position | None:
        if isinstance(match.target, FreeText):
            return InText(self, match.target, 0).read(match.rest, parts)
        if isinstance(match.target, CompiledFormat):
            return InAnswer.begin(match.target, match.rest, parts)
        return InUnit.begin(self, match.target, match.rest, parts)


@dataclass(frozen=True, slots=True)
class BeforeThought(Position):
    """At the beginning of an output, after line breaks at most: a thought may begin, or the answer.

    The line breaks are text only if no thought begins after them.
    """

    dispatcher: Dispatcher = field(repr=False)
    thought: Thought
    answer: Position
    num_line_breaks: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether the output may end here."""
        return self.answer.is_complete

    @property
    def is_free(self) -> bool:
        """Whether the answer may begin with free text; a thought is free text too."""
        return self.answer.is_free

    def fill(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite a row with the tokens that may come next."""
        self.answer.fill(bitmask, row)
        SparseMask.of_ids([self.thought.begin_id]).add(bitmask[row])

    def accept(self, token_id: int, token: bytes) -> Position | None:
        """The position after a token; None if the token is not allowed."""
        if token_id == self.thought.begin_id:
            return InThought(self.dispatcher, self.thought, 0)
        answer = self.answer.accept(token_id, token)
        if isinstance(answer, InText) and not token.strip(b"\n"):
            num_line_breaks = self.num_line_breaks + len(token)
            return BeforeThought(self.dispatcher, self.thought, answer, num_line_breaks)
        if answer is None or not self.num_line_breaks:
            return answer
        return replace(answer, parts=(*self.pending_parts(), *answer.parts))

    def must_compile(self, token: bytes) -> bool:
        """See `Closable.must_compile`."""
        return self.answer.must_compile(token)

    def fork(self) -> "BeforeThought":
        """This position, for another matcher to go on from: the answer's matcher advances in place."""
        return replace(self, answer=self.answer.fork())

    def after(self, token_id: int, token: bytes) -> Closable | None:
        """Where a closer is after a token."""
        if token_id != self.thought.begin_id and isinstance(self.answer, InAnswer):
            return self.answer.after(token_id, token)  # to accept it would advance the matcher
        return self.accept(token_id, token)

    def completions(self, budget: SearchBudget) -> Iterator[bytes]:
        """What completes the answer: a thought is optional."""
        return self.answer.completions(budget)

    def rest(self, rules: RestRules) -> Expr | None:
        """A thought and the answer, or the answer alone."""
        begin = literal(self.dispatcher.vocabulary.tokens[self.thought.begin_id])
        thought = rest_of_thought(self.dispatcher, self.thought, rules)
        return union([concat(begin, thought), self.answer.rest(rules)])

    def pending_parts(self) -> tuple[OutputPart, ...]:
        """What is not settled yet, as it is if the output ends here."""
        return (TextPart(b"\n" * self.num_line_breaks),) if self.num_line_breaks else ()

    def undo(self) -> None:
        """Take back the last token accepted from here."""
        self.answer.undo()


@dataclass(frozen=True, slots=True)
class InThought(Position):
    """In a thought, `state` bytes into the text that would end it."""

    dispatcher: Dispatcher = field(repr=False)
    thought: Thought
    state: int
    is_complete = False
    is_thought = True
    is_free = True

    def fill(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite a row with the tokens that may come next."""
        self.thought.text.fill(self.state, bitmask[row])

    def accept(self, token_id: int, token: bytes) -> Position | None:
        """The position after a token; None if the token is not allowed."""
        if token_id == self.thought.end_id:
            return self.dispatcher.begin_answer(is_after_thought=True)
        if token_id in self.dispatcher.vocabulary.marker_ids:
            return None
        state, rest = self.thought.text.step(self.state, token)
        if rest is not None:
            return None
        return InThought(self.dispatcher, self.thought, state, parts=(ThoughtPart(token),))

    def completions(self, budget: SearchBudget) -> Iterator[bytes]:
        """The end of the thought, and what completes the answer."""
        end = self.dispatcher.vocabulary.tokens[self.thought.end_id]
        yield from (end + text for text in self.dispatcher.begin_answer().completions(budget))

    def rest(self, rules: RestRules) -> Expr | None:
        """The rest of the thought, and the answer."""
        return rest_of_thought(self.dispatcher, self.thought, rules)


@dataclass(frozen=True, slots=True)
class InText(Position):
    """In free text, `state` bytes into what ends it.

    `is_leading`: only line breaks have come since a thought; they are neither thought nor text.
    """

    dispatcher: Dispatcher = field(repr=False)
    text: FreeText
    state: int
    is_leading: bool = False
    is_free = True

    @property
    def is_complete(self) -> bool:
        """Whether the output may end here."""
        return self.text.may_stop

    def fill(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite a row with the tokens that may come next."""
        self.text.fill(self.state, bitmask[row])

    def accept(self, token_id: int, token: bytes) -> Position | None:
        """The position after a token; None if the token is not allowed."""
        if token_id not in self.dispatcher.vocabulary.marker_ids:
            return self.read(token)
        if token_id != self.text.marker_id or self.text.exit is None:
            return None
        return self.dispatcher.enter(self.text.exit, token)

    def read(self, text: bytes, parts: tuple[OutputPart, ...] = ()) -> Position | None:
        """The position after text that is no marker token; `parts` are what its token settled before."""
        state, rest = self.text.step(self.state, text)
        if rest is None:
            settled = self._settled(text, len(self.text.held_back(state)))
            is_leading = self.is_leading and not settled
            return InText(self.dispatcher, self.text, state, is_leading, parts=(*parts, *settled))
        if self.text.exit is None or not self.text.allows(rest):
            return None
        settled = self._settled(text, len(self.text.pattern) + len(rest))
        return self.dispatcher.enter(self.text.exit, self.text.pattern + rest, (*parts, *settled))

    def completions(self, budget: SearchBudget) -> Iterator[bytes]:
        """Nothing where the output may stop; else what ends the text, and what follows."""
        return completions_of_text(self.dispatcher, self.text, self.state, budget)

    def rest(self, rules: RestRules) -> Expr | None:
        """The rest of the text, and what follows it."""
        return rest_of_text(self.dispatcher, self.text, self.state, rules)

    @property
    def is_thought(self) -> bool:
        """Whether the next token is one of a thought."""
        return self.text.is_thought

    def pending_parts(self) -> tuple[OutputPart, ...]:
        """What is not settled yet, as it is if the output ends here."""
        return self._settled(b"", 0)

    def _settled(self, text: bytes, num_open: int) -> tuple[OutputPart, ...]:
        """The part of what was held back and of `text`, without the last `num_open` bytes of them."""
        known = self.text.held_back(self.state) + text
        known = known[: len(known) - num_open]
        known = known.lstrip(b"\n") if self.is_leading else known
        part = ThoughtPart if self.text.is_thought else TextPart
        return (part(known),) if known else ()


@dataclass(frozen=True, slots=True)
class InFixedText(Position):
    """In a header or in the closing: `read` is what has been read since `state` was entered."""

    dispatcher: Dispatcher = field(repr=False)
    state: DispatchState
    read: bytes

    @property
    def is_complete(self) -> bool:
        """Whether the output may end here."""
        return self.state.is_closed(self.read)

    def fill(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite a row with the tokens that may come next."""
        self.state.mask(self.read).fill(bitmask[row])

    def accept(self, token_id: int, token: bytes) -> Position | None:  # noqa: ARG002 - the protocol's
        """The position after a token; None if the token is not allowed."""
        return self.dispatcher.enter(self.state, self.read + token)

    def must_compile(self, token: bytes) -> bool:
        """See `Closable.must_compile`."""
        return self.dispatcher.must_compile(self.state, self.read + token)

    def completions(self, budget: SearchBudget) -> Iterator[bytes]:
        """The rest of the closing, or of a header, and what follows it."""
        return completions_after(self.dispatcher, self.state, self.read, budget)

    def rest(self, rules: RestRules) -> Expr | None:
        """The rest of the closing, or of a header, and what follows it."""
        return rest_after(self.dispatcher, self.state, self.read, rules)

    def forced_text(self) -> bytes:
        """What every continuation begins with."""
        return self.dispatcher.forced_after(self.state, self.read)


@dataclass(frozen=True, slots=True)
class AtCallOrAnswer(Position):
    """After `read`, with which both calls and answers begin; `answer` is the position in an answer."""

    dispatcher: Dispatcher = field(repr=False)
    start: CallOrAnswer
    read: bytes
    answer: InAnswer

    @property
    def is_complete(self) -> bool:
        """Whether the output may end here."""
        return self.answer.is_complete

    def fill(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite a row with the tokens that may come next."""
        self.answer.fill(bitmask, row)
        self.start.calls.mask(self.read).add(bitmask[row])

    def accept(self, token_id: int, token: bytes) -> Position | None:
        """The position after a token; None if the token is not allowed."""
        read = self.read + token
        calls = self.dispatcher.enter(self.start.calls, read)
        answer = self._answer_after(token_id, read)
        if calls is None or answer is None:
            return calls or answer  # whatever was read before is text only in the answer's parts
        return AtCallOrAnswer(self.dispatcher, self.start, read, answer)

    def must_compile(self, token: bytes) -> bool:
        """See `Closable.must_compile`."""
        return self.dispatcher.must_compile(self.start.calls, self.read + token)

    def completions(self, budget: SearchBudget) -> Iterator[bytes]:
        """What completes an answer, and the shortest calls."""
        yield from self.answer.completions(budget)
        yield from completions_after(self.dispatcher, self.start.calls, self.read, budget)

    def rest(self, rules: RestRules) -> Expr | None:
        """The rest of an answer, or of a call."""
        calls = rest_after(self.dispatcher, self.start.calls, self.read, rules)
        return union([self.answer.rest(rules), calls])

    def pending_parts(self) -> tuple[OutputPart, ...]:
        """What is not settled yet, as it is if the output ends here."""
        return (TextPart(self.read),) if self.read else ()

    def _answer_after(self, token_id: int, read: bytes) -> InAnswer | None:
        """The position in an answer, with a matcher of its own, so that this position stays a value."""
        if not self.answer.matcher.accept(token_id):
            return None
        self.answer.matcher.rollback(1)
        return InAnswer.begin(self.start.answer, read)
