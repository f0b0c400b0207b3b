"""The closer: knows how to complete one output in the shortest way, and when it is now or never.

It follows the output as the matcher does, by bytes, through free text, headers and units, but only as far
as it must: while the budget is larger than the completion can have grown to, tokens are only noted.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from compiler.answer import Answer
from compiler.dispatcher import Dispatcher, Thought
from compiler.errors import UnsupportedGrammar
from compiler.framed_answer import FramedAnswer
from compiler.junction import Entry, Junction, Target
from compiler.linker import LinkedGrammar
from compiler.recogniser import Recogniser
from compiler.region import Region
from compiler.schema import CompiledSchema
from compiler.segmentation import Segmentation
from compiler.shortest import NEVER
from compiler.unit import unit_tail
from compiler.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class _InText:
    """In free text, `state` bytes into what ends it."""

    route: "_Calls"
    region: Region
    state: int

    def after(self, token_id: int, token: bytes) -> "_Place | None":
        text, onward = self.region.text, self.region.exit
        if token_id == text.marker_id and onward is not None:
            return self.route.at(onward, token)
        state, rest = text.step(self.state, token)
        if rest is None:
            return _InText(self.route, self.region, state)
        return None if onward is None else self.route.at(onward, text.pattern + rest)

    def completions(self) -> Iterator[bytes]:
        text, onward = self.region.text, self.region.exit
        if text.may_stop:
            yield b""
        elif onward is not None:
            yield from self.route.completions(onward, b"" if text.marker_id else text.pattern[: self.state])

    def is_far(self, num_bytes: int, budget: int) -> bool:  # noqa: ARG002 - the places' common method
        return False


@dataclass(frozen=True, slots=True)
class _BeforeThought:
    """At the start, line breaks aside, where a thought may begin or the answer."""

    route: "_Calls"
    thought: Thought
    answer: "_Place"

    def after(self, token_id: int, token: bytes) -> "_Place | None":
        if token_id == self.thought.begin_id:
            return _InThought(self.route, self.thought, 0)
        answer = self.answer.after(token_id, token)
        if isinstance(answer, _InText) and not token.strip(b"\n"):
            return _BeforeThought(self.route, self.thought, answer)
        return answer

    def completions(self) -> Iterator[bytes]:
        return self.answer.completions()

    def is_far(self, num_bytes: int, budget: int) -> bool:  # noqa: ARG002 - the places' common method
        return False


@dataclass(frozen=True, slots=True)
class _InThought:
    """In a thought, `state` bytes into the text that would end it."""

    route: "_Calls"
    thought: Thought
    state: int

    def after(self, token_id: int, token: bytes) -> "_Place | None":
        if token_id == self.thought.end_id:
            return self.route.begin_answer()
        state, rest = self.thought.text.step(self.state, token)
        return _InThought(self.route, self.thought, state) if rest is None else None

    def completions(self) -> Iterator[bytes]:
        end = self.route.spelled(self.thought.end_id)
        return (end + text for text in self.route.begin_answer().completions())

    def is_far(self, num_bytes: int, budget: int) -> bool:  # noqa: ARG002 - the places' common method
        return False


@dataclass(frozen=True, slots=True)
class _InFixedText:
    """In a header or in the closing: `read` of what follows `junction`."""

    route: "_Calls"
    junction: Junction
    read: bytes

    def after(self, token_id: int, token: bytes) -> "_Place | None":  # noqa: ARG002 - the places' common method
        return self.route.at(self.junction, self.read + token)

    def completions(self) -> Iterator[bytes]:
        return self.route.completions(self.junction, self.read)

    def is_far(self, num_bytes: int, budget: int) -> bool:  # noqa: ARG002 - the places' common method
        return False


@dataclass(frozen=True, slots=True)
class _InUnit:
    """In a tool's arguments or the end of its call; `follow` is what comes behind."""

    route: "_Calls"
    recogniser: Recogniser
    growth: int
    follow: Junction

    def after(self, token_id: int, token: bytes) -> "_Place | None":  # noqa: ARG002 - the places' common method
        recogniser = self.recogniser.fork()
        for end in range(1, len(token) + 1):
            if not recogniser.advance(token[end - 1 : end]):
                return None
            if recogniser.is_complete:
                return self.route.at(self.follow, token[end:])
        return _InUnit(self.route, recogniser, self.growth, self.follow)

    def completions(self) -> Iterator[bytes]:
        yield self.recogniser.completion() + (self.follow.closing or b"")

    def is_far(self, num_bytes: int, budget: int) -> bool:
        return self.recogniser.bound(self.growth * num_bytes) + len(self.follow.closing or b"") <= budget


