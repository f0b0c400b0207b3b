"""The transition network of a grammar: what byte may follow where, and what it costs to come to an end.

A state is a place in a rule. States are made when they are first reached, so that a long text, a large count
or a rule that nobody enters takes no room. A reference at the end of a rule goes on into the rule it names
instead of calling it: right recursion is a loop here, and needs no stack.

Every state knows the fewest bytes that finish its rule. Lookaheads are left out: they remove no sentence.
"""

from collections.abc import Iterable, Iterator

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
from compiler.grammar.shortest import NEVER, Costs
from compiler.recogniser.avoidance import Avoidance
from compiler.recogniser.states import END, Call, Characters, End, Fork, Free, Rest, State, StateSet, Text
from compiler.regular.utf8 import ByteRange, byte_sequences

_PREFERRED = "a0 "
"""What stands for a character of a class when any will do."""

_CALL_COST = 2.0**-20
"""Of equally short texts the one of fewer calls is written, so that writing it comes to an end. A power of
two adds up without error."""


class Network:
    """The states of one grammar, shared by all that read it."""

    def __init__(self, grammar: Grammar) -> None:
        """Find out what every rule costs.

        Raises:
            UnsupportedGrammar: the grammar has no sentence.
        """
        self.grammar = grammar
        self._costs = Costs(grammar, per_call=_CALL_COST)
        if self._costs.of(RuleRef(grammar.root)) >= NEVER:
            raise UnsupportedGrammar("the grammar has no finite sentence")
        self._entries: dict[str, State] = {}
        self._states: dict[tuple[object, ...], State] = {}
        self._sets: dict[tuple[tuple[State, ...], tuple[Call, ...], bool], StateSet] = {}
        self._entry_sets: dict[str, StateSet] = {}
        self._return_sets: dict[Call, StateSet] = {}

    def entry(self, name: str) -> StateSet:
        """The beginning of a rule."""
        if name not in self._entry_sets:
            self._entry_sets[name] = self._close([self._entry(name)])
        return self._entry_sets[name]

    def after(self, call: Call) -> StateSet:
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
                case Text(literal, at, after):
                    text += literal[at:]
                    pending.append(after)
                case Characters(Repeat(chars, low, _), after):
                    text += _cheapest_char(chars) * low
                    pending.append(after)
                case Rest(ranges, after):
                    text += bytes(low for low, _ in ranges)
                    pending.append(after)
                case Call(name, after):
                    pending += [after, self._entry(name)]
                case Fork(options):
                    pending.append(_cheapest(options))
                case Free(after=after):
                    pending.append(after)
        return bytes(text)

    def _close(self, states: Iterable[State]) -> StateSet:
        """The states and all that is reached from them without reading or calling.

        Their order decides between completions of equal length, so it hangs on the text alone.
        """
        pending, seen = list(states)[::-1], dict[State, None]()
        is_end = False
        while pending:
            state = pending.pop()
            if state in seen or state.cost >= NEVER:
                continue
            seen[state] = None
            pending += reversed(self._beyond(state))
            is_end = is_end or isinstance(state, End)
        kept = [s for s in seen if not isinstance(s, End | Fork) and not self._is_jump(s)]
        calls = tuple(s for s in kept if isinstance(s, Call))
        readers = tuple(s for s in kept if not isinstance(s, Call))
        key = (readers, calls, is_end)
        if key not in self._sets:
            self._sets[key] = StateSet(readers, calls, is_end=is_end)
        return self._sets[key]

    def _beyond(self, state: State) -> tuple[State, ...]:
        match state:
            case Fork(options):
                return options
            case Free(after=after):
                return (after,)
            case Characters(Repeat(_, 0, _), after):
                return (after,)
            case Call(name) if self._is_jump(state):
                return (self._entry(name),)
            case _:
                return ()

    def _is_jump(self, state: State) -> bool:
        return isinstance(state, Call) and state.after is END

    def _read(self, state: State, byte: int) -> Iterator[State]:  # noqa: C901 - one case per kind of state
        match state:
            case Text(text, at, after):
                if text[at] == byte:
                    yield self._text(text, at + 1, after)
            case Characters(Repeat(chars, low, high), after):
                if high == 0:
                    return
                more = Repeat(chars, max(0, low - 1), None if high is None else high - 1)
                for ranges in byte_sequences(chars):
                    if ranges[0][0] <= byte <= ranges[0][1]:
                        yield self._rest(ranges[1:], self._characters(more, after))
            case Rest(ranges, after):
                if ranges[0][0] <= byte <= ranges[0][1]:
                    yield self._rest(ranges[1:], after)
            case Free(avoidance, held, after):
                longer = avoidance.step(held, byte)
                if longer is not None:
                    yield self._intern(Free, avoidance, longer, after, cost=after.cost)

    def _entry(self, name: str) -> State:
        if name not in self._entries:
            self._entries[name] = self._build(self.grammar.rules[name].body, END)
        return self._entries[name]

    def _build(self, expr: Expr, after: State) -> State:  # noqa: PLR0911 - one case per kind of expression
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
                return Fork(built, min(option.cost for option in built))
            case RuleRef(name):
                return self._intern(Call, name, after, cost=self._costs.of(expr) + after.cost)
            case Prose(excludes):
                return self._intern(
                    Free, Avoidance(tuple(text.encode() for text in excludes)), b"", after, cost=after.cost
                )

    def _text(self, text: bytes, at: int, after: State) -> State:
        if at == len(text):
            return after
        return self._intern(Text, text, at, after, cost=len(text) - at + after.cost)

    def _characters(self, repeat: Repeat, after: State) -> State:
        if repeat.high == 0:
            return after
        cost = repeat.low * len(_cheapest_char(repeat.item)) if repeat.low else 0
        return self._intern(Characters, repeat, after, cost=cost + after.cost)

    def _rest(self, ranges: tuple[ByteRange, ...], after: State) -> State:
        if not ranges:
            return after
        return self._intern(Rest, ranges, after, cost=len(ranges) + after.cost)

    def _intern(
        self, kind: type[Text | Characters | Rest | Call | Free], *parts: object, cost: float
    ) -> State:
        key = (kind, *parts)
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = kind(*parts, cost)  # type: ignore[arg-type, call-arg]
        return state


def _cheapest(states: Iterable[State]) -> State:
    return min(states, key=lambda state: state.cost)


def _cheapest_char(chars: CharClass) -> bytes:
    """A character of the fewest bytes: a letter, a digit or a space where the class has one."""
    for char in _PREFERRED:
        if any(low <= ord(char) <= high for low, high in chars.ranges):
            return char.encode()
    return chr(chars.ranges[0][0]).encode()
