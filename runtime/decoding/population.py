"""Populations: several sequences of one choice, of which one becomes its answer.

A plain mask does not write a valid output as often as the model would among valid outputs, since it forgets
how much of the model's distribution it has taken away (`runtime.scheduling.weights`). A population draws
several sequences, weighs them, and selects one. The engine computes its members like all other sequences. It
holds their tokens back, and calls `advance` after each step that extends one, until a member is selected.

`RejectionSampling`, which requests call `accept`, draws one sequence after another, until one is accepted.
`Particles` draws several together, and continues those with the largest weights. At temperature 0, two
searches for the model's best output replace them (`runtime.decoding.best_first`).
"""

from runtime.decoding.best_first import LikelyOrFaithful, MostLikely
from runtime.decoding.members import MakeMember
from runtime.decoding.particles import Particles
from runtime.decoding.rejection_sampling import RejectionSampling
from runtime.scheduling.sequence import Population, Sequence
from runtime.selection import Selection


def population_of(first: Sequence, selection: Selection, make_member: MakeMember) -> Population | None:
    """The population that begins with a sequence; None if that is the only one."""
    if selection.size == 1:
        return None
    if selection.strategy == "accept":
        kind = LikelyOrFaithful if first.sampling.is_greedy else RejectionSampling
        return kind(first, selection.size)
    if first.sampling.is_greedy:
        return MostLikely(first, selection.size)
    return Particles(first, selection.size, make_member)
