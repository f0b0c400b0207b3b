"""The closer: knows how to complete one output in the shortest way, and when it is now or never.

It follows the output as the matcher does, by bytes, through free text, headers and units, but only as far
as it must: while the budget is larger than the completion can have grown to, tokens are only noted.
"""

from functools import cached_property
from itertools import chain

from compiler.closing.place import Outside, Place, answer_place, place_of
from compiler.closing.segmentation import Segmentation
from compiler.errors import UnsupportedGrammar
from compiler.grammar.shortest import NEVER
from compiler.linker.linker import FramedFormat, LinkedGrammar
from compiler.schema import CompiledSchema
from compiler.units.unit import unit_tail
from compiler.vocabulary import Vocabulary

_NEXT = 32
"""Bytes of a next token that `prepare` reckons with; few are longer."""


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

    def __init__(self, vocabulary: Vocabulary, place: Place, ending: bytes) -> None:
        """Begin at a place; a unit can only be over after a token that holds a byte of `ending`."""
        self._vocabulary = vocabulary
        self._segmentation = Segmentation(vocabulary.index)
        self._stop_ids = frozenset(vocabulary.stop_ids)
        self._place = place
        self._ending = ending
        self._pending: list[int] = []
        self._num_pending_bytes = 0
        self._ahead: tuple[int, Place] | None = None

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

    def prepare(self, remaining: int) -> None:
        """Read what was accepted, if the next token might ask for it; later answers come sooner."""
        is_far = self._spells_bytes and self._place.is_far(self._num_pending_bytes + _NEXT, remaining - 1)
        if self._pending and not is_far:
            self._settled().is_far(_NEXT, remaining - 1)  # which looks up, and keeps, how far it is

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

    def _settled(self) -> Place:
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
        return not isinstance(self._place, Outside) and not any(b in token for b in self._ending)

    def _is_far(self, token_id: int, budget: int) -> bool:
        """Whether the completion cannot have grown beyond the budget; a token spells a byte at least."""
        if not self._spells_bytes or not self._stays(token_id):
            return False
        num_bytes = self._num_pending_bytes + len(self._vocabulary.tokens[token_id])
        return self._place.is_far(num_bytes, budget)

    def _fits(self, place: Place, budget: int) -> bool:
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
    constraint: LinkedGrammar | FramedFormat | CompiledSchema, *, is_thinking: bool = False
) -> Closer:
    """A closer for one generation under a toolset's linked grammar or a response's format.

    `is_thinking`: the prompt has begun a thought.
    """
    if isinstance(constraint, CompiledSchema):
        return Closer(constraint.vocabulary, answer_place(constraint), b"")
    place = place_of(constraint.dispatcher.begin(is_thinking=is_thinking))
    ending = b""
    if isinstance(constraint, LinkedGrammar):
        ending = unit_tail(constraint.syntax, constraint.vocabulary)[-1:]
    return Closer(constraint.vocabulary, place, ending)
