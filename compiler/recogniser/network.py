"""The recursive transition network of a grammar: which bytes may follow, and how many complete a rule.

A network state is a point in the body of a rule. States are built when they are first reached, so a long
text, a large count or a rule that no output enters takes no memory. A reference at the end of a rule
continues in the rule that it names instead of calling it (a tail call), so right recursion is a loop and
needs no stack.

Every state knows its cost: the fewest bytes that complete its rule. Lookaheads are left out, since they only
choose between derivations and exclude no sentence.
"""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from compiler.errors import UnsupportedGrammar
from compiler.grammar.grammar import (
    CharClass,
    Choice,
    Concatenation,
    Expr,
    Grammar,
    GuardedText,
    Literal,
    Prose,
    Repeat,
    RuleRef,
)
from compiler.grammar.shortest import NEVER, ShortestSentences
from compiler.guard.string_automaton import StringAutomaton
from compiler.kept_sets import KeptSets
from compiler.recogniser.network_states import (
    END,
    LONG_LITERAL,
    CallState,
    CharTailState,
    ChoiceState,
    EndState,
    ForbiddenTexts,
    LiteralState,
    NetworkState,
    ProseState,
    RepeatState,
    SharedState,
    TextState,
)
from compiler.regular.utf8 import ByteRange, byte_sequences
from compiler.scalars.char_encoding import as_json


class _RuleEnd(NamedTuple):
    """Stands in a completion where the rule `name` ends: its text was written from `start` on."""

    name: str
    start: int


class StateSet:
    """The states of one rule that a text leads to at once, and all those reached without reading."""

    __slots__ = ("calls", "consuming", "cost", "is_end", "is_plain", "literal", "max_cost", "steps")

    def __init__(
        self, consuming: tuple[NetworkState, ...], calls: tuple[CallState, ...], *, is_end: bool
    ) -> None:
        self.consuming = consuming
        """The states that read a byte next."""
        self.calls = calls
        self.is_end = is_end
        self.is_plain = not calls and not is_end
        """Whether every state reads a byte next: no call, and no end of the rule."""
        self.literal = _long_literal(consuming) if self.is_plain else None
        """The literal whose bytes must follow, if there is one and `LONG_LITERAL` bytes of it are left."""
        self.cost = 0 if is_end else min((s.cost for s in (*consuming, *calls)), default=math.inf)
        self.max_cost = max((s.cost for s in (*consuming, *calls)), default=0)
        """The cost of the most expensive state."""
        self.steps: dict[int, StateSet | None] = {}

    @property
    def states(self) -> Iterator[NetworkState]:
        """All states."""
        yield from self.consuming
        yield from self.calls
        if self.is_end:
            yield END

    def first_bytes(self) -> set[int]:
        """The bytes that may follow; those of prose are left out."""
        first_bytes: set[int] = set()
        for state in self.consuming:
            match state:
                case LiteralState(text, at):
                    first_bytes.add(text[at])
                case RepeatState(Repeat(chars)):
                    firsts = (ranges[0] for ranges in byte_sequences(chars.ranges))
                    first_bytes.update(byte for low, high in firsts for byte in range(low, high + 1))
                case CharTailState(ranges):
                    first_bytes.update(range(ranges[0][0], ranges[0][1] + 1))
        return first_bytes


_PREFERRED = "a0 "
"""The characters that a completion has where any of a class will do."""

MAX_KEPT = 200_000
"""States in all sets that are kept, of which each takes about a tenth of a kilobyte. A step from one set to
another counts as one."""
_SET_SIZE = 8
"""What a set takes besides, in states."""
_MAX_SHORT_TEXT = 1024
_CALL_COST = 2.0**-20
"""What a call adds to the cost of a completion. Of equally short ones, the one with fewer calls is written,
so that writing ends. Sums of a power of two are not rounded."""


