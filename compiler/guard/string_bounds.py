"""The pattern of a string whose length a guard keeps: where a text is in it, and how far from an end."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from compiler.regular.dfa import DEAD, Dfa, TooManyStates
from compiler.regular.utf8 import code_points, num_characters, split

MAX_ENTRIES = 10_000
"""States by kinds of characters; a larger pattern is counted by rules."""
_CONTROLS = range(0x20)
_SHORT_ESCAPES = tuple(map(ord, '"\\\b\f\n\r\t'))
_PLAIN = tuple(code for code in range(0x20, 0x80) if code not in _SHORT_ESCAPES)
_ESCAPED: dict[bytes, Sequence[int]] = {
    b"\\": (*_CONTROLS, *map(ord, '"\\')),
    b"\\u": _CONTROLS,
    b"\\u0": _CONTROLS,
    b"\\u00": _CONTROLS,
    b"\\u000": range(0x10),
    b"\\u001": range(0x10, 0x20),
}
"""What rules write as an escape that has begun so, where not all characters lead to one state."""


@dataclass(frozen=True)
class StringAutomaton:
    """A deterministic automaton: `rows[state][kind]` is the next state, and 0 the start.

    The characters from `starts[i]` up to the next start are of `kinds[i]`. The last state is that of what no
    text of the pattern begins with.
    """

    starts: tuple[int, ...]
    kinds: tuple[int, ...]
    rows: tuple[tuple[int, ...], ...]
    accepting: frozenset[int]

    @cached_property
    def _hash(self) -> int:
        return hash((self.starts, self.kinds, self.rows, self.accepting))

    def __hash__(self) -> int:
        """Looked at often, found once."""
        return self._hash

    @cached_property
    def distance(self) -> tuple[int, ...]:
        """The fewest characters from each state to the end of a text; 0 where there is none."""
        sources: dict[int, set[int]] = {}
        for state, row in enumerate(self.rows):
            for target in row:
                sources.setdefault(target, set()).add(state)
        found = dict.fromkeys(self.accepting, 0)
        queue = list(self.accepting)
        for target in queue:
            for state in sources.get(target, set()) - found.keys():
                found[state] = found[target] + 1
                queue.append(state)
        return tuple(found.get(state, 0) for state in range(len(self.rows)))

    @cached_property
    def table(self) -> NDArray[np.int32]:
        """The rows: int32 [states, kinds]."""
        return np.array(self.rows, np.int32)

    def kinds_of(self, codes: NDArray[np.int64]) -> NDArray[np.int32]:
        """The kind of each code point."""
        places = np.searchsorted(np.array(self.starts), codes, side="right") - 1
        found: NDArray[np.int32] = np.array(self.kinds, np.int32)[places]
        return found

    @cached_property
    def farthest(self) -> int:
        """The longest distance."""
        return max(self.distance)

    def after(self, state: int, text: Iterable[int]) -> int:
        """The state behind more code points."""
        for code in text:
            state = self.rows[state][self.kinds[bisect_right(self.starts, code) - 1]]
        return state

    @cached_property
    def _left(self) -> dict[tuple[int, bytes], int]:
        return {}

    def left(self, state: int, begun: bytes) -> int:
        """The fewest characters to an end behind a character that has begun, as an escape or as UTF-8."""
        if not begun:
            return self.distance[state]
        if (state, begun) not in self._left:
            self._left[state, begun] = self._behind(state, begun)
        return self._left[state, begun]

    def _behind(self, state: int, begun: bytes) -> int:
        if begun[:1] != b"\\":
            return min(self._distances(state, self._begun_kinds(begun)), default=0)
        escaped = self._distances(state, self._kinds_of(_ESCAPED.get(begun, ())))
        if escaped:
            return min(escaped)
        return max(self._distances(state, self.kinds), default=0)  # rules that escape more lead to one place

    def _distances(self, state: int, kinds: Iterable[int]) -> list[int]:
        """Those of the states to which characters lead, where a text may go on."""
        targets = {self.rows[state][kind] for kind in kinds} - {len(self.rows) - 1}
        return [self.distance[target] for target in targets]

    def _kinds_of(self, codes: Iterable[int]) -> set[int]:
        return {self.kinds[bisect_right(self.starts, code) - 1] for code in codes}

    def _begun_kinds(self, begun: bytes) -> set[int]:
        """The kinds of the characters that begin with some bytes of UTF-8."""
        low, high = code_points(begun)
        return set(self.kinds[bisect_right(self.starts, low) - 1 : bisect_right(self.starts, high)])

    @cached_property
    def ends_in_bytes_as_in_characters(self) -> bool:
        """Whether the fewest bytes of JSON to an end, inside an escape too, are the fewest characters."""
        controls = self._kinds_of(set(_CONTROLS) - set(_SHORT_ESCAPES))
        short, plain = self._kinds_of(_SHORT_ESCAPES), self._kinds_of(_PLAIN)
        for state, distance in enumerate(self.distance):
            if distance and distance - 1 not in self._distances(state, plain):
                return False
            briefly, fully = self._distances(state, short), self._distances(state, controls)
            if briefly and fully and min(fully) < min(briefly):
                return False
        return True

    def num_free(self, longest: int, most: int) -> int:
        """How many characters any text may begin with and still end within `longest`, `most` at most.

        -1 if there is no text so short.
        """
        following = [set(row) for row in self.rows]
        states = {0}
        for count in range(most + 1):
            if count + max(self.distance[state] for state in states) > longest:
                return count - 1
            states = set().union(*(following[state] for state in states))
        return most


@lru_cache(maxsize=256)
def string_automaton(dfa: Dfa, least: int) -> StringAutomaton:
    """The texts of a minimised automaton of `least` characters or more.

    Raises:
        TooManyStates: it is too large to be kept.
    """
    if len(dfa.table) * least > MAX_ENTRIES:
        raise TooManyStates(MAX_ENTRIES)
    dfa = dfa.at_least(least)
    columns = list(zip(*dfa.table, strict=True))
    numbers = {column: number for number, column in enumerate(dict.fromkeys(columns))}
    dead, outside = len(dfa.table), len(numbers)
    if (dead + 1) * (outside + 1) > MAX_ENTRIES:
        raise TooManyStates(MAX_ENTRIES)
    spans = sorted(
        (low, high + 1, numbers[column])
        for column, atom in zip(columns, dfa.alphabet.atoms, strict=True)
        for low, high in atom
    )
    marks: dict[int, int] = {0: outside}
    for low, end, kind in spans:
        marks |= {low: kind, end: outside}
    kept = [(0, marks[0]), *(right for left, right in pairwise(sorted(marks.items())) if left[1] != right[1])]
    rows = [[dead if t == DEAD else t for t in row] + [dead] for row in zip(*numbers, strict=True)]
    starts, kinds = zip(*kept, strict=True)
    return StringAutomaton(starts, kinds, (*map(tuple, rows), (dead,) * (outside + 1)), dfa.accepting)


def automaton_to_json(pattern: StringAutomaton) -> Any:
    """The pattern as lists of numbers."""
    return [pattern.starts, pattern.kinds, pattern.rows, sorted(pattern.accepting)]


def automaton_from_json(content: Any) -> StringAutomaton:
    """The pattern that `pattern_to_json` wrote.

    Raises:
        ValueError, TypeError: it did not.
    """
    starts, kinds, rows, accepting = content
    pattern = StringAutomaton(tuple(starts), tuple(kinds), tuple(map(tuple, rows)), frozenset(accepting))
    num_states, num_kinds = len(pattern.rows), len(pattern.rows[-1]) if rows else 0
    is_sound = (
        pattern.starts[:1] == (0,)
        and all(left < right for left, right in pairwise(pattern.starts))
        and len(pattern.kinds) == len(pattern.starts)
        and all(len(row) == num_kinds for row in pattern.rows)
        and all(0 <= kind < num_kinds for kind in pattern.kinds)
        and all(0 <= state < num_states for row in (*pattern.rows, pattern.accepting) for state in row)
    )
    if not is_sound:
        raise ValueError("not the automaton of a pattern")
    return pattern


class LengthBound(NamedTuple):
    """The code points that a string has at most, and its pattern if texts may not end wherever they stand."""

    longest: int
    pattern: StringAutomaton | None = None

    @property
    def room(self) -> "RemainingLength":
        """What a string has at its beginning."""
        return RemainingLength(self.longest, self.pattern)

    def num_free(self, most: int) -> int:
        """How many characters can be written of it whatever they are, `most` at most."""
        return min(most, self.longest) if self.pattern is None else self.pattern.num_free(self.longest, most)


class RemainingLength(NamedTuple):
    """How many more characters a string may have, and where in its pattern it stands.

    A character counts as soon as it has begun; `begun` are its bytes in UTF-8 until it is whole.
    """

    num_left: int
    pattern: StringAutomaton | None = None
    state: int = 0
    begun: bytes = b""

    def read(self, text: bytes, *, is_escaped: bool) -> "RemainingLength":
        """Behind more UTF-8, and a backslash if what follows `is_escaped`."""
        num_left = self.num_left - num_characters(text) - is_escaped
        if self.pattern is None or not text:
            return RemainingLength(num_left, self.pattern, self.state, self.begun)
        whole, begun = split(self.begun + text)
        return RemainingLength(num_left, self.pattern, self.pattern.after(self.state, map(ord, whole)), begun)

    def complete(self, char: str) -> "RemainingLength":
        """Behind a character that was escaped."""
        return (
            self if self.pattern is None else self._replace(state=self.pattern.after(self.state, [ord(char)]))
        )

    def suffices(self, escape: bytes = b"") -> bool:
        """Whether the text can still be ended, behind an escape if one has begun."""
        if self.pattern is None:
            return self.num_left >= 0
        return self.num_left >= self.pattern.left(self.state, escape or self.begun)
