"""Deterministic automata over classes of characters that no pattern in play tells apart."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

from compiler.digraph import innermost_first, leading_to
from compiler.regular import charset
from compiler.regular.charset import Ranges

StateT = TypeVar("StateT")

MAX_STATES = 3_000
DEAD = -1


class TooManyStates(ValueError):
    """An automaton outgrew its limit."""

    def __init__(self, limit: int = MAX_STATES) -> None:
        super().__init__(f"needs more than {limit} states")


@dataclass(frozen=True)
class Alphabet:
    """A partition of all characters: `atoms[i]` is the set of symbol i."""

    atoms: tuple[Ranges, ...]

    @classmethod
    def of(cls, sets: Iterable[Ranges]) -> "Alphabet":
        """The coarsest partition that every one of the sets is a union of."""
        distinct = [charset.ALL, *dict.fromkeys(sets)]
        edges = sorted({edge for ranges in distinct for low, high in ranges for edge in (low, high + 1)})
        pieces: dict[tuple[bool, ...], list[tuple[int, int]]] = {}
        cursors = [_Cursor(ranges) for ranges in distinct]
        for low, following in pairwise(edges):
            is_character, *signature = [cursor.covers(low) for cursor in cursors]
            if is_character:
                pieces.setdefault(tuple(signature), []).append((low, following - 1))
        return cls(tuple(tuple(spans) for spans in pieces.values()))

    def symbols(self, ranges: Ranges) -> frozenset[int]:
        """The symbols that make up a set of the partition."""
        return frozenset(i for i, atom in enumerate(self.atoms) if charset.contains(ranges, atom[0][0]))


class _Cursor:
    """Answers membership for ascending code points in constant time each."""

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges
        self._at = 0

    def covers(self, code: int) -> bool:
        while self._at < len(self._ranges) and self._ranges[self._at][1] < code:
            self._at += 1
        return self._at < len(self._ranges) and self._ranges[self._at][0] <= code


@dataclass(frozen=True)
class Dfa:
    """`table[state][symbol]` is the next state, `DEAD` if there is none; state 0 is the start."""

    alphabet: Alphabet
    table: tuple[tuple[int, ...], ...]
    accepting: frozenset[int]

    def accepts(self, text: str) -> bool:
        """Whether a text is in the language."""
        state = 0
        for char in text:
            state = self.table[state][self._symbol_of(ord(char))] if state != DEAD else DEAD
        return state in self.accepting

    def _symbol_of(self, code: int) -> int:
        return next(i for i, atom in enumerate(self.alphabet.atoms) if charset.contains(atom, code))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is accepted, once minimised."""
        return not self.accepting

    @cached_property
    def longest(self) -> int | None:
        """The length of the longest text of a minimised automaton; None if there is no longest."""
        return self._longest_way([{t for t in row if t != DEAD} for row in self.table])

    @cached_property
    def settled_after(self) -> int | None:
        """After how many characters every text of a minimised automaton is in the language, whatever follows.

        None if there is no such number: a text that is in it can go on to one that is not yet.
        """
        following = [{t for t in row if t != DEAD} for row in self.table]
        if any(following[state] - self.accepting for state in self.accepting):
            return None
        return self._longest_way([set() if s in self.accepting else t for s, t in enumerate(following)])

    @staticmethod
    def _longest_way(following: Sequence[set[int]]) -> int | None:
        """The most steps from state 0; None if they can go in a circle."""
        order = innermost_first(following)
        if order is None:
            return None
        steps: dict[int, int] = {}
        for state in order:
            steps[state] = max((steps[target] + 1 for target in following[state]), default=0)
        return steps[0]

    def over(self, alphabet: Alphabet) -> "Dfa":
        """The same language over a finer partition."""
        symbols = [self._symbol_of(atom[0][0]) for atom in alphabet.atoms]
        return Dfa(alphabet, tuple(tuple(row[s] for s in symbols) for row in self.table), self.accepting)

    def complement(self) -> "Dfa":
        """Every text that is not in the language."""
        sink = len(self.table)
        rows = [tuple(sink if t == DEAD else t for t in row) for row in self.table]
        rows.append((sink,) * len(self.alphabet.atoms))
        accepting = frozenset(range(len(rows))) - self.accepting
        return minimised(self.alphabet, rows, accepting)

    def intersect(self, other: "Dfa") -> "Dfa":
        """Texts in both languages; both automata have the same alphabet."""

        def following(pair: tuple[int, int]) -> Iterator[tuple[int, int] | None]:
            both = zip(self.table[pair[0]], other.table[pair[1]], strict=True)
            return (None if DEAD in targets else targets for targets in both)

        def is_accepting(pair: tuple[int, int]) -> bool:
            return pair[0] in self.accepting and pair[1] in other.accepting

        return explored(self.alphabet, (0, 0), following, is_accepting)

    def at_least(self, length: int) -> "Dfa":
        """Texts of so many characters or more."""
        if not length:
            return self

        def following(place: tuple[int, int]) -> Iterator[tuple[int, int] | None]:
            read = min(place[1] + 1, length)
            return (None if target == DEAD else (target, read) for target in self.table[place[0]])

        def is_accepting(place: tuple[int, int]) -> bool:
            return place[0] in self.accepting and place[1] == length

        return explored(self.alphabet, (0, 0), following, is_accepting)

    def union(self, other: "Dfa") -> "Dfa":
        """Texts in either language."""
        return self.complement().intersect(other.complement()).complement()


