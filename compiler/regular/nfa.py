"""From a syntax tree without lookaround to a DFA: Thompson's construction, then the subset construction.

Assertions label transitions without a symbol. The subset construction decides between two characters which
of them hold. `compiler.regular.lookaheads` adds lookaheads.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache

from compiler.regular import charset
from compiler.regular.dfa import Alphabet, Dfa, TooManyStates, build_dfa
from compiler.regular.pattern_tree import (
    Alternation,
    Assertion,
    Chars,
    Concat,
    Lookaround,
    PatternError,
    PatternNode,
    Repetition,
    nodes,
)

MISPLACED_LOOKBEHIND = "has a lookbehind that is not right before $"
MAX_NFA_STATES = 20_000
MAX_STEPS = 5_000_000
_ANYTHING = Repetition(Chars(charset.ALL), 0, None)
_LINE_BREAK = charset.of("\n")


def sets_of(node: PatternNode) -> Iterator[charset.Ranges]:
    """Every set of characters in a tree; an assertion counts as the sets that it distinguishes."""
    for inner in nodes(node):
        match inner:
            case Chars(ranges):
                yield ranges
            case Assertion("$?"):
                yield _LINE_BREAK
            case Assertion(kind) if kind not in ("^", "$"):
                yield from (charset.WORD, charset.OUTSIDE_ASCII)


def search(node: PatternNode, alphabet: Alphabet) -> Dfa:
    """The automaton of the texts in which the tree matches somewhere.

    Raises:
        PatternError: the tree has a lookaround.
        TooManyStates: the automaton has too many states, or takes too many steps to build.
    """
    return Nfa(alphabet).automaton(node)


@dataclass
class Nfa:
    """A nondeterministic automaton whose states are numbers.

    `transitions[state]` are the symbols on which it moves, and to which state. `epsilon[state]` are the moves
    without a symbol, each with the assertion that must hold, "" for none.
    """

    alphabet: Alphabet
    transitions: list[tuple[frozenset[int], int]] = field(default_factory=list)
    epsilon: list[list[tuple[str, int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.final = self.new_state()
        self._symbols: dict[charset.Ranges, frozenset[int]] = {}

    def automaton(self, node: PatternNode) -> Dfa:
        """As `search`; the NFA must be new."""
        start = self.build(_ANYTHING, self.build(node, self.build(_ANYTHING, self.final)))
        return _SubsetConstruction(self, self.first(start)).automaton()

    def first(self, start: int) -> int:
        """The state before the first character."""
        return start

    def moves(self, state: int, symbols: frozenset[int]) -> Iterable[tuple[int, int]]:
        """The symbols, of the given ones, on which a state moves, each with the state to which it moves."""
        on, target = self.transitions[state]
        return [(symbol, target) for symbol in on & symbols]

    def silent_moves(self, state: int) -> Iterable[tuple[str, int]]:
        """The moves of a state without a symbol, each with the assertion that must hold."""
        return self.epsilon[state]

    def is_final(self, state: int) -> bool:
        """Whether a text may end in a state."""
        return state == self.final

    def new_state(self, symbols: frozenset[int] = frozenset(), target: int = 0) -> int:
        """Add a state that moves to `target` on some symbols.

        Raises:
            TooManyStates: there are `MAX_NFA_STATES` already.
        """
        if len(self.transitions) >= MAX_NFA_STATES:
            raise TooManyStates
        self.transitions.append((symbols, target))
        self.epsilon.append([])
        return len(self.transitions) - 1

    def build(self, node: PatternNode, following: int) -> int:
        """The entry state of a fragment that matches `node` and continues at the state `following`.

        Raises:
            PatternError: a lookaround stands where it is not supported.
            TooManyStates: see `new_state`.
        """
        match node:
            case Chars(ranges):
                if ranges not in self._symbols:
                    self._symbols[ranges] = self.alphabet.symbols(ranges)
                return self.new_state(self._symbols[ranges], following)
            case Concat(items):
                for item in reversed(items):
                    following = self.build(item, following)
                return following
            case Alternation(options):
                entry = self.new_state()
                self.epsilon[entry] = [("", self.build(option, following)) for option in options]
                return entry
            case Repetition(item, low, high):
                return self._repeat(item, low, high, following)
            case Assertion(kind):
                entry = self.new_state()
                self.epsilon[entry] = [(kind, following)]
                return entry
            case Lookaround():
                raise PatternError(MISPLACED_LOOKBEHIND)

    def _repeat(self, item: PatternNode, low: int, high: int | None, following: int) -> int:
        if high is None:
            loop = self.new_state()
            self.epsilon[loop] = [("", self.build(item, loop)), ("", following)]
            following = loop
        end = following
        for _ in range(low, low if high is None else high):
            skip = self.new_state()
            self.epsilon[skip] = [("", self.build(item, following)), ("", end)]
            following = skip
        for _ in range(low):
            following = self.build(item, following)
        return following


class _Kind(Enum):
    """The kind of a character beside an assertion; NOTHING is the start or the end of the text.

    Characters outside ASCII are DISPUTED: engines disagree on whether they belong to words. LAST_BREAK is a
    line break that ends the text: some engines take the position before it for the end.
    """

    NOTHING = auto()
    LAST_BREAK = auto()
    WORD = auto()
    OTHER = auto()
    DISPUTED = auto()


_Subset = tuple[frozenset[int], _Kind, frozenset[int]]
"""A set of states of the NFA, the kind of the last character read, and further states if the text ends here.

