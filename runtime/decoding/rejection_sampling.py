"""Rejection sampling: draws sequences under the mask until one is accepted."""

import math

from runtime.decoding.members import (
    DECISIONS,
    SELECTION,
    OneAfterAnother,
    effective_size,
    is_finished,
    log_weight,
    weight_of,
    weight_shares,
)
from runtime.decoding.sampling import draw_seed, seeded_uniform
from runtime.scheduling.sequence import PopulationHost, Sequence
from runtime.selection import SelectionStrategy
from runtime.written_token import SampledToken


class RejectionSampling(OneAfterAnother):
    """Draws at most `size` sequences, one after another, and takes the first that is accepted.

    A draw is accepted with a probability in proportion to its weight, so an accepted one is an exact draw of
    the model's distribution among valid outputs (rejection sampling). A weight only falls. So the bound that
    it must not fall below is drawn first, and a draw is given up as soon as its weight does: where a model
    without a mask would have left the grammar. An output that the budget closer completed is never accepted,
    as the model did not end it.

    Draws that begin with the same tokens have the same weight so far, and the model computes these tokens
    once: a member writes for all of them, and samples each one's next token with its own seed. Those that
    part from it go on from there, if it is their turn.

    If all are given up, one is chosen in proportion to the weights that they have in the end: the one with
    the largest `log weight + noise`, where the noise has the Gumbel distribution. As weights only fall, those
    that would be chosen are finished, until no other can surpass the best of them.

    That is cut short once half of the request's time has passed, or `MAX_BUDGETS` whole budgets are written:
    the best draw that is whole is chosen, or else the one that is being written is finished.
    """

    strategy: SelectionStrategy = "accept"

    def __init__(self, first: Sequence, size: int) -> None:
        super().__init__(first)
        self._seeds = [draw_seed(first.seed, number) for number in range(size)]
        self._open = list(self._seeds)
        """The draws that are not given up."""
        self._current = first.seed
        """The seed of the draw that is written now."""
        self._is_finishing = False
        first.other_seeds = tuple(self._seeds[1:])

    def advance(self, host: PopulationHost) -> Sequence | None:
        """Give up draws whose weight has fallen below their bound; continue with the first that is open."""
        if self._open:
            self._open = [seed for seed in self._open if not self._is_given_up(seed)]
            self._num_begun = self._seeds.index(self._open[0]) + 1 if self._open else len(self._seeds)
        if self._open and is_finished(self._member_of(self._open[0])):
            return self._select(self._member_of(self._open[0]), self._num_begun, is_exact=True)
        if self._is_late():
            self._draw_no_more()
        chosen = self._open[0] if self._open else self._expected_choice()
        member = self._member_of(chosen)
        if not is_finished(member):
            self._switch_to(chosen, host)
            return None
        shares = weight_shares([self._member_of(seed) for seed in self._seeds])
        return self._select(member, self._num_begun, effective_size=effective_size(shares))

    def before_token(self, sequence: Sequence, token: SampledToken, host: PopulationHost) -> None:
        """Set a copy of a member aside for those of its draws that have sampled another token."""
        parting = token.step.parting_seeds
        if not parting:
            return
        seed, *others = parting
        twin = host.set_aside(sequence, seed)
        twin.other_seeds = tuple(others)
        sequence.other_seeds = tuple(s for s in sequence.other_seeds if s not in parting)
        self._add_copy(twin, sequence)

    def _draw_no_more(self) -> None:
        """Keep the draws that are whole, or else the one that is being written."""
        whole = [seed for seed in self._seeds if is_finished(self._member_of(seed))]
        self._seeds = whole or [self._current]
        self._open = []

    def _expected_choice(self) -> int:
        """The draw that would be chosen if no weight fell further; one that was begun is finished first."""
        best = max(self._seeds, key=self._gumbel_score)
        is_begun = self._is_finishing and not is_finished(self._member_of(self._current))
        self._is_finishing = True
        return self._current if is_begun and not is_finished(self._member_of(best)) else best

    def _gumbel_score(self, seed: int) -> float:
        """The logarithm of a draw's weight plus noise of the Gumbel distribution; the largest is chosen."""
        uniform = seeded_uniform(seed, self.first.choice, SELECTION) + 2**-33  # never 0
        return log_weight(self._member_of(seed)) - math.log(-math.log(uniform))

    def _switch_to(self, seed: int, host: PopulationHost) -> None:
        """Let the member that writes a draw's tokens sample with the draw's seed, and run no other member."""
        member, before = self._member_of(seed), self._member_of(self._current)
        if member is not before:
            if not is_finished(before):
                host.park(before)
            host.resume(member)
        self._current = seed
        others = {member.seed, *member.other_seeds} - {seed}
        member.seed, member.other_seeds = seed, tuple(other for other in self._seeds if other in others)

    def _member_of(self, seed: int) -> Sequence:
        """The member that has written a draw's tokens so far."""
        return next(m for m in self.members if seed == m.seed or seed in m.other_seeds)

    def _is_given_up(self, seed: int) -> bool:
        member = self._member_of(seed)
        bound = seeded_uniform(seed, self.first.choice, DECISIONS)
        return member.closed_by is not None or math.exp(weight_of(member).log_relative) < bound
