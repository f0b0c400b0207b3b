"""Where an engine's output is in its grammar: what may come next, and whether it can be completed."""

from collections.abc import Iterable

import numpy as np

from compiler.grammar.grammar import Grammar
from compiler.matcher import allocate_bitmask
from compiler.prepared_vocabulary import PreparedVocabulary
from compiler.token_index import Row, allows, allows_only
from runtime.draft import Draft
from runtime.request import GenerationRequest


class GrammarPosition:
    """The matcher and the budget closer of one output; text without a grammar has neither.

    Not thread-safe.
    """

    def __init__(
        self, request: GenerationRequest, prepared: PreparedVocabulary, *, is_thinking: bool
    ) -> None:
        constraint = request.constraint
        self.matcher = constraint.matcher(is_thinking=is_thinking) if constraint else None
        self.closer = constraint.closer(is_thinking=is_thinking) if constraint else None
        self._client_id = request.client_id
        self._fills = prepared.timed_fills
        self._tokens = prepared.vocabulary.tokens
        self._width = prepared.vocabulary.width

    @property
    def is_complete(self) -> bool:
        """Whether the output may end here; text without a grammar is never told to be complete."""
        return self.matcher is not None and self.matcher.is_completed()

    def follow(self, draft: Draft) -> None:
        """Follow the output as a draft, which no mask holds to the grammar and which may end anywhere."""
        assert self.matcher is not None, "drafts are of a grammar"
        self.matcher = draft.follow(self.matcher, self._tokens)
        self.closer = None

    def rest_grammar(self) -> Grammar | None:
        """The grammar of the rest of the output, without guards; None if it is not known."""
        return None if self.closer is None else self.closer.rest_grammar()

    def has(self, token_id: int) -> bool:
        """Whether there is such a token."""
        return 0 <= token_id < self._width

    def allows(self, token_id: int) -> bool:
        """Whether the mask allows a token."""
        return self.has(token_id) and allows(self._mask(), token_id)

    def allows_only(self, token_ids: Iterable[int]) -> bool:
        """Whether every token that may follow is one of these, and there is one."""
        return allows_only(self._mask(), token_ids)

    def allowed_ids(self, most: int) -> tuple[int, ...]:
        """The tokens that may follow; empty if there are more than `most`."""
        if self.matcher is None:
            return ()
        bits = np.unpackbits(self._mask().view(np.uint8), bitorder="little")[: self._width]
        token_ids = np.flatnonzero(bits)
        return tuple(token_ids.tolist()) if len(token_ids) <= most else ()

    def admits(self, token_id: int, remaining: int) -> bool:
        """Whether `remaining` tokens, of which this is the first, can complete the output."""
        return self.closer is None or self.closer.admits(token_id, remaining)

    def takes_long(self, token_id: int, remaining: int) -> bool:
        """Whether it takes long to find out what `admits` returns, or to follow the output there."""
        if self.closer is None or not self.has(token_id):
            return False
        return self.closer.admits_at_once(token_id, remaining) is None

    def must_compile(self, token_id: int) -> bool:
        """Whether a tool's grammar must be compiled to follow the output to a token; only a closer tells."""
        return self.closer is not None and self.has(token_id) and self.closer.must_compile(token_id)

    def exceeds_budget(self, token_id: int, remaining: int) -> bool:
        """Whether the closer rejects a token that the grammar allows."""
        if self.matcher is None or self.admits(token_id, remaining):
            return False
        if is_of_grammar := self.matcher.accept(token_id):
            self.matcher.rollback(1)
        return is_of_grammar

    def _mask(self) -> Row:
        """The mask of the next token."""
        assert self.matcher is not None, "text without a grammar allows much"
        bitmask = allocate_bitmask(1, self._width)
        self._fills.begin_for(self._client_id)
        self.matcher.fill_bitmask(bitmask, 0)
        row: Row = bitmask[0]
        return row