`$?`, which also holds before a last line break, leads to the further states.
"""


class _SubsetConstruction:
    """Builds the DFA whose states are sets of NFA states (Rabin and Scott, 1959)."""

    def __init__(self, nfa: Nfa, start: int) -> None:
        self.nfa = nfa
        self.start = start
        self.num_steps = 0
        symbols = frozenset(range(len(nfa.alphabet.atoms)))
        self.kinds = {_Kind.OTHER: symbols}
        if any(kind[:1] in ("b", "B") for moves in nfa.epsilon for kind, _ in moves):
            word, disputed = map(nfa.alphabet.symbols, (charset.WORD, charset.OUTSIDE_ASCII))
            self.kinds = {
                _Kind.OTHER: symbols - word - disputed,
                _Kind.WORD: word,
                _Kind.DISPUTED: disputed,
            }
        has_outer_ends = any(kind == "$?" for moves in nfa.epsilon for kind, _ in moves)
        self.line_breaks = nfa.alphabet.symbols(_LINE_BREAK) if has_outer_ends else frozenset()

    def automaton(self) -> Dfa:
        start = (frozenset({self.start}), _Kind.NOTHING, frozenset[int]())
        return build_dfa(self.nfa.alphabet, start, self._successors, self._is_accepting)

    def _successors(self, state: _Subset) -> list[_Subset | None]:
        states, last, _ = state
        row: list[_Subset | None] = [None] * len(self.nfa.alphabet.atoms)
        for kind, symbols in self.kinds.items():
            for symbol, targets in self._targets(states, last, kind, symbols).items():
                row[symbol] = (frozenset(targets), kind, frozenset())
        for symbol, at_end in self._targets(states, last, _Kind.LAST_BREAK, self.line_breaks).items():
            within, kind, _ = row[symbol] or (frozenset[int](), _Kind.OTHER, None)
            row[symbol] = (within, kind, frozenset(at_end - within))
        return row

    def _targets(
        self, states: frozenset[int], last: _Kind, following: _Kind, symbols: frozenset[int]
    ) -> dict[int, set[int]]:
        """The states that each of `symbols`, all of one kind, leads to."""
        targets_on: dict[int, set[int]] = {}
        for state in self._closure(states, last, following) if symbols else ():
            for symbol, target in self.nfa.moves(state, symbols):
                targets_on.setdefault(symbol, set()).add(target)
        self._count(sum(map(len, targets_on.values())))
        return targets_on

    def _is_accepting(self, state: _Subset) -> bool:
        states, last, at_end = state
        return any(map(self.nfa.is_final, self._closure(states | at_end, last, _Kind.NOTHING)))

    def _closure(self, states: frozenset[int], last: _Kind, following: _Kind) -> set[int]:
        """The epsilon closure between a character of the kind `last` and one of the kind `following`."""
        holds = _assertions(last, following)
        closed = set(states)
        stack = list(states)
        while stack:
            for kind, target in self.nfa.silent_moves(stack.pop()):
                if kind in holds and target not in closed:
                    closed.add(target)
                    stack.append(target)
        self._count(len(closed))
        return closed

    def _count(self, num_steps: int) -> None:
        self.num_steps += num_steps
        if self.num_steps > MAX_STEPS:
            raise TooManyStates


@cache
def _assertions(last: _Kind, following: _Kind) -> frozenset[str]:
    """The labels of epsilon transitions that are open between two characters of these kinds."""
    is_empty_text = last is following is _Kind.NOTHING
    if is_empty_text:  # no engine finds `\b` in it, and only some find `\B`
        words = {"B?"}
    elif _Kind.DISPUTED in (last, following):
        words = {"b?", "B?"}
    elif (last is _Kind.WORD) != (following is _Kind.WORD):
        words = {"b", "b?"}
    else:
        words = {"B", "B?"}
    starts = {"^"} if last is _Kind.NOTHING else set()
    ends = {_Kind.NOTHING: {"$", "$?"}, _Kind.LAST_BREAK: {"$?"}}.get(following, set())
    return frozenset({"", *words, *starts, *ends})
