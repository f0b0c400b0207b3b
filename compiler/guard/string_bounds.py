"""The bounds of strings: how many characters a string may still have, and whether it can end within them.

A bare `maxLength` needs a count only. Beside a `pattern`, a text may not end everywhere: after the hyphen of
`^[a-z]+(-[a-z]+)*$` another letter must follow. A bound then carries the automaton of the pattern, which
knows how many characters each of its states is away from an end.

Example: 9 characters at most, under that pattern. After `abcdefg-` one character is left and one is needed,
so a letter may follow. After `abcdefgh` one is left too, but `-` would leave none where one is needed: `-`
may not follow.

Where the rules of a pattern would cost too much, rules write all its characters in any order, and the guard
keeps the whole pattern: its automaton `is_whole`.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from compiler.regular import charset
from compiler.regular.charset import Ranges
from compiler.regular.dfa import DEAD, Dfa, TooManyStates
from compiler.regular.utf8 import char_range, decode_prefix, num_characters

MAX_ENTRIES = 10_000
"""The most entries of a transition table. Rules count the texts of a larger automaton."""
UNBOUNDED = 1 << 29
"""The bound of a string that may have any length; more characters than fit in any output."""
FAR = 1 << 30
"""A distance beyond any bound."""
_CONTROLS = range(0x20)
_SHORT_ESCAPES = tuple(map(ord, '"\\\b\f\n\r\t'))
_UNESCAPED = tuple(code for code in range(0x20, 0x80) if code not in _SHORT_ESCAPES)
_ESCAPED: dict[bytes, Sequence[int]] = {
    b"\\": (*_CONTROLS, *map(ord, '"\\')),
    b"\\u": _CONTROLS,
    b"\\u0": _CONTROLS,
    b"\\u00": _CONTROLS,
    b"\\u000": range(0x10),
    b"\\u001": range(0x10, 0x20),
}
"""By the beginning of an escape: the characters that rules write with such an escape.

It matters only where not all characters lead to the same state.
"""


_ANY = -1
"""Among classes: if none of the others leads to an end, any class may be meant."""


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
    is_whole: bool = False
    """The guard keeps the whole pattern: rules also write texts that the automaton does not accept."""

    @cached_property
    def _hash(self) -> int:
        return hash((self.starts, self.classes, self.transitions, self.accepting, self.is_whole))

    def __hash__(self) -> int:
        """The hash of the content, computed once, as automata are keys of caches."""
        return self._hash

    @cached_property
    def distance(self) -> tuple[int, ...]:
        """By state, the fewest characters to the end of a text.

        Where there is no end: `FAR` if the guard must not let a text get there, 0 if rules see to that.
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

    def may_end(self, state: int) -> bool:
        """Whether a text may end there, as far as the guard has to know."""
        return not self.is_whole or state in self.accepting

    @property
    def _dead_distance(self) -> int:
        return FAR if self.is_whole else 0

    @cached_property
    def max_distance(self) -> int:
        """The largest distance of any state that has one."""
        return max(distance for distance in self.distance if distance < FAR)

    @cached_property
    def num_bytes(self) -> tuple[int, ...]:
        """By state, the fewest bytes to the end of a text in JSON; `FAR` where there is no end."""
        num_bytes_from = [0 if state in self.accepting else FAR for state in range(len(self.transitions))]
        heap = [(0, state) for state in self.accepting]
        steps: dict[int, list[tuple[int, int]]] = {}
        for state in range(len(self.transitions) - 1):
            for target, ranges in self.targets(state).items():
                steps.setdefault(target, []).append((_width(ranges), state))
        while heap:
            cost, state = heappop(heap)
            for width, source in steps.get(state, ()) if cost == num_bytes_from[state] else ():
                if cost + width < num_bytes_from[source]:
                    num_bytes_from[source] = cost + width
                    heappush(heap, (cost + width, source))
        return tuple(num_bytes_from)

    def targets(self, state: int) -> dict[int, Ranges]:
        """The characters that lead to each state but the dead one."""
        spans: dict[int, list[tuple[int, int]]] = {}
        for char_class, low, end in zip(
            self.classes, self.starts, (*self.starts[1:], charset.LAST + 1), strict=True
        ):
            target = self.transitions[state][char_class]
            if target != len(self.transitions) - 1:
                spans.setdefault(target, []).append((low, end - 1))
        targets = {
            target: charset.intersection(charset.union(ranges), charset.ALL)
            for target, ranges in spans.items()
        }
        return {target: ranges for target, ranges in targets.items() if ranges}

    @cached_property
    def characters(self) -> Ranges:
        """Every character of a text."""
        return charset.union(
            *(r for state in range(len(self.transitions) - 1) for r in self.targets(state).values())
        )

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
            classes = self._class_set(_ESCAPED.get(partial, ())) if is_escape else self._utf8_classes(partial)
            # Where rules escape more characters than those, all characters lead to the same state.
            leads_anywhere = is_escape and not self.is_whole
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
        """The fewest characters to an end once the character that begins with `partial` is complete."""
        classes = self.classes_within(partial)
        return self.distance[state] if classes is None else self.distance_after(state, classes)

    def _distances_after(self, state: int, classes: Iterable[int]) -> list[int]:
        """The distances of the states that these classes lead to, the dead state left out."""
        targets = {self.transitions[state][char_class] for char_class in classes}
        return [self.distance[target] for target in targets - {len(self.transitions) - 1}]

    def _class_set(self, codes: Iterable[int]) -> set[int]:
        return {self.classes[bisect_right(self.starts, code) - 1] for code in codes}

    def _utf8_classes(self, partial: bytes) -> set[int]:
        """The classes of the characters whose UTF-8 begins with some bytes."""
        low, high = char_range(partial)
        return set(self.classes[bisect_right(self.starts, low) - 1 : bisect_right(self.starts, high)])

    @cached_property
    def is_shortest_in_bytes(self) -> bool:
        """Whether the shortest end in bytes of JSON is also the shortest in characters, from everywhere.

        Also from inside an escape. The closer counts bytes, the guard characters.
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
        """How many characters a text may begin with and, whichever they are, still end within `max_length`.

        At most `limit`; -1 if no text is so short.
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
def string_automaton(dfa: Dfa, min_length: int, *, is_whole: bool = False) -> StringAutomaton:
    """The automaton of a minimised DFA's texts of at least `min_length` characters.

    Raises:
        TooManyStates: its table would have more than `MAX_ENTRIES` entries.
    """
    if len(dfa.table) * min_length > MAX_ENTRIES:
        raise TooManyStates(MAX_ENTRIES)
    dfa = dfa.at_least(min_length)
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
    class_from: dict[int, int] = {0: outside}
    for low, end, char_class in spans:
        class_from |= {low: char_class, end: outside}
    changes = [
        (0, class_from[0]),
        *(right for left, right in pairwise(sorted(class_from.items())) if left[1] != right[1]),
    ]
    table = [[dead if t == DEAD else t for t in row] + [dead] for row in zip(*classes, strict=True)]
    starts, class_of = zip(*changes, strict=True)
    transitions = (*map(tuple, table), (dead,) * (outside + 1))
    return StringAutomaton(starts, class_of, transitions, dfa.accepting, is_whole)


