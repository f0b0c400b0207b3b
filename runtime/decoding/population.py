"""Populations: several sequences of one choice, of which one becomes its answer.

A plain mask does not write a valid output as often as the model would among valid outputs, since it forgets
how much of the model's distribution it has taken away (`runtime.scheduling.weights`). A population draws
several sequences, weighs them, and selects one. The engine computes its members like all other sequences. It
holds their tokens back and calls `advance` after every step, until the population selects a member.

`RejectionSampling`, which requests call `accept`, draws one sequence after another, until one is accepted.
`Particles` draws several together, and continues those with the largest weights. `Best` takes the most
likely.
"""

import math
import time
from dataclasses import replace

from runtime.decoding.sampling import draw_seed, seeded_uniform
from runtime.scheduling.sequence import MakeMember, Population, PopulationHost, Sequence, SequenceStatus
from runtime.scheduling.weights import Weight
from runtime.selection import Selection, SelectionStrategy

DECISIONS = 2**31
"""Its own decisions use the random numbers of positions from here on, which no sequence reaches."""
SELECTION = 2**32 - 1
"""The position of the random number that selects a member at the end."""
MAX_BUDGETS = 2
"""Rejection sampling begins no draw after so many times the budget of one answer has been written."""


class RejectionSampling(Population):
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

    def __init__(self, first: Sequence, size: int, make_member: MakeMember) -> None:
        super().__init__(first, make_member)
        self._seeds = [draw_seed(first.seed, number) for number in range(size)]
        self._open = list(self._seeds)
        """The draws that are not given up."""
        self._current = first.seed
        """The seed of the draw that is written now."""
        self._num_begun = 1
        self._is_finishing = False
        self._half_time = (time.monotonic() + first.deadline) / 2
        first.other_seeds = tuple(self._seeds[1:])

    def advance(self, host: PopulationHost) -> Sequence | None:
        """Give up draws whose weight has fallen below their bound; continue with the first that is open."""
        if self._open:
            self._open = [seed for seed in self._open if not self._is_given_up(seed)]
            self._num_begun = self._seeds.index(self._open[0]) + 1 if self._open else len(self._seeds)
        if self._open and _is_finished(self._member_of(self._open[0])):
            return self._select(self._member_of(self._open[0]), self._num_begun, is_exact=True)
        if self._is_late():
            self._draw_no_more()
        chosen = self._open[0] if self._open else self._expected_choice()
        member = self._member_of(chosen)
        if not _is_finished(member):
            self._switch_to(chosen, host)
            return None
        shares = weight_shares([self._member_of(seed) for seed in self._seeds])
        return self._select(member, self._num_begun, effective_size=effective_size(shares))

    def _is_late(self) -> bool:
        """Whether the choice has had half of its time, or has written very much."""
        num_written = sum(member.num_written for member in self.members)
        return time.monotonic() >= self._half_time or num_written >= MAX_BUDGETS * self.first.max_tokens

    def _draw_no_more(self) -> None:
        """Keep the draws that are whole, or else the one that is being written."""
        whole = [seed for seed in self._seeds if _is_finished(self._member_of(seed))]
        self._seeds = whole or [self._current]
        self._open = []

    def _expected_choice(self) -> int:
        """The draw that would be chosen if no weight fell further; one that was begun is finished first."""
        best = max(self._seeds, key=self._gumbel_score)
        is_begun = self._is_finishing and not _is_finished(self._member_of(self._current))
        self._is_finishing = True
        return self._current if is_begun and not _is_finished(self._member_of(best)) else best

    def _gumbel_score(self, seed: int) -> float:
        """The logarithm of a draw's weight plus noise of the Gumbel distribution; the largest is chosen."""
        uniform = seeded_uniform(seed, self.first.choice, SELECTION) + 2**-33  # never 0
        return log_weight(self._member_of(seed)) - math.log(-math.log(uniform))

    def _switch_to(self, seed: int, host: PopulationHost) -> None:
        """Let the member that writes a draw's tokens sample with the draw's seed, and run no other member."""
        member, before = self._member_of(seed), self._member_of(self._current)
        if member is not before:
            if not _is_finished(before):
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
        return member.closed_by is not None or math.exp(_weight(member).log_relative) < bound


