r"""From a syntax tree with lookaheads, wherever they stand, to a DFA.

A lookahead is a condition on the text from its position on: `(?=A)` says that it begins with a text of `A`,
`(?!A)` that it does not. So a lookahead has an automaton over the rest of the text, which begins where the
pattern's NFA passes the lookahead. This is an alternating automaton (Chandra, Kozen and
Stockmeyer, 1981): from a position on, the pattern *and* all lookaheads that were passed must accept.

It becomes an NFA whose states are *threads*: a state of the pattern's NFA together with the states of the
automata that read along. A thread ends when one of these is dead, and a text may end in it where all of them
accept. An automaton that accepts whatever follows is left out of the thread. `^((?!ab).)*$` has two threads
inside the text: one after an `a`, at which the lookahead must not see a `b`, and one anywhere else.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from compiler.regular.dfa import DEAD, Alphabet, Dfa, TooManyStates
from compiler.regular.nfa import MAX_NFA_STATES, Nfa
from compiler.regular.pattern_tree import Lookaround, PatternNode

_Ahead = frozenset[tuple[int, int]]
"""Automata of lookaheads by number, each with its state."""


class _Thread(NamedTuple):
    state: int
    ahead: _Ahead


def search(node: PatternNode, alphabet: Alphabet, rests: Mapping[Lookaround, Dfa]) -> Dfa:
    """The automaton of the texts in which the tree matches somewhere.

    `rests` has, for each lookahead, the automaton of the texts that may follow its position.

    Raises:
        PatternError: the tree has a lookaround that is not in `rests`.
        TooManyStates: the automaton has too many states, or takes too many steps to build.
    """
    return _Threads(alphabet, rests).automaton(node)


class _Threads(Nfa):
    """The NFA of threads. They have numbers of their own, and are made as they are reached."""

    def __init__(self, alphabet: Alphabet, rests: Mapping[Lookaround, Dfa]) -> None:
        super().__init__(alphabet)
        self._rests = list(rests.values())
        self._numbers = {look: number for number, look in enumerate(rests)}
        self._any_rest = [_any_rest(rest) for rest in self._rests]
        self._passing: dict[int, tuple[int, int]] = {}
        """States that pass a lookahead: its number, and the state after it."""
        self._threads: list[_Thread] = []
        self._number_of: dict[_Thread, int] = {}
        self._advanced: dict[tuple[_Ahead, int], _Ahead | None] = {}

    def build(self, node: PatternNode, following: int) -> int:
        """As of any NFA; a lookahead is a state without a symbol."""
        if not isinstance(node, Lookaround) or node not in self._numbers:
            return super().build(node, following)
        entry = self.new_state()
        self._passing[entry] = self._numbers[node], following
        return entry

    def first(self, start: int) -> int:
        """The thread at the start of a text."""
        return self._thread(start, frozenset())

    def moves(self, state: int, symbols: frozenset[int]) -> Iterator[tuple[int, int]]:
        """The symbols, of the given ones, on which a thread goes on, each with the thread after it."""
        thread = self._threads[state]
        for symbol, target in super().moves(thread.state, symbols):
            ahead = self._advance(thread.ahead, symbol)
            if ahead is not None:
                yield symbol, self._thread(target, ahead)

    def silent_moves(self, state: int) -> Iterator[tuple[str, int]]:
        """The moves of a thread without a symbol; where it passes a lookahead, that automaton begins."""
        thread = self._threads[state]
        if thread.state in self._passing:
            number, following = self._passing[thread.state]
            begun = frozenset() if 0 in self._any_rest[number] else {(number, 0)}
            yield "", self._thread(following, thread.ahead | begun)
        for assertion, target in super().silent_moves(thread.state):
            yield assertion, self._thread(target, thread.ahead)

    def is_final(self, state: int) -> bool:
        """Whether a text may end in a thread."""
        thread = self._threads[state]
        return super().is_final(thread.state) and all(
            inner in self._rests[number].accepting for number, inner in thread.ahead
        )

    def _thread(self, state: int, ahead: _Ahead) -> int:
        thread = _Thread(state, ahead)
        if thread not in self._number_of:
            if len(self._threads) >= MAX_NFA_STATES:
                raise TooManyStates
            self._number_of[thread] = len(self._threads)
            self._threads.append(thread)
        return self._number_of[thread]

    def _advance(self, ahead: _Ahead, symbol: int) -> _Ahead | None:
        """The automata after one more character; None if one of them rejects whatever follows."""
        if (ahead, symbol) not in self._advanced:
            targets = {(number, self._rests[number].table[inner][symbol]) for number, inner in ahead}
            is_dead = any(target == DEAD for _, target in targets)
            following = frozenset(
                (number, target) for number, target in targets if target not in self._any_rest[number]
            )
            self._advanced[ahead, symbol] = None if is_dead else following
        return self._advanced[ahead, symbol]


def _any_rest(rest: Dfa) -> frozenset[int]:
    """The states of a minimised automaton in which it accepts whatever follows."""
    return frozenset(state for state in rest.accepting if set(rest.table[state]) == {state})
