"""The recogniser: reads a text along a grammar and knows the shortest way to complete it.

It is an automaton that is built as far as texts lead. A state is the set of stacks of what is still to be
matched; stacks are linked lists that share their tails and are equal only if identical. A rule at the end
of another's body replaces it, so that right recursion, which is how grammars here repeat, comes back to
the same stack and the same state.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from compiler.errors import UnsupportedGrammar
from compiler.grammar import EMPTY, CharClass, Choice, Expr, Literal, Repeat, RuleRef, Sequence
from compiler.shortest import NEVER, Shortest, width

MAX_STACKS = 100_000


@dataclass(frozen=True, eq=False, slots=True)
class Stack:
    """What is still to be matched: `expr`, of which `done` characters are read, then `rest`.

    `length` is the bytes of the shortest text that does.
    """

    expr: Expr
    done: int
    rest: "Stack | None"
    length: int


@dataclass(frozen=True, eq=False, slots=True)
class State:
    """Stacks whose top takes a character, and whether the text may end here."""

    stacks: tuple[Stack, ...]
    is_complete: bool
    moves: dict[str, "State | None"] = field(default_factory=dict)

    @property
    def shortest(self) -> int:
        """Bytes of the shortest completion."""
        return 0 if self.is_complete else min((stack.length for stack in self.stacks), default=NEVER)

    @property
    def longest(self) -> int:
        """Bytes of the completion along the stack that needs most."""
        return max((stack.length for stack in self.stacks), default=0)


class Automaton:
    """The states of one grammar that texts have led to; not thread-safe."""

    def __init__(self, shortest: Shortest) -> None:
        self.shortest = shortest
        self._stacks: dict[tuple[int, int, int], Stack] = {}
        self._states: dict[tuple[Stack | bool, ...], State] = {}
        self.start = self._state([self._push(shortest.grammar.rules[shortest.grammar.root].body, 0, None)])

    def step(self, state: State, char: str) -> State | None:
        """The state after a character; None if it does not fit."""
        try:
            return state.moves[char]
        except KeyError:
            after = [self._after(stack) for stack in state.stacks if _takes(stack, ord(char))]
            moved = state.moves[char] = self._state(after) if after else None
            return moved

    def completion(self, state: State) -> str:
        """The shortest text that completes."""
        if state.is_complete:
            return ""
        stack: Stack | None = min(state.stacks, key=lambda stack: stack.length)
        text = []
        while stack is not None:
            text.append(self._remainder(stack))
            stack = stack.rest
        return "".join(text)

    def _remainder(self, stack: Stack) -> str:
        match stack.expr:
            case Literal(text):
                return text[stack.done :]
            case Repeat(item, low, _):
                return chr(item.ranges[0][0]) * max(0, low - stack.done)
            case expr:
                return self.shortest.of(expr)

    def _after(self, stack: Stack) -> Stack | None:
        """The stack after one character was taken, its top possibly spent."""
        match stack.expr:
            case Literal(text) if stack.done + 1 < len(text):
                return self._push(stack.expr, stack.done + 1, stack.rest)
            case Repeat(_, low, high) if high is None or stack.done + 1 < high:
                done = min(stack.done + 1, low) if high is None else stack.done + 1
                return self._push(stack.expr, done, stack.rest)
            case _:
                return stack.rest

    def _state(self, stacks: Iterable[Stack | None]) -> State:
        ready: dict[Stack, None] = {}
        seen: set[Stack | None] = set()
        todo = list(stacks)[::-1]
        while todo:
            stack = todo.pop()
            if stack in seen:
                continue
            seen.add(stack)
            if len(seen) > MAX_STACKS:
                raise UnsupportedGrammar("the grammar is left-recursive or too ambiguous to follow")
            if stack is not None:
                if stack.length < NEVER and isinstance(stack.expr, Literal | CharClass | Repeat):
                    ready[stack] = None
                todo += self._onward(stack)
        key = (*ready, None in seen)
        if key not in self._states:
            self._states[key] = State(tuple(ready), None in seen)
        return self._states[key]

    def _onward(self, stack: Stack) -> Iterator[Stack | None]:
        """Where a stack leads without reading anything, the first option last."""
        match stack.expr:
            case RuleRef(name):
                yield self._push(self.shortest.grammar.rules[name].body, 0, stack.rest)
            case Choice(options):
                yield from (self._push(option, 0, stack.rest) for option in reversed(options))
            case Sequence(items):
                rest = stack.rest
                for item in reversed(items):
                    rest = self._push(item, 0, rest)
                yield rest
            case Repeat(_, low, _) if stack.done >= low:
                yield stack.rest

    def _push(self, expr: Expr, done: int, rest: Stack | None) -> Stack | None:
        if expr == EMPTY or (isinstance(expr, Repeat) and expr.high == 0):
            return rest
        key = (id(expr), done, id(rest))
        stack = self._stacks.get(key)
        if stack is None:
            length = self._left(expr, done) + (rest.length if rest else 0)
            stack = self._stacks[key] = Stack(expr, done, rest, min(length, NEVER))
        return stack

    def _left(self, expr: Expr, done: int) -> int:
        match expr:
            case Literal(text):
                return len(text[done:].encode())
            case Repeat(item, low, _):
                return max(0, low - done) * width(chr(item.ranges[0][0]))
            case _:
                return self.shortest.length(expr)


class Recogniser:
    """Reads one text as bytes of UTF-8, which may end inside a character."""

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self._state = automaton.start
        self._partial = b""

    @classmethod
    def of(cls, shortest: Shortest) -> "Recogniser":
        """A recogniser with states of its own, at the start."""
        return cls(Automaton(shortest))

    @property
    def is_complete(self) -> bool:
        """Whether the text may end here."""
        return self._state.is_complete and not self._partial

    @property
    def longest(self) -> int:
        """At least the bytes of `completion`; per byte read it grows by `Shortest.growth` at most."""
        return self._state.longest + (3 if self._partial else 0)

    def fork(self) -> "Recogniser":
        """Another one at the same place."""
        twin = Recogniser(self._automaton)
        twin._state, twin._partial = self._state, self._partial
        return twin

    def advance(self, text: bytes) -> bool:
        """Read on; False if the text does not fit, and nothing must be asked any more."""
        whole, partial = _split(self._partial + text)
        if whole is None:
            return False
        state: State | None = self._state
        for char in whole:
            state = self._automaton.step(state, char) if state is not None else None
        if state is None or (not state.stacks and partial):
            return False
        self._state, self._partial = state, partial
        return not partial or any(True for _ in self._finishing())

    def completion(self) -> bytes:
        """The shortest text that completes this one, the rest of a character included."""
        if not self._partial:
            return self._automaton.completion(self._state).encode()
        options = (
            char.encode()[len(self._partial) :] + self._automaton.completion(state).encode()
            for char, state in self._finishing()
        )
        return min(options, key=len)

    def _finishing(self) -> Iterator[tuple[str, State]]:
        """The first character of each stack that finishes the partial one."""
        low, high = _span(self._partial)
        for char in dict.fromkeys(_first(stack, low, high) for stack in self._state.stacks):
            state = None if char is None else self._automaton.step(self._state, char)
            if char is not None and state is not None:
                yield char, state


def _takes(stack: Stack, code: int) -> bool:
    return _first(stack, code, code) is not None


def _first(stack: Stack, low: int, high: int) -> str | None:
    """The first character from `low` to `high` that the top of a stack takes."""
    match stack.expr:
        case Literal(text):
            return text[stack.done] if low <= ord(text[stack.done]) <= high else None
        case CharClass(ranges) | Repeat(CharClass(ranges)):
            for first, last in ranges:
                if low <= last:
                    return chr(max(first, low)) if first <= high else None
    return None


def _split(data: bytes) -> tuple[str | None, bytes]:
    """The whole characters of UTF-8 and the begun one behind them; None if it is not UTF-8."""
    try:
        return data.decode(), b""
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":
            return None, b""
        return data[: error.start].decode(), data[error.start :]


def _span(partial: bytes) -> tuple[int, int]:
    """The code points whose UTF-8 begins with `partial`, a few that are none among them."""
    lead = partial[0]
    size = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    code = lead & (0xFF >> (size + 1))
    for byte in partial[1:]:
        code = code << 6 | byte & 0x3F
    shift = 6 * (size - len(partial))
    smallest = (0x80, 0x800, 0x10000)[size - 2]
    return max(code << shift, smallest), ((code + 1) << shift) - 1
