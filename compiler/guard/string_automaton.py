"""The automaton of a string's pattern, by which a guard knows how far each state is from an end.

A pattern's text may not end everywhere: after the hyphen of `^[a-z]+(-[a-z]+)*$` another letter must follow.
Within a `maxLength` of 9, a letter may follow `abcdefg-`: one more character is allowed, and one is needed.
But `-` may not follow `abcdefgh`: then no more would be allowed, and one needed.

Where the rules of a pattern would cost too much, rules write all its characters in any order, and the guard
enforces the whole pattern: its automaton `enforces_pattern`.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.regular import charset
from compiler.regular.charset import Ranges
from compiler.regular.dfa import DEAD, Dfa, TooManyStates
from compiler.regular.utf8 import char_range

MAX_ENTRIES = 10_000
"""The most entries of a transition table. Rules count the texts of a larger automaton."""
FAR = 1 << 30
"""A distance beyond any bound."""
_CONTROLS = range(0x20)
_SHORT_ESCAPES = tuple(map(ord, '"\\\b\f\n\r\t'))
_UNESCAPED = tuple(code for code in range(0x20, 0x80) if code not in _SHORT_ESCAPES)
_CODES_OF_ESCAPES: dict[bytes, Sequence[int]] = {
    b"\\": (*_CONTROLS, *map(ord, '"\\')),
    b"\\u": _CONTROLS,
    b"\\u0": _CONTROLS,
    b"\\u00": _CONTROLS,
    b"\\u000": range(0x10),
    b"\\u001": range(0x10, 0x20),
}
"""The code points that rules write with an escape that begins so.

