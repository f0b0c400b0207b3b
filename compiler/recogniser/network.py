"""The transition network of a grammar: what byte may follow where, and what it costs to come to an end.

A state is a place in a rule. States are made when they are first reached, so that a long text, a large count
or a rule that nobody enters takes no room. A reference at the end of a rule goes on into the rule it names
instead of calling it: right recursion is a loop here, and needs no stack.

Every state knows the fewest bytes that finish its rule. Lookaheads are left out: they remove no sentence.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from compiler.errors import UnsupportedGrammar
from compiler.grammar.grammar import (
    CharClass,
    Choice,
    Concatenation,
    Expr,
    Grammar,
    Literal,
    Prose,
    Repeat,
    RuleRef,
)
from compiler.grammar.shortest import NEVER, ShortestSentences
from compiler.regular.utf8 import ByteRange, byte_sequences


@dataclass(frozen=True, slots=True)
class ForbiddenTexts:
    """What is remembered of a stream is the longest end of it that one of `texts` begins with."""

    texts: tuple[bytes, ...]

    def step(self, held: bytes, byte: int) -> bytes | None:
        """What is held after one more byte; None if one of the texts is complete."""
        held += bytes([byte])
        if held.endswith(self.texts):
            return None
        starts = (held[at:] for at in range(len(held)))
        return next((start for start in starts if any(text.startswith(start) for text in self.texts)), b"")


@dataclass(frozen=True, eq=False, slots=True)
class EndState:
    """The rule is complete."""

    cost: float = 0


@dataclass(frozen=True, eq=False, slots=True)
class LiteralState:
    """`text` from the byte `at` on, then `after`."""

    text: bytes
    at: int
    after: "NetworkState"
    cost: float


@dataclass(frozen=True, eq=False, slots=True)
class RepeatState:
    """`low` to `high` characters of a class, then `after`."""

    repeat: Repeat
    after: "NetworkState"
    cost: float


@dataclass(frozen=True, eq=False, slots=True)
class CharTailState:
    """Inside a character: these bytes, then `after`."""

    ranges: tuple[ByteRange, ...]
    after: "NetworkState"
    cost: float


@dataclass(frozen=True, eq=False, slots=True)
class CallState:
    """The rule of that name, then `after`."""

    name: str
    after: "NetworkState"
    cost: float


@dataclass(frozen=True, eq=False, slots=True)
class ChoiceState:
    """Any of these."""

    options: tuple["NetworkState", ...]
    cost: float


@dataclass(frozen=True, eq=False, slots=True)
class ProseState:
    """Any bytes that complete none of the texts avoided, of which the last were `held`; then `after`."""

    avoidance: ForbiddenTexts
    held: bytes
    after: "NetworkState"
    cost: float


InternedState = LiteralState | RepeatState | CharTailState | CallState | ProseState
NetworkState = EndState | LiteralState | RepeatState | CharTailState | CallState | ChoiceState | ProseState


class StateSet:
    """States of one rule that a text leads to at once, and what they reach without reading a byte."""

    __slots__ = ("calls", "cost", "is_end", "most", "readers", "steps")

    def __init__(
        self, readers: tuple[NetworkState, ...], calls: tuple[CallState, ...], *, is_end: bool
    ) -> None:
        self.readers = readers
        self.calls = calls
        self.is_end = is_end
        self.cost = 0 if is_end else min((s.cost for s in (*readers, *calls)), default=math.inf)
        self.most = max((s.cost for s in (*readers, *calls)), default=0)
        self.steps: dict[int, StateSet | None] = {}

    @property
    def is_plain(self) -> bool:
        """Whether nothing happens here but that the next byte is initial_state."""
        return not self.calls and not self.is_end

    @property
    def states(self) -> Iterator[NetworkState]:
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
                case LiteralState(text, at):
                    found.add(text[at])
                case RepeatState(Repeat(chars)):
                    firsts = (ranges[0] for ranges in byte_sequences(chars.ranges))
                    found.update(byte for low, high in firsts for byte in range(low, high + 1))
                case CharTailState(ranges):
                    found.update(range(ranges[0][0], ranges[0][1] + 1))
        return found


END = EndState()


_PREFERRED = "a0 "
"""What stands for a character of a class when any will do."""

_CALL_COST = 2.0**-20
"""Of equally short texts the one of fewer calls is written, so that writing it comes to an end. A power of
two adds up without error."""


class Network:
    """The states of one grammar, shared by all that initial_state it."""

    def __init__(self, grammar: Grammar) -> None:
        """Find out what every rule costs.

        Raises:
            UnsupportedGrammar: the grammar has no sentence.
        """
        self.grammar = grammar
        self._costs = ShortestSentences(grammar, per_call=_CALL_COST)
        if self._costs.of(RuleRef(grammar.root)) >= NEVER:
            raise UnsupportedGrammar("the grammar has no finite sentence")
        self._entries: dict[str, NetworkState] = {}
        self._states: dict[tuple[object, ...], NetworkState] = {}
        self._sets: dict[tuple[tuple[NetworkState, ...], tuple[CallState, ...], bool], StateSet] = {}
        self._entry_sets: dict[str, StateSet] = {}
        self._return_sets: dict[CallState, StateSet] = {}

    def entry(self, name: str) -> StateSet:
        """The beginning of a rule."""
        if name not in self._entry_sets:
            self._entry_sets[name] = self._close([self._entry(name)])
        return self._entry_sets[name]

    def after(self, call: CallState) -> StateSet:
        """Where a call returns to."""
        if call not in self._return_sets:
            self._return_sets[call] = self._close([call.after])
        return self._return_sets[call]

    def step(self, states: StateSet, byte: int) -> StateSet | None:
        """The states after a byte; None if it cannot stand there."""
        try:
            return states.steps[byte]
        except KeyError:
            following = [after for state in states.readers for after in self._read(state, byte)]
            found = self._close(following) if following else None
            states.steps[byte] = found
            return found

    def union(self, one: StateSet, other: StateSet) -> StateSet:
        """The states of both."""
        return one if one is other else self._close([*one.states, *other.states])

    def finish(self, states: StateSet) -> bytes:
        """The fewest bytes that complete the rule."""
        text = bytearray()
        pending = [_cheapest(states.states)]
        while pending:
            state = pending.pop()
            match state:
                case LiteralState(literal, at, after):
                    text += literal[at:]
                    pending.append(after)
                case RepeatState(Repeat(chars, low, _), after):
                    text += _cheapest_char(chars) * low
                    pending.append(after)
                case CharTailState(ranges, after):
                    text += bytes(low for low, _ in ranges)
                    pending.append(after)
                case CallState(name, after):
                    pending += [after, self._entry(name)]
                case ChoiceState(options):
                    pending.append(_cheapest(options))
                case ProseState(after=after):
                    pending.append(after)
        return bytes(text)

    def _close(self, states: Iterable[NetworkState]) -> StateSet:
        """The states and all that is reached from them without reading or calling.

        Their order decides between completions of equal length, so it hangs on the text alone.
        """
        pending, seen = list(states)[::-1], dict[NetworkState, None]()
        is_end = False
        while pending:
            state = pending.pop()
            if state in seen or state.cost >= NEVER:
                continue
            seen[state] = None
            pending += reversed(self._beyond(state))
            is_end = is_end or isinstance(state, EndState)
        kept = [s for s in seen if not isinstance(s, EndState | ChoiceState) and not self._is_jump(s)]
        calls = tuple(s for s in kept if isinstance(s, CallState))
        readers = tuple(s for s in kept if not isinstance(s, CallState))
        key = (readers, calls, is_end)
        if key not in self._sets:
            self._sets[key] = StateSet(readers, calls, is_end=is_end)
        return self._sets[key]

    def _beyond(self, state: NetworkState) -> tuple[NetworkState, ...]:
        match state:
            case ChoiceState(options):
                return options
            case ProseState(after=after):
                return (after,)
            case RepeatState(Repeat(_, 0, _), after):
                return (after,)
            case CallState(name) if self._is_jump(state):
                return (self._entry(name),)
            case _:
                return ()

    def _is_jump(self, state: NetworkState) -> bool:
        return isinstance(state, CallState) and state.after is END

    def _read(self, state: NetworkState, byte: int) -> Iterator[NetworkState]:  # noqa: C901 - one case per kind of state
        match state:
            case LiteralState(text, at, after):
                if text[at] == byte:
                    yield self._text(text, at + 1, after)
            case RepeatState(Repeat(chars, low, high), after):
                if high == 0:
                    return
                more = Repeat(chars, max(0, low - 1), None if high is None else high - 1)
                for ranges in byte_sequences(chars.ranges):
                    if ranges[0][0] <= byte <= ranges[0][1]:
                        yield self._rest(ranges[1:], self._characters(more, after))
            case CharTailState(ranges, after):
                if ranges[0][0] <= byte <= ranges[0][1]:
                    yield self._rest(ranges[1:], after)
            case ProseState(avoidance, held, after):
                longer = avoidance.step(held, byte)
                if longer is not None:
                    yield self._intern(ProseState, avoidance, longer, after, cost=after.cost)

    def _entry(self, name: str) -> NetworkState:
        if name not in self._entries:
            self._entries[name] = self._build(self.grammar.rules[name].body, END)
        return self._entries[name]

    def _build(self, expr: Expr, after: NetworkState) -> NetworkState:  # noqa: PLR0911 - one case per kind of expression
        match expr:
            case Literal(text):
                return self._text(text.encode(), 0, after)
            case CharClass():
                return self._characters(Repeat(expr, 1, 1), after)
            case Repeat():
                return self._characters(expr, after)
            case Concatenation(items):
                for item in reversed(items):
                    after = self._build(item, after)
                return after
            case Choice(options):
                built = tuple(dict.fromkeys(self._build(option, after) for option in options))
                return ChoiceState(built, min(option.cost for option in built))
            case RuleRef(name):
                return self._intern(CallState, name, after, cost=self._costs.of(expr) + after.cost)
            case Prose(excludes):
                return self._intern(
                    ProseState,
                    ForbiddenTexts(tuple(text.encode() for text in excludes)),
                    b"",
                    after,
                    cost=after.cost,
                )

    def _text(self, text: bytes, at: int, after: NetworkState) -> NetworkState:
        if at == len(text):
            return after
        return self._intern(LiteralState, text, at, after, cost=len(text) - at + after.cost)

    def _characters(self, repeat: Repeat, after: NetworkState) -> NetworkState:
        if repeat.high == 0:
            return after
        cost = repeat.low * len(_cheapest_char(repeat.item)) if repeat.low else 0
        return self._intern(RepeatState, repeat, after, cost=cost + after.cost)

    def _rest(self, ranges: tuple[ByteRange, ...], after: NetworkState) -> NetworkState:
        if not ranges:
            return after
        return self._intern(CharTailState, ranges, after, cost=len(ranges) + after.cost)

    def _intern(
        self,
        kind: type[InternedState],
        *parts: object,
        cost: float,
    ) -> NetworkState:
        key = (kind, *parts)
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = kind(*parts, cost)  # type: ignore[arg-type, call-arg]
        return state


def _cheapest(states: Iterable[NetworkState]) -> NetworkState:
    return min(states, key=lambda state: state.cost)


def _cheapest_char(chars: CharClass) -> bytes:
    """A character of the fewest bytes: a letter, a digit or a space where the class has one."""
    for char in _PREFERRED:
        if any(low <= ord(char) <= high for low, high in chars.ranges):
            return char.encode()
    return chr(chars.ranges[0][0]).encode()


def _forbidden(texts: Iterable[str]) -> ForbiddenTexts:
    return ForbiddenTexts(tuple(text.encode() for text in texts))
