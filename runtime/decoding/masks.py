"""Token masks: which tokens each sequence may write next. They are applied before sampling."""

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
import xgrammar as xgr
from numpy.typing import NDArray
from torch import Tensor

from compiler.errors import MatchingTooSlow
from compiler.matcher import Bitmask, Matcher, allocate_bitmask
from compiler.prepared_vocabulary import PreparedVocabulary
from compiler.token_index import SparseMask, allows, allows_only, forbid
from runtime.decoding.truncation import truncate
from runtime.device import upload
from runtime.inspection import NUM_CANDIDATES, Candidate, Cause, Inspection
from runtime.scheduling.sequence import Sequence
from runtime.written_token import SampledToken

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MaskedDistribution:
    """Distributions of the next token after the mask."""

    probabilities: Tensor
    """[rows, num_columns]; a row without numbers or allowed tokens is NaN."""
    allowed_mass: Tensor
    """[rows]; see `SampledStep`."""
    is_rescued: Tensor
    """[rows]; see `SampledStep`."""
    unmasked: Mapping[int, Tensor] = field(default_factory=dict)
    """The rows of inspected sequences before the mask, by number."""


class TokenMasks:
    """Fills masks and applies them to logits of `num_columns` columns.

    Columns beyond the vocabulary are never allowed. A sequence without a matcher may write text and stop
    tokens but no marker: markers belong to the chat template and to calls.
    """

    def __init__(self, prepared: PreparedVocabulary, num_columns: int) -> None:
        self.num_columns = num_columns
        self.width = prepared.vocabulary.width
        self._text = prepared.index.text_row
        self._stops = np.zeros_like(self._text)
        SparseMask.of_ids(prepared.vocabulary.stop_ids).add(self._stops)

    def fill(self, sequence: Sequence) -> NDArray[np.int32]:
        """The mask of the next token, int32 [ceil(width / 32)]; the matcher fills it once per token."""
        if sequence.mask is None:
            if sequence.matcher is not None:
                sequence.mask = self._fill(sequence.matcher, sequence)
            elif sequence.num_output < sequence.min_tokens:
                sequence.mask = self._unfinished_text(sequence)
            else:
                sequence.mask = self._text
        return sequence.mask

    def _unfinished_text(self, sequence: Sequence) -> NDArray[np.int32]:
        """The mask of text that may not end yet."""
        row: NDArray[np.int32] = self._text & ~self._stops
        for token_id in sequence.stop_token_ids:
            forbid(row, token_id)
        return row

    def forbid(self, sequence: Sequence, token_id: int) -> None:
        """Remove one token from the mask of the next one."""
        sequence.mask = self.fill(sequence).copy()
        forbid(sequence.mask, token_id)

    def allows_only(self, sequence: Sequence, token_ids: Iterable[int]) -> bool:
        """Whether every allowed next token is one of `token_ids`, and there is one."""
        return allows_only(self.fill(sequence), token_ids)

    def is_exhausted(self, sequence: Sequence) -> bool:
        """Whether the output is complete and only a stop token may follow."""
        if sequence.matcher is None or sequence.is_too_slow or not sequence.matcher.is_completed():
            return False
        return not (self.fill(sequence) & ~self._stops).any()

    def apply(self, logits: Tensor, sequences: list[Sequence]) -> MaskedDistribution:
        """Masked distributions of the next token, from float32 logits [len(sequences), num_columns].

        The masks are filled here, while a device may still be computing the logits. Nothing waits for it.
        """
        bitmask = np.stack([self.fill(sequence) for sequence in sequences])
        probabilities = logits.softmax(dim=1)
        # A sequence is weighed by what the mask leaves of the truncated distribution.
        truncate(probabilities, [None if s.weight is None else s.sampling for s in sequences])
        peaks = probabilities.amax(dim=1)
        unmasked = {
            i: probabilities[i].clone() for i, sequence in enumerate(sequences) if sequence.is_inspected
        }
        self._zero_forbidden(probabilities, bitmask)
        allowed_mass = probabilities.sum(dim=1)
        is_rescued = probabilities.amax(dim=1) < peaks
        probabilities /= allowed_mass[:, None]
        return MaskedDistribution(probabilities, allowed_mass, is_rescued, unmasked)

    def inspect(
        self, masked: MaskedDistribution, sequences: list[Sequence], tokens: list[SampledToken | None]
    ) -> None:
        """Add to the tokens of inspected sequences how they came about; this waits for the device."""
        for i, probabilities in masked.unmasked.items():
            if (token := tokens[i]) is None:
                continue
            mask = self.fill(sequences[i])
            values, ids = probabilities.topk(min(NUM_CANDIDATES, len(probabilities)))
            likely = dict(zip(ids.tolist(), values.tolist(), strict=True))
            likely.setdefault(token.token_id, probabilities[token.token_id].item())
            candidates = tuple(
                Candidate(token_id, probability, not self._is_allowed(mask, token_id))
                for token_id, probability in likely.items()
                if probability > 0 or token_id == token.token_id
            )
            cause = Cause.FREE
            if token.step.is_rescued:
                cause = Cause.RESCUED
            elif allows_only(mask, (token.token_id,)):
                cause = Cause.FORCED
            tokens[i] = replace(token, inspection=Inspection(cause, candidates, token.step.mass_removed))

    def _is_allowed(self, mask: NDArray[np.int32], token_id: int) -> bool:
        return token_id < self.width and allows(mask, token_id)

    def recompute(
        self, masked: MaskedDistribution, rows: list[int], logits: Tensor, sequences: list[Sequence]
    ) -> MaskedDistribution:
        """The same distributions in some `rows`, exact where the mask allows so little that float32 is not.

        The mask comes before softmax and truncation. `logits` and `sequences` are those of all rows.
        """
        chosen = [sequences[row] for row in rows]
        masked_logits = logits[rows]
        self._apply_bits(masked_logits, np.stack([self.fill(sequence) for sequence in chosen]))
        probabilities = masked_logits.softmax(dim=1)
        truncate(probabilities, [None if s.weight is None else s.sampling for s in chosen])
        return MaskedDistribution(probabilities, masked.allowed_mass[rows], masked.is_rescued[rows])

    def _zero_forbidden(self, probabilities: Tensor, bitmask: Bitmask) -> None:
        """Set forbidden probabilities to zero, but keep NaN.

        On a CPU, xgrammar's kernel writes the forbidden tokens one by one, which is slow where most are.
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
        """Set forbidden values to minus infinity."""
        bits = upload(bitmask, values.device)
        xgr.apply_token_bitmask_inplace(values, bits, vocab_size=min(self.width, self.num_columns))
        values[:, self.width :] = float("-inf")

    def _fill(self, matcher: Matcher, sequence: Sequence) -> NDArray[np.int32]:
        bitmask = allocate_bitmask(1, self.width)
        start = time.perf_counter_ns()
        try:
            matcher.fill_bitmask(bitmask, 0)
        except MatchingTooSlow:
            sequence.is_too_slow = True
            bitmask[:] = 0
        except Exception:  # a matcher that fails allows nothing: its own sequence ends, and no other
            logger.exception("the mask of sequence %s could not be filled", sequence.sequence_id)
            bitmask[:] = 0
        sequence.counters.count_fill((time.perf_counter_ns() - start) / 1000)
        row: NDArray[np.int32] = bitmask[0]
        return row
