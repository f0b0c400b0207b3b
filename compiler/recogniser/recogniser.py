"""The recogniser: reads a text along a grammar and its guard, and knows a short way to complete it."""

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from compiler.errors import UnsupportedGrammar
from compiler.guard.cursor import JsonCursor
from compiler.guard.tagged_cursor import Cursor, start_cursor
from compiler.recogniser.network import Network
from compiler.recogniser.parser_state import ParserState, initial_state


@dataclass(frozen=True, slots=True)
class _Place:
    """A place in the text to come; `num_new` keys and items are before it."""

    text: bytes
    reading: ParserState
    cursor: Cursor
    num_new: int

    def read(self, text: bytes) -> "_Place | None":
        """Further on; None if that fits neither the grammar nor the guard."""
        reading = self.reading.advance(text)
        if reading is None:
            return None
        cursor, num_new = self.cursor, self.num_new
        for at in range(len(text)):
            following = cursor.advance(text[at : at + 1])
            if following is None:
                return None
            num_new += _num_seen(following.in_json) > _num_seen(cursor.in_json)
            cursor = following
        return _Place(self.text + text, reading, cursor, num_new)


@dataclass(order=True, slots=True)
class _Attempt:
    """To write `byte` at a place, and behind it what the grammar would; the least of several is tried next.

    `rank` is minus the number of keys and items before the repetition that is to be got around, so that those
    which got furthest go first; `length` is what has been written and what the grammar would write; `order`
    tells equals apart. Without a byte, this was tried and repeats something itself: to get around that.
    """

    rank: int
    length: float
    order: int
    place: _Place = field(compare=False)
    byte: bytes | None = field(compare=False)


def completion(reading: ParserState, cursor: Cursor) -> bytes:
    """Bytes that make the text a sentence without repeating a key or an item.

    The attempts that got furthest go first, and the shorter ones of these.

    Raises:
        UnsupportedGrammar: there are none.
    """
    order = count()
    attempts = [_Attempt(1, 0, next(order), _Place(b"", reading, cursor, 0), b"")]
    earlier: list[_Attempt] = []
    while attempts or earlier:
        if not attempts:  # another value of what repeats is not enough: something before it must differ
            attempts, earlier = earlier, []
        attempt = heapq.heappop(attempts)
        place = attempt.place if attempt.byte is None else attempt.place.read(attempt.byte)
        if place is None:
            continue
        rest = place.reading.completion()
        repetition = _repetition(place.cursor, rest)
        if repetition is None:
            return place.text + rest
        start, end = repetition
        rank = -_read(place, rest[:end]).num_new
        if attempt.byte is not None and attempt.rank <= rank:  # no further: first others as short
            heapq.heappush(attempts, _Attempt(attempt.rank, attempt.length + 0.5, next(order), place, None))
            continue
        for deviation in _deviations(place, rest[:start], rank, order):
            heapq.heappush(earlier, deviation)
        for deviation in _deviations(_read(place, rest[:start]), rest[start : end + 1], rank, order):
            heapq.heappush(attempts, deviation)
    raise UnsupportedGrammar("no text ends the output without repeating a key or an item")


def _read(place: _Place, rest: bytes) -> _Place:
    further = place.read(rest)
    assert further is not None, "nothing repeats before the end"
    return further


def _repetition(cursor: Cursor, rest: bytes) -> tuple[int, int] | None:
    """First and last byte of the key or item in a completion that would repeat one; None if none does."""
    passed: list[JsonCursor] = []
    for at in range(len(rest)):
        passed.append(cursor.in_json)
        following = cursor.advance(rest[at : at + 1])
        if following is None:
            return _beginning(passed, rest[at]), at
        cursor = following
    return None


def _beginning(passed: list[JsonCursor], byte: int) -> int:
    """Which of the cursors passed is at the beginning of the key or item that `byte` would complete."""
    last = passed[-1]
    assert last.scope is not None, "only what stands in a container can repeat"
    closes = not last.in_string and byte in b"]}"  # what closes may be what repeats
    holder = last.scope.outer if closes else last.scope
    places = (at for at in reversed(range(len(passed))) if passed[at].expects)
    return next((at for at in places if passed[at].scope is holder), 0)


def _deviations(place: _Place, rest: bytes, rank: int, order: Iterator[int]) -> Iterator[_Attempt]:
    """The attempts that leave `rest` at any of its bytes."""
    for at in range(len(rest)):
        length = len(place.text) + 1 + place.reading.cost
        for byte in sorted(place.reading.next_bytes() - {rest[at]}):
            yield _Attempt(rank, length, next(order), place, bytes([byte]))
        if at + 1 < len(rest):
            place = _read(place, rest[at : at + 1])


def _num_seen(cursor: JsonCursor) -> int:
    return sum(len(scope.seen) for scope in cursor.scopes)


_GUARDED_GROWTH = 3
"""By how much distinct keys make a completion longer at most: each has a comma beside its own two quotes, and
three characters more tell it from a hundred thousand others."""


class Recogniser:
    """Reads one text as bytes of UTF-8, which may end inside a character."""

    def __init__(self, reading: ParserState, cursor: Cursor | None) -> None:
        self._reading = reading
        self._cursor = cursor

    @classmethod
    def of(cls, network: Network) -> "Recogniser":
        """A recogniser at the start."""
        plan = network.grammar.plan
        return cls(initial_state(network), None if plan is None else start_cursor(plan))

    @property
    def is_complete(self) -> bool:
        """Whether the text may end here."""
        return self._reading.is_complete

    def bound(self) -> float:
        """At least as many bytes as `completion` has, known without searching for it."""
        longest = self._reading.longest
        if self._cursor is None or not self._cursor.plan.keeps_apart:
            return longest
        return math.inf if self._cursor.plan.can_run_out else _GUARDED_GROWTH * (longest + 1)

    def fork(self) -> "Recogniser":
        """Another one at the same place."""
        return Recogniser(self._reading, self._cursor)

    def advance(self, text: bytes) -> bool:
        """Read on; False, and no change, if the text does not fit."""
        reading = self._reading.advance(text)
        if reading is None:
            return False
        if self._cursor is not None:
            cursor = self._cursor.advance(text)
            if cursor is None:
                return False
            self._cursor = cursor
        self._reading = reading
        return True

    def completion(self) -> bytes:
        """The shortest text that completes this one, the rest of a character included.

        Under a guard it can be a little longer than the shortest.
        """
        if self._cursor is None:
            return self._reading.completion()
        return completion(self._reading, self._cursor)
