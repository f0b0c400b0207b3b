"""Searches for the best valid output: best first, by branch and bound.

At temperature 0, requests ask for the model's best output and not for a draw. The most probable token of each
step need not lead to it.
"""

import math
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch

from runtime.decoding.members import OneAfterAnother, is_finished, log_likelihood, log_weight, weight_of
from runtime.scheduling.sequence import MakeMember, PopulationHost, Sequence, SequenceStatus
from runtime.scheduling.weights import MIN_MASS, Weight
from runtime.selection import SelectionStrategy
from runtime.written_token import SampledToken, other_token

LOG_LEAST = math.log(torch.finfo(torch.float32).tiny)
"""Tokens that a model finds less likely than this may have the probability 0 in float32, and are not seen."""

LOG_FAITHFUL_SHARE = -math.log(5)
"""The share of the faithfulness that counts beside the likelihood."""

LOG_LEAST_GAIN = math.log(1.25)
"""How much better a branch must be able to become than the best whole output.

Long texts lose a little at many tokens, and have many branches that may become a little better. With the
share above, an output of the likelihood 1/4 just surpasses one of the faithfulness 1.
"""

NUM_FREE = 64
"""A search may write so many tokens more than two outputs like its longest."""

LOG_FAR = math.log(100)
"""How much better a branch must be for the output that is being written to be left for it."""


@dataclass(frozen=True, slots=True)
class _Branch:
    """A place where an output could have branched off, or an output that was left before its end."""

    log_score: float
    """No output that goes on from here has a higher score."""
    sequence: Sequence
    """What is written so far; it is parked."""
    token: SampledToken | None = None
    """The token with which it branches off; None if it is an output that was left."""
    stem: Sequence | None = None
    """The output that it branches off from."""

    def is_at(self, sequence: Sequence) -> bool:
        """Whether it branches off where this sequence is now."""
        return self.stem is sequence and self.sequence.num_copied == sequence.num_output


