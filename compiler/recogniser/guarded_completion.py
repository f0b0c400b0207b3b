"""The search for a short completion that a guard allows.

It deviates from the grammar's shortest completion, shorter texts first, until it gets past the first
repetition, and goes on from there. Usually another element can take the place of a repeated one. Where
elements can run out, the search may not end by itself, so it has a budget.
"""

import heapq
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from compiler.errors import UnsupportedGrammar
from compiler.guard.cursor import OpenContainer
from compiler.guard.key_marks import marked_key_ends, marked_text
from compiler.guard.tagged_cursor import Cursor
from compiler.recogniser.parser_state import ParserState
from compiler.recogniser.repetitions import PIECES, first_repetition, has_more_elements
from compiler.vocabulary import KEY_MARK

MAX_ATTEMPTS = 40_000
"""The attempts before an output is begun, some ten seconds of processor time; real schemas need a few.
Distinct arrays of few distinct values have so many orders that a search could take hours. With a limit in
seconds, an answer would end on one machine and fail on another."""
_BYTES_AN_ATTEMPT = 512
"""An attempt counts once more for every so many bytes of its text."""
_MARKED_BYTES_AN_ATTEMPT = 128
"""The same where keys are marked, which takes longer to read."""
_MAX_FRUITLESS = 120
"""The attempts, one after another, that a patient search lets get no further before it tries longer ones."""
_MAX_GROWTH = 8
"""How many times as long as the text that repeats something the direct search lets one become. Where elements
may follow without end, it finds one after the other, and the text gets no further."""
_OTHER_KEY = 2
"""How many bytes an undeclared key mostly takes more if it must differ from all declared ones."""


@dataclass(slots=True)
class SearchBudget:
    """How much more some searches may do together."""

    num_left: int = MAX_ATTEMPTS
    """Attempts to get past a repetition."""
    num_bytes_left: float = math.inf
    """Bytes of completions to spell and to count tokens of."""
    most_guarded_bytes: float = math.inf
    """The longest completion to look for under a guard, where each byte is read several times."""
    has_given_up: bool = False
    """Whether a larger budget might have found more."""

    def spend_attempts(self, num_attempts: int) -> None:
        """Count attempts.

        Raises:
            UnsupportedGrammar: there were too many.
        """
        self.num_left -= num_attempts
        if self.num_left < 0:
            self.has_given_up = True
            raise UnsupportedGrammar(
                "too many attempts found no text that ends the output without repeating a key or an item;"
                " lower minItems where items must be unique"
            )

    def allows_guarded(self, num_bytes: int) -> bool:
        """Whether a completion of so many bytes may be looked for under a guard."""
        self.has_given_up |= num_bytes > self.most_guarded_bytes
        return num_bytes <= self.most_guarded_bytes

    def try_spend_bytes(self, num_bytes: int) -> bool:
        """Count bytes; False, and nothing is counted, if they are too many."""
        if num_bytes > self.num_bytes_left:
            self.has_given_up = True
            return False
        self.num_bytes_left -= num_bytes
        return True


@dataclass(frozen=True, slots=True)
class SearchNode:
    """A text that continues the output, and what the grammar and the guard know after it."""

    text: bytes
    state: ParserState
    cursor: Cursor
    num_new: int
    """The number of elements in `text`."""

    def advance(self, text: bytes) -> "SearchNode | None":
        """The node after more text; None if the grammar or the guard does not allow it."""
        state = self.state.advance(marked_text(self.cursor, text))
        if state is None:
            return None
        cursor, num_new = self.cursor, self.num_new
        for piece in PIECES.finditer(text):
            following = cursor.advance(piece.group())
            if following is None:
                return None
            num_new += has_more_elements(cursor.json, following.json)
            cursor = following
        return SearchNode(self.text + text, state, cursor, num_new)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """An attempt to write `byte` after a node, then the grammar's completion.

    Without a byte, the node's own completion repeats an element: deviate from that.
    """

    node: SearchNode
    byte: bytes | None

    @property
    def length(self) -> int:
        """The bytes of the text and of the completion together."""
        return len(self.node.text) + self.node.state.cost + (self.byte is not None)

    def begun(self) -> SearchNode | None:
        """The node after the byte; None if the grammar or the guard does not allow it."""
        return self.node if self.byte is None else self.node.advance(self.byte)


class _Queued(NamedTuple):
    """An attempt that waits to be tried, with others after it; the least is tried next.

    `rank` is minus the number of elements before the repetition to be avoided, so that the attempts that get
    furthest go first, and the shortest among them. `order` makes equal ones differ.
    """

    rank: int
    length: float
    order: int
    attempt: _Attempt
    others: Iterator[_Attempt]
    """Attempts of the same rank. They are made one by one, since a long text has very many."""


