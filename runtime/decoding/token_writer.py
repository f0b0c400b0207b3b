"""Writes tokens to sequences: sampled tokens, forced tokens, and the tokens of the budget closer.

The engine samples a token (`runtime.decoding.sampling`). The writer appends it to its sequence, and after it
the tokens that the grammar forces, which need no sampling.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice

from compiler.closing.closer import Closer
from runtime.decoding.masks import TokenMasks
from runtime.errors import GenerationFailed, RuntimeFault
from runtime.events import FinishReason
from runtime.inspection import Cause
from runtime.jump_forward import MAX_PIECE_BYTES, ForcedToken, JumpForward
from runtime.scheduling.sequence import Sequence
from runtime.written_token import SampledToken, WrittenToken, forced_token, write

MAX_FORCED = 128
"""The most forced tokens that one sequence gets in one step, so that the other sequences need not wait."""
JUMP_PAUSE = 64
"""After a long forced text with no known token, a sequence samples this many tokens before the next look."""


@dataclass(frozen=True, slots=True)
class Output:
    """The tokens that a step added to a sequence, and whether it ended with them."""

    sequence: Sequence
    tokens: tuple[WrittenToken, ...] = ()
    error: RuntimeFault | None = None
    is_last: bool = False


class TokenWriter:
    """Appends tokens to the sequences of one engine and advances their matchers and closers.

    Without `jump_forward`, tokens that the grammar forces are sampled like all others. The methods raise what
    matchers and closers raise, and GenerationFailed if a matcher refuses a token that its mask allowed.
    """

    def __init__(
        self,
        masks: TokenMasks,
        stop_ids: frozenset[int],
        jump_forward: JumpForward | None,
        has_time: Callable[[], bool],
    ) -> None:
        self._masks = masks
        self._has_time = has_time
        self.stop_ids = stop_ids
        self._jump_forward = jump_forward

    def write_sampled(self, sequence: Sequence, token: SampledToken) -> tuple[WrittenToken, ...]:
        """Append a sampled token and the tokens forced after it; returns them.

        A token that does not fit the budget is not written. If a call is open, the budget closer's tokens are
        written instead. If the output is complete already, such as free text, nothing is written and `()` is
        returned; the token is then forbidden, and the next step samples another one.
        """
        sequence.times.note_token()
        if not self._fits_budget(sequence, token.token_id):
            assert sequence.closer is not None
            return self._close(sequence, sequence.closer, token.token_id)
        written = self._append(sequence, token)
        if sequence.matcher is not None:
            sequence.counters.count_masked_step(token.step)
        if sequence.weight is not None:
            sequence.weight.count_drawn(token.step)
        forced = self.write_forced(sequence) if token.token_id not in self.stop_ids else ()
        return (written, *forced)

    def write_forced(self, sequence: Sequence) -> tuple[WrittenToken, ...]:
        """Append at most `MAX_FORCED` forced tokens, while there is time; `sequence.forced` has the rest."""
        tokens = tuple(islice(self._append_forced(sequence), MAX_FORCED))
        sequence.counters.num_forced += len(tokens)
        return tokens

    def is_due(self, sequence: Sequence) -> bool:
        """Whether more forced tokens are to be written now: nearly all tokens before them are computed."""
        if sequence.forced is None:
            return False
        return (
            sequence.closed_by is not None
            or 0 < sequence.num_computed >= len(sequence.token_ids) - MAX_FORCED
        )

    def finish_reason(self, sequence: Sequence) -> FinishReason | None:
        """Why the sequence is done after its last token; None if it continues."""
        last = sequence.token_ids[-1]
        if sequence.closed_by is not None:
            return FinishReason.LENGTH if sequence.forced is None else None
        if last in self.stop_ids or last in sequence.stop_token_ids or self._is_exhausted(sequence):
            return FinishReason.STOP
        return FinishReason.LENGTH if sequence.remaining == 0 else None

    def _is_exhausted(self, sequence: Sequence) -> bool:
        """Whether only a stop token may follow, without which the output is complete.

        It is sampled nonetheless if a sequence is weighed or time is short, unless there is no room for it.
        """
        may_ask = sequence.remaining == 0 or (sequence.weight is None and self._has_time())
        return may_ask and self._masks.is_exhausted(sequence)

    def _append(self, sequence: Sequence, token: SampledToken) -> WrittenToken:
        """Append a token; returns it with the output parts that the matcher found in it."""
        written = write(token, sequence.matcher, sequence.closer)
        if written is None:
            raise GenerationFailed(f"the grammar refused token {token.token_id}, which its mask had allowed")
        sequence.token_ids.append(token.token_id)
        sequence.mask = None
        return written

    def _append_forced(self, sequence: Sequence) -> Iterator[WrittenToken]:
        """Append and yield forced tokens, until another token is possible or the budget runs out."""
        cause = None
        if sequence.is_inspected:
            cause = Cause.FORCED if sequence.closed_by is None else Cause.CLOSED
        while (forced := sequence.forced or self._find_forced(sequence)) is not None:
            sequence.forced = forced
            for token_id, alternatives in forced:
                if not self._is_certain(sequence, token_id, alternatives):
                    sequence.forced = None
                    return
                yield self._append(sequence, forced_token(token_id, sequence.num_logprobs, cause))
                if not self._has_time():
                    return
            sequence.forced = None

    def _find_forced(self, sequence: Sequence) -> Iterator[ForcedToken] | None:
        """The tokens that the grammar forces next; None if none are known."""
        can_jump = sequence.closed_by is None and sequence.num_output >= sequence.next_jump
        if self._jump_forward is None or sequence.matcher is None or not can_jump:
            return None
        text = sequence.matcher.forced_text()
        tokens = self._jump_forward.tokens(text)
        first = next(tokens, None)
        if first is not None:
            return chain([first], tokens)
        if len(text) > MAX_PIECE_BYTES:
            sequence.next_jump = sequence.num_output + JUMP_PAUSE
        return None

    def _is_certain(self, sequence: Sequence, token_id: int, alternatives: tuple[int, ...] | None) -> bool:
        """Whether a forced token is the only possible one and fits the budget; a closer's always are."""
        if sequence.closed_by is not None:
            return True
        if alternatives is not None and not self._masks.allows_only(sequence, alternatives):
            return False
        # A weighed sequence samples its last token, so that every token before it has been computed by then.
        num_reserved = 0 if sequence.weight is None else 1
        return sequence.remaining > num_reserved and self._fits_budget(sequence, token_id)

    def _fits_budget(self, sequence: Sequence, token_id: int) -> bool:
        """Whether the output can still be completed within its budget after this token."""
        return sequence.closer is None or sequence.closer.admits(token_id, sequence.remaining)

    def _close(self, sequence: Sequence, closer: Closer, rejected_id: int) -> tuple[WrittenToken, ...]:
        """Complete an output whose sampled token `rejected_id` exceeds the budget; see `write_sampled`."""
        closing_ids = closer.completion_ids(sequence.remaining)
        if not closing_ids:
            self._masks.forbid(sequence, rejected_id)
            sequence.num_computed -= 1  # the model computes the last id again, for new logits
            return ()
        sequence.closed_by = "budget"
        sequence.forced = ((token_id, None) for token_id in closing_ids)
        return self.write_forced(sequence)