class BestFirst(OneAfterAnother):
    """Looks for the valid output with the highest score, which the subclasses define.

    A score only falls as an output is written. The first sequence takes the best token at each step, and the
    other likely ones are kept as *branches*. A branch whose score is no higher than that of the best whole
    output cannot surpass it. The best of the others is written next, from there on with the best tokens
    again. It is given up once it cannot surpass the best output. An output is also left, for a time, where a
    branch is far better. When no branch is left, no valid output has a higher score: it is proven.

    The probabilities are those of the whole distribution. `top_p`, `top_k` and `min_p` are for draws: they
    would leave out tokens that valid outputs need.

    At most `size` outputs are begun, so no more branches are kept than may still be begun. The search ends
    early once half of the request's time has passed, or once as much is written as `MAX_BUDGETS` whole
    budgets, or as two outputs like the longest and `NUM_FREE` tokens more. Then the best output is selected.
    """

    _log_least_gain = 0.0
    """See `LOG_LEAST_GAIN`."""

    def __init__(self, first: Sequence, size: int, make_member: MakeMember) -> None:
        super().__init__(first, make_member)
        self._num_left = size - 1
        """How many more outputs may be begun."""
        self._current = first
        """The output that is written now."""
        self._best: Sequence | None = None
        """The whole output with the highest score."""
        self._branches: list[_Branch] = []
        self._passed_over = -math.inf
        """The largest logarithm of a score that was not looked for."""
        self._may_decide = False
        """Whether the current output has sampled a token since the last decision, or time has run out."""
        first.sampling = replace(first.sampling, top_p=1.0, top_k=None, min_p=0.0)
        first.num_runners_up = size

    def end_early(self) -> bool:
        """See `Population.end_early`; outputs that were given up are finished too, but not whole."""
        super().end_early()
        self._may_decide = True
        return self._best is not None

    def do_without(self, failed: Sequence) -> bool:  # noqa: ARG002 - any may be missed
        """See `Population.do_without`; an output that was left goes on, and nothing is proven any more."""
        self._pass_over(math.inf)
        return self.end_early() or any(branch.token is None for branch in self._branches)

    @abstractmethod
    def _combined(self, log_faithfulness: float, log_likelihood: float) -> float:
        """The logarithm of the score of an output."""

    def _log_score(self, output: Sequence) -> float:
        """The logarithm of the score so far; minus infinity if the budget closer completes the output."""
        return self._combined(log_weight(output), log_likelihood(output))

    def _log_branch_score(self, sequence: Sequence, logprob: float) -> float:
        """The same with one more token, whose log probability among the allowed ones this is."""
        weight = weight_of(sequence)
        log_allowed = math.log(max(weight.allowed_mass, MIN_MASS))
        log_faithfulness = log_weight(sequence) + log_allowed + _log_loss(weight, logprob)
        return self._combined(log_faithfulness, log_likelihood(sequence) + log_allowed + logprob)

    def before_token(self, sequence: Sequence, token: SampledToken, host: PopulationHost) -> None:
        """Keep the branches of a step, of which a member writes the best token next.

        Where that did not fit the budget, the step is sampled again, and its branches are replaced.
        """
        self._may_decide = True
        for branch in [b for b in self._branches if b.is_at(sequence)]:
            self._remove(branch, host)
        weight = weight_of(sequence)
        runners_up, sequence.runners_up = sequence.runners_up, ()
        for token_id, logprob in runners_up:
            log_score = self._log_branch_score(sequence, logprob)
            if self._make_room(log_score, host):
                twin = host.set_aside(sequence, sequence.seed)
                weight_of(twin).log_added += _log_loss(weight, logprob)
                weight_of(twin).drawn_probability = math.exp(logprob)
                self._add_copy(twin, sequence)
                chosen = other_token(token, token_id, logprob, weight.allowed_mass)
                self._branches.append(_Branch(log_score, twin, chosen, sequence))
        if len(runners_up) == sequence.num_runners_up:  # there may be more, at most as likely as the last
            log_most = runners_up[-1][1]
        else:
            log_most = LOG_LEAST - math.log(max(weight.allowed_mass, MIN_MASS))
        self._pass_over(self._log_branch_score(sequence, log_most))

    def advance(self, host: PopulationHost) -> Sequence | None:
        """Write on, or leave an output for a better branch; select the best output once there is none.

        Forced tokens are weighed as the model computes them, perhaps in several steps. So decisions wait for
        the next sampled token: they must not depend on the size of these steps.
        """
        current = self._current
        may_decide, self._may_decide = self._may_decide, False
        if is_finished(current):
            self._best = current if self._best is None else max(self._best, current, key=self._log_score)
        elif not may_decide:
            return None
        elif not self._may_win(current) or self._has_to_end():
            if self._may_win(current):
                self._pass_over(self._log_score(current))
            host.drop(current)
            current.release()
        elif self._is_best_to_write(current):
            return None
        else:
            host.park(current)
            self._branches.append(_Branch(self._log_score(current), current))
        for branch in [branch for branch in self._branches if branch.log_score <= self._to_surpass]:
            self._forget(branch, host)
        following = max(self._open_branches(), key=_log_score_of, default=None)
        if following is None or self._has_to_end():
            assert self._best is not None, "the first output is only left for another"
            return self._select(self._best, self._num_begun, is_exact=self._is_proven(self._best))
        self._write(following, host)
        return None

    @property
    def _to_surpass(self) -> float:
        """The logarithm of the score that others must surpass: that of the best whole output, and a gain."""
        return -math.inf if self._best is None else self._log_score(self._best) + self._log_least_gain

    def _is_late(self) -> bool:
        """Whether there is no time for more, or two outputs like the longest, and some, have been written."""
        num_written = sum(member.num_written for member in self.members)
        num_longest = max(member.num_output for member in self.members)
        return num_written > 2 * num_longest + NUM_FREE or super()._is_late()

    def _has_to_end(self) -> bool:
        return self._best is not None and self._is_late()

    def _may_win(self, output: Sequence) -> bool:
        """Whether an output that is being written may become the best.

        A branch has written nothing if its first token did not fit the budget.
        """
        if output.status is SequenceStatus.FAILED:
            return False
        if output is self.first and self._best is None:
            return True
        return self._log_score(output) > self._to_surpass and output.num_written > 0

    def _is_best_to_write(self, output: Sequence) -> bool:
        """Whether no branch is far better than an output; what the budget closer completes is soon done."""
        if output.closed_by is not None or self._is_late():
            return True
        return all(b.log_score <= self._log_score(output) + LOG_FAR for b in self._open_branches())

    def _open_branches(self) -> Iterable[_Branch]:
        """The branches that may be written; if it is late, only outputs that were begun."""
        may_begin = self._num_left > 0 and not self._is_late()
        return (b for b in self._branches if may_begin or b.token is None)

    def _is_proven(self, best: Sequence) -> bool:
        """Whether no valid output has a higher score than the best, which must be known for that."""
        is_left = bool(self._branches) or self._passed_over > self._to_surpass
        return not is_left and not weight_of(best).is_raised

    def _write(self, branch: _Branch, host: PopulationHost) -> None:
        """Write an output that branches off, or go on with one that was left."""
        self._branches.remove(branch)
        self._current = branch.sequence
        if branch.token is None:
            host.resume(branch.sequence)
        else:
            self._num_left -= 1
            self._num_begun += 1
            host.resume_with(branch.sequence, branch.token)

    def _make_room(self, log_score: float, host: PopulationHost) -> bool:
        """Forget the worst branch for one of this score, if it must be; returns whether there is room."""
        if log_score <= self._to_surpass:
            return False
        unbegun = [branch for branch in self._branches if branch.token is not None]
        if len(unbegun) < self._num_left:
            return True
        least = min(unbegun, key=_log_score_of, default=None)
        if least is None or log_score <= least.log_score:
            self._pass_over(log_score)
            return False
        self._forget(least, host)
        return True

    def _pass_over(self, log_score: float) -> None:
        """Note that an output of at most this score is not looked for."""
        self._passed_over = max(self._passed_over, log_score)

    def _forget(self, branch: _Branch, host: PopulationHost) -> None:
        self._pass_over(branch.log_score)
        self._remove(branch, host)

    def _remove(self, branch: _Branch, host: PopulationHost) -> None:
        self._branches.remove(branch)
        if branch.token is not None:
            self.members.remove(branch.sequence)
            del self._written[branch.sequence]
        host.drop(branch.sequence)
        branch.sequence.release()


