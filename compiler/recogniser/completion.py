"""The shortest way to end a text under a guard, or one not much longer.

The grammar's shortest completion is it wherever it repeats nothing. Otherwise a search over the places where
it can deviate, shorter texts first, gets past the first repetition, and goes on from there; since every key
and item has a distinct one to give way to, it comes to an end.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from compiler.errors import UnsupportedGrammar
from compiler.guard.cursor import Cursor
from compiler.guard.tagged_cursor import AnyCursor
from compiler.recogniser.parser_state import Reading


@dataclass(frozen=True, slots=True)
class _Place:
    """A place in the text to come; `num_new` keys and items are before it."""

    text: bytes
    reading: Reading
    cursor: AnyCursor
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


def completion(reading: Reading, cursor: AnyCursor) -> bytes:
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


def _repetition(cursor: AnyCursor, rest: bytes) -> tuple[int, int] | None:
    """First and last byte of the key or item in a completion that would repeat one; None if none does."""
    passed: list[Cursor] = []
    for at in range(len(rest)):
        passed.append(cursor.in_json)
        following = cursor.advance(rest[at : at + 1])
        if following is None:
            return _beginning(passed, rest[at]), at
        cursor = following
    return None


def _beginning(passed: list[Cursor], byte: int) -> int:
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


def _num_seen(cursor: Cursor) -> int:
    return sum(len(scope.seen) for scope in cursor.scopes)
