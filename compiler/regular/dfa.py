"""Deterministic finite automata (DFA) over symbols that stand for sets of characters.

A symbol is a set of characters between which no pattern at hand distinguishes, so that tables stay small:
`^a+$` needs two symbols, `a` and every other character.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from itertools import pairwise
from typing import TypeVar

from compiler.digraph import coreachable, reverse_topological_order
from compiler.regular import charset
from compiler.regular.charset import Ranges

StateT = TypeVar("StateT")

MAX_STATES = 3_000
_MOST_AT_ONCE = 400
"""The most states of a product that is made of all its automata at once."""
DEAD = -1
_FEW = 20
"""Few tokens begin with one of so few characters."""


class TooManyStates(ValueError):
    """An automaton has more states than its limit allows."""

    def __init__(self, limit: int = MAX_STATES) -> None:
        super().__init__(f"needs an automaton of more than {limit} states")


@dataclass(frozen=True)
class Alphabet:
    """A partition of all characters: `atoms[i]` is the set that symbol `i` stands for."""

    atoms: tuple[Ranges, ...]

    @classmethod
    def of(cls, sets: Iterable[Ranges]) -> "Alphabet":
        """The coarsest partition in which every one of `sets` is a union of atoms.

        >>> Alphabet.of([charset.of("ab"), charset.of("bc")]).atoms[:3]  # a, then b, then c
        (((0, 96), (100, 55295), (57344, 1114111)), ((97, 97),), ((98, 98),))
        """
        return _coarsest_alphabet(frozenset(sets))

    @cached_property
    def _spans(self) -> tuple[list[int], list[int]]:
        """Where the spans of characters begin, ascending, and the symbol of each; together they have all."""
        spans = sorted((low, symbol) for symbol, atom in enumerate(self.atoms) for low, _ in atom)
        return [low for low, _ in spans], [symbol for _, symbol in spans]

    def symbol_of(self, code: int) -> int:
        """The symbol of a character, by its code point."""
        starts, symbols = self._spans
        return symbols[bisect_right(starts, code) - 1]

    def symbols(self, ranges: Ranges) -> frozenset[int]:
        """The symbols that make up a set; the set must be a union of atoms."""
        return frozenset(i for i, atom in enumerate(self.atoms) if charset.contains(ranges, atom[0][0]))


@lru_cache(maxsize=256)
def _coarsest_alphabet(sets: frozenset[Ranges]) -> Alphabet:
    distinct = [charset.ALL, *sets]
    edges = sorted({edge for ranges in distinct for low, high in ranges for edge in (low, high + 1)})
    pieces: dict[tuple[bool, ...], list[tuple[int, int]]] = {}
    cursors = [_Cursor(ranges) for ranges in distinct]
    for low, following in pairwise(edges):
        is_character, *signature = [cursor.covers(low) for cursor in cursors]
        if is_character:
            pieces.setdefault(tuple(signature), []).append((low, following - 1))
    return Alphabet(tuple(tuple(spans) for spans in pieces.values()))


class _Cursor:
    """Tells for ascending code points whether they are in a set, each in constant time."""

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges
        self._at = 0

    def covers(self, code: int) -> bool:
        while self._at < len(self._ranges) and self._ranges[self._at][1] < code:
            self._at += 1
        return self._at < len(self._ranges) and self._ranges[self._at][0] <= code


@dataclass(frozen=True)
class Dfa:
    """`table[state][symbol]` is the next state, or `DEAD` if there is none; state 0 is the start."""

    alphabet: Alphabet
    table: tuple[tuple[int, ...], ...]
    accepting: frozenset[int]

    def accepts(self, text: str) -> bool:
        """Whether a text is in the automaton's language."""
        state = 0
        for char in text:
            state = self.table[state][self.alphabet.symbol_of(ord(char))] if state != DEAD else DEAD
        return state in self.accepting

    @property
    def is_empty(self) -> bool:
        """Whether a minimised automaton accepts nothing."""
        return not self.accepting

    @property
    def is_prefix_free(self) -> bool:
        """Whether a minimised automaton accepts no text that begins with another one."""
        return all(target == DEAD for state in self.accepting for target in self.table[state])

    @cached_property
    def max_length(self) -> int | None:
        """The number of characters of a minimised automaton's longest text; None if there is no longest."""
        return self._longest_path(self._successors())

    @cached_property
    def always_accepts_after(self) -> int | None:
        """The number of characters after which a minimised automaton accepts whatever it has not rejected.

        For `^a+b?` it is 1. None if there is no such number: a text that is accepted can be continued to one
        that is not accepted yet.
        """
        successors = self._successors()
        if any(successors[state] - self.accepting for state in self.accepting):
            return None
        return self._longest_path([set() if s in self.accepting else t for s, t in enumerate(successors)])

    def _successors(self) -> list[set[int]]:
        return [set(row) - {DEAD} for row in self.table]

    @staticmethod
    def _longest_path(successors: Sequence[set[int]]) -> int | None:
        """The number of transitions of the longest path from state 0; None if there is a cycle."""
        order = reverse_topological_order(successors)
        if order is None:
            return None
        lengths: dict[int, int] = {}
        for state in order:
            lengths[state] = max((lengths[target] + 1 for target in successors[state]), default=0)
        return lengths[0]

    @cached_property
    def first(self) -> Ranges:
        """The characters with which texts of this minimised automaton may begin."""
        atoms = zip(self.alphabet.atoms, self.table[0], strict=True)
        return charset.union(*(atom for atom, target in atoms if target != DEAD))

    def over(self, alphabet: Alphabet) -> "Dfa":
        """The same language over an alphabet that refines this one."""
        if alphabet == self.alphabet:
            return self
        symbols = [self.alphabet.symbol_of(atom[0][0]) for atom in alphabet.atoms]
        return Dfa(alphabet, tuple(tuple(row[s] for s in symbols) for row in self.table), self.accepting)

    def complement(self) -> "Dfa":
        """The automaton of every text that this one rejects."""
        sink = len(self.table)
        rows = [tuple(sink if t == DEAD else t for t in row) for row in self.table]
        rows.append((sink,) * len(self.alphabet.atoms))
        accepting = frozenset(range(len(rows))) - self.accepting
        return _minimise(self.alphabet, rows, accepting)

    def beginnings(self) -> "Dfa":
        """A smaller automaton, which also accepts all texts that begin like a text of this minimised one.

        The beginning ends where more than `_FEW` characters can follow; after it, any text is accepted. For
        `^lang_[a-z]{2}(-[a-z]+)*$` it is `lang_`, and six states are left of twelve. If many characters can
        come first, the automaton stays as it is.
        """
        sizes = [charset.size(atom) for atom in self.alphabet.atoms]
        is_wide = [
            sum(size for size, target in zip(sizes, row, strict=True) if target != DEAD) > _FEW
            for row in self.table
        ]
        if is_wide[0]:
            return self
        rows = [
            (state,) * len(sizes) if wide else row
            for state, (row, wide) in enumerate(zip(self.table, is_wide, strict=True))
        ]
        accepting = self.accepting.union(state for state, wide in enumerate(is_wide) if wide)
        return _minimise(self.alphabet, rows, accepting)

    def intersect(self, other: "Dfa") -> "Dfa":
        """The automaton of the texts in both languages. Both automata must have the same alphabet."""
        return _product((self, other), MAX_STATES)

    def without(self, other: "Dfa") -> "Dfa":
        """The automaton of the texts of this language that the other one does not have."""
        alphabet = Alphabet.of([*self.alphabet.atoms, *other.alphabet.atoms])
        return self.over(alphabet).intersect(other.over(alphabet).complement())

    def of_length(self, low: int, high: int | None = None) -> "Dfa":
        """The automaton of the texts that have `low` to `high` characters; None is no bound."""
        highest = low if high is None else high
        if not low and high is None:
            return self

        def successors(counted: tuple[int, int]) -> Iterator[tuple[int, int] | None]:
            state, count = counted
            is_full = count == high
            return (None if is_full or t == DEAD else (t, min(count + 1, highest)) for t in self.table[state])

        def is_accepting(counted: tuple[int, int]) -> bool:
            state, count = counted
            return state in self.accepting and count >= low

        return build_dfa(self.alphabet, (0, 0), successors, is_accepting)