class LikelyOrFaithful(BestFirst):
    """Looks for a likely output, or else for the one that is closest to what the model writes without a mask.

    The score is the likelihood, or a fifth of the *faithfulness* if that is more.

    A plain mask takes the most probable token that it allows, wherever that leads: perhaps to where the mask
    takes nearly all of the probability, and the model has to write what it never would. The faithfulness is
    the product, over the tokens, of the step's allowed mass (`runtime.scheduling.weights`) and of

        the token's probability / the probability of the most probable token that is allowed.

    The first factor is what the mask has taken, the second what was given up to get around that. An output of
    which nothing is masked, and that has the most probable tokens, has the faithfulness 1, however long it
    is. Its likelihood may be tiny, if there are many texts like it. So likelihood counts where there are few:
    of a name, the most probable first letters may be those of many names, each of which is less likely than
    another one.
    """

    strategy: SelectionStrategy = "accept"
    _log_least_gain = LOG_LEAST_GAIN

    def _combined(self, log_faithfulness: float, log_likelihood: float) -> float:
        return max(log_likelihood, log_faithfulness + LOG_FAITHFUL_SHARE)


class MostLikely(BestFirst):
    """Looks for the most likely output; the score is the likelihood.

    The likelihood of a long text is tiny, as there are many of its kind. So where a text may be short or
    empty, it often is.
    """

    strategy: SelectionStrategy = "particles"

    def _combined(self, log_faithfulness: float, log_likelihood: float) -> float:  # noqa: ARG002
        return log_likelihood


def _log_loss(weight: Weight, logprob: float) -> float:
    """How much less likely a token of the step that is being sampled is than the best, as a logarithm."""
    return logprob - math.log(weight.drawn_probability)


def _log_score_of(branch: _Branch) -> float:
    return branch.log_score