class Particles(Population):
    """Draws `size` sequences together, token by token, and selects one in proportion to the weights.

    Whenever all particles have drawn a token, the effective sample size is computed: `1 / sum(share ** 2)`,
    over the shares of the weights. If it is below half the size, the particles are *resampled*: each is
    copied as often as its share says, or dropped, and all weigh the same again (sequential Monte Carlo; Lew
    et al., arXiv 2306.03081). A copy has the seed of the particle that it replaces. It shares the full pages
    of its parent, and gets a copy of the last page. If there is no place or page for it, it waits in the
    queue, and computes again what no cache holds.
    """

    strategy: SelectionStrategy = "particles"

    def __init__(self, first: Sequence, size: int, make_member: MakeMember) -> None:
        super().__init__(first, make_member)
        self._size = self.num_together = size
        self._num_drawn = 0
        """How many tokens every particle that is not done has drawn."""

    def advance(self, host: PopulationHost) -> Sequence | None:
        """Hold members that are a token ahead until the others follow; then resample, or select one."""
        while len(self.members) < self._size:
            host.start(self._add_member())
        live = [member for member in self.members if not _is_done(member)]
        ahead = [member for member in live if _weight(member).num_drawn > self._num_drawn]
        if len(ahead) < len(live):
            for member in ahead:
                if member.status is SequenceStatus.WAITING:
                    host.park(member)
                member.is_held = True
            return None
        if live:
            self._num_drawn += 1
            self._resample(host)
        for member in self.members:
            member.is_held = False
            if member.status is SequenceStatus.PARKED:
                host.resume(member)
        if not all(map(_is_done, self.members)):  # resampling may have dropped the others
            return None
        selected = self.members[chosen_by_weight(self.members, self._uniform(SELECTION))]
        if not _is_finished(selected):
            return None
        return self._select(selected, self._size, effective_size=effective_size(weight_shares(self.members)))

    def _resample(self, host: PopulationHost) -> None:
        shares = weight_shares(self.members)
        size = effective_size(shares)
        if size is None or 2 * size >= self._size:
            return
        logs = [log_weight(member) for member in self.members]
        highest = max(logs)
        log_mean = highest + math.log(sum(math.exp(log - highest) for log in logs) / self._size)
        copies = systematic_copies(shares, self._uniform(DECISIONS + self._num_drawn))
        parents = [index for index, number in enumerate(copies) for _ in range(number - 1)]
        seeds = [member.seed for member in self.members]
        before = list(self.members)
        for index, number in enumerate(copies):
            if number == 0:
                self._drop(before[index], host)
                self.members[index] = self._copy(before[parents.pop()], seeds[index], host)
        for member in dict.fromkeys(self.members):
            _weight(member).log_resampled += log_mean - log_weight(member)

    def _drop(self, member: Sequence, host: PopulationHost) -> None:
        host.drop(member)
        if self.members.count(member) == 1:
            self._num_dropped_computed += member.counters.num_computed
            self._num_dropped_written += member.num_written
            self._written.pop(member, None)

    def _copy(self, parent: Sequence, seed: int, host: PopulationHost) -> Sequence:
        """A copy of a member; a finished parent is not copied, but becomes a member twice."""
        if _is_finished(parent):
            return parent
        child = host.copy(parent, seed)
        self._written[child] = list(self._written[parent])
        return child

    def _uniform(self, position: int) -> float:
        return seeded_uniform(self.first.seed, self.first.choice, position)


class Best(Population):
    """Draws `size` sequences, and selects the one that is most likely for the model.

    Particles do this at temperature 0, where a request asks for the model's best output and not for a draw.
    The best token at each step need not lead to the best valid output. So the first sequence takes the best
    tokens, and the others are drawn at temperature 1.
    """

    strategy: SelectionStrategy = "particles"

    def __init__(self, first: Sequence, size: int, make_member: MakeMember) -> None:
        super().__init__(first, make_member)
        self._size = self.num_together = size

    def advance(self, host: PopulationHost) -> Sequence | None:
        """Begin all members, and select one when they are finished."""
        while len(self.members) < self._size:
            member = self._add_member()
            if member.sampling.is_greedy:
                member.sampling = replace(member.sampling, temperature=1.0)
            host.start(member)
        return (
            self._select(max(self.members, key=log_likelihood), self._size)
            if all(map(_is_finished, self.members))
            else None
        )


def systematic_copies(shares: list[float], uniform: float) -> list[int]:
    """How often each member is copied: one for each of `len(shares)` equidistant points in its share.

    The points are `(i + uniform) / len(shares)`, so a member is copied as often as expected, or one more or
    less (systematic resampling; Kitagawa 1996).
    """
    size = len(shares)
    copies, num_passed, passed = [], 0, 0.0
    for share in shares:
        passed += share
        num_before, num_passed = num_passed, min(size, max(num_passed, math.ceil(passed * size - uniform)))
        copies.append(num_passed - num_before)
    copies[max(range(size), key=shares.__getitem__)] += size - num_passed  # rounding
    return copies


def population_of(first: Sequence, selection: Selection, make_member: MakeMember) -> Population | None:
    """The population that begins with a sequence; None if that is the only one."""
    if selection.size == 1:
        return None
    if selection.strategy == "accept":
        return RejectionSampling(first, selection.size, make_member)
    takes_best = selection.takes_best or first.sampling.is_greedy
    return (Best if takes_best else Particles)(first, selection.size, make_member)


def log_weight(sequence: Sequence) -> float:
    """The logarithm of a member's weight; minus infinity if the budget closer completed it."""
    weight = _weight(sequence)
    return -math.inf if sequence.closed_by is not None else weight.log_product + weight.log_resampled


def log_likelihood(sequence: Sequence) -> float:
    """The log likelihood of a member's output; minus infinity if the budget closer completed it."""
    return -math.inf if sequence.closed_by is not None else _weight(sequence).log_likelihood


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


def _weight(sequence: Sequence) -> Weight:
    assert sequence.weight is not None, "members are weighed"
    return sequence.weight


def _is_done(sequence: Sequence) -> bool:
    """Whether a member samples no more tokens: it is finished, or the budget closer completes it."""
    return sequence.closed_by is not None or _is_finished(sequence)


def _is_finished(sequence: Sequence) -> bool:
    return sequence.status is SequenceStatus.FINISHED
