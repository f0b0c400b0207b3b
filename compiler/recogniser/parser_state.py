"""The reading: where a text has led in a grammar, byte by byte, and the shortest way to end it.

A reading is a value: reading on gives a new one and leaves the old, so a token is tried at no risk. It
follows every derivation at once over a graph-structured stack (Tomita): calls of one rule at one place of the
text share a frame, whatever called it, so ambiguity costs no more than the grammar is large. Frames are
complete when the byte that opened them has been initial_state, and never change again.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from compiler.recogniser.network import Network, StateSet


class Frame:
    """Who waits for a rule that was called at one place: the states after each call, and their own frames."""

    __slots__ = ("callers", "cost", "most")

    def __init__(self) -> None:
        self.callers: dict[tuple[StateSet, Frame], None] = {}
        self.cost = math.inf
        """The fewest bytes that end the text once the rule is complete."""
        self.most = 0.0
        """The same for the caller that needs most."""

    def settle(self) -> bool:
        """Bring the costs up to date with the callers'; whether they changed."""
        before = (self.cost, self.most)
        self.cost = min(states.cost + frame.cost for states, frame in self.callers)
        self.most = max(states.cost + frame.most for states, frame in self.callers)
        return (self.cost, self.most) != before


@dataclass(frozen=True, slots=True, eq=False)
class ParserState:
    """Where a text has led: the states that are live, by the frame of the rule they stand in."""

    network: Network
    bottom: Frame
    live: Mapping[Frame, StateSet]

    @property
    def is_complete(self) -> bool:
        """Whether the text is a sentence."""
        states = self.live.get(self.bottom)
        return states is not None and states.is_end

    @property
    def cost(self) -> int:
        """How many bytes the shortest completion has."""
        return int(min(states.cost + frame.cost for frame, states in self.live.items()))

    @property
    def longest(self) -> float:
        """At least the bytes of `completion`: those of the derivation that needs most."""
        return max(states.most + frame.most for frame, states in self.live.items())

    def advance(self, data: bytes) -> "ParserState | None":
        """The reading after more bytes; None if no sentence begins so."""
        reading = self
        for byte in data:
            following = reading._advance(byte)
            if following is None:
                return None
            reading = following
        return reading

    def completion(self) -> bytes:
        """The fewest bytes that make the text a sentence, or one of several such."""
        frame, states = min(self.live.items(), key=lambda item: item[1].cost + item[0].cost)
        text = self.network.finish(states)
        while frame is not self.bottom:
            states, frame = min(frame.callers, key=lambda caller: caller[0].cost + caller[1].cost)
            text += self.network.finish(states)
        return text

    def next_bytes(self) -> set[int]:
        """The bytes that may follow."""
        return set().union(*(states.first_bytes() for states in self.live.values()))

    def _advance(self, byte: int) -> "ParserState | None":
        if len(self.live) == 1:
            ((frame, states),) = self.live.items()
            following = self.network.step(states, byte)
            if following is None:
                return None
            if following.is_plain:
                return ParserState(self.network, self.bottom, {frame: following})
        place = _Place(self.network, self.bottom)
        for frame, states in self.live.items():
            following = self.network.step(states, byte)
            if following is not None:
                place.add(frame, following)
        return place.reading()


def initial_state(network: Network) -> ParserState:
    """The reading of the empty text."""
    bottom = Frame()
    bottom.cost = 0
    place = _Place(network, bottom)
    place.add(bottom, network.entry(network.grammar.root))
    reading = place.reading()
    assert reading is not None, "a network has a sentence"
    return reading


class _Place:
    """One place of the text while its calls and returns are followed up."""

    def __init__(self, network: Network, bottom: Frame) -> None:
        self._network = network
        self._bottom = bottom
        self._live: dict[Frame, StateSet] = {}
        self._opened: dict[str, Frame] = {}

    def add(self, frame: Frame, states: StateSet) -> None:
        """Let `states` be live in `frame`, with the calls and returns that follow."""
        pending = [(frame, states)]
        while pending:
            frame, states = pending.pop()
            known = self._live.get(frame)
            joined = states if known is None else self._network.union(known, states)
            if joined is known:
                continue
            self._live[frame] = joined
            for call in joined.calls:
                pending += self._call(call.name, self._network.after(call), frame)
            if joined.is_end:
                pending += [(caller, after) for after, caller in frame.callers]

    def reading(self) -> ParserState | None:
        """What is live in the end; None if nothing is."""
        self._settle()
        live = {
            frame: states
            for frame, states in self._live.items()
            if states.readers or (frame is self._bottom and states.is_end)
        }
        return ParserState(self._network, self._bottom, live) if live else None

    def _call(self, name: str, after: StateSet, caller: Frame) -> list[tuple[Frame, StateSet]]:
        frame = self._opened.get(name)
        if frame is None:
            frame = self._opened[name] = Frame()
        if (after, caller) in frame.callers:
            return []
        frame.callers[after, caller] = None
        entered = self._live.get(frame)
        if entered is None:
            return [(frame, self._network.entry(name))]
        return [(caller, after)] if entered.is_end else []

    def _settle(self) -> None:
        """Find the costs of the frames opened here; where they call in circles, `most` is endless."""
        frames = list(self._opened.values())
        for _ in range(len(frames) + 1):
            if not [frame for frame in frames if frame.settle()]:
                return
        for frame in frames:
            frame.most = math.inf
