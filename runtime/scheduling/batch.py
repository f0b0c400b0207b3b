"""A batch: what one step computes, in chunks of sequences, and which rows of logits come of it."""

from collections import defaultdict
from dataclasses import dataclass

from runtime.scheduling.sequence import Sequence

MAX_FORCED_ROWS = 32
"""The most forced tokens that are weighed in a step: each needs a row of logits, as a sequence does."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """`num_tokens` pending tokens of a sequence, from position `start` on."""

    sequence: Sequence
    start: int
    num_tokens: int

    @property
    def end(self) -> int:
        """The position after the last token."""
        return self.start + self.num_tokens

    @property
    def is_sampled(self) -> bool:
        """Whether the logits of the last token choose the sequence's next token."""
        return self.end == len(self.sequence.token_ids)

    @property
    def logit_positions(self) -> range:
        """The positions whose logits are needed, the sampled one last.

        They are also needed before each forced token that is yet to be weighed.
        """
        weight = self.sequence.weight
        if weight is None:
            return range(self.end - self.is_sampled, self.end)
        return range(max(self.start, weight.num_counted - 1), self.end)

    @property
    def num_forced_rows(self) -> int:
        """How many forced tokens are weighed."""
        return len(self.logit_positions) - self.is_sampled


@dataclass(frozen=True, slots=True)
class LogitRow:
    """A row of a batch's logits: those after the token at a position of a sequence."""

    sequence: Sequence
    position: int

    @property
    def forced_id(self) -> int | None:
        """The token that was forced after the position; None where one is sampled."""
        token_ids = self.sequence.token_ids
        return token_ids[self.position + 1] if self.position + 1 < len(token_ids) else None


@dataclass(frozen=True, slots=True)
class Batch:
    """The chunks of one step; a decoding sequence has a chunk of one token."""

    chunks: tuple[Chunk, ...]

    @property
    def num_tokens(self) -> int:
        """The tokens of all chunks together."""
        return sum(chunk.num_tokens for chunk in self.chunks)

    @property
    def rows(self) -> list[LogitRow]:
        """What the rows of the logits are."""
        return [
            LogitRow(chunk.sequence, position) for chunk in self.chunks for position in chunk.logit_positions
        ]

    @property
    def sampled(self) -> list[Sequence]:
        """The sequences that get a token, in the order of their rows."""
        return [chunk.sequence for chunk in self.chunks if chunk.is_sampled]


@dataclass(slots=True)
class StepBudget:
    """The tokens that a step may still compute, and each client's quota of them."""

    num_left: int
    quotas: defaultdict[str, int]
    num_forced_rows: int = MAX_FORCED_ROWS

    def max_tokens(self, sequence: Sequence, num_reserved: int = 0) -> int:
        """The most tokens that a sequence may compute; `num_reserved` are kept for others."""
        most = min(self.num_left - num_reserved, max(1, self.quotas[sequence.client_id]))
        if sequence.weight is None:
            return most
        num_before = max(0, sequence.weight.num_counted - 1 - sequence.num_computed)
        return min(most, num_before + max(1, self.num_forced_rows))

    def spend(self, chunk: Chunk) -> None:
        """Take the tokens of a chunk."""
        self.num_left -= chunk.num_tokens
        self.num_forced_rows -= chunk.num_forced_rows
        self.quotas[chunk.sequence.client_id] -= chunk.num_tokens
