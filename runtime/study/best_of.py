"""The most likely of several draws: a strategy that the study compares, and no gateway offers."""

from dataclasses import replace

from runtime.decoding.members import DrawnTogether, is_finished, log_likelihood
from runtime.scheduling.sequence import PopulationHost, Sequence
from runtime.selection import SelectionStrategy


class BestOf(DrawnTogether):
    """Draws `size` sequences, and selects the one that is most likely for the model.

    At temperature 0, the first sequence takes the best tokens, and the others are drawn at temperature 1.
    """

    strategy: SelectionStrategy = "particles"

    def advance(self, host: PopulationHost) -> Sequence | None:
        """Begin all members, and select one when they are finished."""
        while len(self.members) < self._size:
            member = self._add_member()
            if member.sampling.is_greedy:
                member.sampling = replace(member.sampling, temperature=1.0)
            host.start(member)
        if not all(map(is_finished, self.members)):
            return None
        return self._select(max(self.members, key=log_likelihood), self._size)