def explored(
    alphabet: Alphabet,
    start: StateT,
    following: Callable[[StateT], Iterable[StateT | None]],
    is_accepting: Callable[[StateT], bool],
) -> Dfa:
    """The minimised automaton of hashable states; `following` are those after each symbol, None a dead end.

    Raises:
        TooManyStates: more states are reached.
    """
    numbers = {start: 0}
    order = [start]
    rows: list[tuple[int, ...]] = []
    for state in order:
        row = []
        for target in following(state):
            if target is None:
                row.append(DEAD)
                continue
            if target not in numbers:
                if len(order) >= MAX_STATES:
                    raise TooManyStates
                numbers[target] = len(order)
                order.append(target)
            row.append(numbers[target])
        rows.append(tuple(row))
    return minimised(alphabet, rows, frozenset(i for i, state in enumerate(order) if is_accepting(state)))


def minimised(alphabet: Alphabet, rows: Sequence[tuple[int, ...]], accepting: frozenset[int]) -> Dfa:
    """The smallest automaton of the same language, without dead states."""
    live = leading_to(accepting, ((state, set(row)) for state, row in enumerate(rows)))
    if 0 not in live:
        return Dfa(alphabet, ((DEAD,) * len(alphabet.atoms),), frozenset())
    rows = [tuple(t if t in live else DEAD for t in row) for row in rows]
    return _quotient(alphabet, rows, accepting, _coarsest_partition(rows, live, accepting))


def _coarsest_partition(
    rows: Sequence[tuple[int, ...]], live: set[int], accepting: frozenset[int]
) -> dict[int, int]:
    """The block of every live state, equivalent states in one block.

    Hopcroft's algorithm (1971): every block splits those that lead into it in part, and of a block that was
    split only the smaller part splits others again, which takes n log n steps.
    """
    sources = _sources(rows, live)
    blocks = [set(block) for block in (accepting, live - accepting) if block]
    block_of = {state: number for number, block in enumerate(blocks) for state in block}
    waiting = set(range(len(blocks)))
    while waiting:
        leading: dict[int, list[int]] = {}
        for target in blocks[waiting.pop()]:
            for symbol, state in sources[target]:
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


def _sources(rows: Sequence[tuple[int, ...]], live: set[int]) -> dict[int, list[tuple[int, int]]]:
    """By target: the symbols and states that lead there."""
    sources: dict[int, list[tuple[int, int]]] = {state: [] for state in live}
    for state in live:
        for symbol, target in enumerate(rows[state]):
            if target != DEAD:
                sources[target].append((symbol, state))
    return sources


def _quotient(
    alphabet: Alphabet, rows: Sequence[tuple[int, ...]], accepting: frozenset[int], block: dict[int, int]
) -> Dfa:
    """One state a block, numbered in the order in which a reader meets them from the start."""
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
