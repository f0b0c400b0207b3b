"""The search for a short completion that a guard allows.

It deviates from the grammar's shortest completion, shorter texts first, until it gets past the first
repetition, and goes on from there. Usually another element can take the place of a repeated one. Where
elements can run out, the search may not end by itself, so it has a budget.
"""

import heapq
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import NamedTuple

from compiler.errors import UnsupportedGrammar
from compiler.guard.key_marks import marked_key_ends, marked_text
from compiler.guard.open_containers import OpenContainer
from compiler.guard.tagged_cursor import Cursor
from compiler.recogniser.parser_state import ParserState
from compiler.recogniser.repetitions import (
    BLANKS,
    PIECES,
    RepeatedElement,
    first_repetition,
    has_more_elements,
)
from compiler.recogniser.search_budget import SearchBudget
from compiler.vocabulary import KEY_MARK

_BYTES_AN_ATTEMPT = 64
"""An attempt counts once more for every so many bytes that the grammar reads."""
_PIECES_AN_ATTEMPT = 16
"""The same for pieces that the guard reads (see `PIECES`): a bracket takes it as long as a text."""
_SPELLED_AN_ATTEMPT = 1 << 14
"""The same for bytes that are only spelled out, as those behind the repetition are."""
_MAX_FRUITLESS = 120
"""The attempts, one after another, that a hasty search lets get no further before it tries longer ones."""
_MAX_GROWTH = 8
"""How many times as long as the text that repeats something the direct search lets one become. Where elements
may follow without end, it finds one after the other, and the text gets no further."""
_OTHER_KEY = 2
"""How many bytes an undeclared key mostly takes more if it must differ from all declared ones."""


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

    def next_bytes(self) -> set[int]:
        """The bytes that may follow; blanks between elements and marks of keys make no other elements."""
        ignored = KEY_MARK.encode() if self.cursor.json.in_string else KEY_MARK.encode() + BLANKS
        return self.state.next_bytes().difference(ignored)

    def by_frame(self) -> "list[SearchNode]":
        """This node for each stack frame, with what may be read in that one only; the shortest go first."""
        nodes = [replace(self, state=state) for state in self.state.by_frame()]
        return [node for node in nodes if node.next_bytes()] or nodes


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt to write `byte` after a node, if there is one, then the grammar's completion."""

    node: SearchNode
    byte: bytes = b""

    @property
    def length(self) -> int:
        """The bytes of the text and of the completion together."""
        return len(self.node.text) + self.node.state.cost + len(self.byte)

    def begun(self) -> SearchNode | None:
        """The node after the byte; None if the grammar or the guard does not allow it."""
        return self.node.advance(self.byte) if self.byte else self.node


@dataclass(frozen=True)
class _Repeating:
    """What an attempt led to: `rest`, which would complete the text of `node`, repeats an element.

    If the attempt was in vain, this waits in the queue until others as short were tried.
    """

    node: SearchNode
    rest: bytes
    repetition: RepeatedElement

    @property
    def length(self) -> int:
        """The bytes of the text and of the completion together."""
        return len(self.node.text) + len(self.rest)

    @property
    def num_left(self) -> int:
        """The bytes of the completion from the end of the repeated element on."""
        return len(self.rest) - self.repetition.end

    @cached_property
    def rank(self) -> int:
        """Minus the number of elements before the repetition."""
        return -_advanced(self.node, self.rest[: self.repetition.end]).num_new

    @property
    def beginning(self) -> SearchNode:
        """The node before the repeated element."""
        return _advanced(self.node, self.rest[: self.repetition.start])

    def replacing(self) -> Iterator[Attempt]:
        """The attempts to write another element in place of the repeated one."""
        start, end = self.repetition[:2]
        return deviations(self.beginning, self.rest[start : end + 1])


class _Queued(NamedTuple):
    """An attempt that waits to be tried or to be followed, with others after it; the least is next.

    `rank` is minus the number of elements before the repetition to be avoided, so that the attempts that get
    furthest go first, and the shortest among them. `order` makes equal ones differ.
    """

    rank: int
    length: float
    order: int
    attempt: Attempt | _Repeating
    others: Iterator[Attempt | _Repeating]
    """Attempts of the same rank. They are made one by one, since a long text has very many."""


