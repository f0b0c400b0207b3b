"""The recogniser: advances through a grammar and its guard at once, and finds a short completion.

The grammar's shortest completion is the answer unless it repeats an element or makes a string too long. Then
a search deviates from it, shorter texts first, until it gets past the first repetition, and goes on from
there. Every element has a distinct one to be replaced by, so the search ends.
"""

import heapq
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from compiler.errors import UnsupportedGrammar
from compiler.guard.cursor import JsonCursor
from compiler.guard.tagged_cursor import Cursor, marked_text, start_cursor
from compiler.recogniser.network import Network
from compiler.recogniser.parser_state import ParserState, initial_state

_PIECES = re.compile(rb'[^",:\[\]{}\\]+|.', re.DOTALL)
"""Pieces of a JSON text: each completes at most one element, and begins an element only at its own start."""
_GUARDED_GROWTH = 3
"""The most by which distinct keys multiply the length of a completion. Each key has a comma and two quotes,
and three more characters tell it from a hundred thousand others."""
MAX_ATTEMPTS = 30_000
"""Attempts of one search for a completion, some ten seconds of processor time; real schemas need a few.
Distinct arrays of few distinct values have so many orders that a search could take hours. With a limit in
seconds, an answer would end on one machine and fail on another."""
_OTHER_KEY = 2
"""How many bytes an undeclared key mostly takes more if it must differ from all declared ones."""