def automaton_to_json(automaton: StringAutomaton) -> Any:
    """The automaton as lists of numbers; stored grammars hold this."""
    whole = [True] if automaton.is_whole else []
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


class LengthBound(NamedTuple):
    """The most code points of a string, and the automaton of its pattern if that restricts where it ends.

    `max_length` is `UNBOUNDED` if the guard only keeps the pattern.
    """

    max_length: int
    automaton: StringAutomaton | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the guard keeps the whole pattern."""
        return self.automaton is not None and self.automaton.is_whole

    @property
    def start(self) -> "RemainingLength":
        """What remains at the beginning of the string."""
        return RemainingLength(self.max_length, self.automaton)

    def num_unchecked(self, limit: int) -> int:
        """How many characters a string may begin with, whichever they are; at most `limit`.

        One fewer where all are counted: among distinct items, a string that is full may be a repetition.
        """
        if self.automaton is None:
            return min(limit, self.max_length - 1)
        if self.automaton.is_whole:
            return -1
        return self.automaton.num_unchecked(self.max_length, limit)


class RemainingLength(NamedTuple):
    """How many more characters a string may have, and its state in the automaton of its pattern.

    A character counts as soon as it has begun; `partial` holds the bytes of one that is not complete yet.
    """

    num_left: int
    automaton: StringAutomaton | None = None
    state: int = 0
    partial: bytes = b""

    def after(self, text: bytes, *, begins_escape: bool) -> "RemainingLength":
        """What remains after more UTF-8, and after a backslash that follows if that `begins_escape`."""
        num_left = self.num_left - num_characters(text) - begins_escape
        if self.automaton is None or not text:
            return RemainingLength(num_left, self.automaton, self.state, self.partial)
        chars, partial = decode_prefix(self.partial + text)
        return RemainingLength(
            num_left, self.automaton, self.automaton.after(self.state, map(ord, chars)), partial
        )

    def after_escape(self, char: str) -> "RemainingLength":
        """What remains once an escape is complete; its backslash has been counted already."""
        if self.automaton is None:
            return self
        return self._replace(state=self.automaton.after(self.state, [ord(char)]))

    @property
    def is_end(self) -> bool:
        """Whether the quote may follow, as far as the guard has to know."""
        return self.automaton is None or self.automaton.may_end(self.state)

    def can_end(self, escape: bytes = b"") -> bool:
        """Whether the string can still end within its bound; `escape` is an incomplete escape."""
        if self.automaton is None:
            return self.num_left >= 0
        return self.num_left >= self.automaton.distance_within(self.state, escape or self.partial)