def union(automata: Sequence[Dfa]) -> Dfa:
    """The automaton of the texts in any of the languages; all automata must have the same alphabet."""

    def successors(states: tuple[int, ...]) -> Iterator[tuple[int, ...] | None]:
        dead = (DEAD,) * len(automata[0].alphabet.atoms)
        rows = [dead if s == DEAD else dfa.table[s] for dfa, s in zip(automata, states, strict=True)]
        columns = zip(*rows, strict=True)
        return (targets if any(target != DEAD for target in targets) else None for targets in columns)

    def is_accepting(states: tuple[int, ...]) -> bool:
        return any(state in dfa.accepting for dfa, state in zip(automata, states, strict=True))

    return build_dfa(automata[0].alphabet, (0,) * len(automata), successors, is_accepting)


def intersection(automata: Sequence[Dfa]) -> Dfa:
    """The automaton of the texts in all of the languages; all automata must have the same alphabet.

    Most products are small, and are made at once. A larger one is made factor by factor, each minimised.

    Raises:
        TooManyStates: a product is too large.
    """
    if len(automata) > 2:
        with suppress(TooManyStates):
            return _product(automata, _MOST_AT_ONCE)
    return reduce(Dfa.intersect, automata)


def _product(automata: Sequence[Dfa], most: int) -> Dfa:
    """The product of automata, which accepts what all of them accept; it may have `most` states."""

    def successors(states: tuple[int, ...]) -> Iterator[tuple[int, ...] | None]:
        columns = zip(*(dfa.table[s] for dfa, s in zip(automata, states, strict=True)), strict=True)
        return (None if DEAD in targets else targets for targets in columns)

    def is_accepting(states: tuple[int, ...]) -> bool:
        return all(state in dfa.accepting for dfa, state in zip(automata, states, strict=True))

    return build_dfa(automata[0].alphabet, (0,) * len(automata), successors, is_accepting, most)


