"""Weights: how much of the model's own distribution the masks left to an output.

At each step, `q` is the model's distribution of the next token, after temperature, penalties, top_k, top_p
and min_p. A mask leaves the tokens that the grammar allows. Together they have the *allowed mass* `a`, and
each is drawn with the probability `q / a`. So an output is drawn with the product of all `q`, which is its
probability for the model, divided by the product of all `a`. That product is its *weight*:

    weight = a_1 * a_2 * ... * a_n

A plain mask forgets the weight, so it favours outputs of which most was forbidden. Outputs that are drawn
from masks and weighed like this stand for the model's own distribution among valid outputs (importance
sampling). A token that was forced, not drawn, has the factor `q`, since it was chosen with probability 1.

The factors up to the first drawn token are those of every output of the request. They tell how probable it
is that the model begins as the grammar wants, and nothing about which output is right.
"""

import math
from dataclasses import dataclass, replace

from runtime.written_token import SampledStep

MIN_MASS = 1e-20
"""Below this allowed mass, float32 cannot tell the allowed probabilities apart. No factor counts as less."""


@dataclass(slots=True)
class Weight:
    """The weight of one sequence, as far as it is known. Logarithms are natural."""

    num_counted: int
    """How many of the first token ids are counted; the prompt's count too."""
    log_product: float = 0.0
    """The logarithm of the product of their factors."""
    log_shared: float | None = None
    """The logarithm of the product up to the first drawn token, once there is one."""
    num_drawn: int = 0
    log_added: float = 0.0
    """What its population has added to `log_product`, by resampling or for another token than the best."""
    log_likelihood: float = 0.0
    """The logarithm of the product of all `q`: how likely the output is for the model."""
    is_raised: bool = False
    """Whether a factor of the likelihood counts as `MIN_MASS` although it is less."""

    @property
    def log_relative(self) -> float:
        """The logarithm of the factors after the shared ones; at most 0, except for rounding."""
        return 0.0 if self.log_shared is None else self.log_product - self.log_shared

    def count_forced(self, probability: float) -> None:
        """Count one more token, which was forced; `probability` is the model's own."""
        self.num_counted += 1
        self._multiply(probability)
        self._count_likelihood(probability)

    def count_drawn(self, step: SampledStep) -> None:
        """Count one more token, which was drawn in this step."""
        self.num_counted += 1
        self.num_drawn += 1
        self._multiply(step.allowed_mass)
        self._count_likelihood(step.allowed_mass)
        self._count_likelihood(step.probability)
        if self.log_shared is None:
            self.log_shared = self.log_product

    def copy(self) -> "Weight":
        """Another one with the same factors."""
        return replace(self)

    def _count_likelihood(self, factor: float) -> None:
        self.log_likelihood += _log(factor)
        self.is_raised |= factor < MIN_MASS

    def _multiply(self, factor: float) -> None:
        self.log_product += _log(factor)


def _log(factor: float) -> float:
    return math.log(min(1.0, max(factor, MIN_MASS)))
