"""From a syntax tree without lookaround to an automaton, assertions decided while the subsets are built."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache

from compiler.regular import charset
from compiler.regular.dfa import Alphabet, Dfa, TooManyStates, explored
from compiler.regular.ecma import (
    Alternation,
    Assertion,
    Chars,
    Concat,
    Look,
    PatternError,
    PatternNode,
    Repetition,
)

MAX_NFA_STATES = 20_000
MAX_STEPS = 5_000_000
_ANYTHING = Repetition(Chars(charset.ALL), 0, None)


def sets_of(node: PatternNode) -> Iterator[charset.Ranges]:
    """Every character set in a tree; word boundaries need one too."""
    match node:
        case Chars(ranges):
            yield ranges
        case Concat(parts) | Alternation(parts):
            for part in parts:
                yield from sets_of(part)
        case Repetition(item) | Look(item):
            yield from sets_of(item)
        case Assertion(kind):
            if kind not in ("^", "$"):
                yield from (charset.WORD, charset.OUTSIDE_ASCII)


def search(node: PatternNode, alphabet: Alphabet) -> Dfa:
    """The texts in which the tree matches somewhere.

    Raises:
        PatternError: the tree has a lookaround.
        TooManyStates: the automaton is too large.
    """
    nfa = _Nfa(alphabet)
    start = nfa.build(_ANYTHING, nfa.build(node, nfa.build(_ANYTHING, nfa.final)))
    return _Subsets(nfa, start).automaton()


@dataclass
class _Nfa:
    """States by number: `moves` on symbols, `jumps` without, the latter where an assertion (or "") holds."""

    alphabet: Alphabet
    moves: list[tuple[frozenset[int], int]] = field(default_factory=list)
    jumps: list[list[tuple[str, int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.final = self._state()
        self._symbols: dict[charset.Ranges, frozenset[int]] = {}

    def _state(self, symbols: frozenset[int] = frozenset(), target: int = 0) -> int:
        if len(self.moves) >= MAX_NFA_STATES:
            raise TooManyStates
        self.moves.append((symbols, target))
        self.jumps.append([])
        return len(self.moves) - 1

    def build(self, node: PatternNode, following: int) -> int:
        """The entry of a fragment that matches `node` and goes on at `following`."""
        match node:
            case Chars(ranges):
                if ranges not in self._symbols:
                    self._symbols[ranges] = self.alphabet.symbols(ranges)
                return self._state(self._symbols[ranges], following)
            case Concat(items):
                for item in reversed(items):
                    following = self.build(item, following)
                return following
            case Alternation(options):
                entry = self._state()
                self.jumps[entry] = [("", self.build(option, following)) for option in options]
                return entry
            case Repetition(item, low, high):
                return self._repeat(item, low, high, following)
            case Assertion(kind):
                entry = self._state()
                self.jumps[entry] = [(kind, following)]
                return entry
            case Look():
                raise PatternError("has a lookaround that is not at an anchored end")

    def _repeat(self, item: PatternNode, low: int, high: int | None, following: int) -> int:
        if high is None:
            loop = self._state()
            self.jumps[loop] = [("", self.build(item, loop)), ("", following)]
            following = loop
        end = following
        for _ in range(low, low if high is None else high):
            skip = self._state()
            self.jumps[skip] = [("", self.build(item, following)), ("", end)]
            following = skip
        for _ in range(low):
            following = self.build(item, following)
        return following


class _Before(Enum):
    """What stands beside a place in a text. Outside ASCII, engines disagree on what a word is."""

    NOTHING = auto()
    WORD = auto()
    OTHER = auto()
    DISPUTED = auto()


_Subset = tuple[frozenset[int], _Before]
"""States before assertions are tried, and what the last character was."""


class _Subsets:
    """Subset construction; assertions are decided between two characters."""

    def __init__(self, nfa: _Nfa, start: int) -> None:
        self.nfa = nfa
        self.start = start
        self.num_steps = 0
        symbols = frozenset(range(len(nfa.alphabet.atoms)))
        self.kinds = {_Before.OTHER: symbols}
        if any(kind[:1] in ("b", "B") for jumps in nfa.jumps for kind, _ in jumps):
            word, disputed = map(nfa.alphabet.symbols, (charset.WORD, charset.OUTSIDE_ASCII))
            self.kinds = {
                _Before.OTHER: symbols - word - disputed,
                _Before.WORD: word,
                _Before.DISPUTED: disputed,
            }

    def automaton(self) -> Dfa:
        start = (frozenset({self.start}), _Before.NOTHING)
        return explored(self.nfa.alphabet, start, self._following, self._is_accepting)

    def _following(self, state: _Subset) -> list[_Subset | None]:
        states, last = state
        row: list[_Subset | None] = [None] * len(self.nfa.alphabet.atoms)
        for kind, symbols in self.kinds.items():
            moved: dict[int, set[int]] = {}
            for s in self._closure(states, last, kind):
                reading, target = self.nfa.moves[s]
                for symbol in reading & symbols:
                    moved.setdefault(symbol, set()).add(target)
            for symbol, targets in moved.items():
                row[symbol] = (frozenset(targets), kind)
            self._count(sum(map(len, moved.values())))
        return row

    def _is_accepting(self, state: _Subset) -> bool:
        states, last = state
        return self.nfa.final in self._closure(states, last, _Before.NOTHING)

    def _closure(self, states: frozenset[int], last: _Before, following: _Before) -> set[int]:
        holds = _assertions(last, following)
        closed = set(states)
        stack = list(states)
        while stack:
            for kind, target in self.nfa.jumps[stack.pop()]:
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
def _assertions(last: _Before, following: _Before) -> frozenset[str]:
    """The assertions that hold between two characters."""
    if _Before.DISPUTED in (last, following):
        words = {"b?", "B?"}
    elif (last is _Before.WORD) != (following is _Before.WORD):
        words = {"b", "b?"}
    else:
        words = {"B", "B?"}
    ends = {"^"} if last is _Before.NOTHING else set()
    return frozenset({"", *words, *ends, *({"$"} if following is _Before.NOTHING else ())})
