"""The transition network of a grammar: what byte may follow where, and what it costs to come to an end.

A state is a place in a rule. States are made when they are first reached, so that a long text, a large count
or a rule that nobody enters takes no room. A reference at the end of a rule goes on into the rule it names
instead of calling it: right recursion is a loop here, and needs no stack.

Every state knows the fewest bytes that finish its rule (Knuth's generalisation of Dijkstra's algorithm, over
the rules of a grammar), and the text that does it. Lookaheads are left out: they remove no sentence.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from compiler.avoidance import Avoidance
from compiler.errors import UnsupportedGrammar
from compiler.grammar import CharClass, Choice, Expr, Grammar, Literal, Prose, Repeat, RuleRef, Sequence
from compiler.utf8 import ByteRange, byte_sequences

_PREFERRED = "a0 "
"""What stands for a character of a class when any will do."""

_CALL_COST = 2.0**-20
"""Of equally short texts the one of fewer calls is written, so that writing it comes to an end. A power of
two adds up without error."""


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
            yield _END


_END = End()


class Network:
    """The states of one grammar, shared by all that read it."""

    def __init__(self, grammar: Grammar) -> None:
        """Find out what every rule costs.

        Raises:
            UnsupportedGrammar: the grammar has no sentence.
        """
        self.grammar = grammar
        self._costs = _rule_costs(grammar)
        if math.isinf(self._costs[grammar.root]):
            raise UnsupportedGrammar("the grammar has no finite sentence")
        self._entries: dict[str, State] = {}
        self._states: dict[tuple[object, ...], State] = {}
        self._sets: dict[tuple[tuple[State, ...], tuple[Call, ...], bool], StateSet] = {}
        self._entry_sets: dict[str, StateSet] = {}
        self._return_sets: dict[Call, StateSet] = {}

    @cached_property
    def shortest(self) -> bytes:
        """One sentence of the fewest bytes."""
        return self.finish(self.entry(self.grammar.root))

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

    def first_bytes(self, states: StateSet) -> set[int]:
        """The bytes that may stand there."""
        found: set[int] = set()
        for state in states.readers:
            match state:
                case Text(text, at):
                    found.add(text[at])
                case Characters(Repeat(chars)):
                    firsts = (ranges[0] for ranges in byte_sequences(chars))
                    found.update(byte for low, high in firsts for byte in range(low, high + 1))
                case Rest(ranges):
                    found.update(range(ranges[0][0], ranges[0][1] + 1))
        return found

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
            if state in seen or math.isinf(state.cost):
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
        return isinstance(state, Call) and state.after is _END

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
            self._entries[name] = self._build(self.grammar.rules[name].body, _END)
        return self._entries[name]

    def _build(self, expr: Expr, after: State) -> State:  # noqa: PLR0911 - one case per kind of expression
        match expr:
            case Literal(text):
                return self._text(text.encode(), 0, after)
            case CharClass():
                return self._characters(Repeat(expr, 1, 1), after)
            case Repeat():
                return self._characters(expr, after)
            case Sequence(items):
                for item in reversed(items):
                    after = self._build(item, after)
                return after
            case Choice(options):
                built = tuple(dict.fromkeys(self._build(option, after) for option in options))
                return Fork(built, min(option.cost for option in built))
            case RuleRef(name):
                return self._intern(Call, name, after, cost=self._costs[name] + _CALL_COST + after.cost)
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


def _rule_costs(grammar: Grammar) -> dict[str, float]:
    """The fewest bytes of a sentence of each rule; infinite where there is none."""
    costs = dict.fromkeys(grammar.rules, math.inf)
    users: dict[str, set[str]] = {name: set() for name in grammar.rules}
    for name, rule in grammar.rules.items():
        for used in _references(rule.body):
            users[used].add(name)
    pending = dict.fromkeys(grammar.rules)
    while pending:
        name = next(iter(pending))
        del pending[name]
        cost = _cost(grammar.rules[name].body, costs)
        if cost < costs[name]:
            costs[name] = cost
            pending.update(dict.fromkeys(users[name]))
    return costs


def _cost(expr: Expr, costs: dict[str, float]) -> float:  # noqa: PLR0911 - one case per kind of expression
    match expr:
        case Literal(text):
            return len(text.encode())
        case CharClass():
            return len(_cheapest_char(expr))
        case Repeat(item, low, _):
            return low * len(_cheapest_char(item))
        case Sequence(items):
            return sum(_cost(item, costs) for item in items)
        case Choice(options):
            return min(_cost(option, costs) for option in options)
        case RuleRef(name):
            return costs[name] + _CALL_COST
        case Prose():
            return 0


def _references(expr: Expr) -> Iterator[str]:
    match expr:
        case RuleRef(name):
            yield name
        case Sequence(items) | Choice(items):
            for item in items:
                yield from _references(item)
