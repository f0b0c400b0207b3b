"""Populations: several sequences of one choice, of which one becomes its answer.

A plain mask does not write a valid output as often as the model would among valid outputs, since it forgets
how much of the model's distribution it has taken away (`runtime.weights`). A population draws several
sequences, weighs them, and selects one. The engine computes its members like all other sequences. It holds
their tokens back, and has the population go on after every step, until one member is selected.

`Accept` draws one sequence after another, until one is accepted.
"""

import math

from runtime.request import Selection, SelectionStrategy
from runtime.sampling import noise
from runtime.sequence import Population, PopulationHost, Sequence, SequenceStatus, Sibling

DECISIONS = 2**31
"""The noise of a population's own decisions is that of positions from here on, where no sequence comes."""


class Accept(Population):
    """Draws at most `size` sequences, one after another, and takes the first that is accepted.

    A sequence is accepted with a probability in proportion to its weight, so an accepted one is an exact draw
    of the model's distribution among valid outputs (rejection sampling). Its weight only falls. So the number
    that it must not fall below is drawn first, and it is given up as soon as it does: where a model that
    writes freely would have left the grammar. An output that the budget closer completed is never accepted,
    as the model did not end it.

    If all were given up, they are finished together, and one is chosen in proportion to the weights.
    """

    strategy: SelectionStrategy = "accept"

    def __init__(self, first: Sequence, size: int, sibling: Sibling) -> None:
        super().__init__(first, sibling)
        self._size = size
        self._is_finishing = False

    def advance(self, engine: PopulationHost) -> Sequence | None:
        """Go on with the last member; begin another one, or finish all, where it is given up."""
        last = self.members[-1]
        if not self._is_finishing:
            if not _is_given_up(last):
                return self._select(last, is_accepted=True) if _is_finished(last) else None
            if len(self.members) < self._size:
                if not _is_finished(last):
                    engine.park(last)
                engine.start(self._another())
                return None
            self._is_finishing = True
            for member in self.members[:-1]:
                if not _is_finished(member):
                    engine.resume(member)
        if not all(map(_is_finished, self.members)):
            return None
        at = chosen_by_weight(self.members, noise(self.first.seed, self.first.choice, DECISIONS + 1))
        return self._select(self.members[at])


def population_of(first: Sequence, selection: Selection, sibling: Sibling) -> Population | None:
    """The population that begins with a sequence; None if that is the only one."""
    return Accept(first, selection.size, sibling) if selection.size > 1 else None


def log_weight(sequence: Sequence) -> float:
    """The logarithm of a member's weight; minus infinity if the budget closer completed it."""
    assert sequence.weight is not None, "members are weighed"
    return -math.inf if sequence.closed_by is not None else sequence.weight.log


def chosen_by_weight(sequences: list[Sequence], uniform: float) -> int:
    """The index where the cumulated weight passes its `uniform` share; 0 if all weights are zero."""
    shares = weight_shares(sequences)
    passed = 0.0
    for index, share in enumerate(shares):
        passed += share
        if uniform < passed:
            return index
    return max(range(len(shares)), key=shares.__getitem__)  # rounding, or no weight at all


def weight_shares(sequences: list[Sequence]) -> list[float]:
    """The weights of sequences divided by their sum; zeros if that is zero."""
    logs = [log_weight(sequence) for sequence in sequences]
    highest = max(logs)
    if highest == -math.inf:
        return [0.0] * len(logs)
    weights = [math.exp(log - highest) for log in logs]
    return [weight / sum(weights) for weight in weights]


def _is_given_up(sequence: Sequence) -> bool:
    assert sequence.weight is not None, "members are weighed"
    bound = noise(sequence.seed, sequence.choice, DECISIONS)
    return sequence.closed_by is not None or math.exp(sequence.weight.log_relative) < bound


def _is_finished(sequence: Sequence) -> bool:
    return sequence.status is SequenceStatus.FINISHED
