"""The parser state: every derivation that fits a text so far, and the fewest bytes that complete the text.

A parser state is a value: advancing gives a new one and keeps the old, so a token can be tried safely.
It follows all derivations at once on a graph-structured stack (Tomita): calls of one rule at one point of the
text share a stack frame, whichever rule calls it, so the grammar's size bounds the cost of ambiguity. A frame
is complete once the byte that opened it has been read, and never changes again.

Some grammars have ever more derivations (`root ::= x root | x` with `x ::= [a-z]+`: each letter may begin an
`x`). Then only those are followed that complete the text soonest, as many as are in proportion to the size of
the grammar. So a shortest completion always goes on. If none goes on as the text does, a closer completes the
output earlier than its budget demands.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, nsmallest
from itertools import count
from time import thread_time

from compiler.digraph import strongly_connected_components
from compiler.errors import MatchingTooSlow
from compiler.recogniser.network import Network, StateSet
from compiler.recogniser.network_states import LiteralState

_MIN_LIVE_FRAMES = 16
_LIVE_FRAMES_A_RULE = 4
"""What one point of a text needs: most rules have one frame there, and the rules inside them a few."""
MAX_PIECE_S = 0.5
"""Processor time for a piece of a text, as for a mask; 256 bytes take a usual grammar a hundredth of this."""
_PIECE_BYTES = 256
"""The longest tokens have about as many."""
_FEW_BYTES = 8
"""So few need no clock: a byte takes ten milliseconds in the worst grammar of 60 kB."""
_FEW_PASSES = 3
"""Usual frames have their costs after two passes over them."""


class StackFrame:
    """The callers of one rule at one point: the states after each call, and the frame of each caller."""

    __slots__ = ("callers", "cost", "max_cost")

    def __init__(self) -> None:
        self.callers: dict[tuple[StateSet, StackFrame], None] = {}
        self.cost = math.inf
        """The fewest bytes that complete the text once the rule is complete."""
        self.max_cost = 0.0
        """The fewest bytes that complete the text by way of the most expensive caller."""

    def update_costs(self) -> bool:
        """Compute the costs from those of the callers; whether they changed."""
        before = (self.cost, self.max_cost)
        self.cost = min(states.cost + frame.cost for states, frame in self.callers)
        self.max_cost = max(states.max_cost + frame.max_cost for states, frame in self.callers)
        return (self.cost, self.max_cost) != before


@dataclass(frozen=True, slots=True, eq=False)
class ParserState:
    """The network states that a text leads to, by the stack frame of the rule that they are in."""

    network: Network
    bottom: StackFrame
    live: Mapping[StackFrame, StateSet]

    @property
    def is_complete(self) -> bool:
        """Whether the text is a sentence."""
        states = self.live.get(self.bottom)
        return states is not None and states.is_end

    @property
    def cost(self) -> int:
        """The number of bytes of the shortest completion."""
        return int(min(map(_cost, self.live.items())))

    @property
    def max_cost(self) -> float:
        """The bytes of the most expensive derivation: `completion` has no more."""
        return max(states.max_cost + frame.max_cost for frame, states in self.live.items())

    def advance(self, data: bytes) -> "ParserState | None":
        """The state after more bytes; None if no sentence begins with them.

        Raises:
            MatchingTooSlow: some piece of the bytes, which a single token may have, takes `MAX_PIECE_S`.
        """
        self.network.forget_sets()
        state: ParserState | None = self
        for start in range(0, len(data), _PIECE_BYTES):
            if state is None:
                return None
            state = state._read_piece(data[start : start + _PIECE_BYTES])  # noqa: SLF001 - of its own class
        return state

    def _read_piece(self, piece: bytes) -> "ParserState | None":
        """The state after a piece of a text; raises MatchingTooSlow."""
        latest = thread_time() + MAX_PIECE_S if len(piece) > _FEW_BYTES else math.inf
        state: ParserState | None = self
        at = 0
        while state is not None and at < len(piece):
            if at > _FEW_BYTES and thread_time() > latest:
                raise MatchingTooSlow(MAX_PIECE_S)
            state, at = state._read_some(piece, at)  # noqa: SLF001 - of its own class
        return state

    def completion(self) -> bytes:
        """The fewest bytes that make the text a sentence; one of several if several are as short."""
        frame, states = min(self.live.items(), key=_cost)
        text = self.network.completion(states)
        while frame is not self.bottom:
            states, frame = min(frame.callers, key=lambda caller: caller[0].cost + caller[1].cost)
            text += self.network.completion(states)
        return text

    def by_frame(self) -> "list[ParserState]":
        """This state for each stack frame, with what may be read in that one only; the shortest go first."""
        live = {frame: self.network.consuming(states) for frame, states in self.live.items()}
        by_cost = sorted(live.items(), key=_cost)
        return [ParserState(self.network, self.bottom, {frame: states}) for frame, states in by_cost]

    def next_bytes(self) -> set[int]:
        """The bytes that may follow; those of prose are left out."""
        return set().union(*(states.first_bytes() for states in self.live.values()))

    @property
    def num_forced(self) -> int:
        """How many bytes can follow in one way only, as far as a long literal tells."""
        literals = [states.literal for states in self.live.values()]
        match literals:
            case [LiteralState(text, at)]:
                return len(text) - at
        return 0

    def _read_some(self, data: bytes, at: int) -> "tuple[ParserState | None, int]":
        """The state after reading some bytes from `at` on, and the index of the first byte left unread."""
        if len(self.live) == 1:
            ((frame, states),) = self.live.items()
            after, end = self.network.read_plain(states, data, at)
            if after is None:
                return None, end
            if end > at:
                plain = self if after is states else ParserState(self.network, self.bottom, {frame: after})
                return plain, end
        closure = _StackClosure(self.network, self.bottom)
        for frame, states in self.live.items():
            following = self.network.step(states, data[at])
            if following is not None:
                closure.add(frame, following)
        return closure.state(), at + 1


def _cost(live: tuple[StackFrame, StateSet]) -> float:
    """The fewest bytes that complete the text from states in their frame."""
    frame, states = live
    return states.cost + frame.cost


def initial_state(network: Network) -> ParserState:
    """The parser state of the empty text."""
    bottom = StackFrame()
    bottom.cost = 0
    closure = _StackClosure(network, bottom)
    closure.add(bottom, network.entry(network.grammar.root))
    state = closure.state()
    assert state is not None, "a network has a sentence"
    return state


class _StackClosure:
    """The live states at one point of a text, while their calls and returns are followed."""

    def __init__(self, network: Network, bottom: StackFrame) -> None:
        self._network = network
        self._bottom = bottom
        self._live: dict[StackFrame, StateSet] = {}
        self._opened: dict[str, StackFrame] = {}

    def add(self, frame: StackFrame, states: StateSet) -> None:
        """Make `states` live in `frame`, and whatever their calls and returns lead to."""
        pending = [(frame, states)]
        while pending:
            frame, states = pending.pop()
            known = self._live.get(frame)
            all_states = states if known is None else self._network.union(known, states)
            if all_states is known:
                continue
            self._live[frame] = all_states
            for call in all_states.calls:
                pending += self._call(call.name, self._network.after(call), frame)
            if all_states.is_end:
                pending += [(caller, after) for after, caller in frame.callers]

    def state(self) -> ParserState | None:
        """The parser state; None if no state is live."""
        self._update_costs()
        live = {
            frame: states
            for frame, states in self._live.items()
            if states.consuming or (frame is self._bottom and states.is_end)
        }
        most = _MIN_LIVE_FRAMES + _LIVE_FRAMES_A_RULE * len(self._network.grammar.rules)
        if len(live) > most:
            live = dict(nsmallest(most, live.items(), key=_cost))
        return ParserState(self._network, self._bottom, live) if live else None

    def _call(self, name: str, after: StateSet, caller: StackFrame) -> list[tuple[StackFrame, StateSet]]:
        """Call a rule, and return what becomes live, each with its frame."""
        frame = self._opened.get(name)
        if frame is None:
            frame = self._opened[name] = StackFrame()
        if (after, caller) in frame.callers:
            return []
        frame.callers[after, caller] = None
        entered = self._live.get(frame)
        if entered is None:
            return [(frame, self._network.entry(name))]
        return [(caller, after)] if entered.is_end else []

    def _update_costs(self) -> None:
        """Compute the costs of the frames opened here."""
        frames = list(self._opened.values())
        for _ in range(_FEW_PASSES):
            if not [frame for frame in frames if frame.update_costs()]:
                return
        _settle_costs(frames)


def _settle_costs(frames: Sequence[StackFrame]) -> None:
    """Compute the costs of the frames opened at one point, whatever their order, in about linear time."""
    called: dict[StackFrame, list[tuple[float, StackFrame]]] = {frame: [] for frame in frames}
    for frame in frames:
        for states, caller in frame.callers:
            if caller in called:
                called[caller].append((states.cost, frame))
    _settle_cost(frames, called)
    inner_frames = {frame: [inner for _, inner in calls] for frame, calls in called.items()}
    for component in strongly_connected_components(inner_frames):  # callers come first
        _settle_max_cost(component)


def _settle_cost(
    frames: Sequence[StackFrame], called: Mapping[StackFrame, Sequence[tuple[float, StackFrame]]]
) -> None:
    """`cost` is that of the shortest way out (Dijkstra).

    `called` has the frames that each frame has called at this point, and what completes it after each call.
    """
    for frame in frames:
        outer = (states.cost + caller.cost for states, caller in frame.callers if caller not in called)
        frame.cost = min(outer, default=math.inf)
    tie_break = count()
    pending = [(frame.cost, next(tie_break), frame) for frame in frames]
    heapify(pending)
    while pending:
        cost, _, frame = heappop(pending)
        if cost > frame.cost:
            continue  # a cheaper way was found
        for more, inner in called[frame]:
            if cost + more < inner.cost:
                inner.cost = cost + more
                heappush(pending, (inner.cost, next(tie_break), inner))


def _settle_max_cost(component: set[StackFrame]) -> None:
    """`max_cost` of frames that call each other: infinite if that cycle adds bytes."""
    calls = [call for frame in component for call in frame.callers]
    grows = any(states.max_cost > 0 for states, caller in calls if caller in component)
    outer = (states.max_cost + caller.max_cost for states, caller in calls if caller not in component)
    max_cost = math.inf if grows else max(outer)
    for frame in component:
        frame.max_cost = max_cost