class _Queue:
    """Attempts that wait to be tried; of equal ones the newest goes first, or the oldest."""

    def __init__(self, *, is_newest_first: bool) -> None:
        self._heap: list[_Queued] = []
        self._order = count(0, -1 if is_newest_first else 1)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def push(self, rank: int, attempts: Iterable[_Attempt], penalty: float = 0) -> None:
        """Add attempts of one rank; each counts as longer by `penalty` bytes."""
        others = iter(attempts)
        if (attempt := next(others, None)) is not None:
            queued = _Queued(rank, attempt.length + penalty, next(self._order), attempt, others)
            heapq.heappush(self._heap, queued)

    def drained(self) -> list[_Queued]:
        """Remove all attempts, and return them."""
        drained, self._heap = self._heap, []
        return drained

    def absorb(self, others: Iterable[_Queued]) -> None:
        """Add attempts of other queues."""
        for queued in others:
            heapq.heappush(self._heap, queued._replace(order=next(self._order)))

    def pop(self) -> tuple[int, _Attempt]:
        """Remove the attempt that is tried next, and return its rank and itself."""
        rank, _, order, attempt, others = self._heap[0]
        if (following := next(others, None)) is None:
            heapq.heappop(self._heap)
        else:
            heapq.heapreplace(self._heap, _Queued(rank, following.length, order, following, others))
        return rank, attempt


def guarded_completion(state: ParserState, cursor: Cursor, budget: SearchBudget) -> bytes:
    """Bytes that complete a text without repeating an element.

    A direct search comes first, with half of the budget. If it finds nothing, two others share the rest. A
    patient one tries all short texts before longer ones, and finds what is short where texts could get
    further without end, by opening one array after the other. A hasty one finds what has many elements, all
    of which need more room.

    Raises:
        UnsupportedGrammar: no text completes it, or the search for one used up its budget.
    """
    direct, num_reserved = _DirectSearch(state, cursor), budget.num_left // 2
    while direct.is_open and budget.num_left > num_reserved:
        if (found := direct.step(budget)) is not None:
            return found
    searches = [_Search(state, cursor, patience) for patience in (_MAX_FRUITLESS, math.inf)]
    while all(search.is_open for search in searches):
        search = min(searches, key=lambda search: search.num_spent)  # texts of one may be much longer
        before = budget.num_left
        if (found := search.step(budget)) is not None:
            return found
        search.num_spent += before - budget.num_left
    raise UnsupportedGrammar("no text ends the output without repeating a key or an item")


class _DirectSearch:
    """A search that looks for the shortest element in place of a repeated one, and never takes one back.

    So it finds texts of many elements with few attempts at each, unless the elements run out.
    """

    def __init__(self, state: ParserState, cursor: Cursor) -> None:
        self._attempts = _Queue(is_newest_first=False)
        self._attempts.push(0, [_Attempt(SearchNode(b"", state, cursor, 0), None)])
        self._longest = _MAX_GROWTH * state.cost + 64
        self._bytes_an_attempt = _bytes_an_attempt(cursor)
        self._place: _Place = ()
        """Where the element that is looked for stands."""
        self._num_in_vain = 0

    @property
    def is_open(self) -> bool:
        """Whether it may go on: an element was found lately, and attempts are left."""
        return bool(self._attempts) and self._num_in_vain <= _MAX_FRUITLESS

    def step(self, budget: SearchBudget) -> bytes | None:
        """Make one attempt; the completion if that is one.

        Raises:
            UnsupportedGrammar: the budget is used up.
        """
        _, attempt = self._attempts.pop()
        self._num_in_vain += 1
        if (made := _made(attempt, budget, self._bytes_an_attempt)) is None:
            return None
        node, rest = made
        repetition = first_repetition(node.cursor, rest)
        if repetition is None:
            return node.text + rest
        if len(node.text) + len(rest) > self._longest:
            self._attempts.drained()
            return None
        place = _place(repetition.holder)
        if not self._place or place[: len(self._place)] != self._place:
            self._attempts.drained()
            self._place, self._num_in_vain = place, 0
        elif attempt.byte is not None:  # no further: first try others as short
            self._attempts.push(0, [_Attempt(node, None)], penalty=0.5)
            return None
        before = _advanced(node, rest[: repetition.start])
        self._attempts.push(0, deviations(before, rest[repetition.start : repetition.end + 1]))
        return None