They matter only where not all characters lead to the same state.
"""
_ANY = -1
"""In a set of classes: if no other class of the set leads to an end, any class may be meant."""


@dataclass(frozen=True)
class StringAutomaton:
    """A deterministic automaton over code points; `transitions[state][char_class]` is the next state.

    The code points from `starts[i]` up to `starts[i + 1]` are of the class `classes[i]`. State 0 is the
    start. The last state is dead: no text of the pattern begins with what leads there.
    """

    starts: tuple[int, ...]
    classes: tuple[int, ...]
    transitions: tuple[tuple[int, ...], ...]
    accepting: frozenset[int]
    enforces_pattern: bool = False
    """The guard enforces the whole pattern: rules also write texts that the automaton does not accept."""

    @cached_property
    def _hash(self) -> int:
        return hash((self.starts, self.classes, self.transitions, self.accepting, self.enforces_pattern))

    def __hash__(self) -> int:
        """The hash of the content, computed once, as automata are keys of caches."""
        return self._hash

    @cached_property
    def distance(self) -> tuple[int, ...]:
        """The fewest characters from each state to the end of a text.

        Where no end can be reached, it is `FAR` if the guard must keep texts from getting there, and 0 if the
        rules do.
        """
        sources: dict[int, set[int]] = {}
        for state, targets in enumerate(self.transitions):
            for target in targets:
                sources.setdefault(target, set()).add(state)
        distances = dict.fromkeys(self.accepting, 0)
        queue = list(self.accepting)
        for target in queue:
            for state in sources.get(target, set()) - distances.keys():
                distances[state] = distances[target] + 1
                queue.append(state)
        return tuple(distances.get(state, self._dead_distance) for state in range(len(self.transitions)))

    @property
    def _dead(self) -> int:
        """The dead state; all others are below."""
        return len(self.transitions) - 1

    def may_end(self, state: int) -> bool:
        """Whether a text may end there; also True where rules decide, and not the guard."""
        return not self.enforces_pattern or state in self.accepting

    @property
    def _dead_distance(self) -> int:
        return FAR if self.enforces_pattern else 0

    @cached_property
    def max_distance(self) -> int:
        """The largest distance of any state that has one."""
        return max(distance for distance in self.distance if distance < FAR)

    @cached_property
    def byte_distance(self) -> tuple[int, ...]:
        """The fewest bytes of JSON from each state to the end of a text; `FAR` if none can be reached."""
        distances = [0 if state in self.accepting else FAR for state in range(len(self.transitions))]
        heap = [(0, state) for state in self.accepting]
        steps: dict[int, list[tuple[int, int]]] = {}
        for state in range(self._dead):
            for target, ranges in self.targets(state).items():
                steps.setdefault(target, []).append((_width(ranges), state))
        while heap:
            cost, state = heappop(heap)
            for width, source in steps.get(state, ()) if cost == distances[state] else ():
                if cost + width < distances[source]:
                    distances[source] = cost + width
                    heappush(heap, (cost + width, source))
        return tuple(distances)

    def targets(self, state: int) -> dict[int, Ranges]:
        """The characters that lead to each state but the dead one."""
        spans: dict[int, list[tuple[int, int]]] = {}
        for char_class, low, end in zip(
            self.classes, self.starts, (*self.starts[1:], charset.LAST + 1), strict=True
        ):
            target = self.transitions[state][char_class]
            if target != self._dead:
                spans.setdefault(target, []).append((low, end - 1))
        targets = {
            target: charset.intersection(charset.union(ranges), charset.ALL)
            for target, ranges in spans.items()
        }
        return {target: ranges for target, ranges in targets.items() if ranges}

    @cached_property
    def characters(self) -> Ranges:
        """Every character of a text."""
        return charset.union(*(r for state in range(self._dead) for r in self.targets(state).values()))

    @cached_property
    def table(self) -> NDArray[np.int32]:
        """The transitions: int32 [states, classes]."""
        return np.array(self.transitions, np.int32)

    def classes_of(self, codes: NDArray[np.int64]) -> NDArray[np.int32]:
        """The class of each code point."""
        ranges = np.searchsorted(np.array(self.starts), codes, side="right") - 1
        classes: NDArray[np.int32] = np.array(self.classes, np.int32)[ranges]
        return classes

    def after(self, state: int, text: Iterable[int]) -> int:
        """The state after more code points."""
        for code in text:
            state = self.transitions[state][self.classes[bisect_right(self.starts, code) - 1]]
        return state

    @cached_property
    def _within(self) -> dict[bytes, frozenset[int] | None]:
        return {b"": None}

    def classes_within(self, partial: bytes) -> frozenset[int] | None:
        """The classes of the characters that begin with `partial`; None if that is nothing.

        `partial` is the beginning of an escape, or the first bytes of a character in UTF-8.
        """
        if partial not in self._within:
            is_escape = partial[:1] == b"\\"
            escaped = _CODES_OF_ESCAPES.get(partial, ())
            classes = self._class_set(escaped) if is_escape else self._utf8_classes(partial)
            # Where rules escape more characters than those, all characters lead to the same state.
            leads_anywhere = is_escape and not self.enforces_pattern
            self._within[partial] = frozenset(classes | ({_ANY} if leads_anywhere else set()))
        return self._within[partial]

    @cached_property
    def _distances(self) -> dict[tuple[int, frozenset[int]], int]:
        return {}

    def distance_after(self, state: int, classes: frozenset[int]) -> int:
        """The fewest characters to an end after one character of these classes."""
        if (state, classes) not in self._distances:
            distances = self._distances_after(state, classes - {_ANY})
            if not distances and _ANY in classes:
                distances = [max(self._distances_after(state, self.classes), default=0)]
            self._distances[state, classes] = min(distances, default=self._dead_distance)
        return self._distances[state, classes]

    def distance_within(self, state: int, partial: bytes) -> int:
        """The fewest characters to an end after the character that begins with `partial`."""
        classes = self.classes_within(partial)
        return self.distance[state] if classes is None else self.distance_after(state, classes)

    def _distances_after(self, state: int, classes: Iterable[int]) -> list[int]:
        """The distances of the states that these classes lead to, the dead state left out."""
        targets = {self.transitions[state][char_class] for char_class in classes}
        return [self.distance[target] for target in targets - {self._dead}]

    def _class_set(self, codes: Iterable[int]) -> set[int]:
        return {self.classes[bisect_right(self.starts, code) - 1] for code in codes}

    def _utf8_classes(self, partial: bytes) -> set[int]:
        """The classes of the characters whose UTF-8 begins with some bytes."""
        low, high = char_range(partial)
        return set(self.classes[bisect_right(self.starts, low) - 1 : bisect_right(self.starts, high)])

    @cached_property
    def is_shortest_in_bytes(self) -> bool:
        """Whether the shortest end in bytes of JSON is also the shortest in characters.

        This must hold from every state, also inside an escape: the closer counts bytes, the guard characters.
        """
        controls = self._class_set(set(_CONTROLS) - set(_SHORT_ESCAPES))
        short, unescaped = self._class_set(_SHORT_ESCAPES), self._class_set(_UNESCAPED)
        for state, distance in enumerate(self.distance[:-1]):
            if distance and distance - 1 not in self._distances_after(state, unescaped):
                return False
            by_short, by_long = self._distances_after(state, short), self._distances_after(state, controls)
            if by_short and by_long and min(by_long) < min(by_short):
                return False
        return True

    def num_unchecked(self, max_length: int, limit: int) -> int:
        """The largest number of first characters after which every text can still end within `max_length`.

        It is at most `limit`; -1 if no text is so short.
        """
        successors = [set(targets) for targets in self.transitions]
        states = {0}
        for count in range(limit + 1):
            if count + max(self.distance[state] for state in states) > max_length:
                return count - 1
            states = set().union(*(successors[state] for state in states))
        return limit


def _width(ranges: Ranges) -> int:
    """The fewest bytes of JSON that one character of a set takes."""

    def has(low: int, high: int) -> bool:
        return any(first <= high and last >= low for first, last in ranges)

    if any(charset.contains(ranges, code) for code in _UNESCAPED):
        return 1
    if any(charset.contains(ranges, code) for code in _SHORT_ESCAPES) or has(0x7F, 0x7FF):
        return 2
    return 3 if has(0x800, 0xFFFF) else 4 if has(0x10000, charset.LAST) else 6


@lru_cache(maxsize=256)
def string_automaton(dfa: Dfa, min_length: int, *, enforces_pattern: bool = False) -> StringAutomaton:
    """The automaton of a minimised DFA's texts of at least `min_length` characters.

    Raises:
        TooManyStates: its table would have more than `MAX_ENTRIES` entries.
    """
    if len(dfa.table) * min_length > MAX_ENTRIES:
        raise TooManyStates(MAX_ENTRIES)
    return _compressed(dfa.of_length(min_length), enforces_pattern=enforces_pattern)


def _compressed(dfa: Dfa, *, enforces_pattern: bool) -> StringAutomaton:
    """The automaton of a DFA's texts: characters with equal columns in its table are of one class."""
    columns = list(zip(*dfa.table, strict=True))
    classes = {column: number for number, column in enumerate(dict.fromkeys(columns))}
    dead, outside = len(dfa.table), len(classes)
    if (dead + 1) * (outside + 1) > MAX_ENTRIES:
        raise TooManyStates(MAX_ENTRIES)
    spans = sorted(
        (low, high + 1, classes[column])
        for column, atom in zip(columns, dfa.alphabet.atoms, strict=True)
        for low, high in atom
    )
    starts, class_of = zip(*_class_changes(spans, outside), strict=True)
    table = [[dead if t == DEAD else t for t in row] + [dead] for row in zip(*classes, strict=True)]
    transitions = (*map(tuple, table), (dead,) * (outside + 1))
    return StringAutomaton(starts, class_of, transitions, dfa.accepting, enforces_pattern)


