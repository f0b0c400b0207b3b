"""The shortest way to end a text under a guard, or one not much longer.

The grammar's shortest completion is it wherever it repeats nothing. Otherwise a search over the places where
it can deviate, shorter texts first, gets past the first repetition, and goes on from there; since every key
and item has a distinct one to give way to, it comes to an end.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from compiler.guard.tagged import Position
from compiler.reading import Reading


@dataclass(order=True, slots=True)
class _Attempt:
    """A text after which the grammar's shortest completion is tried; `num_new` keys and items are in it."""

    rank: int
    length: float
    order: int
    text: bytes = field(compare=False)
    reading: Reading = field(compare=False)
    cursor: Position = field(compare=False)
    num_new: int = field(compare=False)

    def read(self, byte: bytes, rank: int = 0, order: int = 0) -> "_Attempt | None":
        """One byte further; None if it fits neither the grammar nor the guard."""
        reading = self.reading.advance(byte)
        cursor = self.cursor.advance(byte) if reading is not None else None
        if reading is None or cursor is None:
            return None
        text = self.text + byte
        num_new = self.num_new + (_num_seen(cursor) > _num_seen(self.cursor))
        return _Attempt(rank, len(text) + reading.cost, order, text, reading, cursor, num_new)


def completion(reading: Reading, cursor: Position) -> bytes:
    """Bytes that make the text a sentence without repeating a key or an item.

    The attempts that got furthest go first, and the shorter ones of these.
    """
    order = count()
    attempts = [_Attempt(0, 0, next(order), b"", reading, cursor, 0)]
    while True:
        attempt = heapq.heappop(attempts)
        rest = attempt.reading.completion()
        if attempt.cursor.advance(rest) is not None:
            return attempt.text + rest
        trail = list(_trail(attempt, rest))
        rank = -trail[-1].num_new
        for at in range(_beginning(trail), len(trail)):
            for other in trail[at].reading.next_bytes() - {rest[at]}:
                deviation = trail[at].read(bytes([other]), rank, next(order))
                if deviation is not None:
                    heapq.heappush(attempts, deviation)


def _trail(attempt: _Attempt, rest: bytes) -> Iterator[_Attempt]:
    """The places along a completion, up to the byte that would repeat something."""
    place: _Attempt | None = attempt
    for at in range(len(rest)):
        if place is None:
            return
        yield place
        place = place.read(rest[at : at + 1])


def _beginning(trail: list[_Attempt]) -> int:
    """Where on a trail the key or item begins that would repeat one at the trail's end."""
    cursor = trail[-1].cursor
    scope = cursor.scope
    assert scope is not None, "only what stands in a container can repeat"
    is_scalar = cursor.chunk is not None
    holder = scope if is_scalar else scope.outer
    places = (at for at in reversed(range(len(trail))) if trail[at].cursor.expects)
    return next((at for at in places if trail[at].cursor.scope is holder), 0)


def _num_seen(cursor: Position) -> int:
    scope, total = cursor.scope, 0
    while scope is not None:
        total += len(scope.seen)
        scope = scope.outer
    return total