class Network:
    """The states of one grammar, shared by all who parse with it."""

    def __init__(self, grammar: Grammar, kept: KeptSets | None = None) -> None:
        """Compute what every rule costs. `kept` bounds what this network keeps together with others.

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
        self._short_texts: dict[str, bytes] = {}
        """Completions of rules; a long completion mostly repeats itself."""
        self._options: dict[TextState, tuple[NetworkState, ...]] = {}
        self._sequences: dict[CharClass, tuple[tuple[ByteRange, ...], ...]] = {}
        self._kept_together = kept or KeptSets()
        self._num_kept = 0
        self._num_told = 0
        """Of those, the states that are counted together with other networks'."""

    def forget_sets(self) -> None:
        """Forget the sets of states, if they are many; to be called between two texts.

        An ambiguous grammar has ever more of them: each token of a long text may lead to a new one. Whoever
        is in one of them goes on from there, but builds those that follow anew.
        """
        if self._num_kept > MAX_KEPT:
            self.forget_all_sets()
        elif self._num_kept > self._num_told:
            num_new, self._num_told = self._num_kept - self._num_told, self._num_kept
            self._kept_together.add(self, num_new)

    def forget_all_sets(self) -> None:
        """Forget the sets of states."""
        forgotten, self._sets, self._num_kept, self._num_told = self._sets, {}, 0, 0
        self._entry_sets, self._return_sets = {}, {}
        for states in list(forgotten.values()):  # another thread may be adding one
            states.steps = {}

    def entry(self, name: str) -> StateSet:
        """The states at the beginning of a rule."""
        states = self._entry_sets.get(name)
        if states is None:  # another thread may forget them meanwhile
            states = self._entry_sets[name] = self._closure([self._entry(name)])
        return states

    def after(self, call: CallState) -> StateSet:
        """The states that a call returns to."""
        states = self._return_sets.get(call)
        if states is None:
            states = self._return_sets[call] = self._closure([call.after])
        return states

    def step(self, states: StateSet, byte: int) -> StateSet | None:
        """The states after a byte; None if it may not follow."""
        try:
            return states.steps[byte]
        except KeyError:
            successors = [after for state in states.consuming for after in self._successors(state, byte)]
            closure = self._closure(successors) if successors else None
            states.steps[byte] = closure
            self._num_kept += 1
            return closure

    def read_plain(self, states: StateSet, data: bytes, at: int) -> tuple[StateSet | None, int]:
        """Read bytes from `at` on, as long as they lead from plain states to plain ones.

        Returns the states reached, None if the next byte may not follow, and the index of the first byte that
        was not read. Most bytes of a string are read so, many in one call.
        """
        while at < len(data):
            literal = states.literal
            if literal is not None and (num_read := literal.num_bytes_in(data, at)) >= LONG_LITERAL:
                states = self._closure([self._literal(literal.text, literal.at + num_read, literal.after)])
                at += num_read
                continue
            following = self.step(states, data[at])
            if following is None or not following.is_plain:
                return following and states, at
            states, at = following, at + 1
        return states, at

    def union(self, first: StateSet, second: StateSet) -> StateSet:
        """The states of both sets."""
        return first if first is second else self._closure([*first.states, *second.states])

    def consuming(self, states: StateSet) -> StateSet:
        """Those of some states that read a byte next."""
        return states if states.is_plain else self._set_of(states.consuming, (), is_end=False)

    def completion(self, states: StateSet) -> bytes:  # noqa: C901 - one case per kind of state
        """Bytes that complete the rule, as few as possible."""
        text = bytearray()
        pending: list[NetworkState | _RuleEnd] = [_cheapest(states.states)]
        while pending:
            state = pending.pop()
            match state:
                case _RuleEnd(name, start):
                    self._short_texts[name] = bytes(text[start:])
                case LiteralState(literal, at, after):
                    text += literal[at:]
                    pending.append(after)
                case RepeatState(Repeat(chars, low, _), after):
                    text += _cheapest_char(chars) * low
                    pending.append(after)
                case CharTailState(ranges, after):
                    text += bytes(low for low, _ in ranges)
                    pending.append(after)
                case CallState(name, after) if name in self._short_texts:
                    text += self._short_texts[name]
                    pending.append(after)
                case CallState(name, after):
                    is_short = state.cost - after.cost <= _MAX_SHORT_TEXT
                    ends = [_RuleEnd(name, len(text))] if is_short else []
                    pending += [after, *ends, self._entry(name)]
                case ChoiceState(options):
                    pending.append(_cheapest(options))
                case ProseState(after=after):
                    pending.append(after)
                case TextState():
                    pending.append(_cheapest(self._text_options(state)))
        return bytes(text)

    def _closure(self, states: Iterable[NetworkState]) -> StateSet:
        """The states, and all that are reached from them without reading a byte or calling a rule.

        Their order decides between completions of equal length, so it depends on the text alone.
        """
        pending, seen = list(states)[::-1], dict[NetworkState, None]()
        is_end = False
        while pending:
            state = pending.pop()
            if state in seen or state.cost >= NEVER:
                continue
            seen[state] = None
            pending += reversed(self._reached_without_reading(state))
            is_end = is_end or isinstance(state, EndState)
        passing = EndState | ChoiceState | TextState
        proper = [s for s in seen if not isinstance(s, passing) and not self._is_tail_call(s)]
        calls = tuple(s for s in proper if isinstance(s, CallState))
        consuming = tuple(s for s in proper if not isinstance(s, CallState))
        return self._set_of(consuming, calls, is_end=is_end)

    def _set_of(
        self, consuming: tuple[NetworkState, ...], calls: tuple[CallState, ...], *, is_end: bool
    ) -> StateSet:
        key = (consuming, calls, is_end)
        states = self._sets.get(key)
        if states is None:
            states = self._sets[key] = StateSet(consuming, calls, is_end=is_end)
            self._num_kept += _SET_SIZE + len(consuming) + len(calls)
        return states

    def _reached_without_reading(self, state: NetworkState) -> tuple[NetworkState, ...]:
        match state:
            case ChoiceState(options):
                return options
            case TextState():
                return self._text_options(state)
            case ProseState(after=after):
                return (after,)
            case RepeatState(Repeat(_, 0, _), after):
                return (after,)
            case CallState(name) if self._is_tail_call(state):
                return (self._entry(name),)
            case _:
                return ()

    def _is_tail_call(self, state: NetworkState) -> bool:
        return isinstance(state, CallState) and state.after is END

    def _successors(self, state: NetworkState, byte: int) -> Iterator[NetworkState]:  # noqa: C901 - one case per kind of state
        """The states that a state leads to when it reads a byte."""
        match state:
            case LiteralState(text, at, after):
                if text[at] == byte:
                    yield self._literal(text, at + 1, after)
            case RepeatState(Repeat(chars, low, high), after):
                if high == 0:
                    return
                more = Repeat(chars, max(0, low - 1), None if high is None else high - 1)
                for ranges in self._sequences_of(chars):
                    if ranges[0][0] <= byte <= ranges[0][1]:
                        yield self._char_tail(ranges[1:], self._repeat(more, after))
            case CharTailState(ranges, after):
                if ranges[0][0] <= byte <= ranges[0][1]:
                    yield self._char_tail(ranges[1:], after)
            case ProseState(forbidden, progress, after):
                following = forbidden.step(progress, byte)
                if following is not None:
                    yield self._shared(ProseState, forbidden, following, after, cost=after.cost)

    def _sequences_of(self, chars: CharClass) -> tuple[tuple[ByteRange, ...], ...]:
        """The byte sequences of a class; kept here, since those of large classes are kept nowhere else."""
        if chars not in self._sequences:
            self._sequences[chars] = byte_sequences(chars.ranges)
        return self._sequences[chars]

    def _entry(self, name: str) -> NetworkState:
        if name not in self._entries:
            self._entries[name] = self._build(self.grammar.rules[name].body, END)
        return self._entries[name]

    def _build(self, expr: Expr, after: NetworkState) -> NetworkState:  # noqa: PLR0911 - one case per kind of expression
        """The state before an expression that `after` follows."""
        match expr:
            case Literal(text):
                return self._literal(text.encode(), 0, after)
            case CharClass():
                return self._repeat(Repeat(expr, 1, 1), after)
            case Repeat():
                return self._repeat(expr, after)
            case Concatenation(items):
                for item in reversed(items):
                    after = self._build(item, after)
                return after
            case Choice(options):
                built = tuple(dict.fromkeys(self._build(option, after) for option in options))
                return ChoiceState(built, min(option.cost for option in built))
            case RuleRef(name):
                return self._shared(CallState, name, after, cost=self._costs.of(expr) + after.cost)
            case GuardedText(automaton):
                return self._text(automaton, 0, self._literal(b'"', 0, after))
            case Prose(excludes):
                forbidden = ForbiddenTexts(tuple(text.encode() for text in excludes))
                return self._shared(ProseState, forbidden, b"", after, cost=after.cost)

    def _text(self, automaton: StringAutomaton, number: int, after: NetworkState) -> NetworkState:
        cost = automaton.byte_distance[number] + after.cost
        return self._shared(TextState, automaton, number, after, cost=cost)

    def _text_options(self, state: TextState) -> tuple[NetworkState, ...]:
        """Where a text can go on: at its end, and with a character on each transition."""
        if state not in self._options:
            automaton, after = state.automaton, state.after
            self._options[state] = (
                *((after,) if state.number in automaton.accepting else ()),
                *(
                    self._build(char, self._text(automaton, target, after))
                    for target, ranges in automaton.targets(state.number).items()
                    for char in as_json(ranges)
                ),
            )
        return self._options[state]

    def _literal(self, text: bytes, at: int, after: NetworkState) -> NetworkState:
        if at == len(text):
            return after
        return self._shared(LiteralState, text, at, after, cost=len(text) - at + after.cost)

    def _repeat(self, repeat: Repeat, after: NetworkState) -> NetworkState:
        if repeat.high == 0:
            return after
        cost = repeat.low * len(_cheapest_char(repeat.item)) if repeat.low else 0
        return self._shared(RepeatState, repeat, after, cost=cost + after.cost)

    def _char_tail(self, ranges: tuple[ByteRange, ...], after: NetworkState) -> NetworkState:
        if not ranges:
            return after
        return self._shared(CharTailState, ranges, after, cost=len(ranges) + after.cost)

    def _shared(self, kind: type[SharedState], *parts: object, cost: float) -> NetworkState:
        """The state of this kind with these parts; equal states are one object."""
        key = (kind, *parts)
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = kind(*parts, cost)  # type: ignore[arg-type, call-arg]
        return state


def _long_literal(states: tuple[NetworkState, ...]) -> LiteralState | None:
    match states:
        case (LiteralState(text, at) as literal,) if len(text) - at > LONG_LITERAL:
            return literal
    return None


def _cheapest(states: Iterable[NetworkState]) -> NetworkState:
    return min(states, key=lambda state: state.cost)


def _cheapest_char(chars: CharClass) -> bytes:
    """A character of the fewest bytes: a letter, a digit or a space if the class has one."""
    for char in _PREFERRED:
        if any(low <= ord(char) <= high for low, high in chars.ranges):
            return char.encode()
    return chr(chars.ranges[0][0]).encode()
