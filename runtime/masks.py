"""Token masks: what each sequence may write next, applied before anything is drawn."""

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
import xgrammar as xgr
from numpy.typing import NDArray
from torch import Tensor

from compiler.matcher import Bitmask, Matcher, allocate_bitmask
from compiler.token_index import SparseMask, forbid
from compiler.vocabulary import Vocabulary
from runtime.device import upload
from runtime.sequence import Sequence

FAINT = 1e-20
"""Share of a distribution below which its float32 values say too little of each other."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Masked:
    """Distributions [rows, num_columns]; a row is NaN if its logits are not numbers, or nothing is allowed.

    By row, `kept` is what the mask left of the model's own distribution, and `is_rescued` whether its
    favourite was left out.
    """

    probabilities: Tensor
    kept: Tensor
    is_rescued: Tensor


class TokenMasks:
    """Fills and applies masks over logits of `num_columns` columns.

    Columns beyond the vocabulary are never allowed. A sequence without a matcher writes text and stop
    tokens, never a marker: markers belong to the chat template and to calls.
    """

    def __init__(self, vocabulary: Vocabulary, num_columns: int) -> None:
        self.num_columns = num_columns
        self.width = vocabulary.width
        self._text = vocabulary.index.text_row
        self._stops = np.zeros_like(self._text)
        SparseMask.of_ids(vocabulary.stop_ids).add(self._stops)

    def fill(self, sequence: Sequence) -> NDArray[np.int32]:
        """The mask of what may come next, int32 [ceil(width / 32)], filled once per token."""
        if sequence.mask is None:
            if sequence.matcher is None:
                sequence.mask = self._text
            else:
                sequence.mask = self._fill(sequence.matcher, sequence)
        return sequence.mask

    def forbid(self, sequence: Sequence, token_id: int) -> None:
        """Take one token out of what may come next."""
        sequence.mask = self.fill(sequence).copy()
        forbid(sequence.mask, token_id)

    def allows_only(self, sequence: Sequence, token_ids: Iterable[int]) -> bool:
        """Whether nothing but these tokens may come next."""
        row = self.fill(sequence)
        others = row.copy()
        SparseMask.of_ids(token_ids, base=row).patch(others)
        return bool(row.any()) and not others.any()

    def is_exhausted(self, sequence: Sequence) -> bool:
        """Whether the output is whole and nothing but a stop token may follow."""
        if sequence.matcher is None or not sequence.matcher.is_completed():
            return False
        return not (self.fill(sequence) & ~self._stops).any()

    def apply(self, logits: Tensor, sequences: list[Sequence]) -> "Masked":
        """The distributions of what may come next, out of float32 logits [len(sequences), num_columns].

        Masks are filled here, while a device may still be computing the logits; nothing waits for it.
        """
        bitmask = np.stack([self.fill(sequence) for sequence in sequences])
        probabilities = logits.softmax(dim=1)
        peaks = probabilities.amax(dim=1)
        self._weigh(probabilities, bitmask)
        kept = probabilities.sum(dim=1)
        is_rescued = probabilities.amax(dim=1) < peaks
        probabilities /= kept[:, None]
        return Masked(probabilities, kept, is_rescued)

    def tally(self, masked: "Masked", sequences: list[Sequence]) -> list[int]:
        """Count the masked steps; returns the rows that are too faint, for `restore`. Waits for a device."""
        kept, is_rescued = torch.stack([masked.kept, masked.is_rescued.to(masked.kept.dtype)]).tolist()
        for sequence, share, rescued in zip(sequences, kept, is_rescued, strict=True):
            if sequence.matcher is not None:
                sequence.tally.count_masked_step(max(0.0, 1.0 - share), is_rescued=bool(rescued))
        return [row for row, share in enumerate(kept) if share < FAINT]

    def restore(self, logits: Tensor, sequences: list[Sequence]) -> Tensor:
        """The distributions of rows whose allowed tokens were too improbable to tell from zero."""
        faint = logits.clone()
        self._apply_bits(faint, np.stack([self.fill(sequence) for sequence in sequences]))
        return faint.softmax(dim=1)

    def _weigh(self, probabilities: Tensor, bitmask: Bitmask) -> None:
        """Set what is forbidden to zero, but NaN, which stays.

        On a CPU, xgrammar's kernel writes every forbidden token by itself: slow where most are.
        """
        if probabilities.device.type != "cpu":
            self._apply_bits(probabilities, bitmask)
            probabilities.clamp_(min=0)
            return
        count = min(self.width, self.num_columns)
        for row, bits in zip(probabilities, bitmask.view(np.uint8), strict=True):
            row[:count] *= torch.from_numpy(np.unpackbits(bits, count=count, bitorder="little"))
        probabilities[:, count:] *= 0

    def _apply_bits(self, values: Tensor, bitmask: Bitmask) -> None:
        """Set what is forbidden to minus infinity."""
        bits = upload(bitmask, values.device)
        xgr.apply_token_bitmask_inplace(values, bits, vocab_size=min(self.width, self.num_columns))
        values[:, self.width :] = float("-inf")

    def _fill(self, matcher: Matcher, sequence: Sequence) -> NDArray[np.int32]:
        bitmask = allocate_bitmask(1, self.width)
        start = time.perf_counter_ns()
        try:
            matcher.fill_bitmask(bitmask, 0)
        except Exception:  # a matcher that fails allows nothing, which ends its own sequence and no other
            logger.exception("sequence %s", sequence.sequence_id)
            bitmask[:] = 0
        sequence.tally.count_fill((time.perf_counter_ns() - start) / 1000)
        row: NDArray[np.int32] = bitmask[0]
        return row
