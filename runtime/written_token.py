"""The tokens of an output, and `write`, which advances its matcher and its closer by one token."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from compiler.closing.closer import Closer
from compiler.matcher import Matcher
from compiler.output_parts import OutputPart, TextPart
from runtime.inspection import Candidate, Cause, Inspection


class SampledStep(NamedTuple):
    """The step in which a token was sampled: what its mask left, and what else could have been sampled."""

    allowed_mass: float = 1.0
    """The share of the model's own distribution that the mask allowed. For a weighed sequence, that
    distribution is truncated by top_k, top_p and min_p first."""
    is_rescued: bool = False
    """Whether the mask forbade the model's most probable token."""
    probability: float = 1.0
    """The token's probability among the allowed ones."""
    runners_up: tuple[tuple[int, float], ...] = ()
    """The most probable other tokens with their log probabilities, as many as the sequence asked for."""
    parting_seeds: tuple[int, ...] = ()
    """The sequence's other seeds that sampled another token (`Sequence.other_seeds`)."""

    @property
    def mass_removed(self) -> float:
        """The probability that the mask removed."""
        return max(0.0, 1.0 - self.allowed_mass)


UNSAMPLED = SampledStep()
"""Of tokens that were forced, or that come from an external engine."""


@dataclass(frozen=True, slots=True)
class SampledToken:
    """A token with its log probability, the most probable alternatives, and how it came about.

    Each of them is there only if the request asked for it.
    """

    token_id: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()
    inspection: Inspection | None = None
    step: SampledStep = UNSAMPLED


@dataclass(frozen=True, slots=True)
class WrittenToken:
    """A token of an output, and the parts that the matcher finds in it; `parts` is None without a matcher.

    `is_thought` says that the token belongs to a thought that continues after it. `num_pending_bytes` is how
    much text the matcher holds back after the token; it is only asked for with log probabilities.
    """

    sampled: SampledToken
    parts: tuple[OutputPart, ...] | None = None
    is_thought: bool = False
    num_pending_bytes: int = 0


def forced_token(token_id: int, num_logprobs: int | None, cause: Cause | None = None) -> SampledToken:
    """A token that was not sampled because only this one is possible: its log probability is 0.

    `cause` says how it came about, if that is asked for.
    """
    inspection = None if cause is None else Inspection(cause)
    if num_logprobs is None:
        return SampledToken(token_id, inspection=inspection)
    return SampledToken(token_id, 0.0, ((token_id, 0.0),) if num_logprobs else (), inspection)


def other_token(token: SampledToken, token_id: int, logprob: float) -> SampledToken:
    """The token that could have been sampled instead of `token`, told in the same detail.

    `logprob` is its log probability among the allowed tokens.
    """
    inspection, probability = token.inspection, math.exp(logprob)
    if inspection and all(candidate.token_id != token_id for candidate in inspection.candidates):
        candidate = Candidate(token_id, token.step.allowed_mass * probability, is_removed=False)
        inspection = replace(inspection, candidates=(*inspection.candidates, candidate))
    return replace(
        token,
        token_id=token_id,
        logprob=None if token.logprob is None else logprob,
        inspection=inspection,
        step=token.step._replace(probability=probability, runners_up=(), parting_seeds=()),
    )


def write(token: SampledToken, matcher: Matcher | None, closer: Closer | None) -> WrittenToken | None:
    """Advance the matcher and the closer of an output by a token that its budget admits.

    None, and no change, if the grammar refuses the token.
    """
    if matcher is not None and not matcher.accept(token.token_id):
        return None
    if closer is not None:
        closer.accepted(token.token_id)
    if matcher is None:
        return WrittenToken(token)
    pending = () if token.logprob is None else matcher.pending_parts()
    num_pending_bytes = sum(len(part.text) for part in pending if isinstance(part, TextPart))
    return WrittenToken(token, matcher.parts(), matcher.is_in_thought(), num_pending_bytes)