class _Queue:
    """Attempts that wait to be tried; of equal ones the newest goes first, or the oldest."""

    def __init__(self, *, is_newest_first: bool) -> None:
        self._heap: list[_Queued] = []
        self._order = count(0, -1 if is_newest_first else 1)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def push(self, rank: int, attempts: Iterable[Attempt | _Repeating], penalty: float = 0) -> None:
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

    def pop(self) -> tuple[int, Attempt | _Repeating]:
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
    start = SearchNode(b"", state, cursor, 0)
    direct, num_reserved = _DirectSearch(start), budget.num_left // 2
    while direct.is_open and budget.num_left > num_reserved:
        if (found := direct.step(budget)) is not None:
            return found
    searches = [_FurthestFirst(start, patience) for patience in (_MAX_FRUITLESS, math.inf)]
    while all(search.is_open for search in searches):
        search = min(searches, key=lambda search: search.num_spent)  # texts of one may be much longer
        before = budget.num_left
        if (found := search.step(budget)) is not None:
            return found
        search.num_spent += before - budget.num_left
    raise UnsupportedGrammar("no text ends the output without repeating a key or an item")


class _Search(ABC):
    """A search for a completion, one attempt after another."""

    def __init__(self, start: SearchNode, longest: float, *, is_newest_first: bool) -> None:
        self._attempts = _Queue(is_newest_first=is_newest_first)
        self._attempts.push(0, [Attempt(start)])
        self._longest = longest
        self._longer = _Queue(is_newest_first=is_newest_first)
        """The attempts whose texts have more than `longest` bytes."""
        self._num_in_vain = 0
        """The attempts since one got further."""
        self.num_spent = 0
        """What it has taken of the budget."""

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether it may go on."""

    def step(self, budget: SearchBudget) -> bytes | None:
        """Make one attempt; the completion if that is one.

        Raises:
            UnsupportedGrammar: the budget is used up.
        """
        rank, attempt = self._attempts.pop()
        self._num_in_vain += 1
        if isinstance(attempt, _Repeating):  # it was postponed
            self._deviate(attempt)
            return None
        budget.spend_attempts(1)
        begun = attempt.begun()
        if begun is None:
            return None
        node, rest = _completed(begun, budget)
        repetition = first_repetition(node.cursor, rest)
        if repetition is None:
            return node.text + rest
        found = _Repeating(node, rest, repetition)
        budget.spend_attempts(
            found.length // _SPELLED_AN_ATTEMPT
            + repetition.num_pieces // _PIECES_AN_ATTEMPT
            + self._num_read(repetition) // _BYTES_AN_ATTEMPT
        )
        if found.length > self._longest:
            self._longer.push(rank, [attempt])
        elif attempt.byte and self._is_in_vain(found, rank):
            self._attempts.push(rank, [found], penalty=0.5)  # first try others as short
        else:
            self._deviate(found)
        return None

    @abstractmethod
    def _num_read(self, repetition: RepeatedElement) -> int:
        """How many bytes of a completion the grammar reads to get past a repetition."""

    @abstractmethod
    def _is_in_vain(self, found: _Repeating, rank: int) -> bool:
        """Whether an attempt of this rank got no further than others."""

    @abstractmethod
    def _deviate(self, found: _Repeating) -> None:
        """Queue attempts to get past a repetition."""


_Place = tuple[tuple[int, int, bytes], ...]


class _DirectSearch(_Search):
    """A search that looks for the shortest element in place of a repeated one, and never takes one back.

    So it finds texts of many elements with few attempts at each, unless the elements run out. It drops an
    element after which as much is left as before it: beside `contains`, any item may stand before one that is
    still demanded. Such items are mostly read in another stack frame than those, so that it tries what each
    frame reads by itself.
    """

    def __init__(self, start: SearchNode) -> None:
        super().__init__(start, _MAX_GROWTH * start.state.cost + 64, is_newest_first=False)
        self._place: _Place = ()
        """Where the element that is looked for stands."""
        self._num_left = math.inf
        """The bytes that the completion had from the end of the repeated element on."""

    @property
    def is_open(self) -> bool:
        """Whether an element was found lately, attempts are left, and no text was too long."""
        return bool(self._attempts) and not self._longer and self._num_in_vain <= _MAX_FRUITLESS

    def _num_read(self, repetition: RepeatedElement) -> int:
        return repetition.start

    def _is_in_vain(self, found: _Repeating, rank: int) -> bool:  # noqa: ARG002 - other searches need it
        return self._is_inside(_place(found.repetition.holder))

    def _deviate(self, found: _Repeating) -> None:
        place = _place(found.repetition.holder)
        if self._is_inside(place):
            self._attempts.push(0, found.replacing())
        elif place[:-1] != self._place[:-1] or found.num_left < self._num_left:
            before = found.beginning
            self._attempts.drained()
            self._place, self._num_in_vain = place, 0
            # An element that the output has begun may be one that leads nowhere already.
            self._num_left = found.num_left if before.cursor.json.expects_element else math.inf
            self._attempts.push(0, map(Attempt, before.by_frame()))

    def _is_inside(self, place: _Place) -> bool:
        """Whether the element that is looked for stands at a place, or around it."""
        return bool(self._place) and place[: len(self._place)] == self._place


class _FurthestFirst(_Search):
    """A search in which the attempts that get furthest go first, and the shortest among them.

    Long attempts wait until no shorter ones are left, or have got no further for `patience` attempts: that is
    infinite in a patient search, and finite in a hasty one.
    """

    def __init__(self, start: SearchNode, patience: float) -> None:
        is_hasty = patience < math.inf  # such a search gets further in depth than in breadth
        super().__init__(start, 1.25 * start.state.cost + 4, is_newest_first=is_hasty)
        self._earlier = _Queue(is_newest_first=is_hasty)
        """Attempts to write other elements before a repetition."""
        self._patience = patience
        self._furthest = 0
        """The least rank so far."""

    @property
    def is_open(self) -> bool:
        """Whether attempts are left."""
        return bool(self._attempts or self._longer or self._earlier)

    def step(self, budget: SearchBudget) -> bytes | None:
        """Make one attempt, and allow longer texts before it if it is time (see `_Search.step`)."""
        if not self._attempts or self._num_in_vain > self._patience:
            self._allow_more()
        return super().step(budget)

    def _num_read(self, repetition: RepeatedElement) -> int:
        return repetition.end

    def _is_in_vain(self, found: _Repeating, rank: int) -> bool:
        return rank <= found.rank

    def _deviate(self, found: _Repeating) -> None:
        reached, start = found.rank, found.repetition.start
        if reached < self._furthest:
            self._furthest, self._num_in_vain = reached, 0
        self._earlier.push(reached, deviations(found.node, found.rest[:start]))
        self._attempts.push(reached, found.replacing())

    def _allow_more(self) -> None:
        """Allow longer texts and, if those do not help or nothing else is left, other elements before."""
        is_exhausted = not self._attempts
        if is_exhausted or not self._longer:
            self._attempts.absorb(self._earlier.drained())
        self._attempts.absorb(self._longer.drained())
        self._longest *= 2 if is_exhausted else 1.5
        self._num_in_vain = 0


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
    if not ends:
        return node, rest
    budget.spend_attempts(len(rest) // _BYTES_AN_ATTEMPT)
    after = node.advance(rest[: ends[-1]])
    completed = None if after is None else after.state.advance(rest[ends[-1] :])
    if after is not None and completed is not None and completed.is_complete:
        return after, rest[ends[-1] :]
    return _past_readable_marks(node, rest, ends[0], budget)


def _past_readable_marks(
    node: SearchNode, rest: bytes, end: int, budget: SearchBudget
) -> tuple[SearchNode, bytes]:
    """As `_completed`, mark by mark: the first marked key of the completion `rest` is before `end`."""
    ends = [end]
    while ends:
        budget.spend_attempts(1 + len(rest) // _BYTES_AN_ATTEMPT)
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


def deviations(node: SearchNode, rest: bytes) -> Iterator[Attempt]:
    """The attempts that write `rest` up to any of its bytes, and another byte there."""
    at = 0
    while at < len(rest):
        for byte in sorted(node.next_bytes() - {rest[at]}):
            yield Attempt(node, bytes([byte]))
        num_read = max(1, node.state.num_forced)
        if at + num_read < len(rest):
            node = _advanced(node, rest[at : at + num_read])
        at += num_read
