"""Token masks: what each sequence may write next, applied to the logits before anything is drawn."""

import logging
import time

import numpy as np
import torch
import xgrammar as xgr
from numpy.typing import NDArray
from torch import Tensor

from compiler.matcher import Bitmask, Matcher, allocate_bitmask
from compiler.vocabulary import Vocabulary
from runtime.sequence import Sequence

logger = logging.getLogger(__name__)


class TokenMasks:
    """Fills and applies masks over logits of `num_columns` columns.

    Columns beyond the vocabulary are never allowed. A sequence without a matcher writes text and stop
    tokens, never a marker: markers belong to the chat template and to calls.
    """

    def __init__(self, vocabulary: Vocabulary, num_columns: int) -> None:
        self.num_columns = num_columns
        self.width = vocabulary.width
        spelled = {i for i, token in enumerate(vocabulary.tokens) if token}
        self._text = self._row_of((spelled - vocabulary.marker_ids) | set(vocabulary.stop_ids))
        self._stops = self._row_of(set(vocabulary.stop_ids))

    def fill(self, sequence: Sequence) -> NDArray[np.int32]:
        """The mask of what may come next, int32 [ceil(width / 32)], filled once per token."""
        if sequence.mask is None:
            if sequence.matcher is None:
                sequence.mask = self._text
            else:
                sequence.mask = self._fill(sequence.matcher, sequence)
        return sequence.mask

    def is_exhausted(self, sequence: Sequence) -> bool:
        """Whether the output is whole and nothing but a stop token may follow."""
        if sequence.matcher is None or not sequence.matcher.is_completed():
            return False
        return not (self.fill(sequence) & ~self._stops).any()

    def apply(self, logits: Tensor, sequences: list[Sequence]) -> None:
        """Set the logits [len(sequences), num_columns] of forbidden tokens to minus infinity."""
        if not sequences:
            return
        bitmask = np.stack([self.fill(sequence) for sequence in sequences])
        constrained = [i for i, sequence in enumerate(sequences) if sequence.matcher is not None]
        favourites = logits[constrained].argmax(dim=1).tolist()
        mass_before = logits[constrained].logsumexp(dim=1)
        self._apply_bits(logits, bitmask)
        kept = (logits[constrained].logsumexp(dim=1) - mass_before).exp().tolist()
        for row, favourite, share in zip(constrained, favourites, kept, strict=True):
            is_rescued = not is_allowed(bitmask[row], favourite)
            sequences[row].tally.count_masked_step(max(0.0, 1.0 - share), is_rescued=is_rescued)

    def _apply_bits(self, logits: Tensor, bitmask: Bitmask) -> None:
        bits = torch.from_numpy(bitmask).to(logits.device, non_blocking=True)
        xgr.apply_token_bitmask_inplace(logits, bits, vocab_size=min(self.width, self.num_columns))
        logits[:, self.width :] = float("-inf")

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

    def _row_of(self, allowed: set[int]) -> NDArray[np.int32]:
        flags = np.zeros(-(-self.width // 32) * 32, dtype=np.uint8)
        flags[sorted(allowed)] = 1
        return np.packbits(flags, bitorder="little").view(np.int32)


def is_allowed(row: NDArray[np.int32], token_id: int) -> bool:
    """Whether the bit of `token_id` is set; ids beyond the mask are not allowed."""
    word, bit = divmod(token_id, 32)
    return word < len(row) and bool(int(row[word]) >> bit & 1)
