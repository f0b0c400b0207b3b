"""Samples the tokens of a step: masks are filled while it has time, applied to the logits, and drawn from."""

from torch import Tensor

from runtime.decoding.masks import TokenMasks
from runtime.decoding.sampling import adjust, own_probabilities, sample
from runtime.scheduling.batch import Batch
from runtime.scheduling.scheduler import Scheduler
from runtime.scheduling.sequence import Sequence, SequenceStatus
from runtime.scheduling.slow_grammars import turn_order
from runtime.scheduling.weights import MIN_MASS
from runtime.written_token import SampledToken


class StepSampler:
    """Samples for the sequences of one engine; the scheduler says which of them wait for slow masks."""

    def __init__(self, masks: TokenMasks, scheduler: Scheduler) -> None:
        self._masks = masks
        self._scheduler = scheduler

    def sample(self, logits: Tensor, batch: Batch) -> dict[Sequence, SampledToken | None]:
        """A token for each sequence of the batch that samples one, but those that wait for the next step.

        It is None where no token is allowed. `logits` is [len(batch.rows), columns] and is overwritten.
        """
        logits, sequences = self._weigh_forced(logits, batch), batch.sampled
        rows = self._fill_masks(sequences)
        if len(rows) < len(sequences):
            logits, sequences = logits[rows], [sequences[row] for row in rows]
        return dict(zip(sequences, self._sample(logits, sequences), strict=True))

    def _fill_masks(self, sequences: list[Sequence]) -> list[int]:
        """Fill masks while the step has time; returns the numbers of the sequences that have one.

        Of those that have waited equally long, quick ones come first.
        """
        slow = self._scheduler.slow
        numbers = [i for i, sequence in enumerate(sequences) if sequence.status is SequenceStatus.RUNNING]
        waiting = self._scheduler.waiting_for_masks([sequences[i] for i in numbers])
        numbers.sort(key=lambda i: (*turn_order(sequences[i]), slow.expected_s(sequences[i])))
        slow.begin_phase()
        filled = []
        for number in numbers:
            sequence = sequences[number]
            if sequence not in waiting and slow.has_time_for(sequence):
                with slow.timed(sequence):
                    self._masks.fill(sequence)
                filled.append(number)
        return sorted(filled)

    def _sample(self, logits: Tensor, sequences: list[Sequence]) -> list[SampledToken | None]:
        """Sample one token per sequence. All masks are filled, so that only `sample` waits for the device."""
        if not sequences:
            return []
        adjust(logits, sequences)
        masked = self._masks.apply(logits, sequences)
        tokens = sample(masked, sequences)
        faint = [i for i, token in enumerate(tokens) if token is None or token.step.allowed_mass < MIN_MASS]
        if faint:
            recomputed = self._masks.recompute(masked, faint, logits, sequences)
            for i, token in zip(faint, sample(recomputed, [sequences[i] for i in faint]), strict=True):
                tokens[i] = token
        self._masks.inspect(masked, sequences, tokens)
        return tokens

    def _weigh_forced(self, logits: Tensor, batch: Batch) -> Tensor:
        """Weigh forced tokens by the logits before them; returns the logits of the rows to sample from."""
        rows = batch.rows
        token_ids = [row.forced_id for row in rows]
        forced = [i for i, token_id in enumerate(token_ids) if token_id is not None]
        if not forced:
            return logits
        sequences = [rows[i].sequence for i in forced]
        ids = [token_id for token_id in token_ids if token_id is not None]
        lengths = [rows[i].position + 1 for i in forced]
        probabilities = own_probabilities(logits[forced], sequences, lengths, ids)
        for sequence, probability in zip(sequences, probabilities, strict=True):
            assert sequence.weight is not None, "only weighed sequences have such rows"
            sequence.weight.count_forced(probability)
        return logits[[i for i, token_id in enumerate(token_ids) if token_id is None]]
