"""From a syntax tree without lookaround to an automaton, assertions decided while the subsets are built."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from compiler.regular import charset
from compiler.regular.dfa import Alphabet, Dfa, TooManyStates, explored
from compiler.regular.ecma import Alternation, Assertion, Chars, Concat, Look, Node, PatternError, Repetition

MAX_NFA_STATES = 20_000
_ANYTHING = Repetition(Chars(charset.ALL), 0, None)


def sets_of(node: Node) -> Iterator[charset.Ranges]:
    """Every character set in a tree; word boundaries need one too."""
    match node:
        case Chars(ranges):
            yield ranges
        case Concat(parts) | Alternation(parts):
            for part in parts:
                yield from sets_of(part)
        case Repetition(item) | Look(item):
            yield from sets_of(item)
        case Assertion():
            yield charset.WORD


def search(node: Node, alphabet: Alphabet) -> Dfa:
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

    def build(self, node: Node, following: int) -> int:
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

    def _repeat(self, item: Node, low: int, high: int | None, following: int) -> int:
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


_START, _WORD, _OTHER = range(3)


class _Subsets:
    """Subset construction over (states before assertions are tried, what the last character was)."""

    def __init__(self, nfa: _Nfa, start: int) -> None:
        self.nfa = nfa
        self.start = start
        self.words = nfa.alphabet.symbols(charset.WORD) if _asserts_words(nfa) else frozenset()

    def automaton(self) -> Dfa:
        start = (frozenset({self.start}), _START)
        return explored(self.nfa.alphabet, start, self._step, self._is_accepting)

    def _step(self, state: tuple[frozenset[int], int], symbol: int) -> tuple[frozenset[int], int] | None:
        states, last = state
        is_word = symbol in self.words
        closed = self._closure(states, last, at_end=False, next_is_word=is_word)
        moved = frozenset(
            target for s in closed for symbols, target in (self.nfa.moves[s],) if symbol in symbols
        )
        return (moved, (_WORD if is_word else _OTHER)) if moved else None

    def _is_accepting(self, state: tuple[frozenset[int], int]) -> bool:
        states, last = state
        return self.nfa.final in self._closure(states, last, at_end=True, next_is_word=False)

    def _closure(self, states: frozenset[int], last: int, *, at_end: bool, next_is_word: bool) -> set[int]:
        holds = {
            "": True,
            "^": last == _START,
            "$": at_end,
            "b": (last == _WORD) != next_is_word,
            "B": (last == _WORD) == next_is_word,
        }
        closed = set(states)
        stack = list(states)
        while stack:
            for kind, target in self.nfa.jumps[stack.pop()]:
                if holds[kind] and target not in closed:
                    closed.add(target)
                    stack.append(target)
        return closed


def _asserts_words(nfa: _Nfa) -> bool:
    return any(kind in ("b", "B") for jumps in nfa.jumps for kind, _ in jumps)
