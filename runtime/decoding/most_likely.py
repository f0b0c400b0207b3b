"""A search for the model's most likely valid output (branch and bound)."""

import math
from dataclasses import dataclass, replace

import torch

from runtime.decoding.members import OneAfterAnother, is_finished, log_likelihood, weight_of
from runtime.scheduling.sequence import MakeMember, PopulationHost, Sequence
from runtime.scheduling.weights import MIN_MASS
from runtime.selection import SelectionStrategy
from runtime.written_token import SampledToken, other_token

LOG_LEAST = math.log(torch.finfo(torch.float32).tiny)
"""Tokens that are less likely than this may have the probability 0 in float32, and are not seen."""


@dataclass(frozen=True, slots=True)
class _Branch:
    """A place where an output could have branched off, and the token with which it would."""

    log_likelihood: float
    """That of the output up to the token."""
    stem: Sequence
    """The sequence that has written up to the token."""
    sequence: Sequence
    """A copy of that sequence, parked before the token."""
    token: SampledToken

    def is_at(self, sequence: Sequence) -> bool:
        """Whether it branches off where this sequence is now."""
        return self.stem is sequence and self.sequence.num_copied == sequence.num_output


class MostLikely(OneAfterAnother):
    """Looks for the model's most likely valid output, as a branch-and-bound search.

    Particles do this at temperature 0, where a request asks for the model's best output and not for a draw.
    The best token at each step need not lead to the best valid output. So the first sequence takes the best
    tokens, and the other likely tokens of each step are kept as *branches*. The likelihood of an output only
    falls as it is written. So a branch that is no more likely than the best whole output cannot surpass it.
    Of the others, the most likely one is written next, from there on with the best tokens again. It is given
    up once it cannot surpass the best either. When no branch is left, no valid output is more likely than
    the best: it is proven.

    The likelihood is that of the whole distribution. `top_p`, `top_k` and `min_p` are for draws: they would
    leave out tokens that valid outputs need.

    At most `size` outputs are begun, so no more branches are kept than may still be begun. The search ends
    early once half of the request's time has passed, or `MAX_BUDGETS` whole budgets are written: then the
    best whole output is selected.
    """

    strategy: SelectionStrategy = "particles"

    def __init__(self, first: Sequence, size: int, make_member: MakeMember) -> None:
        super().__init__(first, make_member)
        self._num_left = size - 1
        """How many more outputs may be begun."""
        self._current = first
        """The output that is written now."""
        self._best: Sequence | None = None
        """The most likely whole output."""
        self._branches: list[_Branch] = []
        self._passed_over = -math.inf
        """The largest log likelihood of an output that was not looked for."""
        first.sampling = replace(first.sampling, top_p=1.0, top_k=None, min_p=0.0)
        first.num_runners_up = size

    def before_token(self, sequence: Sequence, token: SampledToken, host: PopulationHost) -> None:
        """Keep the branches of a step, of which a member writes the best token next.

        Where that did not fit the budget, the step is sampled again, and its branches are replaced.
        """
        for branch in [b for b in self._branches if b.is_at(sequence)]:
            self._remove(branch, host)
        weight = weight_of(sequence)
        log_mass = weight.log_likelihood + math.log(max(weight.allowed_mass, MIN_MASS))
        runners_up, sequence.runners_up = sequence.runners_up, ()
        for token_id, logprob in runners_up:
            if self._makes_room(log_mass + logprob, host):
                twin = host.set_aside(sequence, sequence.seed)
                weight_of(twin).drawn_probability = math.exp(logprob)
                self._add_copy(twin, sequence)
                chosen = other_token(token, token_id, logprob, weight.allowed_mass)
                self._branches.append(_Branch(log_mass + logprob, sequence, twin, chosen))
        # There may be more, which are at most as likely as the last.
        has_all = len(runners_up) < sequence.num_runners_up
        self._pass_over(log_mass + (LOG_LEAST if has_all else runners_up[-1][1]))

    def advance(self, host: PopulationHost) -> Sequence | None:
        """Once an output is whole or given up, continue with the most likely branch, or select the best."""
        current = self._current
        if is_finished(current):
            self._best = current if self._best is None else max(self._best, current, key=log_likelihood)
        elif self._best is None or (self._may_win(current) and not self._is_late()):
            return None
        else:
            if self._may_win(current):  # there is no time for it
                self._pass_over(log_likelihood(current))
            host.drop(current)
            current.release()
        for branch in [branch for branch in self._branches if branch.log_likelihood <= self._to_surpass]:
            self._forget(branch, host)
        assert self._best is not None, "the first output is always finished"
        if not self._branches or not self._num_left or self._is_late():
            return self._select(self._best, self._num_begun, is_exact=self._is_proven(self._best))
        self._write(max(self._branches, key=_likelihood_of), host)
        return None

    @property
    def _to_surpass(self) -> float:
        """The log likelihood of the best whole output."""
        return -math.inf if self._best is None else log_likelihood(self._best)

    def _may_win(self, branch: Sequence) -> bool:
        """Whether a branch that is being written may become the best output.

        It has written nothing if its first token did not fit the budget.
        """
        return log_likelihood(branch) > self._to_surpass and branch.num_written > 0

    def _is_proven(self, best: Sequence) -> bool:
        """Whether no valid output is more likely than the best, whose likelihood must be known for that."""
        is_left = bool(self._branches) or self._passed_over > self._to_surpass
        return not is_left and not weight_of(best).is_raised

    def _write(self, branch: _Branch, host: PopulationHost) -> None:
        """Write an output that branches off."""
        self._branches.remove(branch)
        self._num_left -= 1
        self._num_begun += 1
        self._current = branch.sequence
        host.resume_with(branch.sequence, branch.token)

    def _makes_room(self, log_likelihood: float, host: PopulationHost) -> bool:
        """Whether a branch of this likelihood is kept; the least likely one is forgotten for it."""
        if log_likelihood <= self._to_surpass:
            return False
        if len(self._branches) < self._num_left:
            return True
        least = min(self._branches, key=_likelihood_of, default=None)
        if least is None or log_likelihood <= least.log_likelihood:
            self._pass_over(log_likelihood)
            return False
        self._forget(least, host)
        return True

    def _pass_over(self, log_likelihood: float) -> None:
        """Note that an output of at most this likelihood is not looked for."""
        self._passed_over = max(self._passed_over, log_likelihood)

    def _forget(self, branch: _Branch, host: PopulationHost) -> None:
        self._pass_over(branch.log_likelihood)
        self._remove(branch, host)

    def _remove(self, branch: _Branch, host: PopulationHost) -> None:
        self._branches.remove(branch)
        self.members.remove(branch.sequence)
        del self._written[branch.sequence]
        host.drop(branch.sequence)
        branch.sequence.release()


def _likelihood_of(branch: _Branch) -> float:
    return branch.log_likelihood