class Recogniser:
    """Reads one text as bytes of UTF-8; it may be inside a character."""

    def __init__(self, state: ParserState, cursor: Cursor | None) -> None:
        self._state = state
        self._cursor = cursor

    @classmethod
    def of(cls, network: Network) -> "Recogniser":
        """A recogniser before the text."""
        plan = network.grammar.plan
        return cls(initial_state(network), None if plan is None else start_cursor(plan))

    @property
    def state(self) -> ParserState:
        """What the grammar alone knows of the text."""
        return self._state

    @property
    def is_complete(self) -> bool:
        """Whether the text may end here."""
        return self._state.is_complete

    def max_completion_bytes(self) -> float:
        """At least as many bytes as `completion` has, known without searching for it."""
        longest = self._state.max_cost
        if self._cursor is None or not self._cursor.plan.forbids_repeats:
            return longest
        return math.inf if self._cursor.plan.can_run_out else _GUARDED_GROWTH * (longest + 1)

    def min_completion_bytes(self) -> int:
        """At most as many bytes as `completion` has: a guard only makes it longer.

        The cost also counts calls of rules, a millionth of a byte each, and a byte takes fewer than 2,000.
        """
        cost = self._state.cost
        return max(0, cost - cost // 512 - 1)

    def fork(self) -> "Recogniser":
        """Another recogniser at the same point."""
        return Recogniser(self._state, self._cursor)

    def advance(self, text: bytes) -> bool:
        """Read more text; False, and no change, if the grammar or the guard does not allow it."""
        state = self._state.advance(text)
        if state is None:  # the cursor reads only what the grammar reads
            return False
        if self._cursor is not None:
            marked, cursor = marked_text(self._cursor, text), self._cursor.advance(text)
            if marked != text:
                state = self._state.advance(marked)
            if cursor is None or state is None:
                return False
            self._cursor = cursor
        self._state = state
        return True

    def completion(self) -> bytes:
        """The shortest text that completes this one, the rest of a character included.

        Under a guard it can be a little longer than the shortest.
        """
        if self._cursor is None:
            return self._state.completion()
        return guarded_completion(self._state, self._cursor)


@dataclass(frozen=True, slots=True)
class _SearchNode:
    """A text that continues the output, and what the grammar and the guard know after it."""

    text: bytes
    state: ParserState
    cursor: Cursor
    num_new: int
    """The number of elements in `text`."""

    def advance(self, text: bytes) -> "_SearchNode | None":
        """The node after more text; None if the grammar or the guard does not allow it."""
        state = self.state.advance(marked_text(self.cursor, text))
        if state is None:
            return None
        cursor, num_new = self.cursor, self.num_new
        for piece in _PIECES.finditer(text):
            following = cursor.advance(piece.group())
            if following is None:
                return None
            num_new += _num_seen(following.json) > _num_seen(cursor.json)
            cursor = following
        return _SearchNode(self.text + text, state, cursor, num_new)


@dataclass(order=True, slots=True)
class _Attempt:
    """An attempt to write `byte` after a node, then the grammar's completion; the least is tried next.

    `rank` is minus the number of elements before the repetition to be avoided, so that the attempts that get
    furthest go first. `length` is that of the node's text and of the completion together. `order` makes equal
    attempts differ. Without a byte, the node's own completion repeats an element: deviate from that.
    """

    rank: int
    length: float
    order: int
    node: _SearchNode = field(compare=False)
    byte: bytes | None = field(compare=False)


def guarded_completion(state: ParserState, cursor: Cursor) -> bytes:
    """Bytes that complete a text without repeating an element.

    The attempts that get furthest go first, and the shortest among them. An attempt could get further without
    end, by opening one array after the other. So long attempts wait until no shorter one is left.

    Raises:
        UnsupportedGrammar: no text completes it, or too many attempts found none.
    """
    order = count()
    attempts = [_Attempt(1, 0, next(order), _SearchNode(b"", state, cursor, 0), b"")]
    earlier: list[_Attempt] = []
    longest = 1.25 * state.cost + 4
    num_attempts = 0
    while attempts or earlier:
        if not attempts:  # no other element there avoids the repetition: change one before it, or write more
            attempts, earlier = earlier, []
            longest *= 2
        attempt = heapq.heappop(attempts)
        num_attempts += 1
        if num_attempts > MAX_ATTEMPTS:
            raise UnsupportedGrammar(
                f"{MAX_ATTEMPTS} attempts found no text that ends the output without repeating a key or an"
                " item; lower minItems where items must be unique"
            )
        node = attempt.node if attempt.byte is None else attempt.node.advance(attempt.byte)
        if node is None:
            continue
        node, rest = _completed(node)
        repetition = _first_repetition(node.cursor, rest)
        if repetition is None:
            return node.text + rest
        if len(node.text) + len(rest) > longest:
            heapq.heappush(earlier, attempt)
            continue
        start, end = repetition
        rank = -_advanced(node, rest[:end]).num_new
        if attempt.byte is not None and attempt.rank <= rank:  # no further: first try others as short
            heapq.heappush(attempts, _Attempt(attempt.rank, attempt.length + 0.5, next(order), node, None))
            continue
        for deviation in _deviations(node, rest[:start], rank, order):
            heapq.heappush(earlier, deviation)
        for deviation in _deviations(_advanced(node, rest[:start]), rest[start : end + 1], rank, order):
            heapq.heappush(attempts, deviation)
    raise UnsupportedGrammar("no text ends the output without repeating a key or an item")


def _completed(node: _SearchNode) -> tuple[_SearchNode, bytes]:
    """What completes a text: the node after its last marked key, as the grammar reads the mark, and the rest.

    The rest begins before that key if the grammar does not read a mark there, or if an undeclared key in its
    place is shorter: what follows a declared key can contain the same one again, without end.
    """
    rest = node.state.completion()
    while (end := _end_of_marked(node.cursor, rest)) is not None:
        after = node.advance(rest[:end])
        if after is None:
            break
        following = after.state.completion()
        if end + len(following) > len(rest) + _OTHER_KEY:
            break
        node, rest = after, following
    return node, rest


def _end_of_marked(cursor: Cursor, rest: bytes) -> int | None:
    """After the first marked key that `rest` completes; None if none or an element repeats first."""
    marked = marked_text(cursor, rest)
    if len(marked) == len(rest):
        return None
    return next(
        at for at, (marked_byte, byte) in enumerate(zip(marked, rest, strict=False)) if marked_byte != byte
    )


def _advanced(node: _SearchNode, text: bytes) -> _SearchNode:
    after = node.advance(text)
    assert after is not None, "nothing repeats before the end"
    return after


def _first_repetition(cursor: Cursor, rest: bytes) -> tuple[int, int] | None:
    """The first and the last byte of the first element in `rest` that would repeat one; None if none does.

    A marked key counts as one: it stands only where another one must be, or is shorter (see `_completed`).
    """
    if not _repeats(cursor, cursor.advance(rest)):
        return None
    passed: list[tuple[int, JsonCursor]] = []
    for piece in _PIECES.finditer(rest):
        passed.append((piece.start(), cursor.json))
        following = cursor.advance(piece.group())
        if following is None or _repeats(cursor, following):
            last, end = _before_repetition(cursor, piece.group())
            end += piece.start()
            return _start_of_element(passed, last, rest[end]), end
        cursor = following
    raise AssertionError("what repeats as a whole repeats piece by piece")


def _repeats(before: Cursor, after: Cursor | None) -> bool:
    """Whether what leads from one cursor to another repeats an element, or has a marked key."""
    return after is None or after.json.num_marked > before.json.num_marked


def _before_repetition(cursor: Cursor, text: bytes) -> tuple[JsonCursor, int]:
    """The cursor before the first byte that repeats an element, and the index of that byte."""
    for at in range(len(text)):
        following = cursor.advance(text[at : at + 1])
        if following is None or _repeats(cursor, following):
            return cursor.json, at
        cursor = following
    raise AssertionError("what repeats as a whole repeats byte by byte")


def _start_of_element(passed: list[tuple[int, JsonCursor]], last: JsonCursor, byte: int) -> int:
    """The index of the last cursor before the element that `byte`, read after `last`, would complete."""
    assert last.container is not None, "only what stands in a container can repeat"
    # A closing bracket completes a container, unless the number or literal before it repeats already.
    is_container = not last.in_string and byte in b"]}" and last.advance(b" ") is not None
    holder = last.container.parent if is_container else last.container
    starts = (at for at, cursor in reversed(passed) if cursor.expects_element and cursor.container is holder)
    return next(starts, 0)


def _deviations(node: _SearchNode, rest: bytes, rank: int, order: Iterator[int]) -> Iterator[_Attempt]:
    """The attempts that write `rest` up to any of its bytes, and another byte there."""
    for at in range(len(rest)):
        length = len(node.text) + 1 + node.state.cost
        for byte in sorted(node.state.next_bytes() - {rest[at]}):
            yield _Attempt(rank, length, next(order), node, bytes([byte]))
        if at + 1 < len(rest):
            node = _advanced(node, rest[at : at + 1])


def _num_seen(cursor: JsonCursor) -> int:
    return sum(container.seen.size for container in cursor.containers)
