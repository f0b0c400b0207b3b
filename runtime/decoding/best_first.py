"""Searches for the best valid output: best first, by branch and bound.

At temperature 0, requests ask for the model's best output and not for a draw. The most probable token of each
step need not lead to it.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, replace

import torch

from runtime.decoding.members import OneAfterAnother, is_finished, log_likelihood, log_weight, weight_of
from runtime.scheduling.sequence import PopulationHost, Sequence, SequenceStatus
from runtime.scheduling.weights import MIN_MASS
from runtime.selection import SelectionStrategy
from runtime.written_token import SampledStep, SampledToken, other_token

LOG_LEAST = math.log(torch.finfo(torch.float32).tiny)
"""A token of a lower probability may be 0 in float32. No branch is kept for it."""

LOG_FAITHFUL_SHARE = -math.log(5)
"""A fifth of the faithfulness is compared with the likelihood (see `LikelyOrFaithful`)."""

LOG_LEAST_GAIN = math.log(1.25)
"""How much better than the best whole output another one must become to surpass it.

Long texts have many branches that may become a little better. Together with the fifth above: an output whose
likelihood is above 1/4 surpasses one of the faithfulness 1.
"""

NUM_SPARE = 64
"""A search is late once it has written twice its longest output and so many tokens more."""

LOG_FAR = math.log(100)
"""How much better a branch must be for the output that is being written to be left for it."""


@dataclass(frozen=True, slots=True)
class _Branch:
    """A place where an output could have branched off, or an output that was left before its end."""

    log_bound: float
    """No output that goes on from here has a score with a larger logarithm."""
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

    A score only falls as an output is written. The first output takes the most probable token of each step,
    and the next probable ones are kept as *branches*. When it is whole, branches that cannot surpass it are
    forgotten. The best of the others is written, again with the most probable tokens, and given up once it
    cannot surpass the best whole output. An output is left for a time when a branch is far better than it.
    When no branch remains, no valid output within the budget surpasses the best: that is proven.

    Free text and thoughts have no branches: there the model writes what it would without a mask, and whether
    it begins a call is its choice. Else a search would turn calls that are hard to write into text.

    The probabilities are those of the whole distribution. `top_p`, `top_k` and `min_p` are for draws: they
    would leave out tokens that valid outputs need.

    At most `size` outputs are begun, and no more branches are kept than may still be begun. It is *late* when
    half of the request's time has passed, and when `MAX_BUDGETS` whole budgets are written, or two outputs
    like the longest and `NUM_SPARE` tokens more. Then the best whole output is selected. If none is whole, no
    other is begun, and those that were begun go on until one is. If all of those fail, another is begun.
    """

    _log_least_gain = 0.0
    """See `LOG_LEAST_GAIN`."""

    def __init__(self, first: Sequence, size: int) -> None:
        super().__init__(first)
        self._num_may_begin = size - 1
        """How many more outputs may be begun."""
        self._current = first
        """The output that is written now."""
        self._best: Sequence | None = None
        """The whole output with the highest score."""
        self._branches: list[_Branch] = []
        self._passed_over = -math.inf
        """The highest bound of an output that was not looked for. If it is too high, less is proven."""
        self._has_sampled = False
        """Whether the current output has sampled a token since the last decision, or time has run out."""
        first.sampling = replace(first.sampling, top_p=1.0, top_k=None, min_p=0.0)
        first.num_runners_up = size

    def end_early(self) -> bool:
        """See `Population.end_early`; outputs that were given up are finished too, but not whole."""
        super().end_early()
        self._has_sampled = True
        return self._best is not None

    def do_without(self, failed: Sequence) -> bool:  # noqa: ARG002 - any may be missed
        """See `Population.do_without`: a whole output is selected, or else the best branch is written.

        Nothing is proven any more.
        """
        self._pass_over(math.inf)
        return self.end_early() or bool(self._open_branches())

    @abstractmethod
    def _log_score_from(self, log_faithfulness: float, log_likelihood: float) -> float:
        """The logarithm of the score of an output."""

    def _log_score(self, output: Sequence) -> float:
        """The logarithm of the score so far; minus infinity if the budget closer completes the output."""
        return self._log_score_from(log_weight(output), log_likelihood(output))

    def _log_bound(self, sequence: Sequence, step: SampledStep, logprob: float) -> float:
        """The same with one more token of this step, whose log probability among the allowed ones this is.

        No output that goes on from there has a higher one.
        """
        log_allowed = math.log(max(step.allowed_mass, MIN_MASS))
        log_faithfulness = log_weight(sequence) + log_allowed + _log_loss(step, logprob)
        return self._log_score_from(log_faithfulness, log_likelihood(sequence) + log_allowed + logprob)

    def before_token(self, sequence: Sequence, token: SampledToken, host: PopulationHost) -> None:
        """Keep the branches of a step, of which a member writes the best token next.

        Where that did not fit the budget, the step is sampled again, and its branches are replaced.
        """
        self._has_sampled = True
        for branch in [b for b in self._branches if b.is_at(sequence)]:
            self._remove(branch, host)
        step, runners_up = token.step, token.step.runners_up
        branching = () if sequence.matcher is not None and sequence.matcher.is_in_free_text() else runners_up
        for token_id, logprob in branching:
            log_bound = self._log_bound(sequence, step, logprob)
            if self._make_room(log_bound, host):
                twin = host.set_aside(sequence, sequence.seed)
                weight_of(twin).log_added += _log_loss(step, logprob)
                self._add_copy(twin, sequence)
                chosen = other_token(token, token_id, logprob)
                self._branches.append(_Branch(log_bound, twin, chosen, sequence))
        if len(branching) < len(runners_up):
            log_most = runners_up[0][1]
        elif len(runners_up) == sequence.num_runners_up:  # there may be more, at most as likely as the last
            log_most = runners_up[-1][1]
        else:
            log_most = LOG_LEAST - math.log(max(step.allowed_mass, MIN_MASS))
        self._pass_over(self._log_bound(sequence, step, log_most))

    def advance(self, host: PopulationHost) -> Sequence | None:
        """Write on, or turn to a better branch; select the best output when there is none to write.

        Forced tokens are weighed as the model computes them, perhaps in several steps. So decisions wait for
        the next sampled token: they must not depend on the size of these steps.
        """
        current, may_decide = self._current, self._has_sampled
        self._has_sampled = False
        if is_finished(current):
            if self._best is None or self._log_score(current) > self._log_to_surpass:
                self._best = current
        elif not may_decide or self._should_write_on(current):
            return None
        else:
            self._leave(current, host)
        for branch in [branch for branch in self._branches if branch.log_bound <= self._log_to_surpass]:
            self._forget(branch, host)
        following = max(self._open_branches(), key=_bound_of, default=None)
        if following is not None and not self._has_to_end():
            self._write(following, host)
            return None
        assert self._best is not None, "the first output is only left for another"
        return self._select(self._best, self._num_begun, is_exact=self._is_proven(self._best))

    @property
    def _log_to_surpass(self) -> float:
        """The logarithm of the score that others must have more than."""
        return -math.inf if self._best is None else self._log_score(self._best) + self._log_least_gain

    def _is_late(self) -> bool:
        """Whether nothing more should be begun: see the class.

        Only tokens that are weighed count, as how many of the others there are depends on the engine's steps.
        """
        lengths = [weight_of(m).num_counted - len(m.prompt_ids) for m in self.members]
        num_weighed = sum(n - m.num_copied for n, m in zip(lengths, self.members, strict=True))
        return num_weighed > 2 * max(lengths) + NUM_SPARE or super()._is_late()

    def _has_to_end(self) -> bool:
        return self._best is not None and self._is_late()

    def _may_win(self, output: Sequence) -> bool:
        """Whether an output that is being written may become the best.

        If none is whole and no other was begun, it has to. A branch has written nothing if its first token
        did not fit the budget: it is left, unless there is nothing else.
        """
        if output.status is SequenceStatus.FAILED:
            return False
        has_others = self._best is not None or bool(self._open_branches())
        if output is not self.first and not output.num_written and has_others:
            return False
        is_last = output is self.first or all(branch.token for branch in self._branches)
        return (self._best is None and is_last) or self._log_score(output) > self._log_to_surpass

    def _should_write_on(self, output: Sequence) -> bool:
        """Whether an output may win in time, and no branch is far better.

        What the budget closer completes is never left for a branch.
        """
        if not self._may_win(output) or self._has_to_end():
            return False
        if output.closed_by is not None or self._is_late():
            return True
        return all(b.log_bound <= self._log_score(output) + LOG_FAR for b in self._open_branches())

    def _leave(self, output: Sequence, host: PopulationHost) -> None:
        """Keep an output as a branch for later, if it may win and there is time; else drop it."""
        may_win, log_score = self._may_win(output), self._log_score(output)
        if may_win and not self._has_to_end():
            host.park(output)
            self._branches.append(_Branch(log_score, output))
            return
        if may_win:
            self._pass_over(log_score)
        host.drop(output)
        output.release()

    def _open_branches(self) -> list[_Branch]:
        """The branches that may be written; if it is late, only outputs that were begun, or else all."""
        begun = [branch for branch in self._branches if branch.token is None]
        is_needed = self._best is None and not begun
        may_begin = self._num_may_begin > 0 and (is_needed or not self._is_late())
        return self._branches if may_begin else begun

    def _is_proven(self, best: Sequence) -> bool:
        """Whether no valid output surpasses the best, whose score must be exact for that."""
        is_open = bool(self._branches) or self._passed_over > self._log_to_surpass
        return not is_open and not weight_of(best).is_raised

    def _write(self, branch: _Branch, host: PopulationHost) -> None:
        """Write an output that branches off, or go on with one that was left."""
        self._branches.remove(branch)
        self._current = branch.sequence
        if branch.token is None:
            host.resume(branch.sequence)
        else:
            self._num_may_begin -= 1
            self._num_begun += 1
            host.resume_with(branch.sequence, branch.token)

    def _make_room(self, log_bound: float, host: PopulationHost) -> bool:
        """Forget the worst branch for one of this bound, if it must be; returns whether there is room."""
        if log_bound <= self._log_to_surpass:
            return False
        unbegun = [branch for branch in self._branches if branch.token is not None]
        if len(unbegun) < self._num_may_begin:
            return True
        least = min(unbegun, key=_bound_of, default=None)
        if least is None or log_bound <= least.log_bound:
            self._pass_over(log_bound)
            return False
        self._forget(least, host)
        return True

    def _pass_over(self, log_bound: float) -> None:
        """Note that outputs of this bound are not looked for."""
        self._passed_over = max(self._passed_over, log_bound)

    def _forget(self, branch: _Branch, host: PopulationHost) -> None:
        self._pass_over(branch.log_bound)
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

    A forced token counts with its probability. The first factor is what the mask has taken, the second what
    was given up to get around that. An output of which nothing is masked, and that has the most probable
    tokens, has the faithfulness 1, however long it is. Its likelihood may be tiny, as there are many texts
    like it. The likelihood helps where there are few, as with names: the most probable first letters may be
    those of many names, each of which is less likely than a name that begins otherwise.
    """

    strategy: SelectionStrategy = "accept"
    _log_least_gain = LOG_LEAST_GAIN

    def _log_score_from(self, log_faithfulness: float, log_likelihood: float) -> float:
        return max(log_likelihood, log_faithfulness + LOG_FAITHFUL_SHARE)


class MostLikely(BestFirst):
    """Looks for the most likely output; the score is the likelihood.

    The likelihood of a long text is tiny, as there are many of its kind. So where a text may be short or
    empty, it often is.
    """

    strategy: SelectionStrategy = "particles"

    def _log_score_from(self, log_faithfulness: float, log_likelihood: float) -> float:  # noqa: ARG002
        return log_likelihood


def _log_loss(step: SampledStep, logprob: float) -> float:
    """How much less likely a token of a step is than the one that was sampled, as a logarithm."""
    return logprob - math.log(step.probability)


def _bound_of(branch: _Branch) -> float:
    return branch.log_bound
