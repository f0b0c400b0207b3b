"""The dispatcher: what leads from free text and tool names into units, and from call to call.

It is a graph, wired by the linker, and a position is a place in it or in one of its units:

    FreeText  -- a call's trigger, or a message's end -->  Junction
    Junction  -- a header -->  the unit of a tool, or the FreeText of a message, or an Answer
    Junction  -- the closing -->  the end of the output
    unit      -- its tail -->  the one Junction behind every call, `Exits.follow`
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import xgrammar as xgr

from compiler.guard.guarded import Guarded
from compiler.linker.answer import Answer
from compiler.linker.boundary_tokens import Exits
from compiler.linker.dispatch_states import Entry, Junction
from compiler.linker.fork import AtFork, Fork
from compiler.linker.free_text import FreeText
from compiler.linker.inside import InUnit, begun
from compiler.linker.outside import BeforeThought, InFixedText, InText, InThought, Thought
from compiler.linker.position import Position
from compiler.units.unit import Unit
from compiler.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """The fixed part of a linked grammar; shared by its matchers.

    `start` is where an output begins: text, the header of a call or message, an answer, or a fork of calls
    and an answer. `exits` None: no calls.
    """

    vocabulary: Vocabulary = field(repr=False)
    units: Mapping[str, Unit] = field(repr=False)
    start: FreeText | Junction | Answer | Fork
    exits: Exits | None
    thought: Thought | None = None

    def begin(self, *, is_thinking: bool = False) -> Position:
        """Where an output begins; `is_thinking`: the prompt has begun a thought."""
        if self.thought is None:
            return self.begin_answer()
        if is_thinking:
            return InThought(self, self.thought, 0)
        return BeforeThought(self, self.thought, self.begin_answer())

    def begin_answer(self) -> Position:
        """Where what is not thought begins."""
        if isinstance(self.start, FreeText):
            return InText(self, self.start, 0)
        if isinstance(self.start, Junction):
            return InFixedText(self, self.start, b"")
        answer = begun(self.start.answer if isinstance(self.start, Fork) else self.start, b"")
        assert answer is not None, "a format has a text"
        return AtFork(self, self.start, b"", answer) if isinstance(self.start, Fork) else answer

    def at(self, junction: Junction, text: bytes) -> Position | None:
        """Where `text`, read from a junction on, leads."""
        where = junction.step(text)
        if isinstance(where, Entry):
            return self._enter(where)
        return None if where is None else InFixedText(self, junction, where)

    def forced_at(self, junction: Junction, text: bytes) -> bytes:
        """What every output goes on with after `text`, read from a junction on; as far as into a unit."""
        forced, target = junction.forced(text)
        return forced + self.units[target].forced_start if isinstance(target, str) else forced

    def shortest_call(self, name: str) -> bytes:
        """The shortest end of an output behind the header of a tool."""
        assert self.exits is not None, "a header leads into a unit"
        return self.units[name].shortest_text + (self.exits.follow.closing or b"")

    def _enter(self, entry: Entry) -> Position | None:
        if isinstance(entry.target, FreeText):
            return InText(self, entry.target, 0).read(entry.rest)
        if isinstance(entry.target, Answer):
            return begun(entry.target, entry.rest)
        assert self.exits is not None, "a header leads into a unit"
        taken = consumed(self.units, entry.target, entry.rest)
        if taken is None:
            return None
        unit = self.units[entry.target]
        matcher = xgr.GrammarMatcher(unit.compiled)
        if taken:
            matcher.accept_string(entry.rest[:taken])
        if matcher.is_completed():
            return self.at(self.exits.follow, entry.rest[taken:])
        start = entry.rest[:taken]
        guarded = None if unit.guard is None else Guarded.begin(unit.guard).read(start)
        assert guarded is not None or unit.guard is None, "what the unit consumes repeats nothing"
        return InUnit(self, self.exits, matcher, unit, start, guarded)


def consumed(units: Mapping[str, Unit], name: str, rest: bytes) -> int | None:
    """How much of `rest` the unit of `name` takes (see `Unit.consumed`); a unit is loaded only if it must."""
    return units[name].consumed(rest) if rest else 0