@dataclass(frozen=True, slots=True)
class _InSchema:
    """In an answer in a given format, with which the output ends."""

    recogniser: Recogniser
    growth: int

    @classmethod
    def at_start(cls, compiled: CompiledSchema) -> "_InSchema":
        return cls(Recogniser.of(compiled.network), compiled.shortest.growth)

    def after(self, token_id: int, token: bytes) -> "_Place | None":  # noqa: ARG002 - the places' common method
        recogniser = self.recogniser.fork()
        return _InSchema(recogniser, self.growth) if recogniser.advance(token) else None

    def completions(self) -> Iterator[bytes]:
        yield self.recogniser.completion()

    def is_far(self, num_bytes: int, budget: int) -> bool:
        return self.recogniser.bound(self.growth * num_bytes) <= budget


_Place = _BeforeThought | _InThought | _InText | _InFixedText | _InUnit | _InSchema


class _Calls:
    """The places of a linked grammar."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._start = dispatcher.start
        self._units = dispatcher.units
        self._thought = dispatcher.thought
        self._tokens = dispatcher.vocabulary.tokens

    def begin(self, *, is_thinking: bool) -> _Place:
        """Where an output begins."""
        if self._thought is None:
            return self.begin_answer()
        if is_thinking:
            return _InThought(self, self._thought, 0)
        return _BeforeThought(self, self._thought, self.begin_answer())

    def spelled(self, token_id: int) -> bytes:
        """The bytes of a token."""
        return self._tokens[token_id]

    def begin_answer(self) -> _Place:
        """Where what is not thought begins."""
        if isinstance(self._start, Region):
            return _InText(self, self._start, 0)
        if isinstance(self._start, Answer):
            return _InSchema.at_start(self._start.compiled)
        return _InFixedText(self, self._start, b"")

    def at(self, junction: Junction, text: bytes) -> _Place | None:
        """Where `text`, read from a junction on, leads."""
        where = junction.step(text)
        if isinstance(where, Entry):
            if isinstance(where.target, Region):
                return _InText(self, where.target, 0).after(-1, where.rest)
            if isinstance(where.target, Answer):
                return _InSchema.at_start(where.target.compiled).after(-1, where.rest)
            unit = self._units[where.target]
            place = _InUnit(self, Recogniser.of(unit.network), unit.shortest.growth, junction.follow)
            return place.after(-1, where.rest)
        return None if where is None else _InFixedText(self, junction, where)

    def completions(self, junction: Junction, read: bytes) -> Iterator[bytes]:
        """What may follow `read` to the end: the closing, or the shortest call of each tool, names first.

        Or the header of a message that may stop at once; one that leads on is on the shortest way only where
        no other header fits what was read.
        """
        if junction.closing is not None and junction.closing.startswith(read):
            yield junction.closing[len(read) :]
        lead = junction.lead
        if lead is None or not (read.startswith(lead) or lead.startswith(read)):
            return
        low, high = junction.names.narrow(read[len(lead) :], 0, len(junction.names.keys))
        is_settled = all(_leads_on(target) for target in junction.names.targets[low:high])
        for at in sorted(range(low, high), key=lambda at: len(junction.names.keys[at])):
            target, key = junction.names.targets[at], junction.names.keys[at]
            if isinstance(target, Region):
                if target.text.may_stop:
                    yield (lead + key)[len(read) :]
                elif is_settled:
                    header = (lead + key)[len(read) :]
                    yield from (header + text for text in _InText(self, target, 0).completions())
                continue
            if isinstance(target, Answer):
                yield (lead + key)[len(read) :] + target.shortest_text
                continue
            unit = self._units[target]
            header = (lead + key[: len(key) - junction.names.num_given_back])[len(read) :]
            yield header + unit.shortest_text + (junction.follow.closing or b"")


def _leads_on(target: Target) -> bool:
    """Whether an output cannot end where this header leads."""
    return isinstance(target, Region) and not target.text.may_stop


class Closer:
    """Completes one output; one per generation, beside its matcher. Not thread-safe.

    With `closer = closer_of(constraint)` a generation of at most `max_tokens` goes:

        if not closer.fits(max_tokens):             # refuse: max_tokens is below closer.minimum()
        for each token t drawn under the mask, remaining = max_tokens - tokens so far:
            if closer.admits(t, remaining):         # take it
                closer.accepted(t)
            else:                                   # drop t, take all of these instead, and end: length
                ids = closer.closing(remaining)

    Then whatever was taken is complete once `max_tokens` is reached, and every forced id is one the matcher
    accepts. Tokens that are not drawn, such as forced ones, need `admits` too: each after the one before was
    accepted, so `fork()` takes a look ahead. Stop tokens count as nothing: an output may end without one.
    """

    def __init__(self, vocabulary: Vocabulary, place: _Place, ending: bytes) -> None:
        """Begin at a place; a unit can only be over after a token that holds a byte of `ending`."""
        self._vocabulary = vocabulary
        self._segmentation = Segmentation(vocabulary.index)
        self._stop_ids = frozenset(vocabulary.stop_ids)
        self._place = place
        self._ending = ending
        self._pending: list[int] = []
        self._num_pending_bytes = 0
        self._ahead: tuple[int, _Place] | None = None

    def minimum(self) -> int:
        """Tokens of the shortest way from here to a complete output; looks at every tool that may follow."""
        return min((self._segmentation.count(text) for text in self._settled().completions()), default=NEVER)

    def fits(self, remaining: int) -> bool:
        """Whether the output can be completed within `remaining` tokens; `minimum` of it, found sooner."""
        return self._fits(self._settled(), remaining)

    def admits(self, token_id: int, remaining: int) -> bool:
        """Whether the output can be completed within `remaining` tokens of which `token_id` is the first."""
        if token_id in self._stop_ids:
            return True
        if self._is_far(token_id, remaining - 1):
            return True
        token = self._vocabulary.tokens[token_id]
        place = self._settled().after(token_id, token)
        if place is None or not self._fits(place, remaining - 1):
            return False
        self._ahead = (token_id, place)
        return True

    def accepted(self, token_id: int) -> None:
        """The token was appended to the output."""
        if token_id in self._stop_ids:
            return
        if self._ahead is not None and self._ahead[0] == token_id:
            self._place = self._ahead[1]
        else:
            self._pending.append(token_id)
            self._num_pending_bytes += len(self._vocabulary.tokens[token_id])
            if not self._stays(token_id):
                self._settled()
        self._ahead = None

    def closing(self, remaining: int | None = None) -> list[int]:
        """The ids that complete the output from here, at most `remaining`; the fewest without a limit.

        Raises:
            UnsupportedGrammar: the vocabulary cannot spell any completion.
        """
        texts = self._settled().completions()
        fitting = (text for text in texts if self._segmentation.count(text) <= (remaining or 0))
        text = next(fitting, None) if remaining is not None else None
        if text is None:
            text = min(self._settled().completions(), key=self._segmentation.count, default=None)
        if text is None or self._segmentation.count(text) >= NEVER:
            raise UnsupportedGrammar("no tokens of the vocabulary spell the rest of the output")
        return self._segmentation.ids(text)

    def fork(self) -> "Closer":
        """Another one at the same place."""
        twin = Closer(self._vocabulary, self._settled(), self._ending)
        twin._segmentation = self._segmentation
        return twin

    def _settled(self) -> _Place:
        """The place, once everything noted has been read."""
        for token_id in self._pending:
            place = self._place.after(token_id, self._vocabulary.tokens[token_id])
            assert place is not None, f"token {token_id} was accepted against the grammar"
            self._place = place
        self._pending.clear()
        self._num_pending_bytes = 0
        return self._place

    def _stays(self, token_id: int) -> bool:
        """Whether what bounds the completion's growth holds across this token."""
        token = self._vocabulary.tokens[token_id]
        return isinstance(self._place, _InUnit | _InSchema) and not any(b in token for b in self._ending)

    def _is_far(self, token_id: int, budget: int) -> bool:
        """Whether the completion cannot have grown beyond the budget; a token spells a byte at least."""
        if not self._spells_bytes or not self._stays(token_id):
            return False
        num_bytes = self._num_pending_bytes + len(self._vocabulary.tokens[token_id])
        return self._place.is_far(num_bytes, budget)

    def _fits(self, place: _Place, budget: int) -> bool:
        texts = place.completions()
        return any(
            (self._spells_bytes and len(text) <= budget) or self._segmentation.count(text) <= budget
            for text in texts
        )

    @cached_property
    def _spells_bytes(self) -> bool:
        """Whether every byte of UTF-8 that JSON and the syntax need is a token of its own."""
        needed = chain(b"\t\n\r", range(0x20, 0x7F), range(0x80, 0xC0), range(0xC2, 0xF5))
        return all(self._segmentation.count(bytes([byte])) == 1 for byte in needed)


def closer_of(
    constraint: LinkedGrammar | FramedAnswer | CompiledSchema, *, is_thinking: bool = False
) -> Closer:
    """A closer for one generation under a toolset's linked grammar or a response's format.

    `is_thinking`: the prompt has begun a thought.
    """
    if isinstance(constraint, LinkedGrammar):
        tail = unit_tail(constraint.syntax, constraint.vocabulary)
        start = _Calls(constraint.dispatcher).begin(is_thinking=is_thinking)
        return Closer(constraint.vocabulary, start, tail[-1:])
    if isinstance(constraint, FramedAnswer):
        start = _Calls(constraint.dispatcher).begin(is_thinking=is_thinking)
        return Closer(constraint.vocabulary, start, b"")
    return Closer(constraint.vocabulary, _InSchema.at_start(constraint), b"")