def _class_changes(spans: list[tuple[int, int, int]], outside: int) -> list[tuple[int, int]]:
    """The code points at which the class changes, each with the class from there on.

    `spans` are the start, the end and the class of ranges, in order; the class between them is `outside`.
    """
    class_from: dict[int, int] = {0: outside}
    for low, end, char_class in spans:
        class_from |= {low: char_class, end: outside}
    changes = (right for left, right in pairwise(sorted(class_from.items())) if left[1] != right[1])
    return [(0, class_from[0]), *changes]


def automaton_to_json(automaton: StringAutomaton) -> Any:
    """The automaton as lists of numbers; stored grammars hold this."""
    whole = [True] if automaton.enforces_pattern else []
    return [automaton.starts, automaton.classes, automaton.transitions, sorted(automaton.accepting), *whole]


def automaton_from_json(content: Any) -> StringAutomaton:
    """Read what `automaton_to_json` returned.

    Raises:
        ValueError, TypeError: `content` has another form, or is no automaton.
    """
    starts, classes, rows, accepting, *whole = content
    transitions = tuple(map(tuple, rows))
    automaton = StringAutomaton(
        tuple(starts), tuple(classes), transitions, frozenset(accepting), whole == [True]
    )
    num_states, num_classes = len(transitions), len(transitions[-1]) if rows else 0
    is_sound = (
        automaton.starts[:1] == (0,)
        and all(left < right for left, right in pairwise(automaton.starts))
        and len(automaton.classes) == len(automaton.starts)
        and all(len(row) == num_classes for row in transitions)
        and all(0 <= char_class < num_classes for char_class in automaton.classes)
        and all(0 <= state < num_states for row in (*transitions, automaton.accepting) for state in row)
    )
    if not is_sound:
        raise ValueError("the stored automaton of a pattern is malformed")
    return automaton
