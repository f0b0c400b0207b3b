"""Drafts: outputs that a model writes without a mask, while a matcher says where they leave the grammar.

A draft that ends without having left the grammar is an exact draw from the model's own distribution among
valid outputs. A draft that has left the grammar could be continued under the mask, after its valid tokens.
But that gives the same distribution as a plain mask: let `q` be the model's distribution at a step, of which
the mask allows the mass `a`. The token `v` is written if it is drawn freely, with probability `q(v)`, or if a
forbidden token is drawn, with `1 - a`, and then `v` under the mask:

    q(v) + (1 - a) * q(v) / a = q(v) / a

So a draft is worth its tokens only if the next attempt starts from the beginning (`runtime.drafting`).
"""

from collections.abc import Sequence

from compiler.matcher import Bitmask, Matcher, allocate_bitmask
from compiler.output_parts import OutputPart
from compiler.token_index import allows


class Draft:
    """The outcome of one draft. Give it to a request for one choice, and read it when the request has ended.

    With `gives_up`, the draft ends as soon as it leaves the grammar, instead of where the model ends it.
    """

    def __init__(self, *, gives_up: bool = False) -> None:
        self.gives_up = gives_up
        self._matcher: DraftMatcher | None = None

    def follow(self, matcher: Matcher, tokens: Sequence[bytes]) -> Matcher:
        """The matcher for the draft's output; `matcher` is the grammar's, `tokens` are the vocabulary's."""
        assert self._matcher is None, "a draft is one output"
        self._matcher = DraftMatcher(matcher, tokens)
        return self._matcher

    @property
    def ids(self) -> tuple[int, ...]:
        """All tokens that were written."""
        return tuple(self._matcher.ids) if self._matcher else ()

    @property
    def num_good(self) -> int:
        """The number of tokens before the first one that the grammar does not allow."""
        return self._matcher.num_good if self._matcher else 0

    @property
    def is_broken(self) -> bool:
        """Whether it has left the grammar."""
        return self._matcher is not None and self._matcher.has_left

    @property
    def is_given_up(self) -> bool:
        """Whether it is to end here."""
        return self.gives_up and self.is_broken

    @property
    def is_valid(self) -> bool:
        """Whether the draft is a complete sentence of the grammar."""
        return self._matcher is not None and not self.is_broken and self._matcher.is_whole()


class DraftMatcher:
    """A matcher that allows every token, and advances the grammar's matcher for as long as that accepts.

    While all outputs of the grammar begin with the same text, only that text is allowed, as under a mask: it
    does not show which output the model would write. From the first token at which outputs differ, every
    token is allowed.
    """

    def __init__(self, matcher: Matcher, tokens: Sequence[bytes]) -> None:
        self._matcher = matcher
        self._tokens = tokens
        self._mask = allocate_bitmask(1, len(tokens))
        self._num_before_choice: int | None = None
        """How many tokens came before the first one that was not forced; None while all were."""
        self._forced: bytes | None = None
        """A forced text, which takes long to find if it is long, and how much of it is written."""
        self._num_written = 0
        self.ids: list[int] = []
        self.num_good = 0

    def is_whole(self) -> bool:
        """Whether the valid part is a complete sentence of the grammar."""
        return self._matcher.is_completed() or self._matcher.is_terminated()

    def fill_bitmask(self, bitmask: Bitmask, row: int) -> None:
        """Allow every token, except where all outputs of the grammar continue with the same text."""
        if self.forced_text():
            self._matcher.fill_bitmask(bitmask, row)
        else:
            bitmask[row] = -1

    def accept(self, token_id: int) -> bool:
        """Advance by any token; the grammar's matcher advances only by tokens that its mask allows."""
        is_next_forced = self._num_before_choice is None and self._is_next_forced(token_id)
        is_good = not self.has_left and self._is_allowed(token_id) and self._matcher.accept(token_id)
        self.num_good += is_good
        if self._num_before_choice is None and not (is_next_forced and is_good):
            self._num_before_choice = len(self.ids)
        self.ids.append(token_id)
        return True

    def rollback(self, num_tokens: int) -> None:
        """Undo the last tokens."""
        num_kept = len(self.ids) - num_tokens
        self._matcher.rollback(max(0, self.num_good - num_kept))
        self.num_good = min(self.num_good, num_kept)
        if self._num_before_choice is not None and num_kept <= self._num_before_choice:
            self._num_before_choice = None
        self._forced = None
        del self.ids[num_kept:]

    def fork(self) -> "DraftMatcher":
        """Another one at the same point."""
        twin = DraftMatcher(self._matcher.fork(), self._tokens)
        twin.ids, twin.num_good = list(self.ids), self.num_good
        twin._num_before_choice = self._num_before_choice
        return twin

    def forced_text(self) -> bytes:
        """The part not yet written of the text that all outputs of the grammar begin with."""
        return self._known_forced()[self._num_written :] if self._num_before_choice is None else b""

    def parts(self) -> tuple[OutputPart, ...]:
        """The parts that the last token completed; empty outside the grammar."""
        return () if self.has_left else self._matcher.parts()

    def pending_parts(self) -> tuple[OutputPart, ...]:
        """The parts that are not complete yet; empty outside the grammar."""
        return () if self.has_left else self._matcher.pending_parts()

    def is_in_thought(self) -> bool:
        """Whether the next token belongs to a thought."""
        return not self.has_left and self._matcher.is_in_thought()

    def is_in_free_text(self) -> bool:
        """Whether the next token is free text, as all of it is outside the grammar."""
        return self.has_left or self._matcher.is_in_free_text()

    def is_completed(self) -> bool:
        """A draft may end anywhere."""
        return True

    def is_terminated(self) -> bool:
        """Whether the grammar's matcher has terminated."""
        return not self.has_left and self._matcher.is_terminated()

    @property
    def has_left(self) -> bool:
        """Whether it has left the grammar."""
        return self.num_good < len(self.ids)

    def _known_forced(self) -> bytes:
        """The forced text, found once and kept: finding it takes longer the longer it is."""
        if self._forced is None:
            self._forced, self._num_written = self._matcher.forced_text(), 0
        return self._forced

    def _is_next_forced(self, token_id: int) -> bool:
        """Whether a token is the next of the forced text; if it is, the forced text continues after it."""
        forced = self._known_forced()
        if not forced or not forced.startswith(self._tokens[token_id], self._num_written):
            return False
        self._num_written += len(self._tokens[token_id])
        if self._num_written == len(forced):
            self._forced = None  # more may follow: it is looked for once the token is accepted
        return True

    def _is_allowed(self, token_id: int) -> bool:
        """Whether the mask allows a token; a matcher also accepts some after which a guard allows nothing."""
        if self._matcher.is_terminated() or not 0 <= token_id < len(self._tokens):
            return False
        self._matcher.fill_bitmask(self._mask, 0)
        return allows(self._mask[0], token_id)
