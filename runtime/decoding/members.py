"""What kinds of populations share: how members are begun, their weights, and whether they are done."""

import math
import time
from collections.abc import Callable

from runtime.scheduling.sequence import Population, Sequence, SequenceStatus
from runtime.scheduling.weights import Weight

DECISIONS = 2**31
"""Populations use the random numbers of positions from here on, which no sequence reaches."""
SELECTION = 2**32 - 1
"""The position of the random number that selects a member at the end."""
MAX_BUDGETS = 2
"""Once so many times the budget of one answer are written, no further member begins."""

MakeMember = Callable[[int, int], Sequence]
"""Makes a member: the request's sequence with the seed of a number, and a budget of tokens."""


class OneAfterAnother(Population):
    """A population whose members are written one after another, while there is time for one more."""

    def __init__(self, first: Sequence) -> None:
        super().__init__(first)
        self._num_begun = 1
        self._half_time = (time.monotonic() + first.deadline) / 2

    def end_early(self) -> bool:
        """See `Population.end_early`."""
        self._half_time = -math.inf
        return any(map(is_finished, self.members))

    def _is_late(self) -> bool:
        """Whether half of the choice's time has passed, or `MAX_BUDGETS` budgets are written."""
        num_written = sum(member.num_written for member in self.members)
        return time.monotonic() >= self._half_time or num_written >= MAX_BUDGETS * self.first.max_tokens


class DrawnTogether(Population):
    """A population of `size` members that are written at the same time."""

    def __init__(self, first: Sequence, size: int, make_member: MakeMember) -> None:
        super().__init__(first)
        self._size = self.num_together = size
        self._make_member = make_member

    def _add_member(self) -> Sequence:
        """Add a new member, which has written nothing yet."""
        member = self._make_member(len(self.members), self.first.max_tokens)
        member.population = self
        self.members.append(member)
        return member


def log_weight(sequence: Sequence) -> float:
    """The logarithm of a member's weight; minus infinity if the budget closer completed it."""
    weight = weight_of(sequence)
    return -math.inf if sequence.closed_by is not None else weight.log_product + weight.log_added


def log_likelihood(sequence: Sequence) -> float:
    """The log likelihood of a member's output; minus infinity if the budget closer completed it."""
    return -math.inf if sequence.closed_by is not None else weight_of(sequence).log_likelihood


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


def effective_size(shares: list[float]) -> float | None:
    """The effective sample size of weights that sum to 1; None if all are zero.

    >>> effective_size([0.5, 0.5, 0.0, 0.0])
    2.0
    """
    squares = sum(share * share for share in shares)
    return 1 / squares if squares else None


def weight_of(sequence: Sequence) -> Weight:
    """The weight of a member."""
    assert sequence.weight is not None, "members are weighed"
    return sequence.weight


def is_done(sequence: Sequence) -> bool:
    """Whether a member samples no more tokens: it is finished, or the budget closer completes it."""
    return sequence.closed_by is not None or is_finished(sequence)


def is_finished(sequence: Sequence) -> bool:
    """Whether a member writes no more tokens."""
    return sequence.status is SequenceStatus.FINISHED