class _Search:
    """A search for a completion: the attempts that get furthest go first, and the shortest among them.

    Long attempts wait until no shorter ones are left, or have got no further for `patience` attempts.
    """

    def __init__(self, state: ParserState, cursor: Cursor, patience: float) -> None:
        self._patience = patience
        # In depth, a hasty search gets further.
        queues = [_Queue(is_newest_first=patience < math.inf) for _ in range(3)]
        self._attempts, self._longer, self._earlier = queues
        self._attempts.push(1, [_Attempt(SearchNode(b"", state, cursor, 0), None)])
        self._longest = 1.25 * state.cost + 4
        self._bytes_an_attempt = _bytes_an_attempt(cursor)
        self._furthest, self._num_in_vain = 0, 0
        self.num_spent = 0
        """What it has taken of the budget."""

    @property
    def is_open(self) -> bool:
        """Whether attempts are left."""
        return bool(self._attempts or self._longer or self._earlier)

    def step(self, budget: SearchBudget) -> bytes | None:
        """Make one attempt; the completion if that is one.

        Raises:
            UnsupportedGrammar: the budget is used up.
        """
        if not self._attempts or self._num_in_vain > self._patience:
            self._allow_more()
        rank, attempt = self._attempts.pop()
        self._num_in_vain += 1
        if (made := _made(attempt, budget, self._bytes_an_attempt)) is None:
            return None
        node, rest = made
        repetition = first_repetition(node.cursor, rest)
        if repetition is None:
            return node.text + rest
        if len(node.text) + len(rest) > self._longest:
            self._longer.push(rank, [attempt])
            return None
        start, end, _ = repetition
        reached = -_advanced(node, rest[:end]).num_new
        if attempt.byte is not None and rank <= reached:  # no further: first try others as short
            self._attempts.push(rank, [_Attempt(node, None)], penalty=0.5)
            return None
        if reached < self._furthest:
            self._furthest, self._num_in_vain = reached, 0
        self._earlier.push(reached, deviations(node, rest[:start]))
        self._attempts.push(reached, deviations(_advanced(node, rest[:start]), rest[start : end + 1]))
        return None

    def _allow_more(self) -> None:
        """Allow longer texts and, if those do not help or nothing else is left, other elements before."""
        is_exhausted = not self._attempts
        if is_exhausted or not self._longer:
            self._attempts.absorb(self._earlier.drained())
        self._attempts.absorb(self._longer.drained())
        self._longest *= 2 if is_exhausted else 1.5
        self._num_in_vain = 0


def _made(attempt: _Attempt, budget: SearchBudget, bytes_an_attempt: int) -> tuple[SearchNode, bytes] | None:
    """Make an attempt: how far it got, and the rest that would complete it; None if it cannot begin.

    Raises:
        UnsupportedGrammar: the budget is used up.
    """
    budget.spend_attempts(1 + attempt.length // bytes_an_attempt)
    node = attempt.begun()
    return None if node is None else _completed(node, budget)


def _bytes_an_attempt(cursor: Cursor) -> int:
    return _MARKED_BYTES_AN_ATTEMPT if cursor.plan.marks_keys else _BYTES_AN_ATTEMPT


_Place = tuple[tuple[int, int, bytes], ...]


def _place(holder: OpenContainer | None) -> _Place:
    """Where an element stands: in each container, from the outermost on, the index or key that is reached.

    While an element is being written, the places of all elements inside it begin with its own.
    """
    containers = [] if holder is None else [*holder.and_around]
    return tuple((each.item_index, each.seen.size, each.key) for each in reversed(containers))


def _completed(node: SearchNode, budget: SearchBudget) -> tuple[SearchNode, bytes]:
    """What completes a text: the node after its last marked key, as the grammar reads the mark, and the rest.

    The rest begins before that key if the grammar does not read a mark there, or if an undeclared key in its
    place is shorter: what follows a declared key can contain the same one again, without end.
    """
    rest = node.state.completion()
    ends = marked_key_ends(node.cursor, rest)
    if ends and (after := node.advance(rest[: ends[-1]])) is not None:
        completed = after.state.advance(rest[ends[-1] :])
        if completed is not None and completed.is_complete:
            return after, rest[ends[-1] :]
    while ends:
        budget.spend_attempts(1 + len(rest) // _MARKED_BYTES_AN_ATTEMPT)
        end = ends[0]
        after = node.advance(rest[:end])
        if after is None:
            break
        following = after.state.completion()
        if end + len(following) > len(rest) + _OTHER_KEY:
            break
        node, rest = after, following
        ends = marked_key_ends(node.cursor, rest)
    return node, rest


def _advanced(node: SearchNode, text: bytes) -> SearchNode:
    after = node.advance(text)
    assert after is not None, "nothing repeats before the end"
    return after


def deviations(node: SearchNode, rest: bytes) -> Iterator[_Attempt]:
    """The attempts that write `rest` up to any of its bytes, and another byte there.

    The mark of a key is no byte of an output.
    """
    for at in range(len(rest)):
        for byte in sorted(node.state.next_bytes() - {rest[at], ord(KEY_MARK)}):
            yield _Attempt(node, bytes([byte]))
        if at + 1 < len(rest):
            node = _advanced(node, rest[at : at + 1])
