"""Positions inside of units and answers, where a grammar describes what may follow.

A matcher's positions share one of xgrammar's matchers, which advances in place. A closer's positions are
values: they parse the text with a recogniser, which knows how the text can end.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import xgrammar as xgr

from compiler.client_grammar_matcher import ClientGrammarMatcher
from compiler.closing.closer import Closable, ParsedText, ShortestTexts
from compiler.compiled_format import CompiledFormat
from compiler.grammar.grammar import Expr, concat
from compiler.guard.guard import GuardState
from compiler.linker.boundary_tokens import BoundaryTokens
from compiler.linker.call_text import CallText
from compiler.linker.dispatcher import Dispatcher
from compiler.linker.linked_matcher import Position
from compiler.linker.rest_of_output import rest_after
from compiler.matcher import Bitmask
from compiler.output_parts import CallEnd, CallStart, OutputPart, TextPart
from compiler.recogniser.recogniser import Recogniser
from compiler.recogniser.rest_rules import RestRules
from compiler.recogniser.search_budget import SearchBudget
from compiler.units.compiled_grammar import GuardedMatcher, forced_text
from compiler.units.unit import Unit


@dataclass(frozen=True, slots=True)
class InUnit(Position):
    """In a tool's arguments or the end of its call.

    `token` is the last token, or the part of the first token that belongs to the unit; `previous` is the
    position before it. `call` tells the arguments from the rest of the call.
    """

    dispatcher: Dispatcher = field(repr=False)
    unit: Unit
    matcher: xgr.GrammarMatcher | ClientGrammarMatcher
    guard_state: GuardState | None
    call: CallText
    token: bytes
    previous: "InUnit | None" = field(default=None, repr=False)
    is_complete = False

    @classmethod
    def begin(
        cls, dispatcher: Dispatcher, name: str, text: bytes, parts: tuple[OutputPart, ...]
    ) -> Position | None:
        """The position in a call, or after it, that begins with `text`; None if no call of the tool does.

        `parts` are what the token that ends `text` settled before.
        """
        unit = dispatcher.units[name]
        num_consumed = unit.consumed(text)
        if num_consumed is None:
            return None
        start, parts = text[:num_consumed], (*parts, CallStart(name))
        matcher, guard_state, call = unit.unguarded_matcher(), unit.guard_state(), dispatcher.call_text
        if start:
            matcher.accept_string(start if guard_state is None else guard_state.marked(start))
        if matcher.is_completed():
            parts = (*parts, *dispatcher.argument_parts(call.complete(start)), CallEnd())
            return dispatcher.enter(dispatcher.after_call, text[num_consumed:], parts)
        guard_state = guard_state and guard_state.read(start)
        assert guard_state is not None or unit.guard is None, "what the unit consumes repeats nothing"
        call, arguments = call.advance(start, matcher)
        parts = (*parts, *dispatcher.argument_parts(arguments))
        return cls(dispatcher, unit, matcher, guard_state, call, start, parts=parts)

    def fill(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite a row with the tokens that may come next."""
        if self.guard_state is None:
            self._fill(bitmask, row)
        else:
            self.guard_state.fill(bitmask[row], self.matcher, lambda: self._fill(bitmask, row))

    def _fill(self, bitmask: Bitmask, row: int) -> None:
        """What the unit's grammar allows, and the tokens that end the unit here."""
        self.matcher.fill_next_token_bitmask(bitmask, row)
        self.complete_mask(bitmask, row)

    @property
    def inner_matcher(self) -> xgr.GrammarMatcher | None:
        """The matcher of xgrammar, unless there is a guard, or its masks may take long."""
        return None if self.guard_state or isinstance(self.matcher, ClientGrammarMatcher) else self.matcher

    def complete_mask(self, bitmask: Bitmask, row: int) -> None:
        """Allow the tokens that end the unit here."""
        bitmask[row, -1] &= self.unit.prepared.index.last_word
        self._boundary.add(self.matcher, bitmask[row], self._marked)

    def accept(self, token_id: int, token: bytes) -> Position | None:
        """The position after a token; None if the token is not allowed."""
        if self.matcher.accept_token(token_id):
            guard_state = self.guard_state and self.guard_state.advance(self.matcher, token_id)
            if guard_state is None and self.guard_state is not None:
                return None
            return self._after(token, guard_state)
        rest = self._boundary.leave(self.matcher, token_id, self._marked)
        if rest is None:
            return None
        if self.guard_state is not None and self.guard_state.read(token) is None:
            self.matcher.rollback(1)
            return None
        return self._over(token[: len(token) - len(rest)], rest)

    def fork(self) -> "InUnit":
        """This position, for another matcher to go on from."""
        guard_state = self.guard_state and self.guard_state.fork()
        return replace(self, matcher=self.matcher.fork(), guard_state=guard_state)

    def _marked(self, text: bytes) -> bytes:
        """A text that follows here, with its key marks."""
        return text if self.guard_state is None else self.guard_state.marked(text)

    def _after(self, token: bytes, guard_state: GuardState | None) -> Position | None:
        """The position after a token that the matcher has accepted."""
        if self.matcher.is_completed():
            return self._over(token, b"")
        call, arguments = self.call.advance(token, self.matcher)
        parts = self.dispatcher.argument_parts(arguments)
        return InUnit(self.dispatcher, self.unit, self.matcher, guard_state, call, token, self, parts=parts)

    def _over(self, text: bytes, rest: bytes) -> Position | None:
        """The position after a token whose beginning, `text`, completes the unit; `rest` is its remainder."""
        arguments = self.dispatcher.argument_parts(self.call.complete(text))
        parts: tuple[OutputPart, ...] = (*arguments, CallEnd())
        return self.dispatcher.enter(self.dispatcher.after_call, rest, parts)

    def after(self, token_id: int, token: bytes) -> Closable | None:
        """Where a closer is after a token."""
        return self._parsed().after(token_id, token)

    def completions(self, budget: SearchBudget) -> Iterator[bytes]:
        """What completes the call, and the closing."""
        return self._parsed().completions(budget)

    def rest(self, rules: RestRules) -> Expr | None:
        """The rest of the call, and what follows it."""
        return self._parsed().rest(rules)

    def _parsed(self) -> "ParsedUnit":
        recogniser = Recogniser.of(self.unit.network)
        text = _text_to(self)
        recogniser.advance(text)
        return ParsedUnit(self.dispatcher, recogniser, None if text else self.unit.shortest_texts)

    def forced_text(self) -> bytes:
        """What every continuation begins with."""
        text = forced_text(self.matcher, self.guard_state)
        if not text or not self.matcher.accept_string(self._marked(text)):
            return b""
        is_over = self.matcher.is_completed()
        self.matcher.rollback(1)
        return text + self.dispatcher.forced_after(self.dispatcher.after_call, b"") if is_over else text

    def undo(self) -> None:
        """Take back the last token accepted from here."""
        self.matcher.rollback(1)

    @property
    def _boundary(self) -> BoundaryTokens:
        assert self.dispatcher.boundary is not None, "a header led into the unit"
        return self.dispatcher.boundary