def build_dfa(
    alphabet: Alphabet,
    start: StateT,
    successors: Callable[[StateT], Iterable[StateT | None]],
    is_accepting: Callable[[StateT], bool],
    most: int = MAX_STATES,
) -> Dfa:
    """The minimised automaton whose states are any hashable values, made as they are reached from `start`.

    `successors(state)` gives the next state for each symbol in turn, None where there is none.

    Raises:
        TooManyStates: more than `most` states are reached.
    """
    numbers = {start: 0}
    order = [start]
    rows: list[tuple[int, ...]] = []
    for state in order:
        row = []
        for target in successors(state):
            if target is None:
                row.append(DEAD)
                continue
            if target not in numbers:
                if len(order) >= most:
                    raise TooManyStates(most)
                numbers[target] = len(order)
                order.append(target)
            row.append(numbers[target])
        rows.append(tuple(row))
    return _minimise(alphabet, rows, frozenset(i for i, state in enumerate(order) if is_accepting(state)))


def _minimise(alphabet: Alphabet, rows: Sequence[tuple[int, ...]], accepting: frozenset[int]) -> Dfa:
    """The smallest automaton of the same language, without states from which nothing is accepted."""
    live = coreachable(accepting, ((state, set(row)) for state, row in enumerate(rows)))
    if 0 not in live:
        return Dfa(alphabet, ((DEAD,) * len(alphabet.atoms),), frozenset())
    rows = [tuple(t if t in live else DEAD for t in row) for row in rows]
    return _quotient(alphabet, rows, accepting, _coarsest_partition(rows, live, accepting))


def _coarsest_partition(
    rows: Sequence[tuple[int, ...]], live: set[int], accepting: frozenset[int]
) -> dict[int, int]:
    """The number of the block of every live state; equivalent states are in one block.

    The algorithm is Hopcroft's (1971). A block splits every block that only partly leads into
    it. Of the two parts only the smaller one has to split others again, so n states take n log n steps.
    """
    predecessors = _predecessors(rows, live)
    blocks = [set(block) for block in (accepting, live - accepting) if block]
    block_of = {state: number for number, block in enumerate(blocks) for state in block}
    waiting = set(range(len(blocks)))
    while waiting:
        leading: dict[int, list[int]] = {}
        for target in blocks[waiting.pop()]:
            for symbol, state in predecessors[target]:
                leading.setdefault(symbol, []).append(state)
        for states in leading.values():
            parts: dict[int, set[int]] = {}
            for state in states:
                parts.setdefault(block_of[state], set()).add(state)
            for number, part in parts.items():
                if len(part) < len(blocks[number]):
                    smaller = min(part, blocks[number] - part, key=len)
                    blocks[number] -= smaller
                    block_of.update(dict.fromkeys(smaller, len(blocks)))
                    waiting.add(len(blocks))
                    blocks.append(smaller)
    return block_of


def _predecessors(rows: Sequence[tuple[int, ...]], live: set[int]) -> dict[int, list[tuple[int, int]]]:
    """For every live state the pairs of symbol and state that lead to it."""
    predecessors: dict[int, list[tuple[int, int]]] = {state: [] for state in live}
    for state in live:
        for symbol, target in enumerate(rows[state]):
            if target != DEAD:
                predecessors[target].append((symbol, state))
    return predecessors


def _quotient(
    alphabet: Alphabet, rows: Sequence[tuple[int, ...]], accepting: frozenset[int], block: dict[int, int]
) -> Dfa:
    """The automaton with one state per block, numbered breadth-first from the start."""
    representative: dict[int, int] = {}
    for state, number in block.items():
        representative.setdefault(number, state)
    order = {block[0]: 0}
    queue = [block[0]]
    table = []
    for number in queue:
        row = []
        for target in rows[representative[number]]:
            if target != DEAD and block[target] not in order:
                order[block[target]] = len(queue)
                queue.append(block[target])
            row.append(DEAD if target == DEAD else order[block[target]])
        table.append(tuple(row))
    finals = frozenset(order[number] for number in queue if representative[number] in accepting)
    return Dfa(alphabet, tuple(table), finals)
