"""Particles: draws several sequences together, and continues those with the largest weights."""

import math

from runtime.decoding.members import (
    DECISIONS,
    SELECTION,
    DrawnTogether,
    MakeMember,
    chosen_by_weight,
    effective_size,
    is_done,
    is_finished,
    log_weight,
    weight_of,
    weight_shares,
)
from runtime.decoding.sampling import seeded_uniform
from runtime.scheduling.sequence import PopulationHost, Sequence, SequenceStatus
from runtime.selection import SelectionStrategy


class Particles(DrawnTogether):
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
        super().__init__(first, size, make_member)
        self._num_drawn = 0
        """How many tokens every particle that is not done has drawn."""

    def advance(self, host: PopulationHost) -> Sequence | None:
        """Hold members that are a token ahead until the others follow; then resample, or select one."""
        while len(self.members) < self._size:
            host.start(self._add_member())
        live = [member for member in self.members if not is_done(member)]
        ahead = [member for member in live if weight_of(member).num_drawn > self._num_drawn]
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
        if not all(map(is_done, self.members)):  # resampling may have dropped the others
            return None
        selected = self.members[chosen_by_weight(self.members, self._uniform(SELECTION))]
        if not is_finished(selected):
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
            weight_of(member).log_added += log_mean - log_weight(member)

    def _drop(self, member: Sequence, host: PopulationHost) -> None:
        host.drop(member)
        if self.members.count(member) == 1:
            self._num_dropped_computed += member.counters.num_computed
            self._num_dropped_written += member.num_written
            self._written.pop(member, None)

    def _copy(self, parent: Sequence, seed: int, host: PopulationHost) -> Sequence:
        """A copy of a member; a finished parent is not copied, but becomes a member twice."""
        if is_finished(parent):
            return parent
        child = host.copy(parent, seed)
        self._written[child] = list(self._written[parent])
        return child

    def _uniform(self, position: int) -> float:
        return seeded_uniform(self.first.seed, self.first.choice, position)


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