@dataclass(frozen=True, slots=True)
class ParsedUnit:
    """A closer's position in a tool's arguments or the end of its call."""

    dispatcher: Dispatcher = field(repr=False)
    recogniser: Recogniser
    shortest: ShortestTexts | None = None
    """At the beginning: see `ParsedText`."""

    def after(self, token_id: int, token: bytes) -> Closable | None:  # noqa: ARG002 - the protocol's
        """The position after a token; None if it does not fit. The token's rest follows the unit."""
        recogniser = self.recogniser.fork()
        if recogniser.advance(token) and not recogniser.is_complete:
            return ParsedUnit(self.dispatcher, recogniser)
        recogniser = self.recogniser.fork()
        for end in range(1, len(token) + 1):
            if not recogniser.advance(token[end - 1 : end]):
                return None
            if recogniser.is_complete:
                return self.dispatcher.enter(self.dispatcher.after_call, token[end:])
        raise AssertionError("a token was read byte by byte but not whole")

    def must_compile(self, token: bytes) -> bool:  # noqa: ARG002 - the protocol's
        """The grammar of the call is compiled."""
        return False

    def completions(self, budget: SearchBudget) -> Iterator[bytes]:
        """What completes the call, and the closing."""
        texts = self.recogniser.completions(budget, self.shortest)
        yield from (text + self.dispatcher.shortest_closing for text in texts)

    def max_completion_bytes(self) -> float:
        """At least as many bytes as the completion has."""
        return self.recogniser.max_completion_bytes() + len(self.dispatcher.shortest_closing)

    def min_completion_bytes(self) -> int:
        """At most as many bytes as the completion has."""
        return self.recogniser.min_completion_bytes() + len(self.dispatcher.shortest_closing)

    def rest(self, rules: RestRules) -> Expr | None:
        """The rest of the call, and what follows it."""
        after = rest_after(self.dispatcher, self.dispatcher.after_call, b"", rules)
        return concat(rules.rest(self.recogniser.state), after)


@dataclass(frozen=True, slots=True)
class InAnswer(Position):
    """In an answer, `depth` tokens after the one in which the answer began.

    `token` is the last token, or the part of the first token that belongs to the answer; `previous` is the
    position before it.
    """

    compiled: CompiledFormat = field(repr=False)
    matcher: GuardedMatcher
    token: bytes
    depth: int = 0
    previous: "InAnswer | None" = field(default=None, repr=False)

    @classmethod
    def begin(
        cls, compiled: CompiledFormat, text: bytes, parts: tuple[OutputPart, ...] = ()
    ) -> "InAnswer | None":
        """The position in an answer that begins with `text`; None if none does.

        `parts` are what the token that ends `text` settled before.
        """
        matcher = compiled.matcher()
        if not matcher.read(text):
            return None
        return cls(compiled, matcher, text, parts=(*parts, TextPart(text)) if text else parts)

    @property
    def is_complete(self) -> bool:
        """Whether the output may end here."""
        return self.matcher.is_completed()

    def fill(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite a row with the tokens that may come next."""
        self.matcher.fill_bitmask(bitmask, row)

    @property
    def inner_matcher(self) -> xgr.GrammarMatcher | None:
        """The matcher of xgrammar, unless there is a guard."""
        return self.matcher.inner_matcher()

    def accept(self, token_id: int, token: bytes) -> Position | None:
        """The position after a token; None if the token is not allowed."""
        if not self.matcher.accept(token_id):
            return None
        parts = (TextPart(token),)
        return InAnswer(self.compiled, self.matcher, token, self.depth + 1, self, parts=parts)

    def after(self, token_id: int, token: bytes) -> Closable | None:
        """Where a closer is after a token."""
        return self._parsed().after(token_id, token)

    def completions(self, budget: SearchBudget) -> Iterator[bytes]:
        """What completes the answer."""
        return self._parsed().completions(budget)

    def rest(self, rules: RestRules) -> Expr | None:
        """The rest of the answer."""
        return self._parsed().rest(rules)

    def fork(self) -> "InAnswer":
        """This position, for another matcher to go on from."""
        return replace(self, matcher=self.matcher.fork())

    def _parsed(self) -> ParsedText:
        recogniser = Recogniser.of(self.compiled.network)
        text = _text_to(self)
        recogniser.advance(text)
        return ParsedText(recogniser, None if text else self.compiled.shortest_texts)

    def forced_text(self) -> bytes:
        """What every continuation begins with."""
        return self.matcher.forced_text()

    def undo(self) -> None:
        """Take back the last token accepted from here; the matcher has not read it if it began a thought."""
        self.matcher.rollback(self.matcher.num_accepted - self.depth)


def _text_to(position: InUnit | InAnswer) -> bytes:
    """What has been read of a unit or an answer."""
    tokens: list[bytes] = []
    here: InUnit | InAnswer | None = position
    while here is not None:
        tokens.append(here.token)
        here = here.previous
    return b"".join(reversed(tokens))
